#include "tests/support/keys.h"

#include <fcntl.h>
#include <limits.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"

enum { DAY_S = 86400 };

struct keys {
    X509 *certificate;
    EVP_PKEY *key;
    X509_CRL *crl;
    long serial;
};

static void extend(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *extension;

    X509V3_set_ctx(&ctx, issuer, certificate, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

static X509 *make(const char *name, EVP_PKEY *key, long serial, long from_days, long until_days)
{
    X509 *certificate = X509_new();

    assert_non_null(certificate);
    assert_int_equal(X509_set_version(certificate, X509_VERSION_3), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial), 1);
    assert_int_equal(X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN",
                                                MBSTRING_ASC, (const unsigned char *)name, -1, -1,
                                                0),
                     1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(certificate), from_days * DAY_S));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(certificate), until_days * DAY_S));
    assert_int_equal(X509_set_pubkey(certificate, key), 1);
    return certificate;
}

static void sign(X509 *certificate, const X509 *issuer, EVP_PKEY *key)
{
    assert_int_equal(X509_set_issuer_name(certificate, X509_get_subject_name(issuer)), 1);
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
}

struct keys *keys_create(const char *name)
{
    struct keys *keys = calloc(1, sizeof(*keys));

    assert_non_null(keys);
    keys->serial = 1;
    keys->key = EVP_EC_gen("P-256");
    assert_non_null(keys->key);
    keys->certificate = make(name, keys->key, keys->serial, -1, 30);
    extend(keys->certificate, keys->certificate, NID_basic_constraints, "critical,CA:TRUE");
    extend(keys->certificate, keys->certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
    sign(keys->certificate, keys->certificate, keys->key);
    keys->crl = X509_CRL_new();
    assert_non_null(keys->crl);
    assert_int_equal(X509_CRL_set_version(keys->crl, X509_CRL_VERSION_2), 1);
    assert_int_equal(X509_CRL_set_issuer_name(keys->crl, X509_get_subject_name(keys->certificate)),
                     1);
    return keys;
}

void keys_destroy(struct keys *keys)
{
    X509_CRL_free(keys->crl);
    X509_free(keys->certificate);
    EVP_PKEY_free(keys->key);
    free(keys);
}

/* Renamed into place, as good tools do. */
static void write_bio(const char *dir, const char *name, BIO *bio, mode_t mode)
{
    char path[PATH_MAX];
    char fresh[PATH_MAX];
    char *data = NULL;
    long len = BIO_get_mem_data(bio, &data);
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    (void)snprintf(fresh, sizeof(fresh), "%s/%s.new", dir, name);
    fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(write(fd, data, (size_t)len), len);
    assert_int_equal(close(fd), 0);
    assert_int_equal(rename(fresh, path), 0);
    (void)BIO_free(bio);
}

static void write_certificate(const char *dir, const char *name, X509 *certificate)
{
    BIO *bio = BIO_new(BIO_s_mem());

    assert_int_equal(PEM_write_bio_X509(bio, certificate), 1);
    write_bio(dir, name, bio, 0644);
}

void keys_write_ca(struct keys *keys, const char *dir)
{
    write_certificate(dir, "ca.pem", keys->certificate);
}

void keys_write_crl(struct keys *keys, const char *dir)
{
    BIO *bio = BIO_new(BIO_s_mem());
    ASN1_TIME *from = X509_gmtime_adj(NULL, -DAY_S);
    ASN1_TIME *until = X509_gmtime_adj(NULL, DAY_S);

    assert_int_equal(X509_CRL_set1_lastUpdate(keys->crl, from), 1);
    assert_int_equal(X509_CRL_set1_nextUpdate(keys->crl, until), 1);
    assert_int_equal(X509_CRL_sort(keys->crl), 1);
    assert_true(X509_CRL_sign(keys->crl, keys->key, EVP_sha256()) > 0);
    assert_int_equal(PEM_write_bio_X509_CRL(bio, keys->crl), 1);
    write_bio(dir, "crl.pem", bio, 0644);
    ASN1_TIME_free(from);
    ASN1_TIME_free(until);
}

static X509 *read_certificate(const char *dir)
{
    char path[PATH_MAX];
    X509 *certificate;
    BIO *bio;

    (void)snprintf(path, sizeof(path), "%s/cert.pem", dir);
    bio = BIO_new_file(path, "r");
    assert_non_null(bio);
    certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    assert_non_null(certificate);
    (void)BIO_free(bio);
    return certificate;
}

void keys_revoke(struct keys *keys, const char *dir)
{
    X509 *certificate = read_certificate(dir);
    X509_REVOKED *revoked = X509_REVOKED_new();
    ASN1_TIME *now = X509_gmtime_adj(NULL, 0);

    assert_int_equal(X509_REVOKED_set_serialNumber(revoked, X509_get_serialNumber(certificate)), 1);
    assert_int_equal(X509_REVOKED_set_revocationDate(revoked, now), 1);
    assert_int_equal(X509_CRL_add0_revoked(keys->crl, revoked), 1);
    ASN1_TIME_free(now);
    X509_free(certificate);
}

static void add_uris(X509 *certificate, const struct keys_want *want)
{
    GENERAL_NAMES *names = GENERAL_NAMES_new();

    for (size_t i = 0; i < want->uri_count; i++) {
        GENERAL_NAME *name = GENERAL_NAME_new();
        ASN1_IA5STRING *text = ASN1_IA5STRING_new();

        assert_int_equal(ASN1_STRING_set(text, want->uris[i].data, (int)want->uris[i].len), 1);
        GENERAL_NAME_set0_value(name, GEN_URI, text);
        assert_true(sk_GENERAL_NAME_push(names, name) > 0);
    }
    assert_int_equal(X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, 0), 1);
    GENERAL_NAMES_free(names);
}

X509 *keys_certificate(struct keys *keys, const struct keys_want *want, EVP_PKEY **out_key)
{
    bool days = want->from_days != 0 || want->until_days != 0;
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = make("leaf", key, ++keys->serial, days ? want->from_days : -1,
                             days ? want->until_days : 20);
    X509 *issuer = want->self_signed ? certificate : keys->certificate;

    if (want->names != NULL)
        extend(certificate, issuer, NID_subject_alt_name, want->names);
    if (want->uri_count > 0)
        add_uris(certificate, want);
    if (want->purpose != NULL)
        extend(certificate, issuer, NID_ext_key_usage, want->purpose);
    if (want->authority)
        extend(certificate, issuer, NID_basic_constraints, "critical,CA:TRUE");
    sign(certificate, issuer, want->self_signed ? key : keys->key);
    if (out_key != NULL)
        *out_key = key;
    else
        EVP_PKEY_free(key);
    return certificate;
}

void keys_issue(struct keys *keys, const struct keys_want *want, const char *dir)
{
    EVP_PKEY *key = NULL;
    X509 *certificate = keys_certificate(keys, want, &key);
    BIO *bio = BIO_new(BIO_s_mem());

    if (want->foreign_key) {
        EVP_PKEY_free(key);
        key = EVP_EC_gen("P-256");
    }
    if (mkdir(dir, 0700) != 0)
        assert_int_equal(access(dir, F_OK), 0);
    assert_int_equal(PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL), 1);
    write_bio(dir, "key.pem", bio, 0600);
    write_certificate(dir, "cert.pem", certificate);
    keys_write_ca(keys, dir);
    if (!want->without_crl)
        keys_write_crl(keys, dir);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

void keys_issue_agent(struct keys *keys, const char *name, const char *dir)
{
    char names[256];

    (void)snprintf(names, sizeof(names), "URI:lockstep:agent/%s", name);
    keys_issue(keys, &(struct keys_want){ .names = names, .purpose = "clientAuth" }, dir);
}

void keys_issue_coordinator(struct keys *keys, const char *name, const char *dir)
{
    char names[256];

    (void)snprintf(names, sizeof(names),
                   "URI:lockstep:coordinator/%s,DNS:localhost,IP:127.0.0.1,IP:::1", name);
    keys_issue(keys, &(struct keys_want){ .names = names, .purpose = "serverAuth" }, dir);
}

SSL_CTX *keys_client(const char *dir)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    char path[PATH_MAX];

    assert_non_null(ctx);
    if (dir == NULL)
        return ctx;
    (void)snprintf(path, sizeof(path), "%s/cert.pem", dir);
    assert_int_equal(SSL_CTX_use_certificate_file(ctx, path, SSL_FILETYPE_PEM), 1);
    (void)snprintf(path, sizeof(path), "%s/key.pem", dir);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(ctx, path, SSL_FILETYPE_PEM), 1);
    return ctx;
}

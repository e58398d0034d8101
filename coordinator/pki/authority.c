#include "coordinator/pki/authority.h"

#include <arpa/inet.h>
#include <limits.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "coordinator/result/message.h"

#define SERIAL_BYTES 16 /* random: nobody has to count, and nobody can guess the next one */

struct coord_authority {
    X509 *certificate; /* owned */
    EVP_PKEY *key;     /* owned */
};

/* ---- texts and times ---- */

void coord_pki_format_time(int64_t seconds, char *out)
{
    ls_clock_format_wall(seconds * LS_NS_PER_S, out, 32);
}

int64_t coord_pki_parse_time(const char *text)
{
    struct tm tm = { 0 };
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

    return rest != NULL && strcmp(rest, ".000Z") == 0 ? (int64_t)timegm(&tm) : -1;
}

static int64_t seconds_of(const ASN1_TIME *time)
{
    struct tm tm;

    return ASN1_TIME_to_tm(time, &tm) == 1 ? (int64_t)timegm(&tm) : -1;
}

/* The BIO's content as a text of its own; takes bio. NULL: out of memory. */
static char *text_of(BIO *bio, bool written)
{
    char *data = NULL;
    long len = bio != NULL ? BIO_get_mem_data(bio, &data) : 0;
    char *text = written && len > 0 ? malloc((size_t)len + 1) : NULL;

    if (text != NULL) {
        memcpy(text, data, (size_t)len);
        text[len] = '\0';
    }
    (void)BIO_free(bio);
    return text;
}

static char *certificate_text(X509 *certificate)
{
    BIO *bio = BIO_new(BIO_s_mem());

    return text_of(bio, bio != NULL && PEM_write_bio_X509(bio, certificate) == 1);
}

static char *key_text(EVP_PKEY *key)
{
    BIO *bio = BIO_new(BIO_s_secmem());

    return text_of(bio, bio != NULL &&
                            PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1);
}

void coord_pki_free_key(char *key)
{
    if (key != NULL)
        OPENSSL_cleanse(key, strlen(key));
    free(key);
}

char *coord_authority_certificate(const struct coord_authority *authority)
{
    return certificate_text(authority->certificate);
}

char *coord_authority_key(const struct coord_authority *authority)
{
    return key_text(authority->key);
}

/* ---- certificates ---- */

static bool extend(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *extension;
    bool ok;

    X509V3_set_ctx(&ctx, issuer, certificate, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    ok = extension != NULL && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return ok;
}

static bool add_subject(X509_NAME *subject, const char *name)
{
    return X509_NAME_add_entry_by_txt(subject, "O", MBSTRING_ASC, (const unsigned char *)"Lockstep",
                                      -1, -1, 0) == 1 &&
           X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1,
                                      -1, 0) == 1;
}

static bool set_serial(X509 *certificate)
{
    unsigned char bytes[SERIAL_BYTES];
    BIGNUM *number;
    bool ok;

    if (RAND_bytes(bytes, sizeof(bytes)) != 1)
        return false;
    bytes[0] = (unsigned char)((bytes[0] & 0x7f) | 0x40); /* positive, and always as long */
    number = BN_bin2bn(bytes, sizeof(bytes), NULL);
    ok = number != NULL && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != NULL;
    BN_free(number);
    return ok;
}

static X509 *new_certificate(const char *name, EVP_PKEY *key, int64_t now_s, int64_t end_s)
{
    X509 *certificate = X509_new();

    if (certificate != NULL && X509_set_version(certificate, X509_VERSION_3) == 1 &&
        set_serial(certificate) && add_subject(X509_get_subject_name(certificate), name) &&
        ASN1_TIME_set(X509_getm_notBefore(certificate), now_s - COORD_PKI_BACKDATE_S) != NULL &&
        ASN1_TIME_set(X509_getm_notAfter(certificate), end_s) != NULL &&
        X509_set_pubkey(certificate, key) == 1)
        return certificate;
    X509_free(certificate);
    return NULL;
}

static bool sign(X509 *certificate, const X509 *issuer, EVP_PKEY *key)
{
    return X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1 &&
           X509_sign(certificate, key, EVP_sha256()) > 0;
}

enum ls_err coord_authority_create(const char *name, int64_t now_s, int64_t end_s,
                                   struct coord_authority **out, struct ls_diag *diag)
{
    struct coord_authority *a = calloc(1, sizeof(*a));
    X509 *c = NULL;

    if (a != NULL)
        a->key = EVP_EC_gen("P-256");
    if (a != NULL && a->key != NULL)
        c = a->certificate = new_certificate(name, a->key, now_s, end_s);
    if (c != NULL && extend(c, c, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
        extend(c, c, NID_key_usage, "critical,keyCertSign,cRLSign") &&
        extend(c, c, NID_subject_key_identifier, "hash") && sign(c, c, a->key)) {
        *out = a;
        return LS_OK;
    }
    ERR_clear_error();
    coord_authority_destroy(a);
    return ls_fail(diag, LS_ENOMEM, "no memory for an authority, or no random numbers");
}

static int no_passphrase(char *out, int bytes, int writing, void *ctx)
{
    (void)out;
    (void)bytes;
    (void)writing;
    (void)ctx;
    return -1;
}

static X509 *read_certificate(const char *text)
{
    size_t len = strlen(text);
    BIO *bio = len <= INT_MAX ? BIO_new_mem_buf(text, (int)len) : NULL;
    X509 *certificate = bio != NULL ? PEM_read_bio_X509(bio, NULL, no_passphrase, NULL) : NULL;

    (void)BIO_free(bio);
    ERR_clear_error();
    return certificate;
}

static EVP_PKEY *read_key(const char *text)
{
    size_t len = strlen(text);
    BIO *bio = len <= INT_MAX ? BIO_new_mem_buf(text, (int)len) : NULL;
    EVP_PKEY *key = bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL) : NULL;

    (void)BIO_free(bio);
    ERR_clear_error();
    return key;
}

enum ls_err coord_authority_read(const char *certificate, const char *key,
                                 struct coord_authority **out, struct ls_diag *diag)
{
    struct coord_authority *a = calloc(1, sizeof(*a));

    if (a == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for an authority");
    a->certificate = read_certificate(certificate);
    a->key = read_key(key);
    if (a->certificate != NULL && a->key != NULL && X509_check_ca(a->certificate) == 1 &&
        X509_check_private_key(a->certificate, a->key) == 1) {
        *out = a;
        return LS_OK;
    }
    ERR_clear_error();
    coord_authority_destroy(a);
    return ls_fail(diag, LS_EINVAL, "not the certificate of an authority and its private key");
}

void coord_authority_destroy(struct coord_authority *authority)
{
    if (authority == NULL)
        return;
    X509_free(authority->certificate);
    EVP_PKEY_free(authority->key);
    free(authority);
}

int64_t coord_authority_end_s(const struct coord_authority *authority)
{
    return seconds_of(X509_get0_notAfter(authority->certificate));
}

/* ---- names ---- */

static bool is_address(const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

bool coord_pki_host_is_fine(const char *host)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    size_t len = strlen(host);

    if (is_address(host))
        return true;
    return len > 0 && len < 254 && strspn(host, letters) == len && host[0] != '.' &&
           host[0] != '-' && host[len - 1] != '.' && strstr(host, "..") == NULL &&
           strspn(host, "0123456789.") < len; /* a mistyped address is no name */
}

static bool add_name(GENERAL_NAMES *names, int type, const char *text)
{
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_STRING *value = NULL;

    if (type == GEN_IPADD) {
        value = a2i_IPADDRESS(text);
    } else {
        value = ASN1_IA5STRING_new();
        if (value != NULL && ASN1_STRING_set(value, text, -1) != 1) {
            ASN1_STRING_free(value);
            value = NULL;
        }
    }
    if (name == NULL || value == NULL) {
        GENERAL_NAME_free(name);
        ASN1_STRING_free(value);
        return false;
    }
    GENERAL_NAME_set0_value(name, type, value);
    if (sk_GENERAL_NAME_push(names, name) > 0)
        return true;
    GENERAL_NAME_free(name);
    return false;
}

static bool add_names(X509 *certificate, const struct coord_pki_want *want)
{
    GENERAL_NAMES *names = GENERAL_NAMES_new();
    char uri[LS_IDENTITY_URI_MAX];
    bool ok = names != NULL;

    (void)snprintf(uri, sizeof(uri), "lockstep:%s/%s", ls_identity_role_name(want->role),
                   want->name);
    ok = ok && add_name(names, GEN_URI, uri);
    for (size_t i = 0; ok && i < want->host_count; i++)
        ok = add_name(names, is_address(want->hosts[i]) ? GEN_IPADD : GEN_DNS, want->hosts[i]);
    ok = ok && X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, 0) == 1;
    GENERAL_NAMES_free(names);
    return ok;
}

/* ---- issuing ---- */

static enum ls_err check_want(const struct coord_pki_want *want, struct ls_diag *diag)
{
    if (!ls_identity_name_is_fine(want->name))
        return ls_fail(diag, LS_EINVAL,
                       "'%.80s' is no name: use 1 to %u letters, digits, '.', '_' and '-', and "
                       "begin with a letter or digit",
                       want->name, LS_IDENTITY_NAME_MAX);
    for (size_t i = 0; i < want->host_count; i++) {
        if (!coord_pki_host_is_fine(want->hosts[i]))
            return ls_fail(diag, LS_EINVAL, "'%.80s' is neither a host's name nor an address",
                           want->hosts[i]);
    }
    return LS_OK;
}

/* NULL: out of memory. */
static X509 *certify(const struct coord_authority *authority, const struct coord_pki_want *want,
                     EVP_PKEY *key)
{
    X509 *c = new_certificate(want->name, key, want->now_s, want->end_s);
    X509 *issuer = authority->certificate;

    if (c != NULL && extend(c, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
        extend(c, issuer, NID_key_usage, "critical,digitalSignature") &&
        extend(c, issuer, NID_ext_key_usage,
               want->role == LS_IDENTITY_AGENT ? "clientAuth" : "serverAuth") &&
        extend(c, issuer, NID_subject_key_identifier, "hash") &&
        extend(c, issuer, NID_authority_key_identifier, "keyid:always") && add_names(c, want) &&
        sign(c, issuer, authority->key))
        return c;
    X509_free(c);
    return NULL;
}

enum ls_err coord_authority_issue(const struct coord_authority *authority,
                                  const struct coord_pki_want *want, char **out_certificate,
                                  char **out_key, Ls__IssuedCertificate **out_record,
                                  struct ls_diag *diag)
{
    EVP_PKEY *key = NULL;
    X509 *certificate = NULL;
    char *text = NULL;
    char *secret = NULL;
    enum ls_err rc = check_want(want, diag);

    if (rc != LS_OK)
        return rc;
    key = EVP_EC_gen("P-256");
    if (key != NULL)
        certificate = certify(authority, want, key);
    if (certificate != NULL)
        text = certificate_text(certificate);
    if (key != NULL)
        secret = key_text(key);
    if (text == NULL || secret == NULL)
        rc = ls_fail(diag, LS_ENOMEM, "no memory for a certificate, or no random numbers");
    if (rc == LS_OK)
        rc = coord_pki_describe(text, out_record, diag);
    if (rc == LS_OK) {
        *out_certificate = text;
        *out_key = secret;
        text = secret = NULL;
    }
    free(text);
    coord_pki_free_key(secret);
    X509_free(certificate);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return rc;
}

/* ---- revoking ---- */

static bool add_revoked(X509_CRL *crl, const Ls__IssuedCertificate *entry)
{
    X509_REVOKED *revoked = X509_REVOKED_new();
    ASN1_TIME *when = ASN1_TIME_set(NULL, coord_pki_parse_time(entry->revoked_at));
    BIGNUM *number = NULL;
    ASN1_INTEGER *serial = NULL;
    bool ok = revoked != NULL && when != NULL && BN_hex2bn(&number, entry->serial) > 0;

    if (ok)
        serial = BN_to_ASN1_INTEGER(number, NULL);
    ok = ok && serial != NULL && X509_REVOKED_set_serialNumber(revoked, serial) == 1 &&
         X509_REVOKED_set_revocationDate(revoked, when) == 1 &&
         X509_CRL_add0_revoked(crl, revoked) == 1;
    if (!ok)
        X509_REVOKED_free(revoked);
    ASN1_INTEGER_free(serial);
    BN_free(number);
    ASN1_TIME_free(when);
    return ok;
}

static bool set_crl(X509_CRL *crl, X509 *issuer, uint32_t number, int64_t now_s, int64_t next_s)
{
    ASN1_TIME *from = ASN1_TIME_set(NULL, now_s - COORD_PKI_BACKDATE_S);
    ASN1_TIME *next = ASN1_TIME_set(NULL, next_s);
    ASN1_INTEGER *count = ASN1_INTEGER_new();
    X509_EXTENSION *extension = NULL;
    X509V3_CTX ctx;
    bool ok = from != NULL && next != NULL && count != NULL;

    ok = ok && X509_CRL_set_version(crl, X509_CRL_VERSION_2) == 1 &&
         X509_CRL_set_issuer_name(crl, X509_get_subject_name(issuer)) == 1 &&
         X509_CRL_set1_lastUpdate(crl, from) == 1 && X509_CRL_set1_nextUpdate(crl, next) == 1 &&
         ASN1_INTEGER_set_uint64(count, number) == 1 &&
         X509_CRL_add1_ext_i2d(crl, NID_crl_number, count, 0, 0) == 1;
    if (ok) {
        X509V3_set_ctx(&ctx, issuer, NULL, NULL, crl, 0);
        extension = X509V3_EXT_conf_nid(NULL, &ctx, NID_authority_key_identifier, "keyid:always");
        ok = extension != NULL && X509_CRL_add_ext(crl, extension, -1) == 1;
    }
    X509_EXTENSION_free(extension);
    ASN1_INTEGER_free(count);
    ASN1_TIME_free(from);
    ASN1_TIME_free(next);
    return ok;
}

enum ls_err coord_authority_crl(const struct coord_authority *authority, const Ls__Pki *record,
                                int64_t now_s, int64_t next_s, char **out, struct ls_diag *diag)
{
    X509_CRL *crl = X509_CRL_new();
    char now[32];
    bool ok =
        crl != NULL && set_crl(crl, authority->certificate, record->crl_number, now_s, next_s);
    BIO *bio;
    char *text;

    coord_pki_format_time(now_s, now);
    for (size_t i = 0; ok && i < record->n_issued; i++) {
        const Ls__IssuedCertificate *entry = record->issued[i];

        if (entry->revoked_at[0] == '\0' || strcmp(entry->not_after, now) < 0)
            continue;
        if (coord_pki_parse_time(entry->revoked_at) < 0 || entry->serial[0] == '\0') {
            X509_CRL_free(crl);
            return ls_fail(diag, LS_EINVAL, "issued.json: entry %zu makes no sense", i);
        }
        ok = add_revoked(crl, entry);
    }
    ok = ok && X509_CRL_sort(crl) == 1 && X509_CRL_sign(crl, authority->key, EVP_sha256()) > 0;
    bio = BIO_new(BIO_s_mem());
    text = text_of(bio, ok && bio != NULL && PEM_write_bio_X509_CRL(bio, crl) == 1);
    X509_CRL_free(crl);
    ERR_clear_error();
    if (text == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a list of revoked certificates");
    *out = text;
    return LS_OK;
}

/* ---- describing ---- */

static bool add_host(Ls__IssuedCertificate *out, const char *host)
{
    char **bigger = realloc(out->hosts, (out->n_hosts + 1) * sizeof(*bigger));

    if (bigger == NULL)
        return false;
    out->hosts = bigger;
    out->hosts[out->n_hosts] = strdup(host);
    if (out->hosts[out->n_hosts] == NULL)
        return false;
    out->n_hosts++;
    return true;
}

static bool describe_host(const GENERAL_NAME *name, Ls__IssuedCertificate *out)
{
    char text[INET6_ADDRSTRLEN];
    const unsigned char *data;
    int len;

    if (name->type == GEN_DNS) {
        data = ASN1_STRING_get0_data(name->d.dNSName);
        len = ASN1_STRING_length(name->d.dNSName);
        if (memchr(data, '\0', (size_t)len) == NULL) {
            char *host = strndup((const char *)data, (size_t)len);
            bool ok = host != NULL && add_host(out, host);

            free(host);
            return ok;
        }
    } else if (name->type == GEN_IPADD) {
        data = ASN1_STRING_get0_data(name->d.iPAddress);
        len = ASN1_STRING_length(name->d.iPAddress);
        if ((len == 4 || len == 16) &&
            inet_ntop(len == 4 ? AF_INET : AF_INET6, data, text, sizeof(text)) != NULL)
            return add_host(out, text);
    }
    return true; /* not a host, or one that cannot be said */
}

static bool describe_hosts(X509 *certificate, Ls__IssuedCertificate *out)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    bool ok = true;

    for (int i = 0; ok && i < sk_GENERAL_NAME_num(names); i++)
        ok = describe_host(sk_GENERAL_NAME_value(names, i), out);
    GENERAL_NAMES_free(names);
    return ok;
}

static bool describe_rest(X509 *certificate, const struct ls_identity *identity,
                          Ls__IssuedCertificate *out)
{
    BIGNUM *number = ASN1_INTEGER_to_BN(X509_get_serialNumber(certificate), NULL);
    char *serial = number != NULL ? BN_bn2hex(number) : NULL;
    char begin[32];
    char end[32];
    bool ok;

    coord_pki_format_time(seconds_of(X509_get0_notBefore(certificate)), begin);
    coord_pki_format_time(seconds_of(X509_get0_notAfter(certificate)), end);
    ok = serial != NULL && coord_message_string(&out->serial, serial) &&
         coord_message_string(&out->uri, identity->uri) &&
         coord_message_string(&out->fingerprint, identity->fingerprint) &&
         coord_message_string(&out->not_before, begin) &&
         coord_message_string(&out->not_after, end) && describe_hosts(certificate, out);
    OPENSSL_free(serial);
    BN_free(number);
    return ok;
}

enum ls_err coord_pki_describe(const char *certificate, Ls__IssuedCertificate **out,
                               struct ls_diag *diag)
{
    X509 *parsed = read_certificate(certificate);
    Ls__IssuedCertificate *record = NULL;
    struct ls_identity identity;
    unsigned char *der = NULL;
    enum ls_err rc = LS_OK;
    int len;

    if (parsed == NULL)
        return ls_fail(diag, LS_EINVAL, "not a certificate");
    len = i2d_X509(parsed, &der);
    if (len <= 0)
        rc = ls_fail(diag, LS_ENOMEM, "no memory to describe a certificate");
    if (rc == LS_OK)
        rc = ls_identity_read((struct ls_bytes){ der, (size_t)len }, &identity, diag);
    if (rc == LS_OK) {
        record = coord_message_new(&ls__issued_certificate__descriptor);
        if (record == NULL || !describe_rest(parsed, &identity, record))
            rc = ls_fail(diag, LS_ENOMEM, "no memory to describe a certificate");
    }
    if (rc == LS_OK)
        *out = record;
    else
        coord_message_free(record);
    OPENSSL_free(der);
    X509_free(parsed);
    ERR_clear_error();
    return rc;
}

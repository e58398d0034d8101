#include "tests/support/tls_pki.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

enum { DAY_S = 86400 };

struct tls_pki {
    X509 *certificate;
    EVP_PKEY *key;
    char *pem;
    long serial;
};

static char *text_of(BIO *bio)
{
    char *data = NULL;
    long len = BIO_get_mem_data(bio, &data);
    char *text = malloc((size_t)len + 1);

    assert_non_null(text);
    (void)memcpy(text, data, (size_t)len);
    text[len] = '\0';
    (void)BIO_free(bio);
    return text;
}

static char *certificate_pem(X509 *certificate)
{
    BIO *bio = BIO_new(BIO_s_mem());

    assert_int_equal(PEM_write_bio_X509(bio, certificate), 1);
    return text_of(bio);
}

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

static X509 *make(const char *name, EVP_PKEY *key, long serial, long from_s, long until_s)
{
    X509 *certificate = X509_new();
    X509_NAME *subject;

    assert_non_null(certificate);
    subject = X509_get_subject_name(certificate);
    assert_int_equal(X509_set_version(certificate, X509_VERSION_3), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial), 1);
    assert_int_equal(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                                (const unsigned char *)name, -1, -1, 0),
                     1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(certificate), from_s));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(certificate), until_s));
    assert_int_equal(X509_set_pubkey(certificate, key), 1);
    return certificate;
}

static void sign(X509 *certificate, const X509 *issuer, EVP_PKEY *key)
{
    assert_int_equal(X509_set_issuer_name(certificate, X509_get_subject_name(issuer)), 1);
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
}

struct tls_pki *tls_pki_create(const char *name)
{
    struct tls_pki *pki = calloc(1, sizeof(*pki));

    assert_non_null(pki);
    pki->serial = 1;
    pki->key = EVP_EC_gen("P-256");
    assert_non_null(pki->key);
    pki->certificate = make(name, pki->key, pki->serial, -DAY_S, DAY_S);
    extend(pki->certificate, pki->certificate, NID_basic_constraints, "critical,CA:TRUE");
    extend(pki->certificate, pki->certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
    sign(pki->certificate, pki->certificate, pki->key);
    pki->pem = certificate_pem(pki->certificate);
    return pki;
}

void tls_pki_destroy(struct tls_pki *pki)
{
    X509_free(pki->certificate);
    EVP_PKEY_free(pki->key);
    free(pki->pem);
    free(pki);
}

struct ls_bytes tls_pki_ca(const struct tls_pki *pki)
{
    return tls_identity_bytes(pki->pem);
}

void tls_pki_issue(struct tls_pki *pki, const char *names, enum tls_pki_flaw flaw,
                   struct tls_identity *out)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    long from_s = flaw == PKI_EARLY ? DAY_S : -2 * DAY_S;
    long until_s = flaw == PKI_EXPIRED ? -DAY_S : 2 * DAY_S;
    X509 *certificate = make("leaf", key, ++pki->serial, from_s, until_s);
    bool self = flaw == PKI_SELF;
    BIO *bio = BIO_new(BIO_s_mem());

    extend(certificate, self ? certificate : pki->certificate, NID_subject_alt_name, names);
    sign(certificate, self ? certificate : pki->certificate, self ? key : pki->key);
    out->certificate = certificate_pem(certificate);
    assert_int_equal(PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL), 1);
    out->key = text_of(bio);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

void tls_identity_fini(struct tls_identity *identity)
{
    free(identity->certificate);
    free(identity->key);
}

struct ls_bytes tls_identity_bytes(const char *pem)
{
    return (struct ls_bytes){ (const unsigned char *)pem, strlen(pem) };
}

#include "coordinator/pki/sign.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include "common/credentials.h"
#include "common/tls_impl.h"

struct coord_signer {
    struct ls_credentials *credentials;
};

enum ls_err coord_signer_open(const char *dir, struct coord_signer **out, struct ls_diag *diag)
{
    struct coord_signer *signer = calloc(1, sizeof(*signer));
    enum ls_err rc;

    if (signer == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for the keys in %s", dir);
    rc = ls_credentials_open(dir, LS_IDENTITY_COORDINATOR, &signer->credentials, diag);
    if (rc != LS_OK) {
        free(signer);
        return rc;
    }
    *out = signer;
    return LS_OK;
}

void coord_signer_close(struct coord_signer *signer)
{
    if (signer == NULL)
        return;
    ls_credentials_close(signer->credentials);
    free(signer);
}

/* Key and certificate as they are now: they may have been renewed. */
static enum ls_err open_keys(struct coord_signer *signer, SSL **out, struct ls_diag *diag)
{
    unsigned unused;
    SSL *ssl = ls_credentials_new_ssl(signer->credentials, &unused);

    if (ssl == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for the coordinator's keys");
    *out = ssl;
    return LS_OK;
}

enum ls_err coord_signer_certificate(struct coord_signer *signer, struct ls_buf *out,
                                     struct ls_diag *diag)
{
    BIO *bio = BIO_new(BIO_s_mem());
    STACK_OF(X509) *chain = NULL;
    SSL *ssl = NULL;
    char *text;
    enum ls_err rc = open_keys(signer, &ssl, diag);
    bool ok = rc == LS_OK && bio != NULL && PEM_write_bio_X509(bio, SSL_get_certificate(ssl)) == 1;

    if (ok)
        (void)SSL_get0_chain_certs(ssl, &chain);
    for (int i = 0; ok && i < sk_X509_num(chain); i++)
        ok = PEM_write_bio_X509(bio, sk_X509_value(chain, i)) == 1;
    if (ok) {
        long len = BIO_get_mem_data(bio, &text);

        ls_buf_add(out, text, (size_t)len);
    }
    if (rc == LS_OK && (!ok || !out->ok))
        rc = ls_fail(diag, LS_ENOMEM, "no memory for the coordinator's certificate");
    SSL_free(ssl);
    (void)BIO_free(bio);
    return rc;
}

/* Ed25519 has a digest of its own. */
static const EVP_MD *digest_of(const EVP_PKEY *key)
{
    return EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519 ? NULL : EVP_sha256();
}

enum ls_err coord_sign(struct coord_signer *signer, struct ls_bytes data, struct ls_buf *out,
                       struct ls_diag *diag)
{
    unsigned char signature[COORD_SIGNATURE_MAX];
    size_t len = sizeof(signature);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    SSL *ssl = NULL;
    enum ls_err rc = open_keys(signer, &ssl, diag);

    if (rc == LS_OK && ctx == NULL)
        rc = ls_fail(diag, LS_ENOMEM, "no memory to sign");
    if (rc == LS_OK) {
        EVP_PKEY *key = SSL_get_privatekey(ssl); /* ssl's own */

        if (EVP_DigestSignInit(ctx, NULL, digest_of(key), NULL, key) != 1 ||
            EVP_DigestSign(ctx, signature, &len, data.data, data.len) != 1)
            rc = ls_fail(diag, LS_EREFUSED, "the coordinator's key cannot sign: %s",
                         ERR_reason_error_string(ERR_peek_last_error()));
        ERR_clear_error();
    }
    if (rc == LS_OK) {
        ls_buf_add(out, signature, len);
        rc = out->ok ? LS_OK : ls_fail(diag, LS_ENOMEM, "no memory for a signature");
    }
    SSL_free(ssl);
    EVP_MD_CTX_free(ctx);
    return rc;
}

/* ---- checking */

/* A list of certificates; empty if there is none in it. NULL: out of memory. */
static STACK_OF(X509) * read_certificates(BIO *bio)
{
    STACK_OF(X509) *list = sk_X509_new_null();
    X509 *certificate;

    while (list != NULL && bio != NULL &&
           (certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
        if (sk_X509_push(list, certificate) == 0) {
            X509_free(certificate);
            break;
        }
    }
    ERR_clear_error();
    return list;
}

static bool is_signed_by(const struct coord_signature *what, X509 *certificate)
{
    EVP_PKEY *key = X509_get0_pubkey(certificate);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool ok = key != NULL && ctx != NULL &&
              EVP_DigestVerifyInit(ctx, NULL, digest_of(key), NULL, key) == 1 &&
              EVP_DigestVerify(ctx, what->signature.data, what->signature.len, what->data.data,
                               what->data.len) == 1;

    EVP_MD_CTX_free(ctx);
    ERR_clear_error();
    return ok;
}

/* Does ca vouch for it, as of when it was made? */
static enum ls_err vouch(const struct coord_signature *what, STACK_OF(X509) * chain,
                         struct ls_diag *diag)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    enum ls_err rc = LS_ENOMEM;

    if (store == NULL || ctx == NULL) {
        (void)ls_fail(diag, rc, "no memory to check a signature");
    } else if (X509_STORE_load_file(store, what->ca) != 1) {
        rc = ls_fail(diag, LS_EREFUSED, "%s has no certificates of an authority in it", what->ca);
    } else if (X509_STORE_CTX_init(ctx, store, sk_X509_value(chain, 0), chain) != 1) {
        (void)ls_fail(diag, rc, "no memory to check a signature");
    } else {
        X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(ctx), (time_t)what->at_s);
        rc = X509_verify_cert(ctx) == 1
                 ? LS_OK
                 : ls_fail(diag, LS_EPROTO, "%s does not vouch for the certificate: %s", what->ca,
                           X509_verify_cert_error_string(X509_STORE_CTX_get_error(ctx)));
    }
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
    ERR_clear_error();
    return rc;
}

enum ls_err coord_signature_check(const struct coord_signature *what, struct ls_identity *out,
                                  struct ls_diag *diag)
{
    BIO *bio = BIO_new_mem_buf(what->certificate.data, (int)what->certificate.len);
    STACK_OF(X509) *chain = read_certificates(bio);
    enum ls_err rc;

    if (chain == NULL || bio == NULL)
        rc = ls_fail(diag, LS_ENOMEM, "no memory to check a signature");
    else if (sk_X509_num(chain) == 0)
        rc = ls_fail(diag, LS_EPROTO, "there is no certificate in it");
    else
        rc = ls_identity_of(sk_X509_value(chain, 0), out, diag);
    if (rc == LS_EREFUSED)
        rc = LS_EPROTO;
    if (rc == LS_OK && out->role != LS_IDENTITY_COORDINATOR)
        rc =
            ls_fail(diag, LS_EPROTO, "it is the certificate of %s, not of a coordinator", out->uri);
    if (rc == LS_OK && !is_signed_by(what, sk_X509_value(chain, 0)))
        rc = ls_fail(diag, LS_EPROTO,
                     "it does not fit what is signed: one of the two was changed, or it is "
                     "not by the key of %s",
                     out->uri);
    if (rc == LS_OK && what->ca != NULL)
        rc = vouch(what, chain, diag);
    if (rc == LS_OK)
        out->proven = what->ca != NULL;
    sk_X509_pop_free(chain, X509_free);
    (void)BIO_free(bio);
    return rc;
}

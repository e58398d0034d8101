#include "agent/respond/tls.h"

#include <errno.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

enum { RECORD_BYTES = 16384, DAY_S = 86400 };

struct respond_tls {
    SSL_CTX *ctx; /* owned */
};

struct respond_tls_session {
    SSL *ssl; /* owned */
};

static bool add_names(X509 *certificate)
{
    X509V3_CTX ctx;
    X509_EXTENSION *names;
    bool ok;

    X509V3_set_ctx(&ctx, certificate, certificate, NULL, NULL, 0);
    names =
        X509V3_EXT_conf_nid(NULL, &ctx, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1,IP:::1");
    ok = names != NULL && X509_add_ext(certificate, names, -1) == 1;
    X509_EXTENSION_free(names);
    return ok;
}

/* A key, and a certificate for this host that it has signed itself, good for a day. */
static bool sign_own(SSL_CTX *ctx)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    X509_NAME *name = certificate != NULL ? X509_get_subject_name(certificate) : NULL;
    bool ok =
        key != NULL && name != NULL && X509_set_version(certificate, X509_VERSION_3) == 1 &&
        ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1) == 1 &&
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                   (const unsigned char *)"lockstep responder", -1, -1, 0) == 1 &&
        X509_set_issuer_name(certificate, name) == 1 &&
        X509_gmtime_adj(X509_getm_notBefore(certificate), -DAY_S) != NULL &&
        X509_gmtime_adj(X509_getm_notAfter(certificate), DAY_S) != NULL &&
        X509_set_pubkey(certificate, key) == 1 && add_names(certificate) &&
        X509_sign(certificate, key, EVP_sha256()) > 0 &&
        SSL_CTX_use_certificate(ctx, certificate) == 1 && SSL_CTX_use_PrivateKey(ctx, key) == 1;

    X509_free(certificate);
    EVP_PKEY_free(key);
    return ok;
}

static enum ls_err load(SSL_CTX *ctx, const struct respond_settings *settings, struct ls_diag *diag)
{
    const char *what = "--tls-cert";
    const char *reason;
    bool ok;

    if (settings->tls_self_signed)
        return sign_own(ctx) ? LS_OK : ls_fail(diag, LS_ENOMEM, "no certificate could be made");
    ok = SSL_CTX_use_certificate_chain_file(ctx, settings->tls_certificate) == 1;
    if (ok) {
        what = "--tls-key";
        ok = SSL_CTX_use_PrivateKey_file(ctx, settings->tls_key, SSL_FILETYPE_PEM) == 1;
    }
    if (ok)
        return LS_OK;
    reason = ERR_reason_error_string(ERR_peek_last_error());
    return ls_fail(diag, LS_EINVAL, "%s cannot be used: %s", what, reason != NULL ? reason : "?");
}

static int choose(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                  const unsigned char *in, unsigned in_len, void *arg)
{
    static const unsigned char spoken[] = "\x02h2\x08http/1.1";
    unsigned char *chosen = NULL;

    (void)ssl;
    (void)arg;
    if (SSL_select_next_proto(&chosen, out_len, spoken, sizeof(spoken) - 1, in, in_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

enum ls_err respond_tls_create(const struct respond_settings *settings,
                               struct respond_tls **out_tls, struct ls_diag *diag)
{
    struct respond_tls *tls = calloc(1, sizeof(*tls));
    enum ls_err rc;

    if (tls == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for TLS");
    ERR_clear_error();
    tls->ctx = SSL_CTX_new(TLS_server_method());
    if (tls->ctx == NULL || SSL_CTX_set_min_proto_version(tls->ctx, TLS1_2_VERSION) != 1)
        rc = ls_fail(diag, LS_ENOMEM, "no memory for TLS");
    else
        rc = load(tls->ctx, settings, diag);
    ERR_clear_error();
    if (rc != LS_OK) {
        respond_tls_destroy(tls);
        return rc;
    }
    (void)SSL_CTX_set_mode(tls->ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                         SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    /* A client that hangs up without a farewell has hung up. */
    (void)SSL_CTX_set_options(tls->ctx, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_RENEGOTIATION);
    (void)SSL_CTX_set_session_cache_mode(tls->ctx, SSL_SESS_CACHE_OFF); /* tickets hold it all */
    SSL_CTX_set_alpn_select_cb(tls->ctx, choose, NULL);
    *out_tls = tls;
    return LS_OK;
}

void respond_tls_destroy(struct respond_tls *tls)
{
    if (tls == NULL)
        return;
    SSL_CTX_free(tls->ctx);
    free(tls);
}

struct respond_tls_session *respond_tls_accept(struct respond_tls *tls, int fd)
{
    struct respond_tls_session *session = calloc(1, sizeof(*session));

    if (session == NULL)
        return NULL;
    session->ssl = SSL_new(tls->ctx);
    if (session->ssl == NULL || SSL_set_fd(session->ssl, fd) != 1) {
        ERR_clear_error();
        respond_tls_end(session);
        return NULL;
    }
    SSL_set_accept_state(session->ssl);
    return session;
}

void respond_tls_end(struct respond_tls_session *session)
{
    if (session == NULL)
        return;
    SSL_free(session->ssl);
    free(session);
}

/* What a call that did not succeed means, in the terms of a socket. */
static ssize_t failed(const struct respond_tls_session *session, int result)
{
    int error = SSL_get_error(session->ssl, result);

    ERR_clear_error();
    if (error == SSL_ERROR_ZERO_RETURN)
        return 0;
    errno = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? EAGAIN : ECONNRESET;
    return -1;
}

ssize_t respond_tls_recv(struct respond_tls_session *session, void *out, size_t cap)
{
    size_t n = 0;
    int result = SSL_read_ex(session->ssl, out, cap, &n);

    return result == 1 ? (ssize_t)n : failed(session, result);
}

ssize_t respond_tls_send(struct respond_tls_session *session, const struct iovec *parts,
                         size_t count)
{
    unsigned char plain[RECORD_BYTES];
    size_t len = 0;
    size_t n = 0;
    int result;

    for (size_t i = 0; i < count && len < sizeof(plain); i++) {
        size_t room = sizeof(plain) - len;
        size_t take = parts[i].iov_len < room ? parts[i].iov_len : room;

        (void)memcpy(plain + len, parts[i].iov_base, take);
        len += take;
    }
    result = SSL_write_ex(session->ssl, plain, len, &n);
    return result == 1 ? (ssize_t)n : failed(session, result);
}

void respond_tls_farewell(struct respond_tls_session *session)
{
    (void)SSL_shutdown(session->ssl); /* the peer's own is not waited for */
    ERR_clear_error();
}

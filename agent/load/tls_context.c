/* Settings of TLS, and its failures in words. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/tls_impl.h"

enum { WHY_BYTES = 120 };

/* Why OpenSSL failed; empties its queue. Returns out. */
static const char *openssl_why(char out[WHY_BYTES])
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = ERR_reason_error_string(code);

    if (code == 0)
        (void)snprintf(out, WHY_BYTES, "no reason given");
    else if (reason != NULL)
        (void)snprintf(out, WHY_BYTES, "%s", reason);
    else
        ERR_error_string_n(code, out, WHY_BYTES);
    ERR_clear_error();
    return out;
}

/* A key with a password would ask for it on a terminal. */
static int no_password(char *out, int cap, int writing, void *ctx)
{
    (void)out;
    (void)cap;
    (void)writing;
    (void)ctx;
    return -1;
}

static BIO *pem_reader(struct ls_bytes pem)
{
    return pem.len <= INT32_MAX ? BIO_new_mem_buf(pem.data, (int)pem.len) : NULL;
}

/* ---- settings -------------------------------------------------------------------------------- */

static enum ls_err trust(SSL_CTX *ctx, const struct load_tls *set, struct ls_diag *diag)
{
    char why[WHY_BYTES];
    X509_STORE *store = SSL_CTX_get_cert_store(ctx);
    BIO *pem;
    X509 *certificate;
    unsigned count = 0;
    bool ok = true;

    if (set->ca.len == 0) {
        if (SSL_CTX_set_default_verify_paths(ctx) == 1)
            return LS_OK;
        return ls_fail(diag, LS_EINVAL, "this host's list of trusted certificates: %s",
                       openssl_why(why));
    }
    pem = pem_reader(set->ca);
    if (pem == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for the trusted certificates");
    while (ok && (certificate = PEM_read_bio_X509(pem, NULL, no_password, NULL)) != NULL) {
        ok = X509_STORE_add_cert(store, certificate) == 1;
        X509_free(certificate);
        count++;
    }
    (void)BIO_free(pem); /* only memory */
    if (ok && count > 0 && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE) {
        ERR_clear_error(); /* that is how the end looks */
        return LS_OK;
    }
    return ls_fail(diag, LS_EINVAL, "ca_file: certificate %u cannot be read: %s", count + ok,
                   openssl_why(why));
}

static enum ls_err set_chain(SSL_CTX *ctx, BIO *pem, struct ls_diag *diag)
{
    char why[WHY_BYTES];
    X509 *certificate = PEM_read_bio_X509_AUX(pem, NULL, no_password, NULL);
    bool ok = certificate != NULL && SSL_CTX_use_certificate(ctx, certificate) == 1;

    X509_free(certificate);
    while (ok && (certificate = PEM_read_bio_X509(pem, NULL, no_password, NULL)) != NULL) {
        ok = SSL_CTX_add1_chain_cert(ctx, certificate) == 1;
        X509_free(certificate);
    }
    if (ok && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE) {
        ERR_clear_error();
        return LS_OK;
    }
    return ls_fail(diag, LS_EINVAL, "certificate_file cannot be used: %s", openssl_why(why));
}

static enum ls_err identify(SSL_CTX *ctx, const struct load_tls *set, struct ls_diag *diag)
{
    char why[WHY_BYTES];
    EVP_PKEY *key = NULL;
    BIO *pem;
    enum ls_err rc;

    if (set->certificate.len == 0)
        return LS_OK;
    pem = pem_reader(set->certificate);
    if (pem == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a certificate");
    rc = set_chain(ctx, pem, diag);
    (void)BIO_free(pem); /* only memory */
    if (rc != LS_OK)
        return rc;
    pem = pem_reader(set->key);
    if (pem != NULL)
        key = PEM_read_bio_PrivateKey(pem, NULL, no_password, NULL);
    (void)BIO_free(pem);
    if (key == NULL)
        rc = ls_fail(diag, LS_EINVAL, "key_file cannot be read (PEM, without a password): %s",
                     openssl_why(why));
    else if (SSL_CTX_use_PrivateKey(ctx, key) != 1 || SSL_CTX_check_private_key(ctx) != 1)
        rc = ls_fail(diag, LS_EINVAL, "key_file is not the key to certificate_file: %s",
                     openssl_why(why));
    EVP_PKEY_free(key);
    return rc;
}

static enum ls_err offer(SSL_CTX *ctx, const struct load_tls *set, struct ls_diag *diag)
{
    unsigned char wire[256];
    unsigned len = 0;

    for (const char *const *name = set->alpn; name != NULL && *name != NULL; name++) {
        size_t n = strlen(*name);

        if (n == 0 || n > 255 || len + 1 + n > sizeof(wire))
            return ls_fail(diag, LS_EINVAL, "alpn: the names are empty, or too long together");
        wire[len++] = (unsigned char)n;
        (void)memcpy(wire + len, *name, n);
        len += (unsigned)n;
    }
    /* 0 is success, in this call alone. */
    if (len > 0 && SSL_CTX_set_alpn_protos(ctx, wire, len) != 0)
        return ls_fail(diag, LS_ENOMEM, "no memory for TLS settings");
    return LS_OK;
}

/* TLS 1.3 has a list of its own; its names begin with TLS_. */
static enum ls_err set_ciphers(SSL_CTX *ctx, const char *ciphers, struct ls_diag *diag)
{
    char why[WHY_BYTES];
    bool modern;
    bool ok;

    if (ciphers == NULL)
        return LS_OK;
    modern = strncmp(ciphers, "TLS_", 4) == 0;
    ok = modern ? SSL_CTX_set_ciphersuites(ctx, ciphers) == 1
                : SSL_CTX_set_cipher_list(ctx, ciphers) == 1;
    if (ok)
        return LS_OK;
    return ls_fail(diag, LS_EINVAL, "ciphers: '%.60s': %s", ciphers, openssl_why(why));
}

static enum ls_err set_name(struct tls_context *c, const char *name, struct ls_diag *diag)
{
    X509_VERIFY_PARAM *param = SSL_CTX_get0_param(c->ctx);
    unsigned char address[sizeof(struct in6_addr)];
    bool ok;

    if (name == NULL || *name == '\0')
        return ls_fail(diag, LS_EINVAL, "TLS needs a server_name");
    c->server_name = strdup(name);
    if (c->server_name == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for TLS settings");
    if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1) {
        ok = X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1;
    } else {
        c->sni = c->server_name;
        X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        ok = X509_VERIFY_PARAM_set1_host(param, name, 0) == 1;
    }
    return ok ? LS_OK : ls_fail(diag, LS_EINVAL, "server_name '%.60s' cannot be used", name);
}

/* A certificate that was verified once is as good the next time: that the peer has its key is shown
 * in each handshake whatever happens here. Verifying it again would be a quarter of a handshake. */
static int on_certificate(X509_STORE_CTX *store, void *arg)
{
    struct tls_context *c = arg;
    X509 *leaf = X509_STORE_CTX_get0_cert(store);
    int ok;

    if (!c->verify || (c->verified != NULL && X509_cmp(c->verified, leaf) == 0)) {
        X509_STORE_CTX_set_error(store, X509_V_OK);
        return 1;
    }
    ok = X509_verify_cert(store);
    if (ok == 1 && X509_up_ref(leaf) == 1) {
        X509_free(c->verified);
        c->verified = leaf;
    }
    return ok;
}

static enum ls_err apply(struct tls_context *c, const struct load_tls *set, struct ls_diag *diag)
{
    char why[WHY_BYTES];
    enum ls_err rc;

    SSL_CTX_set_read_ahead(c->ctx, 1); /* a record in one call of the BIO instead of two */
    (void)SSL_CTX_set_options(c->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    if (SSL_CTX_set_min_proto_version(c->ctx, set->min_version) != 1 ||
        SSL_CTX_set_max_proto_version(c->ctx, set->max_version) != 1)
        return ls_fail(diag, LS_EINVAL, "TLS versions %#x to %#x cannot be used: %s",
                       (unsigned)set->min_version, (unsigned)set->max_version, openssl_why(why));
    SSL_CTX_set_verify(c->ctx, set->verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
    SSL_CTX_set_cert_verify_callback(c->ctx, on_certificate, c);
    rc = set->verify ? trust(c->ctx, set, diag) : LS_OK;
    if (rc == LS_OK)
        rc = identify(c->ctx, set, diag);
    if (rc == LS_OK)
        rc = offer(c->ctx, set, diag);
    if (rc == LS_OK)
        rc = set_ciphers(c->ctx, set->ciphers, diag);
    return rc == LS_OK ? set_name(c, set->server_name, diag) : rc;
}

/* ---- sessions to resume ---------------------------------------------------------------------- */

/* A ticket, of TLS 1.3 long after the handshake. The newest one serves all later connections. */
static int on_new_session(SSL *ssl, SSL_SESSION *session)
{
    struct tls_context *c = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));

    if (SSL_SESSION_is_resumable(session) != 1)
        return 0;
    SSL_SESSION_free(c->newest);
    c->newest = session;
    return 1; /* ours now */
}

enum ls_err tls_context_create(const struct load_tls *settings, struct tls_context **out_context,
                               struct ls_diag *diag)
{
    struct tls_context *c = calloc(1, sizeof(*c));
    enum ls_err rc;

    if (c == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for TLS");
    c->resume = settings->resume;
    c->verify = settings->verify;
    c->has_ca = settings->ca.len > 0;
    c->required = settings->alpn_required && settings->alpn != NULL ? settings->alpn[0] : NULL;
    ERR_clear_error();
    c->ctx = SSL_CTX_new(TLS_client_method());
    c->method = tls_bio_method();
    if (c->ctx == NULL || c->method == NULL)
        rc = ls_fail(diag, LS_ENOMEM, "no memory for TLS");
    else
        rc = apply(c, settings, diag);
    if (rc != LS_OK) {
        ERR_clear_error();
        tls_context_destroy(c);
        return rc;
    }
    (void)SSL_CTX_set_app_data(c->ctx, c);
    /* Kept by us, in one place; without resumption nowhere. */
    (void)SSL_CTX_set_session_cache_mode(c->ctx, c->resume ? SSL_SESS_CACHE_CLIENT |
                                                                 SSL_SESS_CACHE_NO_INTERNAL
                                                           : SSL_SESS_CACHE_OFF);
    if (c->resume)
        SSL_CTX_sess_set_new_cb(c->ctx, on_new_session);
    *out_context = c;
    return LS_OK;
}

void tls_context_expect_many(struct tls_context *context)
{
    tls_own_enable(context->ctx);
}

void tls_context_destroy(struct tls_context *context)
{
    if (context == NULL)
        return;
    while (context->idle != NULL) {
        struct tls_session *session = context->idle;

        context->idle = session->next;
        tls_session_free(session);
    }
    SSL_SESSION_free(context->newest);
    X509_free(context->verified);
    SSL_CTX_free(context->ctx);
    BIO_meth_free(context->method);
    free(context->server_name);
    free(context);
}

const struct tls_stats *tls_context_stats(const struct tls_context *context)
{
    return &context->stats;
}

/* ---- failures -------------------------------------------------------------------------------- */

void tls_note(struct tls_context *c, enum tls_trouble trouble, unsigned long code,
              const void *first, size_t first_len)
{
    if (c->trouble != TROUBLE_NONE)
        return;
    c->trouble = trouble;
    c->code = code;
    c->first_len = first_len < sizeof(c->first) ? first_len : sizeof(c->first);
    if (c->first_len > 0)
        (void)memcpy(c->first, first, c->first_len);
}

/* What a user can do about a certificate that does not verify. */
static const char *advice(const struct tls_context *c)
{
    switch ((int)c->code) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return "renew it";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return "set server_name to a name that it is for";
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
        return "give it as ca_file";
    default:
        return c->has_ca ? "give its issuer as ca_file" : "give the CA's certificate as ca_file";
    }
}

/* Bytes of a stranger, harmless to show. */
static const char *show_bytes(const struct tls_context *c, char *out, size_t out_bytes)
{
    size_t len = 0;

    for (size_t i = 0; i < c->first_len && len + 5 < out_bytes; i++) {
        unsigned char b = c->first[i];
        bool plain = b >= ' ' && b <= '~' && b != '"' && b != '\\';

        len += (size_t)snprintf(out + len, out_bytes - len, plain ? "%c" : "\\x%02x", b);
    }
    out[len] = '\0';
    return out;
}

/* OpenSSL's own table of alerts does not know those of TLS 1.3; its errors do, with a prefix. */
static const char *alert_name(unsigned long code, char out[WHY_BYTES])
{
    const char *reason = ERR_reason_error_string(code);
    const char *alert = reason != NULL ? strstr(reason, "alert ") : NULL;

    (void)snprintf(out, WHY_BYTES, "%s",
                   alert != NULL    ? alert + strlen("alert ")
                   : reason != NULL ? reason
                                    : "?");
    return out;
}

static bool is_about_alpn(unsigned long code)
{
    return ERR_GET_REASON(code) == SSL_AD_REASON_OFFSET + SSL_AD_NO_APPLICATION_PROTOCOL;
}

const char *tls_context_trouble(const struct tls_context *c, char *out, size_t out_bytes)
{
    char first[sizeof(c->first) * 4 + 1];
    char why[WHY_BYTES];

    out[0] = '\0';
    switch (c->trouble) {
    case TROUBLE_NONE:
        break;
    case TROUBLE_HUNG_UP:
        (void)snprintf(out, out_bytes, "hung up during the TLS handshake");
        break;
    case TROUBLE_CUT:
        (void)snprintf(out, out_bytes,
                       "hung up without close_notify: what came before may have been cut");
        break;
    case TROUBLE_NOT_TLS:
        (void)snprintf(out, out_bytes, "does not speak TLS here: says \"%s\"",
                       show_bytes(c, first, sizeof(first)));
        break;
    case TROUBLE_UNTRUSTED:
        (void)snprintf(out, out_bytes,
                       "has a certificate that does not verify for '%.60s': %s: %s, or set "
                       "verify: false",
                       c->server_name, X509_verify_cert_error_string((long)c->code), advice(c));
        break;
    case TROUBLE_ALERT:
        (void)snprintf(out, out_bytes, "%sended TLS with the alert '%s'",
                       c->required != NULL && is_about_alpn(c->code)
                           ? "does not speak HTTP/2 over TLS: it "
                           : "",
                       alert_name(c->code, why));
        break;
    case TROUBLE_PROTOCOL:
        (void)snprintf(
            out, out_bytes,
            "does not speak HTTP/2 over TLS: of %.40s, offered by ALPN, it takes %s%.40s",
            c->required, c->first_len > 0 ? "" : "nothing", show_bytes(c, first, sizeof(first)));
        break;
    case TROUBLE_OTHER:
        ERR_error_string_n(c->code, why, sizeof(why));
        (void)snprintf(out, out_bytes, "cannot be spoken TLS with: %s",
                       ERR_reason_error_string(c->code) != NULL ? ERR_reason_error_string(c->code)
                                                                : why);
        break;
    }
    return out;
}

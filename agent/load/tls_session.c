/* One TLS connection's records, on a BIO that reads from a view and writes into a buffer of the
 * caller: one copy each way beside the encryption. */
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/tls_impl.h"

enum { RECORD_ALERT = 21, RECORD_HANDSHAKE = 22, MAJOR_VERSION = 3 };

/* ---- the BIO --------------------------------------------------------------------------------- */

static int on_read(BIO *bio, char *out, int cap)
{
    struct tls_session *s = BIO_get_data(bio);
    size_t len = s->in.len < (size_t)cap ? s->in.len : (size_t)cap;

    BIO_clear_retry_flags(bio);
    if (len == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    (void)memcpy(out, s->in.data, len);
    s->in.data += len;
    s->in.len -= len;
    return (int)len;
}

/* Takes everything: what does not fit into the caller's buffer, or comes without one, is kept. */
static int on_write(BIO *bio, const char *data, int len)
{
    struct tls_session *s = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    if (LS_LIKELY(s->kept.len == 0 && (size_t)len <= s->out_cap - s->out_len)) {
        (void)memcpy(s->out + s->out_len, data, (size_t)len);
        s->out_len += (size_t)len;
        return len;
    }
    ls_buf_add(&s->kept, data, (size_t)len);
    return s->kept.ok ? len : -1;
}

static long on_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH; /* nothing is held back */
}

static int on_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

BIO_METHOD *tls_bio_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "lockstep");

    if (method == NULL)
        return NULL;
    /* None of them fails: they only set a pointer. */
    (void)BIO_meth_set_read(method, on_read);
    (void)BIO_meth_set_write(method, on_write);
    (void)BIO_meth_set_ctrl(method, on_ctrl);
    (void)BIO_meth_set_create(method, on_create);
    return method;
}

/* ---- life ------------------------------------------------------------------------------------ */

void tls_session_free(struct tls_session *s)
{
    if (s == NULL)
        return;
    tls_own_destroy(s->own);
    SSL_free(s->ssl); /* and the BIO */
    ls_buf_fini(&s->kept);
    free(s);
}

static struct tls_session *session_create(struct tls_context *c)
{
    struct tls_session *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return NULL;
    s->context = c;
    ls_buf_init(&s->kept, TLS_KEPT_MAX);
    s->ssl = SSL_new(c->ctx);
    s->bio = BIO_new(c->method);
    if (s->ssl == NULL || s->bio == NULL ||
        (c->sni != NULL && SSL_set_tlsext_host_name(s->ssl, c->sni) != 1)) {
        (void)BIO_free(s->bio);
        tls_session_free(s);
        return NULL;
    }
    BIO_set_data(s->bio, s);
    if (SSL_set_app_data(s->ssl, s) != 1) {
        (void)BIO_free(s->bio);
        tls_session_free(s);
        return NULL;
    }
    SSL_set_bio(s->ssl, s->bio, s->bio);
    return s;
}

struct tls_session *tls_begin(struct tls_context *c)
{
    struct tls_session *s = c->idle;

    if (s != NULL)
        c->idle = s->next;
    else
        s = session_create(c);
    if (s == NULL) {
        ERR_clear_error();
        return NULL;
    }
    s->next = NULL;
    s->in = (struct ls_bytes){ NULL, 0 };
    s->out = NULL;
    s->out_cap = s->out_len = 0;
    s->heard = s->secured = s->untrusted = s->fresh = s->more = false;
    SSL_set_connect_state(s->ssl);
    /* SSL_clear() leaves the last connection's session in place: it would be resumed unasked. */
    (void)SSL_set_session(s->ssl, c->newest);
    return s;
}

void tls_end(struct tls_session *s)
{
    struct tls_context *c = s->context;

    tls_own_end(s);
    /* Without this OpenSSL takes the end for an accident and the session for unusable. */
    SSL_set_shutdown(s->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    s->in = (struct ls_bytes){ NULL, 0 };
    ls_buf_fini(&s->kept);
    ls_buf_init(&s->kept, TLS_KEPT_MAX);
    if (SSL_clear(s->ssl) != 1) {
        ERR_clear_error();
        tls_session_free(s);
        return;
    }
    s->next = c->idle;
    c->idle = s;
}

/* ---- failures -------------------------------------------------------------------------------- */

/* Why OpenSSL gave up, as facts for the context. */
static enum tls_result failed(struct tls_session *s)
{
    unsigned long code = ERR_peek_error();
    int reason = ERR_GET_REASON(code);
    long verified = SSL_get_verify_result(s->ssl);

    s->untrusted = ERR_GET_LIB(code) == ERR_LIB_SSL && reason == SSL_R_CERTIFICATE_VERIFY_FAILED;
    if (s->untrusted)
        tls_note(s->context, TROUBLE_UNTRUSTED, (unsigned long)verified, NULL, 0);
    else if (ERR_GET_LIB(code) == ERR_LIB_SSL && reason > SSL_AD_REASON_OFFSET)
        tls_note(s->context, TROUBLE_ALERT, code, NULL, 0);
    else
        tls_note(s->context, TROUBLE_OTHER, code, NULL, 0);
    ERR_clear_error();
    s->in.len = 0;
    return TLS_FAILED;
}

static enum tls_result failed_as(struct tls_session *s, enum tls_trouble trouble, const void *first,
                                 size_t first_len)
{
    tls_note(s->context, trouble, 0, first, first_len);
    s->in.len = 0;
    return TLS_FAILED;
}

enum tls_result tls_hung_up(struct tls_session *s)
{
    if (s->own != NULL ? s->own->closed : (SSL_get_shutdown(s->ssl) & SSL_RECEIVED_SHUTDOWN) != 0)
        return TLS_CLOSED;
    return failed_as(s, s->secured ? TROUBLE_CUT : TROUBLE_HUNG_UP, NULL, 0);
}

/* ---- handshake ------------------------------------------------------------------------------- */

void tls_take(struct tls_session *s, struct ls_bytes in)
{
    s->in = in;
    s->fresh = in.len > 0;
}

/* The peer's first bytes: if they are no record of a handshake or an alert, it speaks something
 * else, and OpenSSL's words for that are "wrong version number". */
static bool is_tls(struct tls_session *s)
{
    bool kind = s->in.data[0] == RECORD_HANDSHAKE || s->in.data[0] == RECORD_ALERT;

    s->heard = true;
    return kind && (s->in.len < 2 || s->in.data[1] == MAJOR_VERSION);
}

static const char *mixed(const char *known, const char *now)
{
    return known == NULL || strcmp(known, now) == 0 ? now : "mixed";
}

static enum tls_result agreed(struct tls_session *s)
{
    struct tls_stats *stats = &s->context->stats;
    const char *required = s->context->required;
    const unsigned char *chosen = NULL;
    unsigned len = 0;

    if (required != NULL) {
        SSL_get0_alpn_selected(s->ssl, &chosen, &len);
        if (len != strlen(required) || memcmp(chosen, required, len) != 0)
            return failed_as(s, TROUBLE_PROTOCOL, chosen, len);
    }
    s->secured = true;
    tls_own_secured(s);
    *(SSL_session_reused(s->ssl) == 1 ? &stats->resumed : &stats->full) += 1;
    stats->version = mixed(stats->version, SSL_get_version(s->ssl));
    stats->cipher = mixed(stats->cipher, SSL_get_cipher_name(s->ssl));
    return TLS_OK;
}

enum tls_result tls_shake(struct tls_session *s)
{
    int error;
    int n;

    if (!s->heard && s->in.len > 0 && !is_tls(s))
        return failed_as(s, TROUBLE_NOT_TLS, s->in.data, s->in.len);
    n = SSL_do_handshake(s->ssl);
    if (n == 1)
        return agreed(s);
    error = SSL_get_error(s->ssl, n);
    return error == SSL_ERROR_WANT_READ ? TLS_OK : failed(s);
}

bool tls_is_secured(const struct tls_session *s)
{
    return s->secured;
}

bool tls_is_untrusted(const struct tls_session *s)
{
    return s->untrusted;
}

/* ---- records --------------------------------------------------------------------------------- */

enum tls_result tls_open(struct tls_session *s, uint8_t *out, size_t cap, size_t *out_len)
{
    size_t kept = s->kept.len;
    size_t len = 0;

    *out_len = 0;
    if (s->own == NULL && s->fresh)
        tls_own_look(s, out, cap);
    s->fresh = false;
    if (s->own != NULL)
        return tls_own_open(s, out, cap, out_len);
    while (len < cap && (s->in.len > 0 || SSL_has_pending(s->ssl) == 1)) {
        size_t n = 0;
        int error;

        if (LS_LIKELY(SSL_read_ex(s->ssl, out + len, cap - len, &n) == 1)) {
            len += n;
            continue;
        }
        error = SSL_get_error(s->ssl, 0);
        if (error == SSL_ERROR_WANT_READ)
            break;
        *out_len = len;
        if (error == SSL_ERROR_ZERO_RETURN)
            return TLS_CLOSED;
        return failed(s);
    }
    *out_len = len;
    s->more = len == cap;
    s->watch.off = s->watch.off || s->kept.len != kept; /* its keys may be others now */
    return TLS_OK;
}

bool tls_has_more(const struct tls_session *s)
{
    return s->more;
}

void tls_rest(struct tls_session *s)
{
    if (s->own != NULL)
        tls_own_rest(s->own);
    else
        (void)SSL_free_buffers(s->ssl); /* says whether it has */
}

size_t tls_drain(struct tls_session *s, uint8_t *out, size_t cap)
{
    size_t len = s->kept.len < cap ? s->kept.len : cap;

    if (LS_LIKELY(len == 0))
        return 0;
    (void)memcpy(out, s->kept.data, len);
    if (len < s->kept.len) {
        ls_buf_consume(&s->kept, len);
    } else { /* rare after the handshake: not worth memory of every connection */
        ls_buf_fini(&s->kept);
        ls_buf_init(&s->kept, TLS_KEPT_MAX);
    }
    return len;
}

bool tls_has_output(const struct tls_session *s)
{
    return s->kept.len > 0;
}

enum tls_result tls_seal(struct tls_session *s, struct ls_bytes plain, uint8_t *out, size_t cap,
                         size_t *out_len)
{
    size_t n = 0;
    int ok;

    if (LS_LIKELY(s->own != NULL))
        return tls_own_seal(s, plain, out, out_len);
    s->watch.sealed++;
    s->out = out;
    s->out_cap = cap;
    s->out_len = 0;
    ok = SSL_write_ex(s->ssl, plain.data, plain.len, &n);
    *out_len = s->out_len;
    s->out = NULL;
    s->out_cap = s->out_len = 0;
    return LS_LIKELY(ok == 1 && n == plain.len) ? TLS_OK : failed(s);
}

/* Sessions of TLS 1.3 whose records are not OpenSSL's any more: those that go on are worth it.
 *
 * OpenSSL makes the handshake, and writes and reads records until a second request has been sent.
 * Meanwhile they are counted, and the traffic secrets are kept, which OpenSSL tells its log. Then,
 * between two records, our place in the sequence is known, and a record that opens with our keys
 * proves it: from that one on, OpenSSL sees nothing. If it does not open (the keys have been
 * updated), all stays as it was. */
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/tls_impl.h"

#define SEALED_LEAST 2u           /* a connection of few requests is not worth it */
#define BRIEF_MOST   8u           /* after so many that were none of the sort, we stop looking */
#define MESSAGE_MAX  (128u << 10) /* bytes of a handshake message; tickets are the largest */

enum { MESSAGE_TICKET = 4, MESSAGE_KEY_UPDATE = 24 };

/* ---- watching OpenSSL ------------------------------------------------------------------------ */

static unsigned hex(char c)
{
    return c >= '0' && c <= '9' ? (unsigned)(c - '0') : ((unsigned)c & 0x5fu) - 'A' + 10;
}

/* A line "LABEL random secret" (the format of NSS key logs), in hex. */
static void on_secret(const SSL *ssl, const char *line)
{
    static const char *const labels[] = { "SERVER_TRAFFIC_SECRET_0 ", "CLIENT_TRAFFIC_SECRET_0 " };
    struct tls_session *s = SSL_get_app_data(ssl);

    for (unsigned i = 0; i < 2; i++) {
        struct tls_secret *secret = &s->watch.secrets[i];
        size_t n = strlen(labels[i]);
        const char *at = strncmp(line, labels[i], n) == 0 ? strchr(line + n, ' ') : NULL;

        if (at == NULL)
            continue;
        secret->len = 0;
        for (at++; at[0] != '\0' && at[1] != '\0' && secret->len < TLS_SECRET_MAX; at += 2)
            secret->bytes[secret->len++] = (uint8_t)(hex(at[0]) << 4 | hex(at[1]));
    }
}

void tls_own_enable(SSL_CTX *ctx)
{
    SSL_CTX_set_keylog_callback(ctx, on_secret);
}

void tls_own_secured(struct tls_session *s)
{
    /* Records that came along with the handshake were not counted. */
    s->watch.off = SSL_version(s->ssl) != TLS1_3_VERSION || s->watch.secrets[0].len == 0 ||
                   s->watch.secrets[1].len == 0 || s->in.len > 0 || SSL_has_pending(s->ssl) == 1;
}

/* Follows the records that OpenSSL is about to read. */
static void follow(struct tls_watch *watch, struct ls_bytes in)
{
    while (in.len > 0 && !watch->off) {
        if (watch->head_len < TLS_RECORD_HEAD) {
            watch->head[watch->head_len++] = *in.data++;
            in.len--;
            watch->left = (uint32_t)watch->head[3] << 8 | watch->head[4];
        }
        if (watch->head_len == TLS_RECORD_HEAD) {
            uint32_t n = in.len < watch->left ? (uint32_t)in.len : watch->left;

            in.data += n;
            in.len -= n;
            watch->left -= n;
            watch->off = watch->head[0] != TLS_RECORD_DATA;
            if (watch->left == 0) {
                watch->read++;
                watch->head_len = 0;
            }
        }
    }
}

/* ---- taking over ----------------------------------------------------------------------------- */

/* The record that begins in; empty if that is not all of one, or too large to be one. */
static struct ls_bytes whole_record(struct ls_bytes in)
{
    size_t len;

    if (in.len < TLS_RECORD_HEAD || in.data[0] != TLS_RECORD_DATA)
        return (struct ls_bytes){ 0 };
    len = TLS_RECORD_HEAD + ((size_t)in.data[3] << 8 | in.data[4]);
    if (len > TLS_RECORD_HEAD + TLS_RECORD_SEALED || in.len < len)
        return (struct ls_bytes){ 0 };
    return (struct ls_bytes){ in.data, len };
}

static bool find_suite(const SSL *ssl, struct tls_suite *out)
{
    const SSL_CIPHER *cipher = SSL_get_current_cipher(ssl);
    int nid = SSL_CIPHER_get_cipher_nid(cipher);

    if (nid != NID_aes_128_gcm && nid != NID_aes_256_gcm && nid != NID_chacha20_poly1305)
        return false;
    *out = (struct tls_suite){ .cipher = EVP_get_cipherbynid(nid),
                               .digest = SSL_CIPHER_get_handshake_digest(cipher) };
    return out->cipher != NULL && out->digest != NULL;
}

static struct tls_own *own_create(const struct tls_session *s)
{
    const struct tls_watch *watch = &s->watch;
    struct tls_own *own = calloc(1, sizeof(*own));
    bool ok;

    if (own == NULL)
        return NULL;
    ls_buf_init(&own->part, TLS_RECORD_HEAD + TLS_RECORD_SEALED);
    ls_buf_init(&own->messages, MESSAGE_MAX);
    ok = find_suite(s->ssl, &own->suite);
    for (unsigned i = 0; ok && i < 2; i++)
        ok = watch->secrets[i].len == EVP_MD_get_size(own->suite.digest);
    ok = ok && tls_direction_init(&own->in, &own->suite, watch->secrets[0].bytes, false) &&
         tls_direction_init(&own->out, &own->suite, watch->secrets[1].bytes, true);
    if (!ok) {
        tls_own_destroy(own);
        return NULL;
    }
    own->in.sequence = watch->read;
    own->out.sequence = watch->sealed;
    return own;
}

void tls_own_destroy(struct tls_own *own)
{
    if (own == NULL)
        return;
    tls_direction_fini(&own->in);
    tls_direction_fini(&own->out);
    ls_buf_fini(&own->part);
    ls_buf_fini(&own->messages);
    free(own);
}

/* Uses out, where the first record is opened for a trial. */
static void take_over(struct tls_session *s, struct ls_bytes record, uint8_t *out)
{
    struct tls_own *own = own_create(s);
    unsigned type;
    size_t len;

    if (own != NULL && tls_record_open(&own->in, record, out, &len, &type)) {
        own->in.sequence--; /* it will be opened again */
        s->own = own;
        s->context->stats.own++;
        (void)SSL_free_buffers(s->ssl); /* they are empty */
        return;
    }
    tls_own_destroy(own);
    ERR_clear_error();
    s->watch.off = true;
}

void tls_own_look(struct tls_session *s, uint8_t *out, size_t cap)
{
    struct tls_watch *watch = &s->watch;

    if (watch->off)
        return;
    if (watch->sealed >= SEALED_LEAST && watch->head_len == 0 && s->kept.len == 0 &&
        SSL_has_pending(s->ssl) == 0) {
        struct ls_bytes record = whole_record(s->in);

        if (record.len > 0 && record.len <= cap)
            take_over(s, record, out);
        if (s->own != NULL)
            return;
    }
    follow(watch, s->in);
}

void tls_own_end(struct tls_session *s)
{
    struct tls_context *c = s->context;

    if (s->secured && !s->watch.off && s->watch.sealed < SEALED_LEAST && ++c->brief >= BRIEF_MOST)
        SSL_CTX_set_keylog_callback(c->ctx, NULL); /* it costs a tenth of a handshake */
    tls_own_destroy(s->own);
    s->own = NULL;
    OPENSSL_cleanse(&s->watch, sizeof(s->watch));
}

/* ---- our own --------------------------------------------------------------------------------- */

static bool say(struct tls_session *s, enum tls_record_type type, const uint8_t *data, size_t len)
{
    uint8_t record[TLS_RECORD_HEAD + 16 + 1 + TLS_RECORD_TAG];
    size_t n = tls_record_seal(&s->own->out, type, (struct ls_bytes){ data, len }, record);

    ls_buf_add(&s->kept, record, n);
    return n > 0 && s->kept.ok;
}

/* As OpenSSL would: reason is one of SSL_R_..., and the peer is told. */
static enum tls_result broken(struct tls_session *s, int reason, int alert)
{
    const uint8_t fatal[] = { 2, (uint8_t)alert };

    (void)say(s, TLS_RECORD_ALERT, fatal, sizeof(fatal)); /* a courtesy */
    tls_note(s->context, TROUBLE_OTHER, ERR_PACK(ERR_LIB_SSL, 0, reason), NULL, 0);
    ERR_clear_error();
    s->in.len = 0;
    return TLS_FAILED;
}

/* RFC 8446, 4.6.3. */
static enum tls_result update_keys(struct tls_session *s, uint8_t request)
{
    static const uint8_t answer[] = { MESSAGE_KEY_UPDATE, 0, 0, 1, 0 };
    struct tls_own *own = s->own;

    if (request > 1 || own->messages.len > 0) /* no record spans a change of keys */
        return broken(s, SSL_R_BAD_KEY_UPDATE, SSL_AD_ILLEGAL_PARAMETER);
    if (!tls_direction_update(&own->in, &own->suite, false) ||
        (request == 1 && (!say(s, TLS_RECORD_HANDSHAKE, answer, sizeof(answer)) ||
                          !tls_direction_update(&own->out, &own->suite, true))))
        return broken(s, ERR_R_INTERNAL_ERROR, SSL_AD_INTERNAL_ERROR);
    return TLS_OK;
}

/* Whole messages; a ticket that comes so late is one too many. */
static enum tls_result take_messages(struct tls_session *s, struct ls_bytes piece)
{
    struct ls_buf *messages = &s->own->messages;
    enum tls_result result = TLS_OK;

    ls_buf_add(messages, piece.data, piece.len);
    while (result == TLS_OK && messages->ok && messages->len >= 4) {
        const uint8_t *m = messages->data;
        size_t len = (size_t)m[1] << 16 | (size_t)m[2] << 8 | m[3];
        uint8_t type = m[0];
        uint8_t first = len > 0 && messages->len > 4 ? m[4] : 0;

        if (type != MESSAGE_TICKET && (type != MESSAGE_KEY_UPDATE || len != 1))
            return broken(s, SSL_R_UNEXPECTED_MESSAGE, SSL_AD_UNEXPECTED_MESSAGE);
        if (messages->len < 4 + len)
            return TLS_OK;
        ls_buf_consume(messages, 4 + len);
        if (type == MESSAGE_KEY_UPDATE)
            result = update_keys(s, first);
    }
    if (!messages->ok)
        return broken(s, SSL_R_EXCESSIVE_MESSAGE_SIZE, SSL_AD_ILLEGAL_PARAMETER);
    return result;
}

static enum tls_result take_alert(struct tls_session *s, struct ls_bytes alert)
{
    if (alert.len != 2)
        return broken(s, SSL_R_INVALID_ALERT, SSL_AD_UNEXPECTED_MESSAGE);
    s->in.len = 0;
    if (alert.data[1] == SSL_AD_CLOSE_NOTIFY) {
        s->own->closed = true;
        return TLS_CLOSED;
    }
    tls_note(s->context, TROUBLE_ALERT,
             ERR_PACK(ERR_LIB_SSL, 0, SSL_AD_REASON_OFFSET + alert.data[1]), NULL, 0);
    return TLS_FAILED;
}

/* Moves up to want bytes of the part's record from what was taken. */
static void complete_part(struct tls_session *s, size_t want)
{
    struct ls_buf *part = &s->own->part;
    size_t n = want > part->len ? want - part->len : 0;

    n = n < s->in.len ? n : s->in.len;
    if (n == 0)
        return;
    ls_buf_add(part, s->in.data, n);
    s->in.data += n;
    s->in.len -= n;
}

/* The next record, whole; empty with TLS_OK: it has not come yet. */
static enum tls_result next_record(struct tls_session *s, struct ls_bytes *out)
{
    struct ls_buf *part = &s->own->part;
    struct ls_bytes head;
    size_t len;

    *out = (struct ls_bytes){ 0 };
    if (part->len > 0 || s->in.len < TLS_RECORD_HEAD)
        complete_part(s, TLS_RECORD_HEAD);
    head = part->len > 0 ? (struct ls_bytes){ part->data, part->len } : s->in;
    if (!part->ok)
        return broken(s, ERR_R_MALLOC_FAILURE, SSL_AD_INTERNAL_ERROR);
    if (head.len < TLS_RECORD_HEAD)
        return TLS_OK;
    if (head.data[0] != TLS_RECORD_DATA)
        return broken(s, SSL_R_BAD_RECORD_TYPE, SSL_AD_UNEXPECTED_MESSAGE);
    len = (size_t)head.data[3] << 8 | head.data[4];
    if (len > TLS_RECORD_SEALED)
        return broken(s, SSL_R_ENCRYPTED_LENGTH_TOO_LONG, SSL_AD_RECORD_OVERFLOW);
    len += TLS_RECORD_HEAD;
    if (part->len > 0 || s->in.len < len) {
        complete_part(s, len);
        if (!part->ok)
            return broken(s, ERR_R_MALLOC_FAILURE, SSL_AD_INTERNAL_ERROR);
        if (part->len == len)
            *out = (struct ls_bytes){ part->data, len };
    } else {
        *out = (struct ls_bytes){ s->in.data, len };
    }
    return TLS_OK;
}

static void used(struct tls_session *s, size_t len)
{
    if (s->own->part.len > 0) {
        ls_buf_reset(&s->own->part);
        return;
    }
    s->in.data += len;
    s->in.len -= len;
}

/* What was in a record that opened: *out_len grows if it is data. */
static enum tls_result take_content(struct tls_session *s, unsigned type, struct ls_bytes content,
                                    size_t *out_len)
{
    if (content.len > TLS_RECORD_BYTES)
        return broken(s, SSL_R_DATA_LENGTH_TOO_LONG, SSL_AD_RECORD_OVERFLOW);
    if (type == TLS_RECORD_HANDSHAKE)
        return take_messages(s, content);
    if (s->own->messages.len > 0 || (type != TLS_RECORD_DATA && type != TLS_RECORD_ALERT))
        return broken(s, SSL_R_UNEXPECTED_RECORD, SSL_AD_UNEXPECTED_MESSAGE);
    if (type == TLS_RECORD_ALERT)
        return take_alert(s, content);
    *out_len += content.len;
    return TLS_OK;
}

enum tls_result tls_own_open(struct tls_session *s, uint8_t *out, size_t cap, size_t *out_len)
{
    enum tls_result result = TLS_OK;

    s->more = false;
    while (result == TLS_OK && (s->in.len > 0 || s->own->part.len > 0)) {
        struct ls_bytes record;
        unsigned type;
        size_t len;

        result = next_record(s, &record);
        if (result != TLS_OK || record.len == 0)
            break;
        if (record.len > cap - *out_len) {
            s->more = true;
            break;
        }
        if (LS_UNLIKELY(!tls_record_open(&s->own->in, record, out + *out_len, &len, &type)))
            return broken(s, SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC, SSL_AD_BAD_RECORD_MAC);
        used(s, record.len);
        result = take_content(s, type, (struct ls_bytes){ out + *out_len, len }, out_len);
    }
    return result;
}

enum tls_result tls_own_seal(struct tls_session *s, struct ls_bytes plain, uint8_t *out,
                             size_t *out_len)
{
    *out_len = tls_record_seal(&s->own->out, TLS_RECORD_DATA, plain, out);
    if (LS_LIKELY(*out_len > 0))
        return TLS_OK;
    tls_note(s->context, TROUBLE_OTHER, ERR_peek_error(), NULL, 0);
    ERR_clear_error();
    return TLS_FAILED;
}

void tls_own_rest(struct tls_own *own)
{
    if (own->part.len > 0)
        return;
    ls_buf_fini(&own->part);
    ls_buf_init(&own->part, TLS_RECORD_HEAD + TLS_RECORD_SEALED);
}

#include "tests/bench/fast_records.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const char *const labels[2] = { "CLIENT_TRAFFIC_SECRET_0 ", "SERVER_TRAFFIC_SECRET_0 " };

static void on_secret(const SSL *ssl, const char *line)
{
    struct fast_records *r = SSL_get_app_data(ssl);

    for (unsigned i = 0; i < 2; i++) {
        size_t len = strlen(labels[i]);
        const char *at = strncmp(line, labels[i], len) == 0 ? strchr(line + len, ' ') : NULL;

        for (unsigned n = 0; at != NULL && n < FAST_SECRET_BYTES; n++) {
            unsigned byte = 0;

            (void)sscanf(at + 1 + n * 2, "%2x", &byte);
            r->secrets[i][n] = (unsigned char)byte;
        }
    }
}

void fast_records_watch(SSL_CTX *ctx)
{
    SSL_CTX_set_keylog_callback(ctx, on_secret);
    (void)SSL_CTX_set_num_tickets(ctx, 0); /* the first record is then an answer */
}

bool fast_records_begin(struct fast_records *r)
{
    const struct tls_suite suite = { EVP_aes_128_gcm(), EVP_sha256() };

    r->part_len = 0;
    r->ready = tls_direction_init(&r->in, &suite, r->secrets[0], false) &&
               tls_direction_init(&r->out, &suite, r->secrets[1], true);
    return r->ready;
}

void fast_records_end(struct fast_records *r)
{
    tls_direction_fini(&r->in);
    tls_direction_fini(&r->out);
    r->ready = false;
}

static void move(struct fast_records *r, struct ls_bytes *in, size_t want)
{
    size_t n = want > r->part_len ? want - r->part_len : 0;

    n = n < in->len ? n : in->len;
    (void)memcpy(r->part + r->part_len, in->data, n);
    r->part_len += n;
    in->data += n;
    in->len -= n;
}

size_t fast_records_open(struct fast_records *r, struct ls_bytes *in, unsigned char *out)
{
    struct ls_bytes record = { r->part, 0 };
    const unsigned char *head = in->data;
    unsigned type;
    size_t len;

    if (in->len == 0)
        return 0;
    if (r->part_len > 0 || in->len < TLS_RECORD_HEAD) {
        move(r, in, TLS_RECORD_HEAD);
        head = r->part;
        if (r->part_len < TLS_RECORD_HEAD)
            return 0;
    }
    record.len = TLS_RECORD_HEAD + ((size_t)head[3] << 8 | head[4]);
    if (record.len > sizeof(r->part))
        return SIZE_MAX;
    if (r->part_len > 0 || in->len < record.len) {
        move(r, in, record.len);
        if (r->part_len < record.len)
            return 0;
        r->part_len = 0;
    } else {
        record.data = in->data;
        in->data += record.len;
        in->len -= record.len;
    }
    if (!tls_record_open(&r->in, record, out, &len, &type) || type != TLS_RECORD_DATA)
        return SIZE_MAX; /* a farewell, too */
    return len;
}

#include "tests/bench/fast_h2.h"

#include <stdio.h>
#include <string.h>

enum {
    DATA,
    HEADERS,
    SETTINGS = 4,
    PING = 6,
    HEAD_BYTES = 9,
    BODY_MAX = 16384,
    ANSWER_MAX = 17000
};

#define END_STREAM 1u
#define ACK        1u

static unsigned char answer[ANSWER_MAX];
static size_t answer_len;
static size_t data_at; /* of the DATA frame in it */

static size_t put_head(unsigned char *at, size_t len, unsigned type, unsigned flags)
{
    (void)memset(at, 0, HEAD_BYTES);
    at[1] = (unsigned char)(len >> 8);
    at[2] = (unsigned char)len;
    at[3] = (unsigned char)type;
    at[4] = (unsigned char)flags;
    return HEAD_BYTES;
}

void fast_h2_answer(const unsigned char *body, size_t len)
{
    /* :status 200; content-type and content-length without a place in the table. */
    unsigned char block[64] = { 0x88, 0x0f, 0x10, 10 };
    size_t n = 4;

    if (len > BODY_MAX)
        return; /* HTTP/1 only */
    (void)memcpy(block + n, "text/plain", 10);
    n += 10;
    block[n++] = 0x0f;
    block[n++] = 0x0d;
    block[n] = (unsigned char)snprintf((char *)block + n + 1, 8, "%zu", len);
    n += 1u + block[n];
    answer_len = put_head(answer, n, HEADERS, 4);
    (void)memcpy(answer + answer_len, block, n);
    answer_len += n;
    data_at = answer_len;
    answer_len += put_head(answer + data_at, len, DATA, END_STREAM);
    (void)memcpy(answer + answer_len, body, len);
    answer_len += len;
}

/* A frame is complete. Returns what was appended; SIZE_MAX: no room. */
static size_t frame_done(struct fast_h2 *h, unsigned char *out, size_t room)
{
    unsigned type = h->head[3];
    unsigned flags = h->head[4];

    if (room < answer_len + 32)
        return SIZE_MAX;
    if ((type == HEADERS || type == DATA) && (flags & END_STREAM) != 0) {
        (void)memcpy(out, answer, answer_len);
        (void)memcpy(out + 5, h->head + 5, 4);
        (void)memcpy(out + data_at + 5, h->head + 5, 4);
        return answer_len;
    }
    if (type == SETTINGS && (flags & ACK) == 0)
        return put_head(out, 0, SETTINGS, ACK);
    if (type == PING && (flags & ACK) == 0) {
        (void)memcpy(out + put_head(out, 8, PING, ACK), h->ping, 8);
        return HEAD_BYTES + 8;
    }
    return 0;
}

static size_t take_preface(struct fast_h2 *h, const unsigned char **data, size_t *len,
                           unsigned char *out)
{
    static const char preface[] = FAST_H2_PREFACE;
    size_t n = sizeof(preface) - 1 - h->preface;

    if (n > *len)
        n = *len;
    if (memcmp(*data, preface + h->preface, n) != 0)
        return SIZE_MAX;
    h->preface += (uint32_t)n;
    *data += n;
    *len -= n;
    return h->preface == sizeof(preface) - 1 ? put_head(out, 0, SETTINGS, 0) : 0;
}

size_t fast_h2_feed(struct fast_h2 *h, const unsigned char *data, size_t len, unsigned char *out,
                    size_t out_len, size_t cap)
{
    if (cap - out_len < 64)
        return SIZE_MAX;
    if (h->preface < sizeof(FAST_H2_PREFACE) - 1) {
        size_t n = take_preface(h, &data, &len, out + out_len);

        if (n == SIZE_MAX)
            return SIZE_MAX;
        out_len += n;
    }
    while (len > 0) {
        size_t n;

        if (h->head_len < HEAD_BYTES) {
            n = HEAD_BYTES - h->head_len < len ? HEAD_BYTES - h->head_len : len;
            (void)memcpy(h->head + h->head_len, data, n);
            h->head_len += (uint32_t)n;
            h->left = (uint32_t)h->head[0] << 16 | (uint32_t)h->head[1] << 8 | h->head[2];
            h->ping_len = 0;
        } else {
            n = h->left < len ? h->left : len;
            for (size_t i = 0; h->head[3] == PING && i < n && h->ping_len < 8; i++)
                h->ping[h->ping_len++] = data[i];
            h->left -= (uint32_t)n;
        }
        data += n;
        len -= n;
        if (h->head_len == HEAD_BYTES && h->left == 0) {
            n = frame_done(h, out + out_len, cap - out_len);
            if (n == SIZE_MAX)
                return SIZE_MAX;
            out_len += n;
            h->head_len = 0;
        }
    }
    return out_len;
}

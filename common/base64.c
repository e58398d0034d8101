#include "common/base64.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define PAIR_BITS 12u

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static char pairs[1u << PAIR_BITS][2]; /* two characters at a time: half as many look-ups */
static pthread_once_t pairs_made = PTHREAD_ONCE_INIT;

static void make_pairs(void)
{
    for (uint32_t bits = 0; bits < LS_ARRAY_LEN(pairs); bits++) {
        pairs[bits][0] = alphabet[bits >> 6];
        pairs[bits][1] = alphabet[bits & 63];
    }
}

static inline void put_four(char *out, uint32_t bits)
{
    (void)memcpy(out, pairs[bits >> PAIR_BITS], 2);
    (void)memcpy(out + 2, pairs[bits & (LS_ARRAY_LEN(pairs) - 1)], 2);
}

void ls_base64_encode(struct ls_buf *out, struct ls_bytes data)
{
    char texts[1024]; /* appended together: many small appends are slow */
    size_t used = 0;

    (void)pthread_once(&pairs_made, make_pairs);
    for (; data.len >= 3; data.data += 3, data.len -= 3) {
        put_four(texts + used,
                 (uint32_t)data.data[0] << 16 | (uint32_t)data.data[1] << 8 | data.data[2]);
        used += 4;
        if (used == sizeof(texts)) {
            ls_buf_add(out, texts, used);
            used = 0;
        }
    }
    if (data.len > 0) {
        put_four(texts + used,
                 (uint32_t)data.data[0] << 16 | (data.len > 1 ? (uint32_t)data.data[1] << 8 : 0));
        texts[used + 3] = '=';
        if (data.len == 1)
            texts[used + 2] = '=';
        used += 4;
    }
    ls_buf_add(out, texts, used);
}

/* 64 if c is not in the alphabet. */
static uint32_t value_of(unsigned char c)
{
    if (c >= 'A' && c <= 'Z')
        return (uint32_t)(c - 'A');
    if (c >= 'a' && c <= 'z')
        return (uint32_t)(c - 'a') + 26;
    if (c >= '0' && c <= '9')
        return (uint32_t)(c - '0') + 52;
    return c == '+' ? 62 : c == '/' ? 63 : 64;
}

/* Four characters, of which pad are padding: the 24 bits they stand for. */
static bool take_four(const unsigned char *text, size_t pad, uint32_t *out_bits)
{
    uint32_t bits = 0;

    for (size_t i = 0; i < 4; i++) {
        uint32_t value = i < 4 - pad ? value_of(text[i]) : 0;

        if (value == 64)
            return false;
        bits = bits << 6 | value;
    }
    *out_bits = bits;
    return (bits & ((UINT32_C(1) << (8 * pad)) - 1)) == 0;
}

static void cut_back(struct ls_buf *buf, size_t len)
{
    buf->len = len;
    if (buf->data != NULL)
        buf->data[len] = '\0';
}

enum ls_err ls_base64_decode(struct ls_buf *out, struct ls_bytes text)
{
    size_t before = out->len;

    if (text.len % 4 != 0)
        return LS_EINVAL;
    for (size_t i = 0; i < text.len; i += 4) {
        const unsigned char *four = text.data + i;
        size_t pad = 0;
        uint32_t bits;
        unsigned char bytes[3];

        if (i + 4 == text.len)
            pad = four[3] != '=' ? 0 : four[2] != '=' ? 1 : 2;
        if (!take_four(four, pad, &bits)) {
            cut_back(out, before);
            return LS_EINVAL;
        }
        bytes[0] = (unsigned char)(bits >> 16);
        bytes[1] = (unsigned char)(bits >> 8);
        bytes[2] = (unsigned char)bits;
        ls_buf_add(out, bytes, 3 - pad);
    }
    if (!out->ok) {
        cut_back(out, before);
        return LS_ENOMEM;
    }
    return LS_OK;
}

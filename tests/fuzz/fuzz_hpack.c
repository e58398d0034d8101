/* Hostile header blocks. The oracle: what comes out does not depend on how the bytes are cut, and
 * is what nghttp2 makes of them; the table never holds more than it may. The first byte chooses
 * cuts. */
#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/load/hpack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FIELDS_MAX = 4096 };

struct seen {
    int count; /* -1: no block */
    struct hpack_field fields[FIELDS_MAX];
};

static void demand(bool holds)
{
    if (!holds)
        abort();
}

static void read_block(struct hpack *h, const uint8_t *data, size_t len, size_t step,
                       struct seen *out)
{
    enum hpack_step last = HPACK_MORE;
    struct hpack_field field;

    out->count = 0;
    hpack_begin(h);
    for (size_t at = 0; at < len && last != HPACK_BAD; at += step) {
        struct ls_bytes piece = { data + at, len - at < step ? len - at : step };

        while ((last = hpack_next(h, &piece, &field)) == HPACK_FIELD) {
            if (out->count < FIELDS_MAX)
                out->fields[out->count] = field;
            out->count++;
        }
        demand(last == HPACK_BAD || piece.len == 0);
    }
    demand(h->used <= h->max && h->max <= HPACK_TABLE_MAX && h->count <= HPACK_ENTRIES);
    if (last == HPACK_BAD || !hpack_end(h))
        out->count = -1;
}

static void inflate(nghttp2_hd_inflater *inflater, const uint8_t *data, size_t len,
                    struct seen *out)
{
    out->count = 0;
    for (;;) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t used = nghttp2_hd_inflate_hd2(inflater, &nv, &flags, data, len, 1);

        if (used < 0) {
            out->count = -1;
            return;
        }
        data += used;
        len -= (size_t)used;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
            if (out->count < FIELDS_MAX) {
                out->fields[out->count].name_len = (uint32_t)nv.namelen;
                out->fields[out->count].value_len = (uint32_t)nv.valuelen;
            }
            out->count++;
        }
        if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) {
            (void)nghttp2_hd_inflate_end_headers(inflater);
            return;
        }
    }
}

static void compare(const struct seen *a, const struct seen *b, bool whole)
{
    demand(a->count == b->count);
    for (int i = 0; i < a->count && i < FIELDS_MAX; i++) {
        const struct hpack_field *x = &a->fields[i];
        const struct hpack_field *y = &b->fields[i];

        demand(x->name_len == y->name_len && x->value_len == y->value_len);
        if (whole)
            demand(x->kind == y->kind && x->ill == y->ill && x->number == y->number);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct seen seen[3];
    struct hpack whole;
    struct hpack cut;
    nghttp2_hd_inflater *inflater;
    size_t step;

    if (size < 2)
        return 0;
    step = 1 + data[0] % 17;
    data++;
    size--;
    hpack_init(&whole);
    hpack_init(&cut);
    demand(nghttp2_hd_inflate_new(&inflater) == 0);
    do { /* blocks of one connection: each begins with its length */
        size_t len = data[0];

        data++;
        size--;
        if (len > size)
            len = size;
        read_block(&whole, data, len, size + 1, &seen[0]);
        read_block(&cut, data, len, step, &seen[1]);
        compare(&seen[0], &seen[1], true);
        inflate(inflater, data, len, &seen[2]);
        compare(&seen[0], &seen[2], false);
        data += len;
        size -= len;
    } while (size > 0 && seen[0].count >= 0);
    nghttp2_hd_inflate_del(inflater);
    return 0;
}

#include "agent/load/ws_deflate.h"

#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

#define WINDOW_OUT   (-12) /* raw; a small window is within any that a server has */
#define MEMORY_OUT   5
#define WINDOW_IN    (-15)
#define ARENA_BYTES  (128u * 1024u) /* zlib takes some 50 KiB for both */
#define OUTPUT_BYTES 16384u

struct ws_deflate {
    z_stream out;
    z_stream in;
    size_t used;
    size_t cap;             /* of message */
    unsigned char *message; /* owned */
    _Alignas(16) unsigned char arena[ARENA_BYTES];
};

/* A worker decodes one piece at a time. */
static _Thread_local unsigned char output[OUTPUT_BYTES];

/* As in gunzip.c: what zlib takes later is no allocation any more. */
static voidpf take(voidpf opaque, uInt items, uInt size)
{
    struct ws_deflate *d = opaque;
    size_t bytes = ((size_t)items * size + 15) & ~(size_t)15;
    void *at = d->arena + d->used;

    if (bytes > sizeof(d->arena) - d->used)
        return NULL;
    d->used += bytes;
    return at;
}

static void give(voidpf opaque, voidpf at)
{
    (void)opaque;
    (void)at; /* all of it goes with the arena */
}

enum ls_err ws_deflate_create(size_t longest, struct ws_deflate **out)
{
    struct ws_deflate *d = calloc(1, sizeof(*d));

    if (d == NULL)
        return LS_ENOMEM;
    d->in.zalloc = d->out.zalloc = take;
    d->in.zfree = d->out.zfree = give;
    d->in.opaque = d->out.opaque = d;
    if (deflateInit2(&d->out, Z_BEST_SPEED, Z_DEFLATED, WINDOW_OUT, MEMORY_OUT,
                     Z_DEFAULT_STRATEGY) == Z_OK &&
        inflateInit2(&d->in, WINDOW_IN) == Z_OK) {
        d->cap = deflateBound(&d->out, (uLong)longest) + 64; /* and the end of two blocks */
        d->message = malloc(d->cap);
    }
    if (d->message == NULL) {
        ws_deflate_destroy(d);
        return LS_ENOMEM;
    }
    *out = d;
    return LS_OK;
}

void ws_deflate_destroy(struct ws_deflate *d)
{
    if (d == NULL)
        return;
    free(d->message); /* the streams have nothing to free */
    free(d);
}

struct ls_bytes ws_deflate_message(struct ws_deflate *d, struct ls_bytes a, struct ls_bytes b)
{
    const struct ls_bytes parts[] = { a, b };
    size_t len;

    (void)deflateReset(&d->out); /* cannot fail on a stream that was set up */
    d->out.next_out = d->message;
    d->out.avail_out = (uInt)d->cap;
    for (size_t i = 0; i < LS_ARRAY_LEN(parts); i++) {
        d->out.next_in = (Bytef *)(uintptr_t)parts[i].data;
        d->out.avail_in = (uInt)parts[i].len;
        /* There is room for all of it: see cap. */
        (void)deflate(&d->out, i + 1 < LS_ARRAY_LEN(parts) ? Z_NO_FLUSH : Z_SYNC_FLUSH);
    }
    len = d->cap - d->out.avail_out;
    return (struct ls_bytes){ d->message, len >= 4 ? len - 4 : 0 }; /* without 00 00 ff ff */
}

enum ls_err ws_inflate_piece(struct ws_deflate *d, struct ls_bytes in,
                             enum ls_err (*out)(void *ctx, struct ls_bytes piece), void *ctx)
{
    d->in.next_in = (Bytef *)(uintptr_t)in.data;
    d->in.avail_in = (uInt)in.len;
    do {
        enum ls_err rc;
        int result;
        size_t got;

        d->in.next_out = output;
        d->in.avail_out = sizeof(output);
        result = inflate(&d->in, Z_SYNC_FLUSH);
        got = sizeof(output) - d->in.avail_out;
        rc = got > 0 ? out(ctx, (struct ls_bytes){ output, got }) : LS_OK;
        if (rc != LS_OK)
            return rc;
        /* Z_BUF_ERROR: nothing to do. A last block ends the stream: what follows it begins anew. */
        if (result != Z_OK && result != Z_BUF_ERROR && result != Z_STREAM_END)
            return LS_EPROTO;
        if (result == Z_STREAM_END && inflateReset(&d->in) != Z_OK)
            return LS_EPROTO;
        if (result == Z_BUF_ERROR)
            break;
    } while (d->in.avail_in > 0 || d->in.avail_out == 0);
    return LS_OK;
}

enum ls_err ws_inflate_end(struct ws_deflate *d, bool takeover,
                           enum ls_err (*out)(void *ctx, struct ls_bytes piece), void *ctx)
{
    static const unsigned char tail[] = { 0x00, 0x00, 0xff, 0xff };
    enum ls_err rc = ws_inflate_piece(d, (struct ls_bytes){ tail, sizeof(tail) }, out, ctx);

    if (!takeover)
        (void)inflateReset(&d->in); /* cannot fail on a stream that was set up */
    return rc;
}

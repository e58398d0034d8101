#include "agent/load/gunzip.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define ARENA_BYTES  65536u /* zlib takes about 40 KiB: its state and a window of 32 KiB */
#define OUTPUT_BYTES 32768u
#define GZIP_ONLY    (15 + 16) /* inflateInit2: the largest window, and a gzip header */

struct gunzip {
    z_stream z;
    const char *why; /* static text; NULL: nothing is wrong */
    uint64_t in_bytes;
    uint64_t out_bytes;
    bool begun;   /* anything has come */
    bool member;  /* within one: the stream may not end here */
    bool stopped; /* out wants no more */
    size_t used;
    _Alignas(16) unsigned char arena[ARENA_BYTES];
};

/* A worker decodes one piece at a time. */
static _Thread_local unsigned char output[OUTPUT_BYTES];

/* zlib allocates its window when it first decodes; here that is no allocation any more. */
static voidpf take(voidpf opaque, uInt items, uInt size)
{
    struct gunzip *g = opaque;
    size_t bytes = ((size_t)items * size + 15) & ~(size_t)15;
    void *at = g->arena + g->used;

    if (bytes > sizeof(g->arena) - g->used)
        return NULL;
    g->used += bytes;
    return at;
}

static void give(voidpf opaque, voidpf at)
{
    (void)opaque;
    (void)at; /* all of it goes with the arena */
}

enum ls_err gunzip_create(struct gunzip **out_gunzip)
{
    struct gunzip *g = calloc(1, sizeof(*g));

    if (g == NULL)
        return LS_ENOMEM;
    g->z.zalloc = take;
    g->z.zfree = give;
    g->z.opaque = g;
    if (inflateInit2(&g->z, GZIP_ONLY) != Z_OK) {
        free(g);
        return LS_ENOMEM;
    }
    *out_gunzip = g;
    return LS_OK;
}

void gunzip_destroy(struct gunzip *gunzip)
{
    if (gunzip == NULL)
        return;
    (void)inflateEnd(&gunzip->z); /* has nothing to free */
    free(gunzip);
}

void gunzip_begin(struct gunzip *g)
{
    (void)inflateReset(&g->z); /* fails for a broken state only, which is ours */
    g->why = NULL;
    g->in_bytes = g->out_bytes = 0;
    g->begun = g->member = g->stopped = false;
}

static const char *too_much(const struct gunzip *g)
{
    if (g->out_bytes > GUNZIP_BYTES_MAX)
        return "the decoded body is too large";
    if (g->out_bytes > GUNZIP_RATIO_FREE && g->out_bytes / GUNZIP_RATIO_MAX > g->in_bytes)
        return "the decoded body is out of proportion to the coded one";
    return NULL;
}

/* One call of inflate. */
static void step(struct gunzip *g, bool (*out)(void *ctx, struct ls_bytes piece), void *ctx)
{
    size_t got;
    int rc;

    if (!g->member && g->begun)
        (void)inflateReset(&g->z); /* members may follow each other (RFC 1952, 2.2) */
    g->begun = g->member = true;
    g->z.next_out = output;
    g->z.avail_out = sizeof(output);
    rc = inflate(&g->z, Z_NO_FLUSH);
    got = sizeof(output) - g->z.avail_out;
    g->out_bytes += got;
    if (rc == Z_STREAM_END)
        g->member = false;
    else if (rc != Z_OK && rc != Z_BUF_ERROR)
        g->why = "the body is not gzip data";
    if (g->why == NULL)
        g->why = too_much(g);
    if (got > 0 && g->why == NULL)
        g->stopped = !out(ctx, (struct ls_bytes){ output, got });
}

const char *gunzip_feed(struct gunzip *g, struct ls_bytes in,
                        bool (*out)(void *ctx, struct ls_bytes piece), void *ctx)
{
    g->in_bytes += in.len;
    g->z.next_in = (z_const Bytef *)(uintptr_t)in.data; /* only read */
    g->z.avail_in = (uInt)in.len;                       /* a piece is no larger than a buffer */
    while (g->why == NULL && !g->stopped) {
        step(g, out, ctx);
        if (g->z.avail_in == 0 && (g->z.avail_out > 0 || !g->member))
            break; /* everything that can be decoded has been */
    }
    return g->why;
}

const char *gunzip_end(const struct gunzip *g)
{
    if (g->why != NULL || g->stopped)
        return g->why;
    return g->member || !g->begun ? "the gzip data ends early" : NULL;
}

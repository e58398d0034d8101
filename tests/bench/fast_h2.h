/* tests/bench/fast_h2.h - HTTP/2 for fast_server.c: answers every request alike, reads no header
 * block, and costs next to nothing. */
#ifndef LS_BENCH_FAST_H2_H
#define LS_BENCH_FAST_H2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAST_H2_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

/* One connection; zeroed at first. */
struct fast_h2 {
    unsigned char head[9];
    uint32_t head_len;
    uint32_t left;    /* of the payload under way */
    uint32_t preface; /* bytes of it that have come */
    unsigned char ping[8];
    uint32_t ping_len;
};

/* What each request is answered with; body is copied. Small bodies only: one frame. */
void fast_h2_answer(const unsigned char *body, size_t len);

/* Takes data and appends what is to be said to out. Returns the new length of out; SIZE_MAX: there
 * is no room, or it is no HTTP/2. */
size_t fast_h2_feed(struct fast_h2 *h, const unsigned char *data, size_t len, unsigned char *out,
                    size_t out_len, size_t cap);

#endif

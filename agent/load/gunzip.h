/* agent/load/gunzip.h - decodes gzip-coded bodies (RFC 1952) piece by piece, without allocating.
 *
 * All memory is taken by gunzip_create(). What a hostile peer can make of few bytes is bounded by
 * the limits below: what lies beyond is not looked at, and the body is wrong.
 */
#ifndef LS_AGENT_LOAD_GUNZIP_H
#define LS_AGENT_LOAD_GUNZIP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/attr.h"
#include "common/err.h"

#define GUNZIP_BYTES_MAX  (256u << 20) /* of one decoded body */
#define GUNZIP_RATIO_MAX  250u         /* decoded bytes for each of the body, ... */
#define GUNZIP_RATIO_FREE (1u << 20)   /* ... from so many decoded bytes on */

struct gunzip;

/* LS_ENOMEM. */
enum ls_err gunzip_create(struct gunzip **out_gunzip) LS_NODISCARD;
void gunzip_destroy(struct gunzip *gunzip); /* NULL is fine */

void gunzip_begin(struct gunzip *gunzip); /* a new body */

/* Decodes the next piece; out gets what comes of it, and returns false if it wants no more, which
 * ends the body. Returns NULL, or static text that says what is wrong; the same from then on. */
const char *gunzip_feed(struct gunzip *gunzip, struct ls_bytes in,
                        bool (*out)(void *ctx, struct ls_bytes piece), void *ctx);

/* The body has ended: NULL if it was whole. */
const char *gunzip_end(const struct gunzip *gunzip);

#endif

/* common/buf.h - a growing byte buffer with a hard cap. An append that does not fit fails and
 * leaves the buffer as it was; ok is then false until reset, so a series of appends is checked
 * once. */
#ifndef LS_COMMON_BUF_H
#define LS_COMMON_BUF_H

#include <stdbool.h>
#include <stdint.h>

#include "common/attr.h"
#include "common/err.h"

struct ls_buf {
    unsigned char *data; /* owned; NUL-terminated beyond len when not NULL */
    size_t len;
    size_t cap;
    size_t max;
    bool ok;
};

void ls_buf_init(struct ls_buf *buf, size_t max);
void ls_buf_fini(struct ls_buf *buf);
void ls_buf_reset(struct ls_buf *buf); /* len 0, ok again; keeps the memory */
void ls_buf_add(struct ls_buf *buf, const void *data, size_t len);
void ls_buf_adds(struct ls_buf *buf, const char *text);
/* In decimal, with zeros in front up to so many digits, at most 20. */
void ls_buf_addu(struct ls_buf *buf, uint64_t x, unsigned digits);
void ls_buf_addf(struct ls_buf *buf, const char *fmt, ...) LS_PRINTF(2, 3);
void ls_buf_consume(struct ls_buf *buf, size_t len); /* drops the first len bytes */
char *ls_buf_detach(struct ls_buf *buf);             /* the text, now the caller's; NULL if !ok */

#endif

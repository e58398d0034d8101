/* common/utf8.h - text that comes from outside: what may go into a message, a report, a terminal.
 */
#ifndef LS_COMMON_UTF8_H
#define LS_COMMON_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#include "common/attr.h"

/* Well-formed UTF-8 (no overlong forms, surrogates or values past U+10FFFF) without NUL. */
bool ls_utf8_is_text(struct ls_bytes bytes);

/* Bytes of the character at p, of which left are readable; 0 if there is none, or a NUL. */
size_t ls_utf8_char_len(const unsigned char *p, size_t left);

/* Puts '?' in the place of every byte that is not part of well-formed UTF-8, of NULs, and of the
 * control characters U+0080 to U+009F. In place; for what programs wrote (logs, version lines) and
 * for what was cut, before it goes into a message. */
void ls_utf8_clean(char *text, size_t len);

#endif

/* common/base64.h - base64 with padding, on one line (RFC 4648 section 4). */
#ifndef LS_COMMON_BASE64_H
#define LS_COMMON_BASE64_H

#include "common/buf.h"

/* Appends the text; as with every append, out->ok says whether it fitted. */
void ls_base64_encode(struct ls_buf *out, struct ls_bytes data);

/* Appends the bytes. LS_EINVAL: not base64 in its only form (length, alphabet, padding, unused
 * bits); LS_ENOMEM: out is full. out is then as it was, but for ok after LS_ENOMEM. */
enum ls_err ls_base64_decode(struct ls_buf *out, struct ls_bytes text) LS_NODISCARD;

#endif

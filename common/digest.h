/* common/digest.h - SHA-256 (by libcrypto) as lower-case hex. */
#ifndef LS_COMMON_DIGEST_H
#define LS_COMMON_DIGEST_H

#include "common/err.h"

#define LS_SHA256_HEX 65 /* with the NUL */

void ls_sha256_hex(struct ls_bytes data, char out[LS_SHA256_HEX]);
/* LS_EIO, with the reason. */
enum ls_err ls_sha256_file(const char *path, char out[LS_SHA256_HEX],
                           struct ls_diag *diag) LS_NODISCARD;

#endif

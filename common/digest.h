/* common/digest.h - SHA-256 (by libcrypto) as lower-case hex, and HMAC of it; SHA-1 for
 * WebSocket. */
#ifndef LS_COMMON_DIGEST_H
#define LS_COMMON_DIGEST_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

#define LS_SHA256_HEX        65 /* with the NUL */
#define LS_SHA256_BYTES      32
#define LS_HMAC_SHA256_BYTES 32
#define LS_SHA1_BYTES        20

void ls_sha256(struct ls_bytes data, unsigned char out[LS_SHA256_BYTES]);
void ls_sha256_hex(struct ls_bytes data, char out[LS_SHA256_HEX]);
/* LS_EIO, with the reason. */
enum ls_err ls_sha256_file(const char *path, char out[LS_SHA256_HEX],
                           struct ls_diag *diag) LS_NODISCARD;

/* HMAC-SHA-256 (RFC 2104). A key of more than 64 bytes is hashed first, as the RFC has it. */
void ls_hmac_sha256(struct ls_bytes key, struct ls_bytes data,
                    unsigned char out[LS_HMAC_SHA256_BYTES]);
/* Takes the same time wherever they differ. */
bool ls_bytes_equal_secret(const unsigned char *a, const unsigned char *b, size_t len);
/* What RFC 6455 asks for; of no use where anybody might want to forge something. */
void ls_sha1(struct ls_bytes data, unsigned char out[LS_SHA1_BYTES]);

#endif

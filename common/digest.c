/* The EVP interface allocates and so may fail, which a hash of bytes in memory has no business to
 * do. The plain one, deprecated as it is in OpenSSL 3, cannot. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "common/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/sha.h>

#define BLOCK_BYTES 64u /* of SHA-256, which HMAC pads keys to */

static void to_hex(const unsigned char raw[SHA256_DIGEST_LENGTH], char out[LS_SHA256_HEX])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < SHA256_DIGEST_LENGTH; i++) {
        out[2 * i] = digits[raw[i] >> 4];
        out[2 * i + 1] = digits[raw[i] & 15];
    }
    out[LS_SHA256_HEX - 1] = '\0';
}

void ls_sha256(struct ls_bytes data, unsigned char out[LS_SHA256_BYTES])
{
    SHA256_CTX ctx;

    (void)SHA256_Init(&ctx);
    (void)SHA256_Update(&ctx, data.data, data.len);
    (void)SHA256_Final(out, &ctx);
}

void ls_sha256_hex(struct ls_bytes data, char out[LS_SHA256_HEX])
{
    unsigned char raw[SHA256_DIGEST_LENGTH];

    ls_sha256(data, raw);
    to_hex(raw, out);
}

void ls_sha1(struct ls_bytes data, unsigned char out[LS_SHA1_BYTES])
{
    SHA_CTX ctx;

    (void)SHA1_Init(&ctx);
    (void)SHA1_Update(&ctx, data.data, data.len);
    (void)SHA1_Final(out, &ctx);
}

enum ls_err ls_sha256_file(const char *path, char out[LS_SHA256_HEX], struct ls_diag *diag)
{
    unsigned char raw[SHA256_DIGEST_LENGTH];
    unsigned char piece[16384];
    SHA256_CTX ctx;
    ssize_t got;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hold us up */

    if (fd < 0)
        return ls_fail(diag, LS_EIO, "cannot open %s: %s", path, strerror(errno));
    (void)SHA256_Init(&ctx);
    do {
        got = read(fd, piece, sizeof(piece));
        if (got > 0)
            (void)SHA256_Update(&ctx, piece, (size_t)got);
    } while (got > 0 || (got < 0 && errno == EINTR));
    if (got < 0)
        (void)ls_fail(diag, LS_EIO, "cannot read %s: %s", path, strerror(errno));
    (void)close(fd);
    if (got < 0)
        return LS_EIO;
    (void)SHA256_Final(raw, &ctx);
    to_hex(raw, out);
    return LS_OK;
}

static void hash_two(const unsigned char first[BLOCK_BYTES], struct ls_bytes second,
                     unsigned char out[SHA256_DIGEST_LENGTH])
{
    SHA256_CTX ctx;

    (void)SHA256_Init(&ctx);
    (void)SHA256_Update(&ctx, first, BLOCK_BYTES);
    (void)SHA256_Update(&ctx, second.data, second.len);
    (void)SHA256_Final(out, &ctx);
}

void ls_hmac_sha256(struct ls_bytes key, struct ls_bytes data,
                    unsigned char out[LS_HMAC_SHA256_BYTES])
{
    unsigned char inner[BLOCK_BYTES] = { 0 };
    unsigned char outer[BLOCK_BYTES];
    unsigned char hash[SHA256_DIGEST_LENGTH];
    SHA256_CTX ctx;

    if (key.len > BLOCK_BYTES) {
        (void)SHA256_Init(&ctx);
        (void)SHA256_Update(&ctx, key.data, key.len);
        (void)SHA256_Final(inner, &ctx);
    } else {
        memcpy(inner, key.data, key.len);
    }
    for (size_t i = 0; i < BLOCK_BYTES; i++) {
        outer[i] = inner[i] ^ 0x5c;
        inner[i] ^= 0x36;
    }
    hash_two(inner, data, hash);
    hash_two(outer, (struct ls_bytes){ hash, sizeof(hash) }, out);
}

bool ls_bytes_equal_secret(const unsigned char *a, const unsigned char *b, size_t len)
{
    return CRYPTO_memcmp(a, b, len) == 0;
}

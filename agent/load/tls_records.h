/* agent/load/tls_records.h - one direction's records of TLS 1.3 (RFC 8446, 5), from a traffic
 * secret on: what OpenSSL's record layer does, in half the time.
 *
 * No I/O, no state of a connection: who uses it knows when its key changes and what the types mean.
 */
#ifndef LS_AGENT_LOAD_TLS_RECORDS_H
#define LS_AGENT_LOAD_TLS_RECORDS_H

#include <openssl/evp.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/attr.h"

#define TLS_SECRET_MAX    48u                       /* bytes: SHA-384 */
#define TLS_RECORD_HEAD   5u                        /* bytes before what is encrypted */
#define TLS_RECORD_TAG    16u                       /* and behind it */
#define TLS_RECORD_BYTES  16384u                    /* most that one holds */
#define TLS_RECORD_SEALED (TLS_RECORD_BYTES + 256u) /* most that may follow a head */

enum tls_record_type { TLS_RECORD_ALERT = 21, TLS_RECORD_HANDSHAKE = 22, TLS_RECORD_DATA = 23 };

/* What both directions of a connection share. */
struct tls_suite {
    const EVP_CIPHER *cipher; /* an AEAD with a tag of 16 bytes and a nonce of 12 */
    const EVP_MD *digest;
};

/* Zeroed: none. */
struct tls_direction {
    EVP_CIPHER_CTX *cipher; /* owned */
    uint64_t sequence;      /* of the next record */
    uint8_t nonce[12];
    uint8_t secret_len;
    uint8_t secret[TLS_SECRET_MAX];
};

/* From a secret of digest's length on. False: no memory. */
bool tls_direction_init(struct tls_direction *direction, const struct tls_suite *suite,
                        const uint8_t *secret, bool seals) LS_NODISCARD;
void tls_direction_fini(struct tls_direction *direction);
/* The next generation of keys (RFC 8446, 7.2). False: no memory. */
bool tls_direction_update(struct tls_direction *direction, const struct tls_suite *suite,
                          bool seals) LS_NODISCARD;

/* Writes a record of at most TLS_RECORD_BYTES to out, which has room for TLS_RECORD_HEAD + 1 +
 * TLS_RECORD_TAG more. Returns its length; 0: OpenSSL failed. */
size_t tls_record_seal(struct tls_direction *direction, enum tls_record_type type,
                       struct ls_bytes plain, uint8_t *out) LS_NODISCARD;
/* Opens a whole record into out, which has room for all of it; *out_type and *out_len say what was
 * in it. False: it is not authentic, or empty; then the direction is as before. */
bool tls_record_open(struct tls_direction *direction, struct ls_bytes record, uint8_t *out,
                     size_t *out_len, unsigned *out_type) LS_NODISCARD;

#endif

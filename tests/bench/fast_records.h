/* tests/bench/fast_records.h - the fast server's records of TLS 1.3: behind the handshake, which is
 * OpenSSL's, without it, so that no client waits for the server. TLS_AES_128_GCM_SHA256 only, no
 * tickets, no updates of keys. */
#ifndef LS_TESTS_BENCH_FAST_RECORDS_H
#define LS_TESTS_BENCH_FAST_RECORDS_H

#include <openssl/ssl.h>

#include "agent/load/tls_records.h"

#define FAST_SECRET_BYTES 32

/* Zeroed: none. The app data of its SSL. */
struct fast_records {
    struct tls_direction in;
    struct tls_direction out;
    bool ready;
    unsigned char secrets[2][FAST_SECRET_BYTES];             /* the client's, ours */
    unsigned char part[TLS_RECORD_HEAD + TLS_RECORD_SEALED]; /* a record that goes on */
    size_t part_len;
};

/* Have the SSLs of ctx tell their secrets. */
void fast_records_watch(SSL_CTX *ctx);
/* The handshake is over; false: it cannot be. */
bool fast_records_begin(struct fast_records *records);
void fast_records_end(struct fast_records *records);

/* The next record's data to out, which has room for any; takes what it uses off in. 0: it has not
 * come yet; SIZE_MAX: the connection is over. */
size_t fast_records_open(struct fast_records *records, struct ls_bytes *in, unsigned char *out);

#endif

/* agent/load/tls.h - TLS of a client by OpenSSL, without I/O: records in, plaintext out, and back.
 *
 * One context per worker (or probe): the settings, the newest session for resumption, the sessions
 * themselves, which are used again by later connections. One thread at a time, nothing shared, no
 * lock of ours. OpenSSL allocates in every handshake, and a buffer each way when a session that has
 * rested goes on.
 *
 *     begin -> shake, take ... (is_secured) -> open, seal ... -> end
 */
#ifndef LS_AGENT_LOAD_TLS_H
#define LS_AGENT_LOAD_TLS_H

#include <stddef.h>

#include "agent/load/workload.h"
#include "common/err.h"

#define TLS_PLAIN_MAX  16384u /* bytes of one record */
#define TLS_OPEN_LEAST 16661u /* room for the largest record, its head and all */
#define TLS_SEAL_ROOM  512u   /* most that a record is longer than what it holds, and more */

struct tls_context;
struct tls_session;

enum tls_result {
    TLS_OK,     /* goes on */
    TLS_CLOSED, /* the peer has ended it in good order */
    TLS_FAILED  /* for good: tls_context_trouble() has the first failure of a context */
};

/* What the connections of a context were like so far. */
struct tls_stats {
    uint64_t full;       /* handshakes with certificates */
    uint64_t resumed;    /* without: by a session that an earlier connection had left */
    uint64_t own;        /* of both: went on without OpenSSL's records */
    const char *version; /* "TLSv1.3"; NULL: none yet, "mixed" */
    const char *cipher;  /* "TLS_AES_256_GCM_SHA384", likewise */
};

/* The settings' texts outlive it. LS_EINVAL: a setting, certificate or key that cannot be used,
 * diag says which; LS_ENOMEM. */
enum ls_err tls_context_create(const struct load_tls *settings, struct tls_context **out_context,
                               struct ls_diag *diag) LS_NODISCARD;
/* With all its sessions, which must have ended. NULL is fine. */
void tls_context_destroy(struct tls_context *context);
const struct tls_stats *tls_context_stats(const struct tls_context *context);
/* The first failure as a sentence without a subject: "does not speak TLS here: ..."; "" if there
 * was none. Returns out. */
const char *tls_context_trouble(const struct tls_context *context, char *out, size_t out_bytes);
/* The sessions to come carry many requests each: records of those that do will be made and read
 * without OpenSSL, which takes half the time. */
void tls_context_expect_many(struct tls_context *context);
/* A session before its handshake; NULL: no memory. Ended by tls_end(). */
struct tls_session *tls_begin(struct tls_context *context);
void tls_end(struct tls_session *session);

/* Input for the calls that follow, which use all of it: open() while has_more() says so. */
void tls_take(struct tls_session *session, struct ls_bytes in);
/* Begins the handshake or goes on with it. */
enum tls_result tls_shake(struct tls_session *session);
bool tls_is_secured(const struct tls_session *session);
/* True if that failed because the peer's certificate does not verify. */
bool tls_is_untrusted(const struct tls_session *session);
/* The peer hung up: what that means in this state. TLS_CLOSED only after its farewell. */
enum tls_result tls_hung_up(struct tls_session *session);

/* Plaintext of what was taken, as much as fits; cap is at least TLS_OPEN_LEAST. */
enum tls_result tls_open(struct tls_session *session, uint8_t *out, size_t cap, size_t *out_len);
/* The last tls_open() stopped for want of room. */
bool tls_has_more(const struct tls_session *session);
/* Moves what the handshake or a key update has to send to out. */
size_t tls_drain(struct tls_session *session, uint8_t *out, size_t cap);
bool tls_has_output(const struct tls_session *session);
/* Nothing is under way: gives back the buffers, 17 KB each way, unless half a record is in one. */
void tls_rest(struct tls_session *session);
/* One record of at most TLS_PLAIN_MAX bytes; cap is TLS_SEAL_ROOM more than len, or larger. Only
 * when there is nothing to drain. */
enum tls_result tls_seal(struct tls_session *session, struct ls_bytes plain, uint8_t *out,
                         size_t cap, size_t *out_len);

#endif

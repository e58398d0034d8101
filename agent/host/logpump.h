/* agent/host/logpump.h - takes what a target prints: the head into a file, the tail into memory.
 *
 * A thread of its own reads the pipe as fast as it fills, so that a target never waits for us,
 * however much it prints: beyond the limit bytes are counted and dropped.
 */
#ifndef LS_AGENT_HOST_LOGPUMP_H
#define LS_AGENT_HOST_LOGPUMP_H

#include <stdint.h>

#include "common/err.h"

struct host_logpump;

struct host_logpump_totals {
    uint64_t kept_bytes;    /* written to the file */
    uint64_t dropped_bytes; /* beyond the limit, or not written because the disk refused */
    int error;              /* errno value of the first write that failed; 0: none did */
};

/* Takes over file_fd, also when it fails; -1: none, the tail alone is kept. *out_write_fd is the
 * end to print into; the caller closes it. LS_EIO, LS_ENOMEM. */
enum ls_err host_logpump_create(int file_fd, uint64_t max_bytes, int *out_write_fd,
                                struct host_logpump **out_pump, struct ls_diag *diag) LS_NODISCARD;
/* Takes what is still in the pipe and ends the thread; does not wait for writers. NULL is fine. */
void host_logpump_destroy(struct host_logpump *pump);

/* Takes what has been printed up to now (any thread). */
void host_logpump_drain(struct host_logpump *pump);
/* The last bytes as text from the start of a line on, if one fits; control characters but line
 * ends become blanks. Returns its length. */
size_t host_logpump_tail(struct host_logpump *pump, char *out, size_t out_bytes);
void host_logpump_totals(struct host_logpump *pump, struct host_logpump_totals *out);

#endif

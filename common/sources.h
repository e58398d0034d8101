/* common/sources.h - the addresses that connections come from: "10.0.0.5", "fd00::5",
 * "10.0.0.0/26".
 *
 * A range is IPv4 and stands for its hosts: without the first and the last address, but for /31 and
 * /32. The order is that of the text; an address that occurs twice is one too many.
 */
#ifndef LS_COMMON_SOURCES_H
#define LS_COMMON_SOURCES_H

#include <stdint.h>
#include <sys/socket.h>

#include "common/err.h"

#define LS_SOURCES_MAX 4096u

struct ls_sources {
    struct sockaddr_storage *items; /* owned; port 0 */
    uint32_t count;
};

/* Adds what text stands for. family: AF_INET, AF_INET6, as the target's. LS_EINVAL: no such address
 * or range, of another family, or there already; LS_ERANGE: more than LS_SOURCES_MAX; LS_ENOMEM.
 * Start with a zeroed *sources and end with fini, whatever was returned. */
enum ls_err ls_sources_add(struct ls_sources *sources, const char *text, int family,
                           struct ls_diag *diag) LS_NODISCARD;
void ls_sources_fini(struct ls_sources *sources);

socklen_t ls_source_len(const struct sockaddr_storage *source);
/* "127.0.0.2"; out holds at least 48 bytes. Returns out. */
const char *ls_source_format(const struct sockaddr_storage *source, char *out, size_t out_bytes);

#endif

/* coordinator/result/sums.h - the list in SHA256SUMS, in the form of sha256sum(1). */
#ifndef LS_COORDINATOR_RESULT_SUMS_H
#define LS_COORDINATOR_RESULT_SUMS_H

#include <stdbool.h>

#include "common/attr.h"
#include "common/buf.h"
#include "common/digest.h"
#include "common/err.h"

#define COORD_SUMS_FILE      "SHA256SUMS"
#define COORD_SUMS_MAX_BYTES (16u << 20)

struct coord_sum {
    char *path; /* relative to the result folder; owned */
    char hex[LS_SHA256_HEX];
};

struct coord_sums {
    struct coord_sum *items; /* owned */
    size_t n;
};

void coord_sums_fini(struct coord_sums *sums);
/* Adds or replaces. False: out of memory. */
bool coord_sums_set(struct coord_sums *sums, const char *path,
                    const char hex[LS_SHA256_HEX]) LS_NODISCARD;
const char *coord_sums_find(const struct coord_sums *sums, const char *path); /* NULL: none */
/* Drops every path that begins with prefix. */
void coord_sums_drop(struct coord_sums *sums, const char *prefix);
void coord_sums_format(struct coord_sums *sums, struct ls_buf *out); /* sorted by path */

/* Untrusted text into an empty list. LS_EPROTO: not in this form, or a path that leaves the folder;
 * LS_ENOMEM. The list is then empty. */
enum ls_err coord_sums_parse(struct coord_sums *sums, struct ls_bytes text,
                             struct ls_diag *diag) LS_NODISCARD;
/* Reads DIR/SHA256SUMS. LS_ESTATE: there is none. */
enum ls_err coord_sums_read(struct coord_sums *sums, const char *dir,
                            struct ls_diag *diag) LS_NODISCARD;

#endif

/* common/cpuset.h - sets of CPUs as lists: "0-3,8". */
#ifndef LS_COMMON_CPUSET_H
#define LS_COMMON_CPUSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define LS_CPU_MAX 1024

struct ls_cpuset {
    uint64_t bits[LS_CPU_MAX / 64];
};

/* Takes the whole text; LS_EINVAL, LS_ERANGE (CPU number too large, 3-1). Empty text: empty set. */
enum ls_err ls_cpuset_parse(const char *text, struct ls_cpuset *out,
                            struct ls_diag *diag) LS_NODISCARD;
/* Shortest list; returns out. A list that does not fit ends in "..." in
 * place of whole items; out_bytes >= 4. */
const char *ls_cpuset_format(const struct ls_cpuset *set, char *out, size_t out_bytes);

void ls_cpuset_clear(struct ls_cpuset *set);
void ls_cpuset_add(struct ls_cpuset *set, unsigned cpu);
bool ls_cpuset_has(const struct ls_cpuset *set, unsigned cpu);
unsigned ls_cpuset_count(const struct ls_cpuset *set);
int ls_cpuset_nth(const struct ls_cpuset *set, unsigned n); /* -1 past the last */
bool ls_cpuset_intersects(const struct ls_cpuset *a, const struct ls_cpuset *b);
bool ls_cpuset_contains(const struct ls_cpuset *a, const struct ls_cpuset *b); /* b within a */
bool ls_cpuset_equal(const struct ls_cpuset *a, const struct ls_cpuset *b);

/* The calling thread's affinity (tid 0) or another's; set fails with LS_EIO and the reason. */
enum ls_err ls_cpuset_get_affinity(int tid, struct ls_cpuset *out,
                                   struct ls_diag *diag) LS_NODISCARD;
enum ls_err ls_cpuset_set_affinity(int tid, const struct ls_cpuset *set,
                                   struct ls_diag *diag) LS_NODISCARD;

#endif

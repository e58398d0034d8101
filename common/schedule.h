/* common/schedule.h - an arrival law: the instant of the k-th arrival of all workers together.
 *
 * A worker walks its own arrivals, every stride-th from first on; all workers together then make
 * the one schedule, whatever their number. Times are exact: no error adds up over k.
 */
#ifndef LS_COMMON_SCHEDULE_H
#define LS_COMMON_SCHEDULE_H

#include <stdint.h>

#include "common/err.h"

enum ls_law { LS_LAW_CONSTANT, LS_LAW_COUNT };

struct ls_schedule {
    enum ls_law law;
    double rate_per_s;
    int64_t start_ns;
    uint64_t k; /* of the next arrival */
    uint64_t stride;
};

/* LS_ERANGE unless rate_per_s is in (0, 1e9] and first < stride. */
enum ls_err ls_schedule_init(struct ls_schedule *schedule, enum ls_law law, double rate_per_s,
                             int64_t start_ns, uint64_t first, uint64_t stride,
                             struct ls_diag *diag) LS_NODISCARD;
int64_t ls_schedule_peek(const struct ls_schedule *schedule); /* instant of the next arrival */
void ls_schedule_advance(struct ls_schedule *schedule);
/* Arrivals of all workers in [from_ns, to_ns). */
uint64_t ls_schedule_count(enum ls_law law, double rate_per_s, int64_t start_ns, int64_t from_ns,
                           int64_t to_ns);

#endif

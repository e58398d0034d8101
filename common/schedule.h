/* common/schedule.h - an arrival law: the instant of the k-th arrival of all workers together.
 *
 * A worker walks its own arrivals, every stride-th from first on; all workers together then make
 * the one schedule, to the nanosecond, whatever their number and machine: nothing depends on who
 * asks for an arrival, or on a mathematical library. No error adds up over k.
 *
 * - Constant: arrival k is due at floor(k / rate).
 * - Pieces: a rate that is constant or changes evenly in each piece of time. Arrival k is due when
 *   the integral of the rate reaches k, rounded down, so that every span of time holds its integral
 *   of arrivals, up to one. Rates count in steps of 2^-30/s.
 * - Poisson: gaps are independent and exponential. u(0), u(1), ... are numbers in (0, 1], each made
 *   from seed and its own index alone. In groups of 16 arrivals, the j-th one is due -ln(u of the
 *   group's first .. u of the j-th, multiplied) / rate after the end of the group before. That is
 *   the sum of the gaps -ln(u) / rate, but passing over the arrivals of other workers costs a
 *   multiplication each and a logarithm for 16 of them. Sums count in steps of 2^-16 ns.
 */
#ifndef LS_COMMON_SCHEDULE_H
#define LS_COMMON_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

#include "common/attr.h"
#include "common/err.h"

enum ls_law { LS_LAW_CONSTANT, LS_LAW_POISSON, LS_LAW_PIECES, LS_LAW_COUNT };

/* From at_ns (since the schedule's start) to the next piece's; the last one lasts for ever. */
struct ls_rate_piece {
    int64_t at_ns;
    double from_per_s; /* 0: none come */
    double to_per_s;   /* at the end; of the last piece: the same as from_per_s */
    /* Filled in by ls_rate_pieces_init(). */
    ls_u128 before; /* arrivals until at_ns, in units of 2^-61 x 10^-9 */
    uint64_t from;  /* 2^-30/s */
    uint64_t to;
};

struct ls_arrivals {
    enum ls_law law;
    double rate_per_s;                  /* constant, Poisson */
    uint64_t seed;                      /* Poisson */
    const struct ls_rate_piece *pieces; /* pieces; initialised, and they outlive the schedule */
    size_t piece_count;
};

struct ls_schedule {
    const struct ls_arrivals *arrivals;
    int64_t start_ns;
    uint64_t k; /* of the next arrival */
    uint64_t stride;
    size_t piece; /* that of arrival k, or one before */
    struct {
        uint64_t stream; /* that the seed names */
        uint64_t k;      /* where the walk is */
        double product;  /* of its group so far */
        int64_t group;   /* end of the group before, in 2^-16 ns */
    } poisson;
};

/* LS_ERANGE unless the pieces begin at 0, follow each other within ten years, and have rates of 0
 * to 1e9 of which the last one does not change. */
enum ls_err ls_rate_pieces_init(struct ls_rate_piece *pieces, size_t count,
                                struct ls_diag *diag) LS_NODISCARD;

/* LS_ERANGE unless rates are in (0, 1e9], there are pieces, and first < stride. Borrows arrivals.
 */
enum ls_err ls_schedule_init(struct ls_schedule *schedule, const struct ls_arrivals *arrivals,
                             int64_t start_ns, uint64_t first, uint64_t stride,
                             struct ls_diag *diag) LS_NODISCARD;
/* Instant of the next arrival; INT64_MAX: there is none. */
int64_t ls_schedule_peek(struct ls_schedule *schedule);
void ls_schedule_advance(struct ls_schedule *schedule);
/* Arrivals of all workers in [from_ns, to_ns). Poisson: walks through all of them. */
uint64_t ls_schedule_count(const struct ls_arrivals *arrivals, int64_t start_ns, int64_t from_ns,
                           int64_t to_ns);

#endif

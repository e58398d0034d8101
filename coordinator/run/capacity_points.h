/* coordinator/run/capacity_points.h - what the probes of a search say, one by one and together: the
 * judging half of capacity.h, whose other half decides what to probe next. Pure. */
#ifndef LS_COORDINATOR_RUN_CAPACITY_POINTS_H
#define LS_COORDINATOR_RUN_CAPACITY_POINTS_H

#include "coordinator/run/capacity.h"
#include "coordinator/run/capacity_fit.h"

struct coord_tally {
    double requests;
    double breaking[COORD_CAPACITY_LIMITS_MAX];
    double dispersion[COORD_CAPACITY_LIMITS_MAX];
    /* Does the share go anywhere within the window? The Mann-Kendall test over its batches, and the
     * shares of its first and its last third. */
    double trend_p[COORD_CAPACITY_LIMITS_MAX];
    double first[COORD_CAPACITY_LIMITS_MAX];
    double last[COORD_CAPACITY_LIMITS_MAX];
};

/* Zeroed at first, but for what a search asks. Points and tallies are added by their owner. */
struct coord_points {
    struct coord_capacity_limit limits[COORD_CAPACITY_LIMITS_MAX];
    size_t limit_count;
    double precision;
    struct coord_capacity_point points[COORD_CAPACITY_PROBES_MAX];
    struct coord_tally tallies[COORD_CAPACITY_PROBES_MAX];
    size_t count;
    /* What they come to. */
    double dispersion[COORD_CAPACITY_LIMITS_MAX];       /* of all probes together ... */
    double dispersion_per_s[COORD_CAPACITY_LIMITS_MAX]; /* ... at this rate; 0: not seen yet */
    double holds;         /* the largest rate at which it held, below breaks; 0: none */
    double breaks;        /* the smallest rate at which it broke; INFINITY: none */
    double breaks_excess; /* by how much, of what is allowed: 1 is just met, 5 is that or more */
    double surely_holds;  /* the same, beyond the scatter of single probes */
    double surely_breaks;
    double long_holds; /* ... that one of the longest probes held at, likely beyond its scatter */
    bool fitted;
    struct coord_fit fit;
    uint32_t fit_limit;
    size_t fit_points;
    double drawn_low; /* 95 % of where it breaks, if each probe is a draw (capacity_draws.c) */
    double drawn_high;
};

#define COORD_CAPACITY_TAIL_RARE \
    5.0 /* requests beyond a limit that is just met: fewer tell nothing */

/* LS_EINVAL: more requests broke a limit than there were. */
enum ls_err coord_points_add_up(const struct coord_points *c,
                                const struct coord_capacity_seen *seen, struct coord_tally *out,
                                struct ls_diag *diag) LS_NODISCARD;
/* Judges all points anew: what one more shows of the scatter changes what the others are worth. */
void coord_points_judge(struct coord_points *c);
/* Did they hold in one probe at a rate at which, or above one at which, they broke in another? */
bool coord_points_contradict(const struct coord_points *c, double *out_held_per_s,
                             double *out_broke_per_s);
/* Did the limits hold, as it was seen? */
bool coord_points_held(const struct coord_points *c, size_t at);
/* The line alone, and from all points: those around an earlier crossing were the wrong ones. */
void coord_points_fit_anew(struct coord_points *c);

/* Without a line: the interval, which both what single probes are sure of and all of them as draws
 * have to be within. 0 and INFINITY: none. */
double coord_points_begin(const struct coord_points *c);
double coord_points_end(const struct coord_points *c);
double coord_points_half_width(const struct coord_points *c); /* of the line's interval; a share */
bool coord_points_narrow(const struct coord_points *c); /* is the answer as precise as asked? */
/* The best rate to stand for: a little below the crossing, where the limits hold. */
double coord_points_candidate(const struct coord_points *c);
/* The largest rate below that one at which the limits were seen to hold; 0: none. */
double coord_points_held_below(const struct coord_points *c, double rate_per_s);
/* Did it surely hold at a rate and later, at no higher one, surely not (worse), or the other way
 * round? The last such pair. */
bool coord_points_changed(const struct coord_points *c, bool *out_worse, double *out_held_per_s,
                          double *out_broke_per_s);
/* Did the server change while this was measured, by more than half of what is allowed? */
bool coord_points_drifts(const struct coord_points *c, size_t at);
/* Did it get better within its probes, again and again, as one does that is started for each of
 * them and warms up for longer than is waited? The shares of what was near its limit, in the first
 * thirds of the windows and in the last. */
bool coord_points_warms_up(const struct coord_points *c, uint32_t limit, double *out_first,
                           double *out_last);
/* Windows of most_ns are too short to see a limit as rare as one of these at that rate: *out_ns is
 * what they would have to be, and *out_limit whose. False: they are long enough. */
bool coord_points_too_rare(const struct coord_points *c, double rate_per_s, int64_t most_ns,
                           int64_t *out_ns, uint32_t *out_limit);
/* Whose limit most of the probes met that broke one; the latest one's, if they are as many. */
enum coord_limited_by coord_points_limited_by(const struct coord_points *c);
/* Near enough to its limits to have broken some. */
bool coord_points_some_broke(const struct coord_points *c, size_t at);
/* Do the limits hold, as far as one run can tell? Where a line says that they should, one that is
 * just met is seen as broken one time in twenty; without a line, what was seen is all there is. */
bool coord_points_within(const struct coord_points *c, size_t at);

#endif

/* coordinator/run/merge_internal.h - shared by merge.c and merge_trial.c, by nobody else. */
#ifndef LS_COORDINATOR_RUN_MERGE_INTERNAL_H
#define LS_COORDINATOR_RUN_MERGE_INTERNAL_H

#include "common/hist_sparse.h"
#include "common/series.h"
#include "coordinator/result/store.h"
#include "coordinator/run/merge.h"

/* A histogram of each series; has: it was reported, if only empty. */
struct merge_hists {
    struct ls_hist *of[LS_SERIES_COUNT]; /* owned */
    bool has[LS_SERIES_COUNT];
};

struct merge_report {
    struct ls_hist_sparse of[LS_SERIES_COUNT];
    bool has[LS_SERIES_COUNT];
};

/* What a client's intervals add up to. */
struct merge_totals {
    Ls__Requests warmup;
    Ls__Requests measure;
    uint64_t ok_in_window;
    uint64_t bytes_in;
    uint64_t bytes_out;
    int64_t in_flight_ns;
    Ls__Messages messages;
    bool has_messages;
    uint32_t reports;
    uint32_t merged;
};

/* One of the server's samples, on our clock. */
struct merge_sample {
    int64_t at_ns;
    uint32_t edge;
    Ls__Sample usage;
    uint64_t rss_peak_bytes;
    uint64_t listen_overflows;
    uint64_t tcp_retransmits;
    int64_t cpus_busy_ns;
    int64_t cpus_steal_ns;
};

struct merge_agent {
    char *name; /* owned */
    Ls__Role role;
    uint32_t share;
    uint32_t place; /* of a client among the clients, from 1 */
    bool lost;
    Ls__PhaseReport *ready; /* owned copies of what was reported, NULL until then */

    /* client */
    struct ls_hist_narrow *hists[LS_SERIES_COUNT]; /* owned; NULL: not reported */
    struct merge_totals sums;
    struct coord_merge_now now; /* as of its newest interval */
    uint32_t next_index;        /* the first interval that it has not delivered */
    struct coord_store_hlog *log;
    Ls__ClientReport *final;
    struct coord_merge_clock final_clock;
    struct coord_merge_clock start_clock;
    bool start_known;

    /* server */
    Ls__TargetUp *up;
    Ls__ServerReport *down;
    struct merge_sample *samples; /* owned */
    uint32_t sample_count;
};

/* One interval of all clients in the making. */
struct merge_slot {
    struct ls_hist_narrow *sums[LS_SERIES_COUNT]; /* owned; NULL: never reported in this place */
    bool has[LS_SERIES_COUNT];                    /* reported, if only empty */
    int64_t length_ns;
    bool used;
};

/* The line of coarse.hlog in the making. */
struct merge_coarse {
    struct coord_store_hlog *log; /* NULL: the trial is not to be so long */
    struct ls_hist *sum;          /* owned */
    uint32_t every;               /* intervals in a line */
    uint32_t taken;               /* of them, in this one */
    bool begun;                   /* something is in it */
    int64_t start_ns;             /* since the start of the load */
    int64_t end_ns;
};

/* What stays of an interval: a line of the time series. */
struct merge_point {
    bool used;
    int64_t length_ns;
    uint64_t warmup_ok;
    uint64_t warmup_errors;
    uint64_t scheduled;
    uint64_t ok;
    uint64_t errors;
    int64_t p50_ns;
    int64_t p99_ns;
    int64_t max_ns;
    uint64_t slower[COORD_MERGE_LIMITS_MAX]; /* than each of the limits */
};

struct coord_merge {
    struct coord_merge_options options; /* agents is not kept */
    struct merge_agent *agents;         /* owned */
    uint32_t agent_count;
    uint32_t index_end; /* no interval has this index or a higher one */
    bool armed;
    bool started; /* an interval was taken */
    int64_t start_ns;
    int64_t start_wall_ns;

    int64_t limits_ns[COORD_MERGE_LIMITS_MAX];
    struct merge_report at_hand;
    struct merge_slot slots[COORD_MERGE_WINDOW];
    uint32_t base;    /* the interval of the oldest slot; interval i is in slot i % WINDOW */
    uint32_t waiting; /* clients that are to deliver interval waiting_base, when last counted */
    uint32_t waiting_base;
    struct merge_point *points; /* owned; by index */
    uint32_t point_count;
    struct merge_hists leaving; /* the interval that leaves the window */
    int64_t latest; /* index of the latest complete interval that is not empty, -1: none */
    struct coord_store_hlog *log;
    struct merge_coarse coarse;
    struct coord_heat_rows heat_rows;
    uint64_t heat[COORD_HEAT_ROWS]; /* that nobody has taken yet */
    bool has_heat;

    struct merge_hists total; /* made by finish */
    struct ls_hist *wide;     /* owned; of the client and series that finish is at */
    struct coord_books books;
};

/* Writes out every interval that is still in the window. */
enum ls_err coord_merge_flush(struct coord_merge *merge, struct ls_diag *diag) LS_NODISCARD;
/* merge_now.c: what a client's report, which is at hand, says of it. */
void coord_merge_note_now(struct coord_merge *merge, struct merge_agent *agent,
                          const Ls__IntervalReport *report);
/* merge_coarse.c: once the start is agreed; each interval as it leaves the window, and what came
 * behind it; what is left when all have. */
enum ls_err coord_merge_coarse_begin(struct coord_merge *merge, struct ls_diag *diag) LS_NODISCARD;
enum ls_err coord_merge_coarse_add(struct coord_merge *merge, int64_t start_ns, int64_t length_ns,
                                   const struct ls_hist *hist, struct ls_diag *diag) LS_NODISCARD;
void coord_merge_coarse_late(struct coord_merge *merge, int64_t start_ns, int64_t length_ns,
                             const struct ls_hist_sparse *hist);
enum ls_err coord_merge_coarse_end(struct coord_merge *merge, struct ls_diag *diag) LS_NODISCARD;
/* Raw tables of the trial: what an interval's report said, as it came; the server's samples, once
 * the window's start_ns is known. */
enum ls_err coord_merge_keep_interval(const struct coord_merge *merge,
                                      const struct merge_agent *agent, int64_t start_ns,
                                      const Ls__IntervalReport *report,
                                      struct ls_diag *diag) LS_NODISCARD;
enum ls_err coord_merge_keep_samples(const struct coord_merge *merge,
                                     const struct merge_agent *agent, int64_t window_ns,
                                     struct ls_diag *diag) LS_NODISCARD;
/* An agent's instant on our clock; false if that is no sensible number. */
bool coord_merge_to_ours(const struct coord_merge_clock *clock, int64_t at_ns, int64_t *out_ns);
/* The series that latencies are judged by. */
enum ls_series coord_merge_primary(const struct coord_merge *merge);

#endif

/* tests/support/load_run.h - runs an agent_load as its control thread would, and adds up whatever
 * it reports. Every check inside fails the test. */
#ifndef LS_TESTS_SUPPORT_LOAD_RUN_H
#define LS_TESTS_SUPPORT_LOAD_RUN_H

#include "agent/load/load.h"

#define LOAD_RUN_WORKERS 8

struct load_run {
    struct agent_load *load; /* owned */
    int wake_fd;             /* owned */
    struct load_window window;

    unsigned seen[LOAD_EVENT_DONE + 1]; /* events, by kind */
    struct load_event last;             /* not of an interval */
    struct load_totals totals;          /* once LOAD_EVENT_DONE was seen */

    uint32_t next_index; /* intervals must follow each other without a gap */
    uint32_t merged;
    struct load_counts warmup; /* the rest: sums over the intervals */
    struct load_counts measure;
    uint64_t ok_in_window;
    uint64_t bytes_in;
    uint64_t bytes_out;
    int64_t in_flight_ns;
    struct load_health health[LOAD_RUN_WORKERS];
    struct ls_hist *series[LS_SERIES_COUNT]; /* owned */
};

/* A workload for the null driver over the null link: 4 connections, one worker of one. */
struct load_workload load_run_null_workload(void);
/* Starts in lead_ns from now; intervals of 20 ms, a drain of 5 s at most. */
struct load_window load_run_window(int64_t lead_ns, int64_t warmup_ns, int64_t measure_ns);

void load_run_init(struct load_run *run, const struct load_workload *workload);
void load_run_fini(struct load_run *run);

void load_run_arm(struct load_run *run, const struct load_window *window);
/* The next event, within 30 s. */
enum load_event_kind load_run_next(struct load_run *run);
/* Events until one of that kind has been seen. */
void load_run_until(struct load_run *run, enum load_event_kind kind);
/* Arms, again with a later start if that was too late, until load has started. */
void load_run_to_start(struct load_run *run, const struct load_window *window);
/* Follows to the end as well, and checks that the totals are the sums of the intervals and the
 * books balance. */
void load_run_all(struct load_run *run, const struct load_window *window);
void load_run_check_totals(const struct load_run *run);

#endif

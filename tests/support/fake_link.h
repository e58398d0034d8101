/* tests/support/fake_link.h - an engine on invented time, over links whose other end is the test.
 */
#ifndef LS_TESTS_SUPPORT_FAKE_LINK_H
#define LS_TESTS_SUPPORT_FAKE_LINK_H

#include "agent/load/engine.h"

#define FAKE_LINKS 256

struct fake_link { /* the state of one link, as the test sees it */
    void *ctx;
    unsigned number; /* in the order of the first open */
    bool known;
    bool is_open;
    bool connecting;
    unsigned opens;
    uint64_t got;      /* bytes that were sent over it, in its whole life */
    uint64_t answered; /* since it was opened; the test may read, fake_answer() writes */
    uint64_t got_before;
};

/* One engine and all around it. The clock stands still unless the test moves it. */
struct fake_run {
    struct load_workload workload;
    struct load_window window;
    struct ls_rate_piece pieces[3]; /* for LOAD_LAW_PIECES */
    struct agent_driver driver;     /* the null driver; a test may replace parts before create() */
    struct agent_recorder *recorder;
    struct agent_engine *engine;
    struct agent_link_env env;
    struct fake_link *links[FAKE_LINKS];
    unsigned link_count;
    unsigned open_now;
    unsigned most_connecting;
    bool hold_opens;  /* opens stay pending until fake_opened() */
    int open_error;   /* what opens end with at once */
    bool full;        /* sockets take nothing */
    int64_t stamp_ns; /* of what is answered: wall time of its receipt; 0: unknown */
    unsigned handed;
    struct agent_slice sum; /* of what was handed over */
    uint32_t slices;
};

extern int64_t fake_now_ns;
extern int64_t fake_wall_ahead_ns; /* of the other clock */
extern int64_t fake_send_ns;       /* how long a flush takes */

/* The null driver, start at 1 s, no warm-up, 1 s to measure, 1 s to drain, 4 connections. */
void fake_init(struct fake_run *run);
/* Open loop; rates and pieces are set, so that the law may still become another one. */
void fake_constant(struct fake_run *run, double rate_per_s);
void fake_create(struct fake_run *run); /* engine and recorder, from workload and window */
void fake_fini(struct fake_run *run);

void fake_tick(struct fake_run *run, int64_t now_ns);
/* Ticks at each instant that the engine asks for, up to and including until_ns. */
void fake_walk(struct fake_run *run, int64_t until_ns);
void fake_start(struct fake_run *run); /* opens everything, then starts at the window's start */
void fake_opened(struct fake_run *run, unsigned link, int error);
/* n bytes arrive: with the null driver, n answers. */
void fake_answer(struct fake_run *run, unsigned link, size_t n);
/* Bytes that are not counted as answers: for drivers other than null. */
void fake_feed(struct fake_run *run, unsigned link, const char *text);
uint64_t fake_unanswered(const struct fake_run *run, unsigned link);
void fake_end(struct fake_run *run, unsigned link, enum load_outcome how);
void fake_drain(struct fake_run *run, unsigned link); /* a full socket has room again */

/* Takes everything handed over into run->sum. */
void fake_collect(struct fake_run *run);
struct load_counts *fake_warmup(struct fake_run *run);
struct load_counts *fake_measure(struct fake_run *run);
const struct load_connections *fake_connections(const struct fake_run *run);
/* Fails unless the load is over, all of it was handed over, and its books balance. */
void fake_check_over(struct fake_run *run);

#endif

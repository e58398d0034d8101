/* agent/host/series_state.h - the inside of a series, shared by series.c (which run begins when),
 * series_output.c (what runs print, and their memory at the marker) and series_end.c (how each
 * ended). Fields belong to the thread of the target that it stands in unless they say so. */
#ifndef LS_AGENT_HOST_SERIES_STATE_H
#define LS_AGENT_HOST_SERIES_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "agent/host/facts.h"
#include "agent/host/output.h"
#include "agent/host/series.h"
#include "agent/host/spawner.h"
#include "agent/host/target_state.h"

struct host_slot {
    uint32_t index; /* of the run; 0: free */
    bool warmup;
    int read_fd;                /* a pipe's, where a marker is awaited; else a file in memory */
    off_t at;                   /* what has been read of the file */
    off_t emptied;              /* and given back */
    struct host_output *output; /* owned */
    pid_t pid;                  /* where it is awaited for the marker */
    uint64_t marker_rss_bytes;
    int64_t give_up_ns;
};

struct host_series {
    struct host_series_spec spec;
    Ls__Process *process; /* owned, as are the following */
    char *spawner_path;
    struct host_expectation *expectation;
    struct host_spawner *spawner;
    struct host_slot *slots; /* process->concurrency of them */
    char **argv;             /* the list alone; the words are the target's */
    int error_fd;
    int null_fd;
    int input_fd; /* memfd; -1: none */
    uint32_t active;
    uint32_t started;
    uint32_t warmups_left; /* to be ended */
    uint32_t refused;
    int64_t first_ns;   /* begin of the first run */
    int64_t measure_ns; /* begin of the first measured one; 0: not yet */
    struct host_counters before;
    uint64_t oom_kills; /* of this machine, so far */
    uint64_t spawner_peak_bytes;
    bool spawner_up;
    bool has_figures; /* a run has printed metrics */
    bool loud;        /* a run printed much since the last look */
    int64_t woken_ns;

    pthread_mutex_t lock; /* of the following */
    Ls__ProcessRun **done;
    size_t done_count;
    size_t done_room;
    size_t done_taken;
    Ls__ProcessTotals totals;
};

/* Where a run is to print: fds[1] is its end, fds[0] ours or -1. A pipe for who is awaited at a
 * marker, a file for all others. False: errno says why. */
bool host_series_open_output(const struct host_series *s, struct host_target *t, bool warmup,
                             int fds[2]);
/* Reads what all runs have printed, but not for long; s->loud: looks have to come more often. */
void host_series_look(struct host_series *s);
/* What one that has ended has printed, to the end. */
void host_series_drain(const struct host_series *s, struct host_slot *slot);
/* The run's resident memory, once: if it has printed the marker, and its process is known. */
void host_series_note_marker(struct host_slot *slot);
void host_series_free_slot(struct host_slot *slot); /* of a free one, nothing */

/* Kills for want of memory, so far: of the target's group, or of this machine. */
uint64_t host_series_oom_kills(struct host_target *t);
/* A run has ended: reads the rest, judges it and hands it over; its slot is free then. LS_ENOMEM.
 */
enum ls_err host_series_end(struct host_series *s, struct host_target *t, struct host_slot *slot,
                            const struct spawner_report *report) LS_NODISCARD;

#endif

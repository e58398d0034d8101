/* agent/load/recorder.h - what one worker measured, slice by slice, handed to the control thread.
 *
 * Two sets of histograms and counters. The worker fills one; at a slice's end it hands it over and
 * goes on with the other. If the control thread has not given the other one back by then, the
 * worker keeps filling the same set over the next slice too: coarser in time, never lost. The
 * exchange is one pointer, without locks; nothing here allocates after create().
 *
 * Response and service time hold the requests of the measure window that ended as LOAD_OK or
 * LOAD_TIMEOUT (with at least the time waited): a refused or broken answer is no latency of the
 * service asked for, and is counted by its outcome instead. First byte holds those of them whose
 * answer began (with a 1xx, if there was one). Send lag holds every one sent, loop lag every one
 * that an open loop scheduled; a wave, which takes its time to send, is not late. Read delay and
 * kernel time hold those whose last byte the kernel has stamped. Connect and handshake
 * time hold the connections opened before the load, told with the first slice of the measure
 * window, and those opened in that window; what the warm-up opens is left out.
 */
#ifndef LS_AGENT_LOAD_RECORDER_H
#define LS_AGENT_LOAD_RECORDER_H

#include <stdatomic.h>

#include "agent/load/load.h"

enum agent_part { AGENT_WARMUP, AGENT_MEASURE, AGENT_PART_COUNT };

struct agent_slice {
    uint32_t index;
    uint32_t merged; /* covers index .. index + merged */
    int64_t end_ns;  /* of what it covers; of the last one: when the worker ended */
    struct load_counts counts[AGENT_PART_COUNT];
    /* Of the whole load, by when they came: AGENT_MEASURE is in the window, the other out of it. */
    struct load_messages messages[AGENT_PART_COUNT];
    uint64_t ok_in_window;
    uint64_t bytes_in;
    uint64_t bytes_out;
    int64_t in_flight_ns;
    struct load_health health;
    struct ls_hist *series[LS_SERIES_COUNT]; /* owned */
};

struct agent_recorder {          /* open to the worker's hot path */
    struct agent_slice *current; /* the worker's */
    int64_t next_ns;             /* end of the slice under way: roll at or after it */

    int64_t start_ns;
    int64_t interval_ns;
    struct agent_slice slices[2];
    _Atomic(struct agent_slice *) handed; /* NULL: the other set is free */
    atomic_bool finished;                 /* current is the last one, and the control thread's */
    bool last_taken;                      /* control thread's */
};

/* LS_ENOMEM. Slice i is [start_ns + i x interval_ns, ...). On LS_OK the caller owns it. */
enum ls_err agent_recorder_create(int64_t start_ns, int64_t interval_ns,
                                  struct agent_recorder **out_recorder) LS_NODISCARD;
void agent_recorder_destroy(struct agent_recorder *recorder); /* NULL is fine */

/* Worker. At or after next_ns: true if a set was handed over. */
bool agent_recorder_roll(struct agent_recorder *recorder, int64_t now_ns);
/* Worker, once: hands over the last set; the worker must not touch the recorder afterwards. */
void agent_recorder_finish(struct agent_recorder *recorder, int64_t now_ns);

/* Control. The set that was handed over, NULL if there is none; it stays until release(). */
const struct agent_slice *agent_recorder_peek(struct agent_recorder *recorder);
void agent_recorder_release(struct agent_recorder *recorder);
/* Control. Finished, and everything was released. */
bool agent_recorder_is_drained(struct agent_recorder *recorder);

/* dst += src, without index, merged and end. */
void agent_slice_add(struct agent_slice *dst, const struct agent_slice *src);
void agent_slice_reset(struct agent_slice *slice); /* keeps the histograms, emptied */
enum ls_err agent_slice_init(struct agent_slice *slice) LS_NODISCARD; /* LS_ENOMEM */
void agent_slice_fini(struct agent_slice *slice);

#endif

/* common/phase.h - the legal moves of an agent through a trial, for both programs.
 *
 * The moves are data, so agent and coordinator cannot disagree. A missing row is LS_ESTATE.
 */
#ifndef LS_COMMON_PHASE_H
#define LS_COMMON_PHASE_H

#include "common/err.h"

enum ls_phase { /* same order and numbers as ls.AgentPhase in wire.proto */
                LS_PHASE_IDLE,
                LS_PHASE_PREPARE, /* server: the target is starting; client: the preflight runs */
                LS_PHASE_READY,   /* target answers; preflight passed */
                LS_PHASE_ARM,     /* start agreed; connections are opening */
                LS_PHASE_ARMED,   /* all set, waiting for the instant */
                LS_PHASE_WARMUP,
                LS_PHASE_MEASURE,
                LS_PHASE_DRAIN,   /* in-flight requests end or time out */
                LS_PHASE_COLLECT, /* reports go out; the server's target is stopped */
                LS_PHASE_COUNT
};

enum ls_event {
    LS_ON_PREPARE,
    LS_ON_READY,
    LS_ON_FAIL, /* preparing failed; the report says why */
    LS_ON_ARM,
    LS_ON_ARMED,
    LS_ON_LATE,   /* cannot make the instant: never start late */
    LS_ON_DISARM, /* somebody else could not */
    LS_ON_START,
    LS_ON_MEASURE,
    LS_ON_STOP,
    LS_ON_DRAINED,
    LS_ON_COLLECTED, /* everything sent and acknowledged */
    LS_ON_ABORT,
    LS_EVENT_COUNT
};

/* LS_ESTATE if there is no such move; *out_to is then untouched. */
enum ls_err ls_phase_next(enum ls_phase from, enum ls_event on, enum ls_phase *out_to) LS_NODISCARD;

/* The event that leads from one phase to the other; LS_ESTATE if there is none. */
enum ls_err ls_phase_event(enum ls_phase from, enum ls_phase to,
                           enum ls_event *out_on) LS_NODISCARD;

const char *ls_phase_name(enum ls_phase phase); /* "warmup"; "?" if out of range */
const char *ls_event_name(enum ls_event on);

#endif

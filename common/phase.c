#include "common/phase.h"

#include <assert.h>

/* Where two events lead from one phase to the same other, the more telling one stands first: it is
 * what ls_phase_event answers. */
static const struct {
    enum ls_phase from;
    enum ls_event on;
    enum ls_phase to;
} moves[] = {
    { LS_PHASE_IDLE, LS_ON_PREPARE, LS_PHASE_PREPARE },
    { LS_PHASE_PREPARE, LS_ON_READY, LS_PHASE_READY },
    { LS_PHASE_READY, LS_ON_ARM, LS_PHASE_ARM },
    { LS_PHASE_ARM, LS_ON_ARMED, LS_PHASE_ARMED },
    { LS_PHASE_ARM, LS_ON_LATE, LS_PHASE_READY }, /* never start late: arm again */
    { LS_PHASE_ARM, LS_ON_DISARM, LS_PHASE_READY },
    { LS_PHASE_ARMED, LS_ON_LATE, LS_PHASE_READY },
    { LS_PHASE_ARMED, LS_ON_DISARM, LS_PHASE_READY },
    { LS_PHASE_ARMED, LS_ON_START, LS_PHASE_WARMUP },
    { LS_PHASE_WARMUP, LS_ON_MEASURE, LS_PHASE_MEASURE },
    { LS_PHASE_MEASURE, LS_ON_STOP, LS_PHASE_DRAIN },
    { LS_PHASE_DRAIN, LS_ON_DRAINED, LS_PHASE_COLLECT },
    { LS_PHASE_READY, LS_ON_DRAINED, LS_PHASE_COLLECT }, /* a server collected without load */
    { LS_PHASE_COLLECT, LS_ON_COLLECTED, LS_PHASE_IDLE },

    /* The target, or what an agent needs, dies. */
    { LS_PHASE_PREPARE, LS_ON_FAIL, LS_PHASE_COLLECT },
    { LS_PHASE_READY, LS_ON_FAIL, LS_PHASE_COLLECT },
    { LS_PHASE_ARM, LS_ON_FAIL, LS_PHASE_COLLECT },
    { LS_PHASE_ARMED, LS_ON_FAIL, LS_PHASE_COLLECT },
    { LS_PHASE_WARMUP, LS_ON_FAIL, LS_PHASE_COLLECT },
    { LS_PHASE_MEASURE, LS_ON_FAIL, LS_PHASE_COLLECT },
    { LS_PHASE_DRAIN, LS_ON_FAIL, LS_PHASE_COLLECT },

    { LS_PHASE_PREPARE, LS_ON_ABORT, LS_PHASE_COLLECT },
    { LS_PHASE_READY, LS_ON_ABORT, LS_PHASE_COLLECT },
    { LS_PHASE_ARM, LS_ON_ABORT, LS_PHASE_COLLECT },
    { LS_PHASE_ARMED, LS_ON_ABORT, LS_PHASE_COLLECT },
    { LS_PHASE_WARMUP, LS_ON_ABORT, LS_PHASE_COLLECT },
    { LS_PHASE_MEASURE, LS_ON_ABORT, LS_PHASE_COLLECT },
    { LS_PHASE_DRAIN, LS_ON_ABORT, LS_PHASE_COLLECT },
};

static const char *const phase_names[] = {
    "idle", "prepare", "ready", "arm", "armed", "warmup", "measure", "drain", "collect",
};
static_assert(LS_ARRAY_LEN(phase_names) == LS_PHASE_COUNT, "a name for each phase");

static const char *const event_names[] = {
    "prepare", "ready",   "fail", "arm",     "armed",     "late",  "disarm",
    "start",   "measure", "stop", "drained", "collected", "abort",
};
static_assert(LS_ARRAY_LEN(event_names) == LS_EVENT_COUNT, "a name for each event");

enum ls_err ls_phase_next(enum ls_phase from, enum ls_event on, enum ls_phase *out_to)
{
    for (size_t i = 0; i < LS_ARRAY_LEN(moves); i++) {
        if (moves[i].from == from && moves[i].on == on) {
            *out_to = moves[i].to;
            return LS_OK;
        }
    }
    return LS_ESTATE;
}

enum ls_err ls_phase_event(enum ls_phase from, enum ls_phase to, enum ls_event *out_on)
{
    for (size_t i = 0; i < LS_ARRAY_LEN(moves); i++) {
        if (moves[i].from == from && moves[i].to == to) {
            *out_on = moves[i].on;
            return LS_OK;
        }
    }
    return LS_ESTATE;
}

const char *ls_phase_name(enum ls_phase phase)
{
    return (unsigned)phase < LS_PHASE_COUNT ? phase_names[phase] : "?";
}

const char *ls_event_name(enum ls_event on)
{
    return (unsigned)on < LS_EVENT_COUNT ? event_names[on] : "?";
}

/* agent/host/spawner_wire.h - what agent and spawner say to each other: one packet per message. The
 * agent carries the spawner's binary in itself, so both are of one build; each length is checked
 * nevertheless, for the spawner's descendants could write to what it writes to. */
#ifndef LS_AGENT_HOST_SPAWNER_WIRE_H
#define LS_AGENT_HOST_SPAWNER_WIRE_H

#include <stdint.h>

#define SPAWNER_MAGIC UINT32_C(0x4c535350) /* "LSSP" */
/* Below the smallest default of net.core.wmem_default, so that a packet always fits. */
#define SPAWNER_PACKET_MAX (128u << 10)
#define SPAWNER_RUNS_MAX   256u /* at once */

/* An order to run: followed by text_bytes of NUL-terminated strings, path, argv, environment, and
 * carries the
 * descriptors that become 0, 1 and 2. KILL ends the run of that id with all it has started. */
struct spawner_order {
    uint32_t magic;
    uint32_t id;
    uint32_t tell_start; /* STARTED is wanted; it costs the run some microseconds */
    int64_t timeout_ns;  /* then it is killed; 0: never */
    uint32_t argc;
    uint32_t envc;
    uint32_t text_bytes;
};

enum spawner_report_kind { SPAWNER_UP = 1, SPAWNER_STARTED, SPAWNER_ENDED };

struct spawner_report {
    uint32_t magic;
    uint32_t kind;
    uint32_t id;
    int32_t pid;
    int32_t error;      /* ENDED: errno value, it was not even started */
    int32_t status;     /* ENDED: as waitpid() gives it */
    uint32_t timed_out; /* ENDED: killed by the spawner */
    uint32_t left_over; /* ENDED: processes that it had left behind, killed */
    int64_t begin_ns;   /* ENDED: just before it was started */
    int64_t wall_ns;    /* from then until its end was known */
    int64_t user_ns;    /* of it and all that it has waited for */
    int64_t system_ns;
    uint64_t
        peak_bytes; /* of the largest of these; UP: the spawner's own, below which none shows */
};

#endif

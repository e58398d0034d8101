/* agent/host/supervisor_wire.h - what agent and supervisor say to each other: one packet per
 * message, both ends the same binary, each length checked nevertheless. */
#ifndef LS_AGENT_HOST_SUPERVISOR_WIRE_H
#define LS_AGENT_HOST_SUPERVISOR_WIRE_H

#include "agent/host/supervisor.h"

#define SUPERVISOR_ARG        "--ls-supervise"
#define SUPERVISOR_CONTROL_FD 3
#define SUPERVISOR_MAGIC      UINT32_C(0x4c535356) /* "LSSV" */
/* Below the smallest default of net.core.wmem_default, so that a packet always fits. */
#define SUPERVISOR_PACKET_MAX (128u << 10)

enum supervisor_order_kind { SUPERVISOR_START = 1, SUPERVISOR_STOP };

/* START is followed by text_bytes of NUL-terminated strings: path, dir, folders of the control
 * group, argv, environment; and carries the output's descriptor. */
struct supervisor_order {
    uint32_t magic;
    uint32_t kind;
    int32_t signal;
    uint32_t oneshot;
    uint32_t own_pids;
    int64_t grace_ns;
    uint32_t has_cpus;
    uint32_t argc;
    uint32_t envc;
    uint32_t instance;
    uint32_t group_count;
    uint32_t group_kills; /* the first of them is one to kill by */
    uint32_t text_bytes;
    struct ls_cpuset cpus;
    struct host_confine confine;
};

struct supervisor_report {
    uint32_t magic;
    struct host_supervisor_event event;
};

/* The supervisor's life; returns its exit status. */
int host_supervisor_serve(int control_fd);

#endif

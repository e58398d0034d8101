/* agent/host/facts.h - what this machine is, and host-wide counters. */
#ifndef LS_AGENT_HOST_FACTS_H
#define LS_AGENT_HOST_FACTS_H

#include <sys/types.h>

#include "common/err.h"
#include "proto/result.pb-c.h"

/* Takes some milliseconds (hwloc). An unlimited limit is 2^53 - 1, the largest that JSON carries.
 * LS_ENOMEM, with facts as far as it was filled. Fills an initialised message; strings are
 * malloc'ed so that ls__facts__free_unpacked or protobuf_c_message_free_unpacked(.., NULL) frees
 * them. What cannot be known is "unknown" or 0. */
enum ls_err host_facts_read(Ls__Facts *facts, struct ls_diag *diag) LS_NODISCARD;

/* All CPUs' frequency governor if they agree, "mixed: " and two that differ, "unknown"; out. */
const char *host_governor_read(char *out, size_t out_bytes);

struct host_counters {
    uint64_t listen_overflows; /* TcpExt ListenOverflows of /proc/net/netstat; each is one of
                                  ListenDrops, too */
    uint64_t tcp_retransmits;  /* Tcp RetransSegs of /proc/net/snmp */
    int64_t cpus_busy_ns;      /* of the given CPUs, everybody's, since boot (/proc/stat) */
    int64_t cpus_steal_ns;
};

/* cpus: a list; "" or NULL: all. network_pid: a process whose network is meant; 0: this one's.
 * Counters that the kernel does not show are 0. */
void host_counters_read(const char *cpus, pid_t network_pid, struct host_counters *out);

#endif

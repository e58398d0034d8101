/* agent/client_host.h - what a client's host and memory have to do with its load: what others used
 * of its CPUs between the edges of the measure window, and what a connection costs. */
#ifndef LS_AGENT_CLIENT_HOST_H
#define LS_AGENT_CLIENT_HOST_H

#include <stdbool.h>

#include "agent/host/facts.h"
#include "proto/wire.pb-c.h"

struct client_host {
    pid_t network_pid; /* whose network it loads in; 0: this process's */
    bool begun;
    bool ended;
    int64_t at_ns; /* of the first reading; then how long it was to the second */
    int64_t own_ns;
    struct host_counters counters;
    char governor_before[64];
    char governor_after[64];
    uint64_t rss_before_bytes;
    uint64_t rss_open_bytes;
};

/* Before the first connection is opened; forgets what was. */
void client_host_arm(struct client_host *host, pid_t network_pid);
void client_host_armed(struct client_host *host); /* all are open */
/* cpus: a list; "": all. The second reading of several counts only once. */
void client_host_begin(struct client_host *host, const char *cpus);
void client_host_end(struct client_host *host, const char *cpus);

/* False: the window has not been seen from edge to edge. out borrows from host. */
bool client_host_use(const struct client_host *host, Ls__HostUse *out);

#endif

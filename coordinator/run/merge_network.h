/* coordinator/run/merge_network.h - the clients' ways to the target, one by one and together. */
#ifndef LS_COORDINATOR_RUN_MERGE_NETWORK_H
#define LS_COORDINATOR_RUN_MERGE_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/result.pb-c.h"

/* What a client reported (NULL: nothing), with how much of its link the window's bytes are. False:
 * no memory. */
bool coord_merge_network(Ls__NetworkUse **field, const Ls__NetworkUse *src, int64_t window_ns);
/* Once all clients have their latencies: each one's share of them, and the trial's network. Round
 * trips of all clients: the least, and the middle one of their medians, which is not the median of
 * all connections: a client tells no more of its own. False: no memory. */
bool coord_merge_networks(Ls__Trial *trial);

#endif

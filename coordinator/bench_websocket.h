/* coordinator/bench_websocket.h - what `lockstep bench` makes of its options for WebSocket. */
#ifndef LS_COORDINATOR_BENCH_WEBSOCKET_H
#define LS_COORDINATOR_BENCH_WEBSOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "proto/plan.pb-c.h"

#define BENCH_HEADERS_MAX 64u /* Host is one more */

/* The options; all borrowed. */
struct bench_websocket_args {
    bool on; /* --websocket, or the URL says so */
    const char *message;
    uint64_t size;
    bool binary;
    bool deflate;
    const char *subprotocol;
    uint64_t room;
    uint64_t round;
    const char *ready;
    const char *delivery;
};

/* What the workload is made of then. */
struct bench_websocket_parts {
    Ls__WebSocket websocket;
    Ls__WebSocket__HeadersEntry entries[BENCH_HEADERS_MAX + 1];
    Ls__WebSocket__HeadersEntry *headers[BENCH_HEADERS_MAX + 1];
    Ls__Message message;
    Ls__Size size;
    Ls__Echo echo;
    Ls__Deflate deflate;
    Ls__Room room;
};

/* LS_EINVAL: options that do not go together. */
enum ls_err bench_websocket_check(const struct bench_websocket_args *args,
                                  struct ls_diag *diag) LS_NODISCARD;
/* request: path and headers, which are the handshake's. Sets workload's protocol, connections (of
 * a room) and load (of rounds: none). */
void bench_websocket_compose(const struct bench_websocket_args *args, uint64_t pipeline,
                             const Ls__Request *request, struct bench_websocket_parts *parts,
                             Ls__Workload *workload);

#endif

/* agent/respond/heap.h - the connections of a thread that wait for an instant, earliest first. */
#ifndef LS_AGENT_RESPOND_HEAP_H
#define LS_AGENT_RESPOND_HEAP_H

#include "agent/respond/conn.h"

/* Sets or moves the timer of a connection. LS_ENOMEM: it has none now. */
enum ls_err respond_heap_set(struct respond_loop *loop, struct respond_conn *conn,
                             int64_t at_ns) LS_NODISCARD;
void respond_heap_remove(struct respond_loop *loop, struct respond_conn *conn); /* or has none */
struct respond_conn *respond_heap_first(const struct respond_loop *loop);       /* NULL: none */

#endif

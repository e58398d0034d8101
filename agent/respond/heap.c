#include "agent/respond/heap.h"

#include <stdlib.h>

static void put(struct respond_loop *loop, uint32_t at, struct respond_conn *conn)
{
    loop->heap[at] = conn;
    conn->heap_at = at;
}

static void sift_up(struct respond_loop *loop, uint32_t at, struct respond_conn *conn)
{
    while (at > 0) {
        uint32_t parent = (at - 1) / 2;

        if (loop->heap[parent]->timer_ns <= conn->timer_ns)
            break;
        put(loop, at, loop->heap[parent]);
        at = parent;
    }
    put(loop, at, conn);
}

static void sift_down(struct respond_loop *loop, uint32_t at, struct respond_conn *conn)
{
    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child >= loop->heap_len)
            break;
        if (child + 1 < loop->heap_len &&
            loop->heap[child + 1]->timer_ns < loop->heap[child]->timer_ns)
            child++;
        if (loop->heap[child]->timer_ns >= conn->timer_ns)
            break;
        put(loop, at, loop->heap[child]);
        at = child;
    }
    put(loop, at, conn);
}

enum ls_err respond_heap_set(struct respond_loop *loop, struct respond_conn *conn, int64_t at_ns)
{
    if (conn->heap_at != RESPOND_NOT_QUEUED) {
        bool earlier = at_ns < conn->timer_ns;

        if (at_ns == conn->timer_ns)
            return LS_OK;
        conn->timer_ns = at_ns;
        if (earlier)
            sift_up(loop, conn->heap_at, conn);
        else
            sift_down(loop, conn->heap_at, conn);
        return LS_OK;
    }
    if (loop->heap_len == loop->heap_cap) {
        uint32_t cap = loop->heap_cap == 0 ? 64 : loop->heap_cap * 2;
        struct respond_conn **grown = realloc(loop->heap, cap * sizeof(struct respond_conn *));

        if (grown == NULL)
            return LS_ENOMEM;
        loop->heap = grown;
        loop->heap_cap = cap;
    }
    conn->timer_ns = at_ns;
    sift_up(loop, loop->heap_len++, conn);
    return LS_OK;
}

void respond_heap_remove(struct respond_loop *loop, struct respond_conn *conn)
{
    uint32_t at = conn->heap_at;
    struct respond_conn *moved;

    if (at == RESPOND_NOT_QUEUED)
        return;
    conn->heap_at = RESPOND_NOT_QUEUED;
    moved = loop->heap[--loop->heap_len];
    if (moved == conn)
        return;
    if (at > 0 && moved->timer_ns < loop->heap[(at - 1) / 2]->timer_ns)
        sift_up(loop, at, moved);
    else
        sift_down(loop, at, moved);
}

struct respond_conn *respond_heap_first(const struct respond_loop *loop)
{
    return loop->heap_len > 0 ? loop->heap[0] : NULL;
}

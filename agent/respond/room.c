/* The room: what a member says goes to all of them, "ready" when all are in. */
#include <string.h>

#include "agent/respond/ws.h"

enum { TEXT = 1 };
#define FIN RESPOND_WS_FIN

/* The frame that members get: "name: text", or the text alone. */
static bool add_delivery(const struct respond_loop *loop, const struct respond_conn *from,
                         unsigned opcode, const unsigned char *text, size_t len,
                         struct respond_bytes *out)
{
    unsigned char head[RESPOND_WS_HEAD];
    size_t name = strlen(from->ws->name);
    size_t head_len;

    if (loop->settings->plain)
        return respond_ws_add_frame(out, RESPOND_WS_FIN | opcode, text, len);
    head_len = respond_ws_head(head, RESPOND_WS_FIN | opcode, name + 2 + len);
    return respond_bytes_add(out, head, head_len) && respond_bytes_add(out, from->ws->name, name) &&
           respond_bytes_add(out, ": ", 2) && respond_bytes_add(out, text, len);
}

void respond_room_share(struct respond_loop *loop)
{
    struct respond_room *room = &loop->room;
    struct respond_bytes *shared = &room->shared;

    if (shared->len == 0)
        return;
    for (struct respond_conn *m = room->first; m != NULL; m = m->ws->next) {
        if (m->ws->closing)
            continue;
        if (m->ws->out.len - m->ws->out.at > RESPOND_WS_ROOM_MAX ||
            !respond_bytes_add(&m->ws->out, shared->data, shared->len)) {
            m->ws->closing = m->ws->reset = true; /* it does not read */
            continue;
        }
        respond_tally_add(&loop->tally.deliveries, room->shared_messages);
    }
    shared->at = shared->len = 0;
    room->shared_messages = 0;
    loop->room.dirty = true;
}

void respond_room_settle(struct respond_loop *loop)
{
    struct respond_room *room = &loop->room;

    respond_room_share(loop);
    if (!room->faulty)
        return;
    for (struct respond_conn *m = room->first; m != NULL; m = m->ws->next) {
        struct respond_bytes *held = &m->ws->held;

        if (held->len > 0 && !respond_bytes_add(&m->ws->out, held->data, held->len))
            m->ws->closing = m->ws->reset = true;
        respond_bytes_fini(held);
    }
    room->faulty = false;
    room->dirty = true;
}

bool respond_room_join(struct respond_loop *loop, struct respond_conn *conn)
{
    struct respond_room *room = &loop->room;

    respond_room_share(loop); /* what was said before is not for the new one */
    conn->ws->prev = NULL;
    conn->ws->next = room->first;
    if (room->first != NULL)
        room->first->ws->prev = conn;
    room->first = conn;
    room->count++;
    if (room->count != loop->settings->room_clients)
        return true;
    return respond_ws_add_frame(&room->shared, FIN | TEXT,
                                (const unsigned char *)loop->settings->ready,
                                strlen(loop->settings->ready));
}

void respond_room_leave(struct respond_loop *loop, struct respond_conn *conn)
{
    struct respond_room *room = &loop->room;

    *(conn->ws->prev != NULL ? &conn->ws->prev->ws->next : &room->first) = conn->ws->next;
    if (conn->ws->next != NULL)
        conn->ws->next->ws->prev = conn->ws->prev;
    room->count--;
}

/* To one member, once or twice, changed, later, or not at all. */
static bool deliver_faulty(struct respond_loop *loop, struct respond_conn *member,
                           const struct respond_bytes *frame, size_t text_len,
                           enum respond_action action)
{
    struct respond_bytes *out = &member->ws->out;
    const unsigned char *data = frame->data;
    size_t deliveries = action == RESPOND_TWICE ? 2 : action == RESPOND_NO_ANSWER ? 0 : 1;
    bool ok = true;

    respond_tally_add(&loop->tally.deliveries, deliveries);
    if (action == RESPOND_SWAP) /* behind the next one */
        return respond_bytes_add(&member->ws->held, data, frame->len);
    for (; ok && deliveries > 0; deliveries--)
        ok = respond_bytes_add(out, data, frame->len);
    if (ok && action == RESPOND_WRONG_BODY && text_len > 0)
        out->data[out->len - 1] ^= 1;
    return ok;
}

static bool is_fault_of_one(enum respond_action action)
{
    return action == RESPOND_TWICE || action == RESPOND_NO_ANSWER || action == RESPOND_SWAP ||
           action == RESPOND_WRONG_BODY;
}

static bool has_held(const struct respond_room *room)
{
    for (const struct respond_conn *m = room->first; m != NULL; m = m->ws->next) {
        if (m->ws->held.len > 0)
            return true;
    }
    return false;
}

/* One by one, as not all get the same. */
static bool say_apart(struct respond_loop *loop, const struct respond_bytes *frame, size_t text_len,
                      enum respond_action action)
{
    struct respond_room *room = &loop->room;
    uint32_t victim = is_fault_of_one(action) ? room->victim++ % room->count : UINT32_MAX;
    uint32_t i = 0;
    bool ok = true;

    loop->room.dirty = true;
    for (struct respond_conn *m = room->first; ok && m != NULL; m = m->ws->next, i++) {
        struct respond_bytes held = m->ws->held;

        m->ws->held = (struct respond_bytes){ .data = NULL };
        ok = deliver_faulty(loop, m, frame, text_len, i == victim ? action : RESPOND_NORMAL);
        if (ok && held.len > 0)
            ok = respond_bytes_add(&m->ws->out, held.data, held.len);
        respond_bytes_fini(&held);
    }
    return ok;
}

bool respond_room_say(struct respond_loop *loop, struct respond_conn *from, unsigned opcode,
                      const unsigned char *text, size_t len, enum respond_action action)
{
    struct respond_room *room = &loop->room;
    struct respond_bytes frame = { .data = NULL };
    bool ok;

    if (!room->faulty && !is_fault_of_one(action)) {
        room->shared_messages++;
        return add_delivery(loop, from, opcode, text, len, &room->shared);
    }
    respond_room_share(loop);
    ok =
        add_delivery(loop, from, opcode, text, len, &frame) && say_apart(loop, &frame, len, action);
    room->faulty = has_held(room);
    respond_bytes_fini(&frame);
    return ok;
}

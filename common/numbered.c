/* common/numbered.c - numbered messages: kept until acknowledged, sent again, taken once.
 *
 * Numbers are 1, 2, 3 ... for each direction of a session and outlive its connections. An
 * acknowledgement is cumulative, so one that is skipped does no harm.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/transport_impl.h"

#define CAP_MIN 16u

void ls_numbered_init(struct ls_numbered *n, uint32_t max, size_t max_bytes)
{
    *n = (struct ls_numbered){ .max = max, .max_bytes = max_bytes };
}

void ls_numbered_fini(struct ls_numbered *n)
{
    for (uint64_t seq = n->acked + 1; seq <= n->last; seq++)
        free(n->slots[seq % n->cap].data);
    free(n->slots);
    n->slots = NULL;
    n->cap = 0;
    n->bytes = 0;
    n->acked = n->sent = n->last;
}

/* Power-of-two sizes keep a sequence number's slot the same function of it for ever. */
static bool resize(struct ls_numbered *n, uint32_t cap)
{
    struct ls_packed *slots = calloc(cap, sizeof(*slots));

    if (slots == NULL)
        return false;
    for (uint64_t seq = n->acked + 1; seq <= n->last; seq++)
        slots[seq % cap] = n->slots[seq % n->cap];
    free(n->slots);
    n->slots = slots;
    n->cap = cap;
    return true;
}

enum ls_err ls_numbered_push(struct ls_numbered *n, struct ls_packed packed, struct ls_diag *diag)
{
    uint64_t kept = n->last - n->acked;

    if (kept >= n->max || (kept > 0 && n->bytes + packed.len > n->max_bytes))
        return ls_fail(diag, LS_EAGAIN,
                       "%" PRIu64 " messages (%zu bytes) wait for the other end to take them", kept,
                       n->bytes);
    if (kept == n->cap && !resize(n, n->cap == 0 ? CAP_MIN : n->cap * 2))
        return ls_fail(diag, LS_ENOMEM, "no memory to keep %" PRIu64 " messages", kept + 1);
    n->last++;
    n->slots[n->last % n->cap] = packed;
    n->bytes += packed.len;
    return LS_OK;
}

static void drop_to(struct ls_numbered *n, uint64_t seq)
{
    while (n->acked < seq) {
        struct ls_packed *slot = &n->slots[++n->acked % n->cap];

        n->bytes -= slot->len;
        free(slot->data);
        *slot = (struct ls_packed){ 0 };
    }
    if (n->acked == n->last && n->cap > CAP_MIN) {
        free(n->slots);
        n->slots = NULL;
        n->cap = 0;
    }
}

enum ls_err ls_numbered_ack(struct ls_numbered *n, uint64_t seq, struct ls_diag *diag)
{
    if (seq > n->sent)
        return ls_fail(diag, LS_EPROTO,
                       "message %" PRIu64 " is acknowledged but only %" PRIu64 " were sent", seq,
                       n->sent);
    if (seq > n->acked)
        drop_to(n, seq);
    return LS_OK;
}

enum ls_err ls_numbered_resume(struct ls_numbered *n, uint64_t seq, struct ls_diag *diag)
{
    if (seq < n->acked || seq > n->last)
        return ls_fail(diag, LS_EPROTO,
                       "the other end has %" PRIu64 " messages; here %" PRIu64 " to %" PRIu64
                       " can follow",
                       seq, n->acked, n->last);
    drop_to(n, seq);
    n->sent = seq;
    return LS_OK;
}

enum ls_err ls_numbered_check(struct ls_numbered *n, uint64_t seq, struct ls_diag *diag)
{
    n->ack_due = true;
    if (seq <= n->taken)
        return LS_EAGAIN;
    if (seq != n->taken + 1)
        return ls_fail(diag, LS_EPROTO, "message %" PRIu64 " follows %" PRIu64, seq, n->taken);
    return LS_OK;
}

bool ls_numbered_acks(const struct ls_numbered *n, const struct ls_conn *conn)
{
    return n->ack_due || (n->ack_later && (ls_conn_pending(conn) > 0 || n->sent < n->last ||
                                           ls_conn_ping_due(conn, ls_clock_mono_ns())));
}

void ls_numbered_fill(struct ls_numbered *n, struct ls_conn *conn, char *run_id)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__Ping ping = LS__PING__INIT;
    Ls__Ack ack = LS__ACK__INIT;

    envelope.run_id = run_id;
    if (ls_numbered_acks(n, conn)) {
        n->ack_due = n->ack_later = false;
        ack.seq = n->taken;
        envelope.body_case = LS__ENVELOPE__BODY_ACK;
        envelope.ack = &ack;
        ls_conn_put(conn, &envelope);
    }
    while (n->sent < n->last && ls_conn_pending(conn) < LS_BATCH_BYTES) {
        n->sent++;
        ls_conn_put_packed(conn, run_id, n->sent, &n->slots[n->sent % n->cap]);
    }
    if (ls_conn_pending(conn) == 0 && ls_conn_ping_due(conn, ls_clock_mono_ns())) {
        envelope.body_case = LS__ENVELOPE__BODY_PING;
        envelope.ping = &ping;
        ls_conn_put(conn, &envelope);
    }
}

/* common/listener.c - the coordinator's end of its agents' sessions.
 *
 * A peer is one agent process: a name and a boot id. It keeps its numbering while connections come
 * and go; the newest connection wins. When a name comes back with another boot id and is enrolled,
 * that is another peer, and the older one stays as a shell that nothing is sent to any more.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/transport_impl.h"
#include "common/utf8.h"

#define COMMANDS_MAX   65536u
#define COMMANDS_BYTES (256u << 20)
#define SEQ_MAX        (UINT64_MAX / 2)
#define SHELLS_MAX     4u  /* of an agent's earlier processes that are still turned away by name */
#define LOG_BURST      20u /* strangers turned away that are logged at once; then one a second */
#define LISTS          1024u /* of peers, by their names: of thousands a few are in each */

struct probe {   /* a clock exchange under way */
    uint64_t id; /* 0: none */
    int64_t sent_ns;
};

struct ls_peer { /* what each report looks at is in front */
    struct ls_listener *listener;
    struct ls_conn *conn;    /* NULL: not connected */
    void *ctx;               /* of the user */
    struct ls_bytes at_hand; /* the report that is being handled */
    bool superseded;         /* by a newer process of that name */
    bool silent;             /* why it lost its last connection */
    bool welcome_due;
    struct ls_numbered numbers;
    uint64_t probes_asked;
    uint64_t probes_sent;
    struct probe probes[LS_CLOCK_MAX]; /* at id % LS_CLOCK_MAX */
    struct ls_peer *next;
    char *agent;   /* owned */
    char *boot_id; /* owned */
    char remote[64];
    struct ls_identity identity;
};

struct ls_listener {
    struct ls_hub *hub; /* owned */
    struct ls_listener_env env;
    char *run_id; /* owned */
    struct ls_log_quota quota;
    struct ls_peer *peers[LISTS]; /* owned; the newest are in front */
};

static void peer_free(struct ls_peer *peer)
{
    if (peer == NULL)
        return;
    ls_numbered_fini(&peer->numbers);
    free(peer->agent);
    free(peer->boot_id);
    free(peer);
}

/* Nobody's peer yet: those above never hear of it. */
static void log_turned_away(struct ls_listener *l, const struct ls_conn *conn, const char *why)
{
    enum ls_log_level level = ls_hub_is_tls(l->hub) ? LS_LOG_WARN : LS_LOG_INFO;
    uint64_t held = 0;

    if (level >= ls_log_level() && ls_log_quota_take(&l->quota, ls_clock_mono_ns(), &held))
        ls_log(level, "transport.turned_away", "from=%s unlogged=%" PRIu64 " why=%s",
               ls_conn_remote(conn), held, why);
}

/* ---- sending ---- */

static void put_refuse(struct ls_listener *l, struct ls_conn *conn, char *code, char *text)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__Refuse refuse = LS__REFUSE__INIT;

    refuse.code = code;
    refuse.text = text;
    envelope.run_id = l->run_id;
    envelope.body_case = LS__ENVELOPE__BODY_REFUSE;
    envelope.refuse = &refuse;
    ls_conn_put(conn, &envelope);
    ls_conn_linger(conn);
}

/* "agent_restarted: why" has its code in front; anything else is "refused". */
static void refuse(struct ls_listener *l, struct ls_conn *conn, const char *agent, const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz_";
    char buffer[sizeof(((struct ls_diag *)0)->text)];
    char plain[] = "refused";
    size_t len;

    if (l->env.refused != NULL)
        l->env.refused(l->env.ctx, ls_conn_remote(conn), agent, text);
    else
        log_turned_away(l, conn, text);
    if (ls_conn_is_closing(conn))
        return;
    (void)snprintf(buffer, sizeof(buffer), "%s", text);
    len = strspn(buffer, letters);
    if (len > 0 && buffer[len] == ':' && buffer[len + 1] == ' ') {
        buffer[len] = '\0';
        put_refuse(l, conn, buffer, buffer + len + 2);
    } else {
        put_refuse(l, conn, plain, buffer);
    }
}

static void put_welcome(struct ls_peer *peer, struct ls_conn *conn)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__Welcome welcome = LS__WELCOME__INIT;

    welcome.last_acked_seq = peer->numbers.taken;
    envelope.run_id = peer->listener->run_id;
    envelope.body_case = LS__ENVELOPE__BODY_WELCOME;
    envelope.welcome = &welcome;
    ls_conn_put(conn, &envelope);
    peer->welcome_due = false;
}

static void put_probes(struct ls_peer *peer, struct ls_conn *conn)
{
    while (peer->probes_sent < peer->probes_asked) {
        Ls__Envelope envelope = LS__ENVELOPE__INIT;
        Ls__ClockProbe probe = LS__CLOCK_PROBE__INIT;

        probe.id = ++peer->probes_sent;
        probe.sent_ns = ls_clock_mono_ns();
        peer->probes[probe.id % LS_CLOCK_MAX] =
            (struct probe){ .id = probe.id, .sent_ns = probe.sent_ns };
        envelope.run_id = peer->listener->run_id;
        envelope.body_case = LS__ENVELOPE__BODY_CLOCK_PROBE;
        envelope.clock_probe = &probe;
        ls_conn_put(conn, &envelope);
    }
}

static void settle(struct ls_listener *l)
{
    if (l->env.settle != NULL)
        l->env.settle(l->env.ctx);
}

static void on_fill(void *owner, struct ls_conn *conn)
{
    struct ls_peer *peer = ls_conn_user(conn);

    (void)owner;
    if (peer == NULL || peer->conn != conn)
        return;
    if (peer->welcome_due) {
        settle(peer->listener);
        put_welcome(peer, conn);
    }
    put_probes(peer, conn);
    if (ls_numbered_acks(&peer->numbers, conn))
        settle(peer->listener);
    ls_numbered_fill(&peer->numbers, conn, peer->listener->run_id);
}

/* ---- enrolment ---- */

/* Where peers of this name are. */
static struct ls_peer **list_of(struct ls_listener *l, const char *agent)
{
    return &l->peers[ls_hash_text(agent) % LISTS];
}

static struct ls_peer *find_peer(struct ls_listener *l, const Ls__Hello *hello)
{
    for (struct ls_peer *peer = *list_of(l, hello->agent); peer != NULL; peer = peer->next)
        if (strcmp(peer->agent, hello->agent) == 0 && strcmp(peer->boot_id, hello->boot_id) == 0)
            return peer;
    return NULL;
}

static struct ls_peer *peer_new(struct ls_listener *l, const struct ls_conn *conn,
                                const struct ls_identity *identity, const Ls__Hello *hello)
{
    struct ls_peer *peer = calloc(1, sizeof(*peer));

    if (peer == NULL)
        return NULL;
    peer->listener = l;
    peer->identity = *identity;
    (void)snprintf(peer->remote, sizeof(peer->remote), "%s", ls_conn_remote(conn));
    ls_numbered_init(&peer->numbers, COMMANDS_MAX, COMMANDS_BYTES);
    /* It may have taken commands from a coordinator process before this one. */
    peer->numbers.acked = peer->numbers.sent = peer->numbers.last = hello->commands_done;
    peer->agent = strdup(hello->agent);
    peer->boot_id = strdup(hello->boot_id);
    if (peer->agent == NULL || peer->boot_id == NULL) {
        peer_free(peer);
        return NULL;
    }
    return peer;
}

/* An agent that is started again and again must not fill the memory. */
static void forget_oldest(struct ls_listener *l, const char *agent)
{
    struct ls_peer **oldest = NULL;
    unsigned shells = 0;

    for (struct ls_peer **at = list_of(l, agent); *at != NULL; at = &(*at)->next) {
        if (!(*at)->superseded || (*at)->conn != NULL || strcmp((*at)->agent, agent) != 0)
            continue;
        shells++;
        oldest = at; /* the newest are in front */
    }
    if (shells > SHELLS_MAX) {
        struct ls_peer *peer = *oldest;

        *oldest = peer->next;
        if (l->env.forgotten != NULL)
            l->env.forgotten(l->env.ctx, peer->ctx);
        peer_free(peer);
    }
}

/* What an older process of this name had queued is not for the new one. */
static void supersede(struct ls_listener *l, const struct ls_peer *newer)
{
    for (struct ls_peer *peer = *list_of(l, newer->agent); peer != NULL; peer = peer->next) {
        if (peer == newer || peer->superseded || strcmp(peer->agent, newer->agent) != 0)
            continue;
        peer->superseded = true;
        ls_numbered_fini(&peer->numbers);
        if (peer->conn != NULL)
            ls_conn_close(peer->conn, "another process of this agent has taken its place");
        break; /* there is one at most */
    }
    forget_oldest(l, newer->agent);
}

static enum ls_err check_stored(const struct ls_peer *peer, const Ls__Hello *hello,
                                struct ls_diag *diag)
{
    if (hello->next_seq <= peer->numbers.taken)
        return ls_fail(diag, LS_EPROTO,
                       "lost_state: report %" PRIu64 " is stored, yet %" PRIu64
                       " is said to be next",
                       peer->numbers.taken, hello->next_seq);
    return LS_OK;
}

/* NULL: refused, and said so. */
static struct ls_peer *enrol(struct ls_listener *l, struct ls_conn *conn,
                             const struct ls_identity *identity, const Ls__Hello *hello)
{
    struct ls_peer *peer = peer_new(l, conn, identity, hello);
    struct ls_peer **list = list_of(l, hello->agent);
    struct ls_diag diag = { 0 };
    enum ls_err rc;

    if (peer == NULL) {
        ls_conn_close(conn, "out of memory");
        return NULL;
    }
    rc = check_stored(peer, hello, &diag);
    if (rc == LS_OK)
        rc = l->env.enrol(l->env.ctx, peer, hello, &peer->ctx, &diag);
    if (rc != LS_OK) {
        if (!ls_conn_is_closing(conn))
            refuse(l, conn, hello->agent, diag.text[0] != '\0' ? diag.text : ls_err_name(rc));
        peer_free(peer);
        return NULL;
    }
    peer->next = *list; /* from now on the user may hold it, whatever comes of this connection */
    *list = peer;
    if (check_stored(peer, hello, &diag) == LS_OK) /* enrol() may have said what is stored */
        return peer;
    if (!ls_conn_is_closing(conn))
        refuse(l, conn, hello->agent, diag.text);
    return NULL;
}

static void go_up(struct ls_listener *l, struct ls_peer *peer, struct ls_conn *conn)
{
    if (peer->conn != NULL)
        ls_conn_close(peer->conn, "a newer connection of this agent has taken its place");
    if (ls_conn_is_closing(conn))
        return;
    peer->conn = conn;
    peer->welcome_due = true;
    peer->probes_sent = peer->probes_asked;
    memset(peer->probes, 0, sizeof(peer->probes));
    ls_conn_set_user(conn, peer);
    ls_conn_set_up(conn);
    l->env.up(l->env.ctx, peer->ctx);
}

/* The peer is known: does its memory of the session fit ours? */
static enum ls_err resume(struct ls_peer *peer, const Ls__Hello *hello, struct ls_diag *diag)
{
    enum ls_err rc;

    if (peer->superseded)
        return ls_fail(diag, LS_ESTATE,
                       "superseded: a newer process of agent %s has taken its place", peer->agent);
    rc = check_stored(peer, hello, diag);
    if (rc != LS_OK)
        return rc;
    rc = ls_numbered_resume(&peer->numbers, hello->commands_done, diag);
    return rc == LS_OK ? rc : ls_fail_in(diag, rc, "lost_state");
}

/* Over TLS, the certificate says who this is, and nothing else does. */
static enum ls_err check_identity(const struct ls_listener *l, const struct ls_identity *identity,
                                  const Ls__Hello *hello, struct ls_diag *diag)
{
    if (!ls_hub_is_tls(l->hub))
        return LS_OK;
    if (!identity->proven || identity->role != LS_IDENTITY_AGENT)
        return ls_fail(diag, LS_EREFUSED, "identity: the agent has not proven who it is");
    if (strcmp(identity->name, hello->agent) != 0)
        return ls_fail(diag, LS_EREFUSED,
                       "identity: the certificate is one of %s, the name said is '%s'",
                       identity->uri, hello->agent);
    return LS_OK;
}

static void on_hello(struct ls_listener *l, struct ls_conn *conn, const Ls__Hello *hello)
{
    struct ls_identity identity;
    struct ls_peer *peer;
    struct ls_diag diag = { 0 };

    if (hello->agent[0] == '\0' || strlen(hello->agent) > LS_NAME_MAX_BYTES ||
        hello->boot_id[0] == '\0' || strlen(hello->boot_id) > LS_NAME_MAX_BYTES) {
        refuse(l, conn, "", "protocol: agent name and boot id must have 1 to 128 bytes");
        return;
    }
    if (hello->commands_done > SEQ_MAX || hello->next_seq > SEQ_MAX) {
        refuse(l, conn, hello->agent, "protocol: a sequence number that nobody can have reached");
        return;
    }
    if (hello->run_id[0] != '\0' && strcmp(hello->run_id, l->run_id) != 0) {
        refuse(l, conn, hello->agent,
               "foreign_run: this coordinator is in another run than that session: begin anew");
        return;
    }
    ls_conn_identity(conn, &identity);
    if (check_identity(l, &identity, hello, &diag) != LS_OK) {
        refuse(l, conn, hello->agent, diag.text);
        return;
    }
    peer = find_peer(l, hello);
    if (peer == NULL) {
        peer = enrol(l, conn, &identity, hello);
        if (peer != NULL)
            supersede(l, peer);
    } else if (resume(peer, hello, &diag) != LS_OK) {
        refuse(l, conn, hello->agent, diag.text);
        return;
    }
    if (peer == NULL || ls_conn_is_closing(conn))
        return;
    peer->identity = identity;
    (void)snprintf(peer->remote, sizeof(peer->remote), "%s", ls_conn_remote(conn));
    go_up(l, peer, conn);
}

/* ---- receiving ---- */

static void on_clock_reply(struct ls_peer *peer, struct ls_conn *conn, const Ls__ClockReply *reply,
                           int64_t received_ns)
{
    struct ls_listener *l = peer->listener;
    struct probe *probe = &peer->probes[reply->id % LS_CLOCK_MAX];

    if (reply->id == 0 || probe->id != reply->id) {
        ls_conn_close(conn, "an answer to no clock probe");
        return;
    }
    if (reply->replied_ns < reply->received_ns) {
        ls_conn_close(conn, "a clock probe answered before it was received");
        return;
    }
    probe->id = 0;
    /* Our own record of the sending, not the copy that went round. */
    l->env.clock(l->env.ctx, peer->ctx, probe->sent_ns, reply->received_ns, reply->replied_ns,
                 received_ns);
}

static void on_report(struct ls_peer *peer, struct ls_conn *conn, struct ls_bytes bytes,
                      const Ls__Envelope *envelope)
{
    struct ls_listener *l = peer->listener;
    struct ls_diag diag = { 0 };
    bool ack_due = peer->numbers.ack_due;
    enum ls_err rc = ls_numbered_check(&peer->numbers, envelope->seq, &diag);

    if (rc == LS_EPROTO)
        ls_conn_close(conn, diag.text);
    if (rc != LS_OK)
        return;
    peer->at_hand = bytes;
    rc = l->env.report(l->env.ctx, peer->ctx, envelope);
    peer->at_hand = (struct ls_bytes){ 0 };
    if (rc != LS_OK) {
        ls_conn_close(conn, "a report could not be stored");
        return;
    }
    peer->numbers.taken = envelope->seq;
    /* Nobody waits for this one: of many agents, its own answer would be a third of what it costs.
     */
    if (envelope->body_case == LS__ENVELOPE__BODY_INTERVAL && ls_hub_is_crowded(l->hub)) {
        peer->numbers.ack_due = ack_due;
        peer->numbers.ack_later = true;
    }
}

static void on_ack(struct ls_peer *peer, struct ls_conn *conn, uint64_t seq)
{
    uint64_t acked_before = peer->numbers.acked;
    struct ls_listener *l = peer->listener;
    struct ls_diag diag = { 0 };

    if (ls_numbered_ack(&peer->numbers, seq, &diag) != LS_OK)
        ls_conn_close(conn, diag.text);
    else if (acked_before != peer->numbers.acked && peer->numbers.acked == peer->numbers.last &&
             l->env.taken != NULL)
        l->env.taken(l->env.ctx, peer->ctx);
}

static void on_peer_envelope(struct ls_peer *peer, struct ls_conn *conn, struct ls_bytes bytes,
                             const Ls__Envelope *envelope, int64_t received_ns)
{
    char why[80];

    if (strcmp(envelope->run_id, peer->listener->run_id) != 0) {
        ls_conn_close(conn, "a frame of another run");
    } else if (ls_body_kind(envelope->body_case) == LS_BODY_REPORT) {
        on_report(peer, conn, bytes, envelope);
    } else if (envelope->body_case == LS__ENVELOPE__BODY_CLOCK_REPLY) {
        on_clock_reply(peer, conn, envelope->clock_reply, received_ns);
    } else if (envelope->body_case == LS__ENVELOPE__BODY_ACK) {
        on_ack(peer, conn, envelope->ack->seq);
    } else if (envelope->body_case != LS__ENVELOPE__BODY_PING) {
        (void)snprintf(why, sizeof(why), "unexpected %s", ls_body_name(envelope->body_case));
        ls_conn_close(conn, why);
    }
}

static void on_first_frame(struct ls_listener *l, struct ls_conn *conn, struct ls_bytes bytes)
{
    uint32_t version = ls_envelope_peek_version(bytes);
    Ls__Envelope *envelope = NULL;
    struct ls_diag diag = { 0 };
    char text[160];

    if (version != 0 && version != LS_WIRE_VERSION) {
        (void)snprintf(text, sizeof(text),
                       "version: the agent speaks protocol version %" PRIu32
                       ", this coordinator %d",
                       version, LS_WIRE_VERSION);
        refuse(l, conn, "", text);
        return;
    }
    if (ls_envelope_unpack(bytes, &envelope, &diag) != LS_OK) {
        ls_conn_close(conn, diag.text);
        return;
    }
    if (envelope->body_case != LS__ENVELOPE__BODY_HELLO || envelope->run_id[0] != '\0')
        ls_conn_close(conn, "the first frame is not HELLO");
    else
        on_hello(l, conn, envelope->hello);
    ls_envelope_free(envelope);
}

static void on_frame(void *owner, struct ls_conn *conn, struct ls_bytes bytes, int64_t received_ns)
{
    struct ls_peer *peer = ls_conn_user(conn);
    Ls__Envelope *envelope = NULL;
    struct ls_diag diag = { 0 };

    if (peer == NULL) {
        on_first_frame(owner, conn, bytes);
        return;
    }
    if (ls_envelope_unpack(bytes, &envelope, &diag) != LS_OK) {
        ls_conn_close(conn, diag.text);
        return;
    }
    on_peer_envelope(peer, conn, bytes, envelope, received_ns);
    ls_envelope_free(envelope);
}

static void on_opened(void *owner, struct ls_conn *conn)
{
    (void)owner;
    (void)conn; /* it is nobody's until its HELLO */
}

static void on_closed(void *owner, struct ls_conn *conn, const char *why)
{
    struct ls_listener *l = owner;
    struct ls_peer *peer = ls_conn_user(conn);

    if (peer == NULL)
        log_turned_away(l, conn, why);
    if (peer == NULL || peer->conn != conn)
        return;
    peer->conn = NULL;
    peer->silent = ls_conn_fell_silent(conn);
    l->env.down(l->env.ctx, peer->ctx, why);
}

/* ---- life ---- */

static void on_freed(void *owner)
{
    struct ls_listener *l = owner;

    for (unsigned i = 0; i < LISTS; i++) {
        while (l->peers[i] != NULL) {
            struct ls_peer *peer = l->peers[i];

            l->peers[i] = peer->next;
            peer_free(peer);
        }
    }
    free(l->run_id);
    free(l);
}

static const struct ls_hub_ops listener_ops = {
    .frame_max = LS_FRAME_MAX_FROM_AGENT,
    .opened = on_opened,
    .frame = on_frame,
    .fill = on_fill,
    .closed = on_closed,
    .freed = on_freed,
};

enum ls_err ls_listener_create(void *ev_loop, const struct ls_listener_options *options,
                               const struct ls_listener_env *env, struct ls_listener **out,
                               struct ls_diag *diag)
{
    const char *run_id = options->run_id;
    struct ls_bytes id = { (const unsigned char *)run_id, strlen(run_id) };
    struct ls_listener *l;
    enum ls_err rc;

    if (id.len == 0 || id.len > LS_NAME_MAX_BYTES || !ls_utf8_is_text(id))
        return ls_fail(diag, LS_EINVAL, "a run id is text of 1 to %u bytes", LS_NAME_MAX_BYTES);
    l = calloc(1, sizeof(*l));
    if (l == NULL || (l->run_id = strdup(run_id)) == NULL) {
        free(l);
        return ls_fail(diag, LS_ENOMEM, "%s: out of memory", options->url);
    }
    l->env = *env;
    l->quota = (struct ls_log_quota){ .period_ns = LS_NS_PER_S, .burst = LOG_BURST };
    rc = ls_hub_listener(ev_loop, options->url, options->credentials, &listener_ops, l, &l->hub,
                         diag);
    if (rc != LS_OK) {
        on_freed(l);
        return rc;
    }
    *out = l;
    return LS_OK;
}

void ls_listener_destroy(struct ls_listener *listener)
{
    if (listener != NULL)
        ls_hub_destroy(listener->hub);
}

const char *ls_listener_url(const struct ls_listener *listener)
{
    return ls_hub_url(listener->hub);
}

enum ls_err ls_peer_command(struct ls_peer *peer, Ls__Envelope *command, struct ls_diag *diag)
{
    struct ls_packed packed;
    enum ls_err rc;

    if (peer->superseded)
        return ls_fail(diag, LS_ESTATE, "a newer process of agent %s has taken its place",
                       peer->agent);
    rc = ls_packed_make(command, LS_BODY_COMMAND, LS_FRAME_MAX_FROM_COORD, &packed, diag);
    if (rc != LS_OK)
        return rc;
    rc = ls_numbered_push(&peer->numbers, packed, diag);
    if (rc != LS_OK) {
        free(packed.data);
        return rc;
    }
    if (peer->conn != NULL)
        ls_conn_kick(peer->conn);
    return LS_OK;
}

enum ls_err ls_peer_probe_clock(struct ls_peer *peer)
{
    if (peer->conn == NULL || peer->probes[(peer->probes_asked + 1) % LS_CLOCK_MAX].id != 0 ||
        peer->probes_asked - peer->probes_sent == LS_CLOCK_MAX)
        return LS_EAGAIN;
    peer->probes_asked++;
    ls_conn_kick(peer->conn);
    return LS_OK;
}

void ls_peer_set_stored(struct ls_peer *peer, uint64_t seq)
{
    peer->numbers.taken = seq;
}

void ls_peer_close(struct ls_peer *peer, const char *why)
{
    struct ls_hub *hub = peer->listener->hub;

    if (peer->conn == NULL)
        return;
    ls_hub_enter(hub);
    ls_conn_close(peer->conn, why);
    ls_hub_leave(hub);
}

const struct ls_identity *ls_peer_identity(const struct ls_peer *peer)
{
    return &peer->identity;
}

const char *ls_peer_address(const struct ls_peer *peer)
{
    return peer->remote;
}

bool ls_peer_is_up(const struct ls_peer *peer)
{
    return peer->conn != NULL;
}

struct ls_bytes ls_peer_bytes(const struct ls_peer *peer)
{
    return peer->at_hand;
}

bool ls_peer_fell_silent(const struct ls_peer *peer)
{
    return peer->silent;
}

uint64_t ls_peer_unacked(const struct ls_peer *peer)
{
    return peer->numbers.last - peer->numbers.acked;
}

/* common/dialer.c - the agent's end of a session. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/pb.h"
#include "common/transport_impl.h"

#define REPORTS_MAX     1024u
#define REPORTS_MAX_TOP (1u << 20)
#define REPORTS_BYTES   (256u << 20)
#define LOG_BURST       5u
#define LOG_PERIOD_NS   (60 * LS_NS_PER_S)

enum dialer_state {
    DIALER_DOWN,  /* dialling, or waiting to */
    DIALER_HELLO, /* connected; HELLO is to be sent */
    DIALER_WAITS, /* for WELCOME */
    DIALER_UP,
    DIALER_REFUSED /* for good */
};

struct clock_due { /* a probe that is to be answered */
    uint64_t id;
    int64_t sent_ns;
    int64_t received_ns;
};

struct ls_dialer {
    struct ls_hub *hub; /* owned */
    struct ls_dialer_env env;
    Ls__Hello *hello; /* owned */
    enum dialer_state state;
    struct ls_conn *conn; /* NULL: none */
    char *run_id;         /* owned; NULL before the first WELCOME */
    struct ls_numbered numbers;
    struct clock_due clocks[LS_CLOCK_MAX];
    unsigned clocks_due;
    int64_t backoff_ns;
    char trouble[256];
    char logged[256]; /* the last trouble that was */
    struct ls_log_quota quota;
    struct ls_identity coordinator;
};

/* ---- dialling ---- */

static void note_trouble(struct ls_dialer *d, const char *why)
{
    (void)snprintf(d->trouble, sizeof(d->trouble), "%.255s", why);
}

/* Between half of it and all of it, so that agents who lost one coordinator do not come back as
 * one. */
static int64_t jittered(int64_t delay_ns)
{
    uint32_t random = 0;

    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
        random = (uint32_t)ls_clock_mono_ns();
    return delay_ns / 2 + (int64_t)((double)delay_ns / 2 * ((double)random / UINT32_MAX));
}

static void dial_later(struct ls_dialer *d)
{
    const struct ls_pace *pace = ls_hub_pace(d->hub);

    ls_hub_set_alarm(d->hub, jittered(d->backoff_ns));
    d->backoff_ns =
        d->backoff_ns * 2 < pace->backoff_max_ns ? d->backoff_ns * 2 : pace->backoff_max_ns;
}

static void on_alarm(void *owner)
{
    struct ls_dialer *d = owner;

    if (d->state == DIALER_DOWN)
        ls_hub_dial(d->hub);
}

static void on_dial_failed(void *owner, const char *why)
{
    struct ls_dialer *d = owner;

    note_trouble(d, why);
    dial_later(d);
}

static void on_opened(void *owner, struct ls_conn *conn)
{
    struct ls_dialer *d = owner;

    d->conn = conn;
    d->state = DIALER_HELLO;
    d->clocks_due = 0;
}

/* It goes on dialling: a certificate may be renewed. What is the same again was said before. */
static void log_no_session(struct ls_dialer *d, const struct ls_conn *conn)
{
    uint64_t held = 0;

    if (!ls_hub_is_tls(d->hub) || strcmp(d->trouble, d->logged) == 0 ||
        !ls_log_quota_take(&d->quota, ls_clock_mono_ns(), &held))
        return;
    (void)snprintf(d->logged, sizeof(d->logged), "%s", d->trouble);
    ls_log(LS_LOG_WARN, "tls.no_session", "coordinator=%s unlogged=%" PRIu64 " why=%s",
           ls_conn_remote(conn), held, d->trouble);
}

static void on_closed(void *owner, struct ls_conn *conn, const char *why)
{
    struct ls_dialer *d = owner;
    bool was_up = d->state == DIALER_UP;

    d->conn = NULL;
    if (d->state == DIALER_REFUSED)
        return;
    d->state = DIALER_DOWN;
    note_trouble(d, why);
    if (!was_up)
        log_no_session(d, conn);
    dial_later(d);
    if (was_up)
        d->env.down(d->env.ctx, d->trouble);
}

/* ---- sending ---- */

static void put_hello(struct ls_dialer *d, struct ls_conn *conn)
{
    static char no_run[] = "";
    Ls__Envelope envelope = LS__ENVELOPE__INIT;

    d->hello->run_id = d->run_id != NULL ? d->run_id : no_run;
    d->hello->next_seq = d->numbers.last + 1;
    d->hello->commands_done = d->numbers.taken;
    d->hello->wall_zero_ns = ls_clock_wall_ns() - ls_clock_mono_ns();
    envelope.body_case = LS__ENVELOPE__BODY_HELLO;
    envelope.hello = d->hello;
    ls_conn_put(conn, &envelope);
    d->hello->run_id = no_run; /* lent only */
}

/* Before anything else that waits, and stamped as late as can be. */
static void put_clocks(struct ls_dialer *d, struct ls_conn *conn)
{
    for (unsigned i = 0; i < d->clocks_due; i++) {
        Ls__Envelope envelope = LS__ENVELOPE__INIT;
        Ls__ClockReply reply = LS__CLOCK_REPLY__INIT;

        reply.id = d->clocks[i].id;
        reply.probe_sent_ns = d->clocks[i].sent_ns;
        reply.received_ns = d->clocks[i].received_ns;
        reply.replied_ns = ls_clock_mono_ns();
        envelope.run_id = d->run_id;
        envelope.body_case = LS__ENVELOPE__BODY_CLOCK_REPLY;
        envelope.clock_reply = &reply;
        ls_conn_put(conn, &envelope);
    }
    d->clocks_due = 0;
}

static void on_fill(void *owner, struct ls_conn *conn)
{
    struct ls_dialer *d = owner;

    if (d->state == DIALER_HELLO) {
        put_hello(d, conn);
        d->state = DIALER_WAITS;
    } else if (d->state == DIALER_UP) {
        put_clocks(d, conn);
        ls_numbered_fill(&d->numbers, conn, d->run_id);
    }
}

/* ---- receiving ---- */

static void refused(struct ls_dialer *d, const char *code, const char *text)
{
    struct ls_conn *conn = d->conn;

    d->state = DIALER_REFUSED;
    note_trouble(d, text);
    ls_conn_close(conn, text);
    d->env.refused(d->env.ctx, code, text);
}

static void report_flushed(struct ls_dialer *d, uint64_t acked_before)
{
    if (acked_before != d->numbers.acked && d->numbers.acked == d->numbers.last &&
        d->env.flushed != NULL)
        d->env.flushed(d->env.ctx);
}

/* A session is one coordinator's, by whatever certificate: another that knows the run's id, and may
 * have agents of its own, does not inherit this one. */
static bool is_another(const struct ls_dialer *d, const struct ls_identity *now)
{
    return d->coordinator.proven && strcmp(d->coordinator.uri, now->uri) != 0;
}

static void on_welcome(struct ls_dialer *d, struct ls_conn *conn, const Ls__Envelope *envelope)
{
    uint64_t acked_before = d->numbers.acked;
    bool resumed = d->run_id != NULL;
    struct ls_identity coordinator;
    struct ls_diag diag = { 0 };

    if (envelope->run_id[0] == '\0' || strlen(envelope->run_id) > LS_NAME_MAX_BYTES) {
        ls_conn_close(conn, "WELCOME to a run without a proper id");
        return;
    }
    if (!resumed && (d->run_id = strdup(envelope->run_id)) == NULL) {
        ls_conn_close(conn, "out of memory");
        return;
    }
    if (strcmp(d->run_id, envelope->run_id) != 0) {
        refused(d, "foreign_run", "the coordinator is in another run now");
        return;
    }
    ls_conn_identity(conn, &coordinator);
    if (is_another(d, &coordinator)) {
        refused(d, "foreign_run", "another coordinator is at this address now");
        return;
    }
    if (ls_numbered_resume(&d->numbers, envelope->welcome->last_acked_seq, &diag) != LS_OK) {
        refused(d, "lost_state", diag.text);
        return;
    }
    d->state = DIALER_UP;
    d->coordinator = coordinator;
    d->logged[0] = '\0';
    d->backoff_ns = ls_hub_pace(d->hub)->backoff_min_ns;
    d->trouble[0] = '\0';
    ls_conn_set_up(conn);
    d->env.up(d->env.ctx, resumed);
    if (!ls_conn_is_closing(conn))
        report_flushed(d, acked_before);
}

static void on_probe(struct ls_dialer *d, struct ls_conn *conn, const Ls__ClockProbe *probe,
                     int64_t received_ns)
{
    if (d->clocks_due == LS_CLOCK_MAX) {
        ls_conn_close(conn, "too many clock probes at once");
        return;
    }
    d->clocks[d->clocks_due++] = (struct clock_due){ .id = probe->id,
                                                     .sent_ns = probe->sent_ns,
                                                     .received_ns = received_ns };
}

static void on_command(struct ls_dialer *d, struct ls_conn *conn, const Ls__Envelope *envelope)
{
    struct ls_diag diag = { 0 };
    enum ls_err rc = ls_numbered_check(&d->numbers, envelope->seq, &diag);

    if (rc == LS_EPROTO) {
        ls_conn_close(conn, diag.text);
    } else if (rc == LS_OK) {
        d->numbers.taken = envelope->seq;
        d->env.command(d->env.ctx, envelope);
    }
}

static void on_up_frame(struct ls_dialer *d, struct ls_conn *conn, const Ls__Envelope *envelope,
                        int64_t received_ns)
{
    uint64_t acked_before = d->numbers.acked;
    struct ls_diag diag = { 0 };
    char why[80];

    if (strcmp(envelope->run_id, d->run_id) != 0) {
        ls_conn_close(conn, "a frame of another run");
    } else if (ls_body_kind(envelope->body_case) == LS_BODY_COMMAND) {
        on_command(d, conn, envelope);
    } else if (envelope->body_case == LS__ENVELOPE__BODY_CLOCK_PROBE) {
        on_probe(d, conn, envelope->clock_probe, received_ns);
    } else if (envelope->body_case == LS__ENVELOPE__BODY_ACK) {
        if (ls_numbered_ack(&d->numbers, envelope->ack->seq, &diag) != LS_OK)
            ls_conn_close(conn, diag.text);
        else
            report_flushed(d, acked_before);
    } else if (envelope->body_case != LS__ENVELOPE__BODY_PING) {
        (void)snprintf(why, sizeof(why), "unexpected %s", ls_body_name(envelope->body_case));
        ls_conn_close(conn, why);
    }
}

static void on_envelope(struct ls_dialer *d, struct ls_conn *conn, const Ls__Envelope *envelope,
                        int64_t received_ns)
{
    char why[80];

    if (envelope->body_case == LS__ENVELOPE__BODY_REFUSE) {
        refused(d, envelope->refuse->code, envelope->refuse->text);
    } else if (d->state == DIALER_UP) {
        on_up_frame(d, conn, envelope, received_ns);
    } else if (envelope->body_case == LS__ENVELOPE__BODY_WELCOME) {
        on_welcome(d, conn, envelope);
    } else {
        (void)snprintf(why, sizeof(why), "%s before WELCOME", ls_body_name(envelope->body_case));
        ls_conn_close(conn, why);
    }
}

static void on_frame(void *owner, struct ls_conn *conn, struct ls_bytes bytes, int64_t received_ns)
{
    struct ls_dialer *d = owner;
    uint32_t version = ls_envelope_peek_version(bytes);
    Ls__Envelope *envelope = NULL;
    struct ls_diag diag = { 0 };
    char text[160];

    if (version != 0 && version != LS_WIRE_VERSION) {
        (void)snprintf(text, sizeof(text),
                       "the coordinator speaks protocol version %" PRIu32 ", this agent %d",
                       version, LS_WIRE_VERSION);
        refused(d, "version", text);
    } else if (ls_envelope_unpack(bytes, &envelope, &diag) != LS_OK) {
        ls_conn_close(conn, diag.text);
    } else {
        on_envelope(d, conn, envelope, received_ns);
        ls_envelope_free(envelope);
    }
}

/* ---- life ---- */

static void on_freed(void *owner)
{
    struct ls_dialer *d = owner;

    ls_numbered_fini(&d->numbers);
    if (d->hello != NULL) {
        d->hello->run_id = ls_pb_text(protobuf_c_empty_string);
        ls__hello__free_unpacked(d->hello, NULL);
    }
    free(d->run_id);
    free(d);
}

static const struct ls_hub_ops dialer_ops = {
    .frame_max = LS_FRAME_MAX_FROM_COORD,
    .opened = on_opened,
    .dial_failed = on_dial_failed,
    .frame = on_frame,
    .fill = on_fill,
    .closed = on_closed,
    .alarm = on_alarm,
    .freed = on_freed,
};

/* What the other end would refuse is refused here, with a better explanation. */
static enum ls_err copy_hello(const Ls__Hello *hello, Ls__Hello **out, struct ls_diag *diag)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    static char no_run[] = "";
    Ls__Hello writable = *hello;
    Ls__Envelope *copy = NULL;
    unsigned char *bytes;
    enum ls_err rc;
    size_t len;

    if (hello->agent == NULL || hello->agent[0] == '\0' || hello->boot_id == NULL ||
        hello->boot_id[0] == '\0')
        return ls_fail(diag, LS_EINVAL, "HELLO needs an agent name and a boot id");
    writable.run_id = no_run; /* is ours to say */
    envelope.version = LS_WIRE_VERSION;
    envelope.body_case = LS__ENVELOPE__BODY_HELLO;
    envelope.hello = &writable;
    len = ls__envelope__get_packed_size(&envelope);
    bytes = malloc(len);
    if (bytes == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for HELLO");
    (void)ls__envelope__pack(&envelope, bytes);
    rc = ls_envelope_unpack((struct ls_bytes){ bytes, len }, &copy, diag);
    free(bytes);
    if (rc != LS_OK)
        return ls_fail_in(diag, rc, "HELLO cannot be sent");
    *out = copy->hello;
    copy->body_case = LS__ENVELOPE__BODY__NOT_SET;
    copy->hello = NULL;
    ls_envelope_free(copy);
    return LS_OK;
}

/* The coordinator would refuse it, too. */
static enum ls_err check_name(const struct ls_dialer_options *options, struct ls_diag *diag)
{
    const struct ls_identity *own = ls_credentials_identity(options->credentials);

    if (strcmp(own->name, options->hello->agent) == 0)
        return LS_OK;
    return ls_fail(diag, LS_EREFUSED,
                   "the keys in %s are those of %s, and this agent is called '%s': take that name "
                   "or other keys",
                   ls_credentials_folder(options->credentials), own->uri, options->hello->agent);
}

enum ls_err ls_dialer_create(void *ev_loop, const struct ls_dialer_options *options,
                             const struct ls_dialer_env *env, struct ls_dialer **out,
                             struct ls_diag *diag)
{
    uint32_t max = options->reports_max != 0 ? options->reports_max : REPORTS_MAX;
    struct ls_dialer *d = NULL;
    enum ls_err rc;

    if (max > REPORTS_MAX_TOP)
        return ls_fail(diag, LS_ERANGE, "%" PRIu32 " reports kept; at most %u are", max,
                       REPORTS_MAX_TOP);
    d = calloc(1, sizeof(*d));
    if (d == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a dialer");
    d->env = *env;
    ls_numbered_init(&d->numbers, max, REPORTS_BYTES);
    note_trouble(d, "not connected yet");
    d->quota = (struct ls_log_quota){ .period_ns = LOG_PERIOD_NS, .burst = LOG_BURST };
    rc = copy_hello(options->hello, &d->hello, diag);
    if (rc == LS_OK)
        rc = ls_hub_dialer(ev_loop, options->url, options->credentials, &dialer_ops, d, &d->hub,
                           diag);
    if (rc == LS_OK && ls_hub_is_tls(d->hub))
        rc = check_name(options, diag);
    if (rc != LS_OK) {
        if (d->hub != NULL)
            ls_hub_destroy(d->hub); /* frees d */
        else
            on_freed(d);
        return rc;
    }
    d->backoff_ns = ls_hub_pace(d->hub)->backoff_min_ns;
    ls_hub_dial(d->hub);
    *out = d;
    return LS_OK;
}

void ls_dialer_destroy(struct ls_dialer *dialer)
{
    if (dialer != NULL)
        ls_hub_destroy(dialer->hub);
}

enum ls_err ls_dialer_report(struct ls_dialer *dialer, Ls__Envelope *report, struct ls_diag *diag)
{
    struct ls_packed packed;
    enum ls_err rc;

    if (dialer->state == DIALER_REFUSED)
        return ls_fail(diag, LS_ESTATE, "the coordinator refused this agent");
    if (ls_dialer_room(dialer) == 0)
        return ls_fail(diag, LS_EAGAIN, "%" PRIu64 " reports wait to be stored",
                       ls_dialer_unacked(dialer));
    rc = ls_packed_make(report, LS_BODY_REPORT, LS_FRAME_MAX_FROM_AGENT, &packed, diag);
    if (rc != LS_OK)
        return rc;
    rc = ls_numbered_push(&dialer->numbers, packed, diag);
    if (rc != LS_OK) {
        free(packed.data);
        return rc;
    }
    if (dialer->conn != NULL)
        ls_conn_kick(dialer->conn);
    return LS_OK;
}

uint32_t ls_dialer_room(const struct ls_dialer *dialer)
{
    const struct ls_numbered *n = &dialer->numbers;

    /* Also by size: what has room is not refused. */
    if (n->bytes + LS_FRAME_MAX_FROM_AGENT > n->max_bytes)
        return 0;
    return n->max - (uint32_t)ls_dialer_unacked(dialer);
}

bool ls_dialer_is_up(const struct ls_dialer *dialer)
{
    return dialer->state == DIALER_UP;
}

uint64_t ls_dialer_unacked(const struct ls_dialer *dialer)
{
    return dialer->numbers.last - dialer->numbers.acked;
}

const struct ls_identity *ls_dialer_identity(const struct ls_dialer *dialer)
{
    return &dialer->coordinator;
}

void ls_dialer_host(const struct ls_dialer *dialer, char *out, size_t out_bytes)
{
    const char *remote = dialer->conn != NULL ? ls_conn_remote(dialer->conn) : "";
    const char *colon = strrchr(remote, ':');

    out[0] = '\0';
    if (colon == NULL) /* "local", or none */
        return;
    if (*remote == '[' && colon[-1] == ']') {
        remote++;
        colon--;
    }
    (void)snprintf(out, out_bytes, "%.*s", (int)(colon - remote), remote);
}

const char *ls_dialer_run_id(const struct ls_dialer *dialer)
{
    return dialer->run_id != NULL ? dialer->run_id : "";
}

const char *ls_dialer_trouble(const struct ls_dialer *dialer)
{
    return dialer->trouble;
}

void ls_dialer_drop(struct ls_dialer *dialer)
{
    if (dialer->conn == NULL)
        return;
    ls_hub_enter(dialer->hub);
    ls_conn_close(dialer->conn, "dropped by a test");
    ls_hub_leave(dialer->hub);
}

bool ls_dialer_is_alone(const struct ls_dialer *dialer)
{
    return ls_hub_is_alone(dialer->hub);
}

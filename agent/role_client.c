/* A client: one load per trial, its events turned into reports. */
#include "agent/role.h"

#include <stdlib.h>
#include <string.h>

#include "agent/budget.h"
#include "agent/build.h"
#include "agent/client_host.h"
#include "agent/host/netns.h"
#include "agent/load/load.h"
#include "agent/network.h"
#include "agent/policy/policy.h"
#include "agent/session.h"
#include "common/cpuset.h"
#include "common/hist_codec.h"
#include "common/log.h"
#include "common/pb.h"

/* Reports kept free for phases and totals, so that intervals never crowd them out. */
#define ROOM_RESERVE 16u

struct client {
    struct agent_role_env env;
    struct agent_build *build; /* owned */
    struct agent_load *load;   /* owned */
    struct ls_cpuset cpus;
    struct client_host host;
    pid_t network_pid; /* in whose network namespace the load is; 0: in the agent's */
    uint64_t network_inode;
    struct agent_network network;
    bool armed; /* workers exist: DONE will come */
    bool finishing;
};

static enum ls_err client_create(const struct agent_role_env *env, void **out_role,
                                 struct ls_diag *diag)
{
    struct client *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for the client");
    c->env = *env;
    agent_limits_raise();
    *out_role = c;
    return LS_OK;
}

static void client_release(void *role)
{
    struct client *c = role;

    agent_load_destroy(c->load);
    c->load = NULL;
    agent_build_destroy(c->build);
    c->build = NULL;
    c->armed = false;
    c->finishing = false;
}

static void client_destroy(void *role)
{
    if (role == NULL)
        return;
    client_release(role);
    free(role);
}

static enum ls_err check_budget(const Ls__Prepare *prepare, const struct load_workload *workload,
                                struct ls_diag *diag)
{
    const Ls__Workload *w = prepare->workload;
    int64_t length_ns =
        (w->warmup != NULL ? w->warmup->ns : 0) + (w->measure != NULL ? w->measure->ns : 0);
    struct agent_limits limits;

    agent_limits_read(&limits);
    return agent_budget_check(workload, length_ns, &limits, diag);
}

/* Sockets and threads that are made in there stay there; what the agent itself does, its session
 * above all, goes on outside. *out_back for host_netns_leave(). */
static enum ls_err enter_network(const struct client *c, int *out_back, struct ls_diag *diag)
{
    *out_back = -1;
    if (c->network_pid == 0)
        return LS_OK;
    return host_netns_enter(c->network_pid, c->network_inode, out_back, diag);
}

static enum ls_err leave_network(int back, enum ls_err rc, struct ls_diag *diag)
{
    struct ls_diag why;
    enum ls_err left = host_netns_leave(back, &why);

    if (left == LS_OK)
        return rc;
    *diag = why;
    return left;
}

static enum ls_err prepare_load(struct client *c, const Ls__Prepare *prepare, struct ls_diag *diag)
{
    const struct load_env env = { .wake = c->env.wake, .ctx = c->env.ctx };
    enum ls_err rc = agent_build_workload(prepare, c->env.files, &c->build, diag);

    if (rc == LS_OK)
        rc = agent_policy_workload(c->env.policy, agent_build_get(c->build),
                                   prepare->server_addresses, prepare->n_server_addresses, diag);
    if (rc == LS_OK)
        rc = check_budget(prepare, agent_build_get(c->build), diag);
    if (rc == LS_OK)
        rc = agent_load_create(agent_build_get(c->build), &env, &c->load, diag);
    if (rc == LS_OK)
        rc = agent_load_preflight(c->load, diag);
    return rc;
}

static enum ls_err client_prepare(void *role, const Ls__Prepare *prepare, struct ls_diag *diag)
{
    struct client *c = role;
    int back = -1;
    enum ls_err rc;

    client_release(c);
    c->network_pid = (pid_t)prepare->network_pid;
    c->network_inode = prepare->network_inode;
    rc = agent_pin_process(prepare->cpus, &c->cpus, diag);
    if (rc == LS_OK)
        rc = enter_network(c, &back, diag);
    if (rc == LS_OK)
        rc = leave_network(back, prepare_load(c, prepare, diag), diag);
    return rc;
}

static enum ls_err client_arm(void *role, const struct load_window *window, struct ls_diag *diag)
{
    struct client *c = role;
    enum ls_err rc = agent_policy_duration(
        c->env.policy, window->warmup_ns + window->measure_ns + window->drain_ns, diag);
    int back = -1;

    if (rc != LS_OK)
        return rc;
    client_host_arm(&c->host, c->network_pid);
    c->network = (struct agent_network){ 0 };
    rc = enter_network(c, &back, diag);
    if (rc != LS_OK)
        return rc;
    rc = agent_load_arm(c->load, window, diag);
    c->armed = rc == LS_OK;
    return leave_network(back, rc, diag);
}

static void client_disarm(void *role, struct ls_diag *why)
{
    struct client *c = role;

    (void)agent_load_stop(c->load, why); /* whatever follows is of no interest */
    c->armed = false;
}

static void client_entered(void *role, enum ls_phase phase, int64_t now_ns)
{
    struct client *c = role;
    char cpus[128];

    (void)now_ns; /* workers keep the window by themselves */
    (void)ls_cpuset_format(&c->cpus, cpus, sizeof(cpus));
    if (phase == LS_PHASE_MEASURE) {
        const struct load_workload *w = agent_build_get(c->build);

        client_host_begin(&c->host, cpus);
        agent_network_begin(&c->network, &w->address, w->address_len);
    } else if (phase == LS_PHASE_DRAIN) {
        agent_network_end(&c->network);
        client_host_end(&c->host, cpus);
    }
}

/* ---- reports */

static Ls__Requests requests_of(const struct load_counts *counts)
{
    Ls__Requests r = LS__REQUESTS__INIT;

    r.scheduled = counts->scheduled;
    r.sent = counts->sent;
    r.shed = counts->shed;
    r.ok = counts->outcome[LOAD_OK];
    r.bad_status = counts->outcome[LOAD_BAD_STATUS];
    r.bad_body = counts->outcome[LOAD_BAD_BODY];
    r.bad_framing = counts->outcome[LOAD_BAD_FRAMING];
    r.timeout = counts->outcome[LOAD_TIMEOUT];
    r.reset = counts->outcome[LOAD_RESET];
    r.closed_early = counts->outcome[LOAD_CLOSED_EARLY];
    r.tls_error = counts->outcome[LOAD_TLS_ERROR];
    r.aborted = counts->outcome[LOAD_ABORTED];
    return r;
}

static Ls__Messages messages_of(const struct load_messages *in, uint64_t in_window)
{
    Ls__Messages m = LS__MESSAGES__INIT;

    m.sent = in->sent;
    m.expected = in->expected;
    m.received = in->received;
    m.lost = in->lost;
    m.duplicated = in->duplicated;
    m.out_of_order = in->out_of_order;
    m.corrupted = in->corrupted;
    m.received_in_window = in_window;
    m.pings = in->pings;
    m.closes = in->closes;
    m.close_code = in->close_code;
    return m;
}

static bool has_messages(const struct client *c)
{
    return agent_build_get(c->build)->websocket != NULL;
}

struct health_list {
    Ls__WorkerHealth *items;
    Ls__WorkerHealth **pointers;
};

static enum ls_err health_of(const struct load_health *workers, uint32_t count,
                             struct health_list *out)
{
    out->items = calloc(count + 1, sizeof(*out->items));
    out->pointers = calloc(count + 1, sizeof(*out->pointers));
    if (out->items == NULL || out->pointers == NULL) {
        free(out->items);
        free(out->pointers);
        return LS_ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        ls__worker_health__init(&out->items[i]);
        out->items[i].cpu_ns = workers[i].cpu_ns;
        out->items[i].runqueue_wait_ns = workers[i].runqueue_wait_ns;
        out->items[i].spin_ns = workers[i].spin_ns;
        out->items[i].window_ns = workers[i].window_ns;
        out->items[i].voluntary_switches = workers[i].voluntary_switches;
        out->items[i].involuntary_switches = workers[i].involuntary_switches;
        out->items[i].stamps_dropped = workers[i].stamps_dropped;
        out->items[i].loop_lag_ns = workers[i].loop_lag_ns;
        out->items[i].stalled_ns = workers[i].stalled_ns;
        out->pointers[i] = &out->items[i];
    }
    return LS_OK;
}

static void health_fini(struct health_list *list)
{
    free(list->items);
    free(list->pointers);
}

struct series_list {
    Ls__Series items[LS_SERIES_COUNT];
    Ls__Series *pointers[LS_SERIES_COUNT];
    size_t count;
};

/* The three of every request always, so that an empty one is known to be empty; the others if there
 * is something in them. */
static enum ls_err series_of(const struct ls_hist *const *series, struct series_list *out)
{
    out->count = 0;
    for (unsigned s = 0; s < LS_SERIES_COUNT; s++) {
        Ls__Series *item = &out->items[out->count];
        enum ls_err rc;

        if (s > LS_SERIES_SEND_LAG && ls_hist_count(series[s]) == 0)
            continue;
        ls__series__init(item);
        item->kind = (Ls__SeriesKind)s;
        rc = ls_hist_encode(series[s], &item->histogram.data, &item->histogram.len);
        if (rc != LS_OK)
            return rc;
        out->pointers[out->count++] = item;
    }
    return LS_OK;
}

static void series_fini(struct series_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].histogram.data);
}

static enum ls_err report_interval(struct client *c, const struct load_interval *in)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__IntervalReport report = LS__INTERVAL_REPORT__INIT;
    Ls__Requests warmup = requests_of(&in->warmup);
    Ls__Requests measure = requests_of(&in->measure);
    Ls__Messages messages = messages_of(&in->messages, in->received_in_window);
    struct health_list health = { NULL, NULL };
    struct series_list series;
    enum ls_err rc = health_of(in->workers, in->worker_count, &health);

    if (rc != LS_OK)
        return rc;
    report.trial = agent_session_trial(c->env.session);
    report.index = in->index;
    report.merged = in->merged;
    report.start_ns = in->start_ns;
    report.length_ns = in->length_ns;
    report.warmup = &warmup;
    report.measure = &measure;
    report.ok_in_window = in->ok_in_window;
    report.bytes_in = in->bytes_in;
    report.bytes_out = in->bytes_out;
    report.in_flight_ns = in->in_flight_ns;
    report.messages = has_messages(c) ? &messages : NULL;
    report.workers = health.pointers;
    report.n_workers = in->worker_count;
    rc = series_of(in->series, &series);
    report.series = series.pointers;
    report.n_series = series.count;
    if (rc == LS_OK) {
        envelope.body_case = LS__ENVELOPE__BODY_INTERVAL;
        envelope.interval = &report;
        rc = agent_session_report(c->env.session, &envelope);
    }
    series_fini(&series);
    health_fini(&health);
    return rc;
}

static size_t failures_of(const struct load_connections *in, Ls__ErrnoCount *items,
                          Ls__ErrnoCount **pointers)
{
    size_t n = 0;

    for (size_t i = 0; i < LOAD_ERRNO_MAX && in->failures[i].error != 0; i++) {
        const char *name = strerrorname_np(in->failures[i].error);

        ls__errno_count__init(&items[n]);
        items[n].name = ls_pb_text(name != NULL ? name : "?");
        items[n].count = in->failures[i].count;
        pointers[n] = &items[n];
        n++;
    }
    return n;
}

/* What is not 0 of counts by code. items and pointers have room for all. */
static size_t codes_of(const uint64_t counts[LOAD_HTTP2_CODES], Ls__CodeCount *items,
                       Ls__CodeCount **pointers)
{
    size_t n = 0;

    for (unsigned code = 0; code < LOAD_HTTP2_CODES; code++) {
        if (counts[code] == 0)
            continue;
        ls__code_count__init(&items[n]);
        items[n].name = ls_pb_text(load_http2_code_name(code));
        items[n].count = counts[code];
        pointers[n] = &items[n];
        n++;
    }
    return n;
}

struct http2_message {
    Ls__Http2Use use;
    Ls__CodeCount items[2][LOAD_HTTP2_CODES];
    Ls__CodeCount *pointers[2][LOAD_HTTP2_CODES];
};

static void fill_http2(const struct load_http2_use *in, uint32_t asked, struct http2_message *out)
{
    ls__http2_use__init(&out->use);
    out->use.streams_asked = asked;
    out->use.streams_granted = in->granted_least;
    out->use.streams_granted_most = in->granted_most;
    out->use.retried = in->retried;
    out->use.pushes_refused = in->pushes_refused;
    out->use.pings = in->pings;
    out->use.n_resets = codes_of(in->resets, out->items[0], out->pointers[0]);
    out->use.resets = out->pointers[0];
    out->use.n_goaways = codes_of(in->goaways, out->items[1], out->pointers[1]);
    out->use.goaways = out->pointers[1];
}

static enum ls_err report_totals(struct client *c, const struct load_totals *in)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__ClientReport report = LS__CLIENT_REPORT__INIT;
    Ls__Requests preflight = requests_of(&in->preflight);
    Ls__Requests warmup = requests_of(&in->warmup);
    Ls__Requests measure = requests_of(&in->measure);
    Ls__Messages messages = messages_of(&in->messages, in->received_in_window);
    Ls__Connections connections = LS__CONNECTIONS__INIT;
    Ls__ErrnoCount failure_items[LOAD_ERRNO_MAX];
    Ls__ErrnoCount *failures[LOAD_ERRNO_MAX];
    Ls__Failure sample = LS__FAILURE__INIT;
    Ls__TlsUse tls = LS__TLS_USE__INIT;
    Ls__HostUse host = LS__HOST_USE__INIT;
    Ls__NetworkUse network = LS__NETWORK_USE__INIT;
    struct http2_message http2;
    struct health_list health = { NULL, NULL };
    enum ls_err rc = health_of(in->workers, in->worker_count, &health);

    if (rc != LS_OK)
        return rc;
    connections.asked = in->connections.asked;
    connections.opened = in->connections.opened;
    connections.failed = in->connections.failed;
    connections.peak = in->connections.peak;
    connections.reopened = in->connections.reopened;
    connections.retired = in->connections.retired;
    connections.renewed = in->connections.renewed;
    connections.n_failures = failures_of(&in->connections, failure_items, failures);
    connections.failures = failures;
    report.trial = agent_session_trial(c->env.session);
    report.preflight = &preflight;
    report.warmup = &warmup;
    report.measure = &measure;
    report.ok_in_window = in->ok_in_window;
    report.connections = &connections;
    report.started_first_ns = in->started_first_ns;
    report.started_ns = in->started_ns;
    report.ended_ns = in->ended_ns;
    report.intervals = in->intervals;
    report.in_flight_ns = in->in_flight_ns;
    report.messages = has_messages(c) ? &messages : NULL;
    report.bytes_in = in->bytes_in;
    report.bytes_out = in->bytes_out;
    report.workers = health.pointers;
    report.n_workers = in->worker_count;
    if (agent_build_get(c->build)->tls != NULL) {
        tls.full = in->tls.full;
        tls.resumed = in->tls.resumed;
        tls.version = ls_pb_text(in->tls.version);
        tls.cipher = ls_pb_text(in->tls.cipher);
        tls.verified = agent_build_get(c->build)->tls->verify;
        report.tls = &tls;
    }
    if (agent_build_get(c->build)->http2 != NULL) {
        fill_http2(&in->http2, agent_build_get(c->build)->pipeline, &http2);
        report.http2 = &http2.use;
    }
    if (client_host_use(&c->host, &host))
        report.host = &host;
    if (agent_network_use(&c->network, &network))
        report.network = &network;
    report.rss_before_bytes = c->host.rss_before_bytes;
    report.rss_open_bytes = c->host.rss_open_bytes;
    if (in->sample[0] != '\0') {
        sample.code = ls_pb_text("sample");
        sample.text = ls_pb_text(in->sample);
        report.failure = &sample;
    }
    envelope.body_case = LS__ENVELOPE__BODY_CLIENT;
    envelope.client = &report;
    rc = agent_session_report(c->env.session, &envelope);
    health_fini(&health);
    return rc;
}

/* ---- events */

static void on_preflight(struct client *c, const struct load_event *event, int64_t now_ns)
{
    struct agent_failure failure = { .code = "preflight", .text = event->diag.text };
    Ls__Requests counts = requests_of(&event->preflight);
    char cpus[128];

    if (!event->ok) {
        agent_session_on(c->env.session, LS_ON_FAIL, now_ns, &failure);
        return;
    }
    agent_session_ready_facts(c->env.session, ls_cpuset_format(&c->cpus, cpus, sizeof(cpus)),
                              agent_load_io(c->load), agent_load_io_reason(c->load), &counts);
    agent_session_on(c->env.session, LS_ON_READY, now_ns, NULL);
}

static void on_done(struct client *c, const struct load_event *event, int64_t now_ns)
{
    struct agent_session *session = c->env.session;
    enum ls_phase phase = agent_session_phase(session);

    if (!c->armed)
        return; /* of an attempt that was disarmed */
    c->armed = false;
    if (phase == LS_PHASE_MEASURE) /* a fixed count that is through: the window ends here */
        client_entered(c, LS_PHASE_DRAIN, now_ns);
    if (report_totals(c, &event->totals) != LS_OK)
        ls_log(LS_LOG_ERROR, "client.report_lost", "trial=%u", agent_session_trial(session));
    if (c->finishing) {
        agent_session_finished(session, now_ns);
        return;
    }
    if (phase == LS_PHASE_MEASURE) { /* a fixed count that is through before its limit */
        agent_session_on(session, LS_ON_STOP, now_ns, NULL);
        phase = LS_PHASE_DRAIN;
    }
    if (phase == LS_PHASE_DRAIN) {
        agent_session_on(session, LS_ON_DRAINED, now_ns, NULL);
        return;
    }
    agent_session_on(session, LS_ON_FAIL, now_ns,
                     &(struct agent_failure){ .code = "load_ended",
                                              .text = "the load ended before its window did" });
}

static void on_event(struct client *c, const struct load_event *event, int64_t now_ns)
{
    struct agent_failure late = { .code = "late", .text = event->diag.text };

    switch (event->kind) {
    case LOAD_EVENT_PREFLIGHT:
        if (!c->finishing)
            on_preflight(c, event, now_ns);
        return;
    case LOAD_EVENT_ARMED:
        client_host_armed(&c->host);
        if (agent_session_phase(c->env.session) == LS_PHASE_ARM)
            agent_session_on(c->env.session, LS_ON_ARMED, now_ns, NULL);
        return;
    case LOAD_EVENT_LATE:
        c->armed = false;
        if (c->finishing)
            agent_session_finished(c->env.session, now_ns);
        else
            agent_session_on(c->env.session, LS_ON_LATE, now_ns, &late);
        return;
    case LOAD_EVENT_STARTED:
        if (!c->finishing && c->armed)
            agent_session_on(c->env.session, LS_ON_START, event->at_ns, NULL);
        return;
    case LOAD_EVENT_INTERVAL:
        if (report_interval(c, &event->interval) != LS_OK)
            ls_log(LS_LOG_ERROR, "client.interval_lost", "trial=%u index=%u",
                   agent_session_trial(c->env.session), event->interval.index);
        return;
    case LOAD_EVENT_DONE:
        on_done(c, event, now_ns);
        return;
    default:
        return;
    }
}

static void client_poll(void *role, int64_t now_ns)
{
    struct client *c = role;
    struct load_event event;

    while (c->load != NULL && agent_session_room(c->env.session) > ROOM_RESERVE &&
           agent_load_poll(c->load, &event))
        on_event(c, &event, now_ns);
}

static void client_finish(void *role)
{
    struct client *c = role;

    c->finishing = true;
    if (c->load != NULL && c->armed && agent_load_stop(c->load, NULL)) {
        c->env.wake(c->env.ctx);
        return; /* DONE follows */
    }
    agent_session_finished(c->env.session, 0);
}

static int64_t client_tick(void *role, int64_t now_ns)
{
    (void)role;
    (void)now_ns;
    return INT64_MAX;
}

const struct agent_role_class agent_role_client = {
    .name = "client",
    .tells_start = true,
    .create = client_create,
    .destroy = client_destroy,
    .prepare = client_prepare,
    .arm = client_arm,
    .disarm = client_disarm,
    .entered = client_entered,
    .finish = client_finish,
    .release = client_release,
    .poll = client_poll,
    .tick = client_tick,
};

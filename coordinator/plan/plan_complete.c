#include "coordinator/plan/plan_check_parts.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/msg_model.h"
#include "coordinator/plan/load_law.h"
#include "coordinator/plan/trials.h"

/* The message, or a new one in its place. */
static void *or_new(void *message, const ProtobufCMessageDescriptor *type)
{
    return message != NULL ? message : ls_msg_new(type);
}

/* Each helper returns false when memory is out; what was done until then is owned by the plan. */

static bool fill_duration(Ls__Duration **duration, int64_t ns)
{
    if (*duration != NULL)
        return true;
    *duration = or_new(NULL, &ls__duration__descriptor);
    if (*duration == NULL)
        return false;
    (*duration)->ns = ns;
    return true;
}

/* Makes a default text the message's own, so that it is sent and written like one that was given.
 */
static bool fill_text(char **text, const char *default_text)
{
    char *copy;

    if (*text != NULL && *text != default_text)
        return true;
    copy = strdup(default_text);
    if (copy == NULL)
        return false;
    *text = copy;
    return true;
}

static bool complete_request(Ls__Request *request)
{
    return fill_text(&request->method, ls__request__method__default_value) &&
           fill_text(&request->path, ls__request__path__default_value);
}

static bool complete_http(Ls__Http *http)
{
    http->has_version = 1;
    if (http->version == LS__HTTP_VERSION__HTTP_VERSION_HTTP2)
        http->has_streams = 1;
    else
        http->has_pipeline = 1;
    if (http->data != NULL)
        http->data->has_order = 1;
    for (size_t i = 0; i < http->n_requests; i++) {
        if (!complete_request(http->requests[i]))
            return false;
        http->requests[i]->has_weight = 1;
    }
    return true;
}

static bool complete_message(Ls__Message *message)
{
    message->has_binary = 1;
    if (message->text != NULL || message->size != NULL)
        return true;
    message->size = or_new(NULL, &ls__size__descriptor);
    if (message->size == NULL)
        return false;
    message->size->bytes = COORD_DEFAULT_MESSAGE_BYTES;
    return true;
}

/* A round is a wave of as many messages on each connection. */
static bool complete_room(Ls__Workload *w, Ls__Room *room)
{
    Ls__Waves *waves;

    room->has_to_sender = 1;
    if (!fill_text(&room->delivery, ls__room__delivery__default_value))
        return false;
    if (!room->has_round)
        return true;
    w->websocket->pipeline = room->round;
    if (w->load->law_case == LS__LOAD__LAW_WAVES)
        return true; /* completed before */
    waves = or_new(NULL, &ls__waves__descriptor);
    if (waves == NULL)
        return false;
    waves->has_size = 1;
    waves->size = w->connections;
    ls__closed__free_unpacked(w->load->closed, NULL);
    w->load->waves = waves;
    w->load->law_case = LS__LOAD__LAW_WAVES;
    return true;
}

static bool complete_websocket(Ls__Workload *w, Ls__WebSocket *ws)
{
    ws->has_pipeline = 1;
    ws->message = or_new(ws->message, &ls__message__descriptor);
    if (ws->message == NULL || !complete_message(ws->message))
        return false;
    if (ws->deflate != NULL)
        ws->deflate->has_server_takeover = 1;
    if (ws->kind_case == LS__WEB_SOCKET__KIND__NOT_SET) {
        Ls__Echo *echo = or_new(NULL, &ls__echo__descriptor);

        if (echo == NULL)
            return false;
        ws->echo = echo;
        ws->kind_case = LS__WEB_SOCKET__KIND_ECHO;
    }
    if (ws->kind_case == LS__WEB_SOCKET__KIND_ROOM && !complete_room(w, ws->room))
        return false;
    return fill_text(&ws->path, ls__web_socket__path__default_value);
}

static bool fill_rate(Ls__Rate **rate, double per_s)
{
    if (*rate != NULL)
        return true;
    *rate = or_new(NULL, &ls__rate__descriptor);
    if (*rate != NULL)
        (*rate)->per_s = per_s;
    return *rate != NULL;
}

static bool fill_share(Ls__Share **share, double of_one)
{
    if (*share != NULL)
        return true;
    *share = or_new(NULL, &ls__share__descriptor);
    if (*share != NULL)
        (*share)->of_one = of_one;
    return *share != NULL;
}

static bool fill_settle(Ls__Capacity *capacity)
{
    if (capacity->server == LS__SERVER_STATE__SERVER_STATE_SETTLED &&
        !fill_duration(&capacity->settle, COORD_DEFAULT_CAPACITY_SETTLE_NS))
        return false;
    return !capacity->profile ||
           fill_duration(&capacity->profile_step, COORD_DEFAULT_CAPACITY_STEP_NS);
}

static bool complete_capacity(Ls__Capacity *capacity)
{
    capacity->has_arrivals = capacity->has_queue = capacity->has_server = 1;
    capacity->has_profile = capacity->has_hosts = 1;
    return fill_rate(&capacity->start, COORD_DEFAULT_CAPACITY_START_PER_S) &&
           fill_rate(&capacity->least, COORD_DEFAULT_CAPACITY_LEAST_PER_S) &&
           fill_rate(&capacity->most, COORD_DEFAULT_CAPACITY_MOST_PER_S) &&
           fill_duration(&capacity->budget, coord_capacity_budget_ns(capacity)) &&
           fill_duration(&capacity->probe, coord_capacity_probe_ns(capacity)) &&
           fill_duration(&capacity->longest_probe, coord_capacity_longest_ns(capacity)) &&
           fill_duration(&capacity->confirm, coord_capacity_confirm_ns(capacity)) &&
           fill_settle(capacity) &&
           fill_share(&capacity->precision, COORD_DEFAULT_CAPACITY_PRECISION) &&
           fill_share(&capacity->limits->errors, COORD_DEFAULT_CAPACITY_ERRORS);
}

/* Powers of two up to the workload's connections, from one for each client on. */
static bool complete_rungs(Ls__Ladder *ladder, uint32_t least, uint32_t most)
{
    uint32_t rung = 1;

    ladder->connections = malloc(33 * sizeof(*ladder->connections));
    if (ladder->connections == NULL)
        return false;
    while (rung < least)
        rung *= 2;
    for (; rung < most; rung *= 2)
        ladder->connections[ladder->n_connections++] = rung;
    ladder->connections[ladder->n_connections++] = most;
    return true;
}

static bool complete_ladder(Ls__Workload *w, uint32_t clients)
{
    Ls__Ladder *ladder = w->load->ladder;

    ladder->has_passes = 1;
    if (ladder->n_connections == 0 && !complete_rungs(ladder, clients, w->connections))
        return false;
    w->connections = ladder->connections[ladder->n_connections - 1];
    return fill_duration(&ladder->each, COORD_DEFAULT_LADDER_EACH_NS);
}

static bool complete_load(Ls__Workload *w, uint32_t clients)
{
    w->load = or_new(w->load, &ls__load__descriptor);
    if (w->load == NULL)
        return false;
    if (w->load->law_case == LS__LOAD__LAW__NOT_SET) {
        Ls__Closed *closed = or_new(NULL, &ls__closed__descriptor);

        if (closed == NULL)
            return false;
        w->load->closed = closed;
        w->load->law_case = LS__LOAD__LAW_CLOSED;
    }
    switch (w->load->law_case) {
    case LS__LOAD__LAW_CONSTANT:
        w->load->constant->has_queue = 1;
        return true;
    case LS__LOAD__LAW_POISSON:
        w->load->poisson->has_queue = 1;
        return true;
    case LS__LOAD__LAW_RAMP:
        w->load->ramp->has_queue = 1;
        return fill_duration(&w->load->ramp->over, w->measure->ns);
    case LS__LOAD__LAW_STEPS:
        w->load->steps->has_queue = 1;
        return true;
    case LS__LOAD__LAW_TRACE:
        w->load->trace->has_queue = 1;
        w->load->trace->has_scale = 1;
        return true;
    case LS__LOAD__LAW_WAVES:
        w->connections = w->load->waves->size;
        return true;
    case LS__LOAD__LAW_CAPACITY:
        return complete_capacity(w->load->capacity);
    case LS__LOAD__LAW_LADDER:
        return complete_ladder(w, clients);
    default:
        return true;
    }
}

/* "sigterm" becomes "TERM". */
static void normalise_signal(char *name)
{
    size_t skip = strncasecmp(name, "SIG", 3) == 0 ? 3 : 0;
    size_t len = strlen(name + skip);

    (void)memmove(name, name + skip, len + 1);
    for (char *c = name; *c != '\0'; c++) {
        if (*c >= 'a' && *c <= 'z')
            *c = (char)(*c - 'a' + 'A');
    }
}

static bool complete_stop(Ls__Stop *stop)
{
    if (!fill_text(&stop->signal, ls__stop__signal__default_value) ||
        !fill_duration(&stop->grace, COORD_DEFAULT_STOP_GRACE_NS))
        return false;
    normalise_signal(stop->signal);
    return true;
}

static bool complete_service(Ls__Service *service)
{
    service->stop = or_new(service->stop, &ls__stop__descriptor);
    if (service->stop == NULL || !complete_stop(service->stop))
        return false;
    return fill_text(&service->host, ls__service__host__default_value) &&
           fill_duration(&service->timeout, COORD_DEFAULT_READY_TIMEOUT_NS);
}

static bool complete_services(Ls__Service *const *services, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!complete_service(services[i]))
            return false;
    }
    return true;
}

static bool complete_expect(Ls__ProcessExpect *expect)
{
    expect->has_exit = 1;
    if (expect->n_outcomes > 0)
        return true;
    expect->outcomes = calloc(1, sizeof(*expect->outcomes));
    expect->n_outcomes = expect->outcomes != NULL; /* graceful */
    return expect->outcomes != NULL;
}

/* Without a time that says how long, so many runs. */
static bool complete_process(Ls__Workload *w)
{
    Ls__Process *p = w->process;

    if (!p->has_runs && w->measure == NULL) {
        p->has_runs = 1;
        p->runs = COORD_DEFAULT_PROCESS_RUNS;
    }
    p->has_warmup_runs = p->has_concurrency = 1;
    p->expect = or_new(p->expect, &ls__process_expect__descriptor);
    p->output = or_new(p->output, &ls__size__descriptor);
    if (p->expect == NULL || p->output == NULL || !complete_expect(p->expect))
        return false;
    if (p->output->bytes == 0)
        p->output->bytes = COORD_DEFAULT_PROCESS_OUTPUT_BYTES;
    w->connections = 0;
    return fill_duration(&w->warmup, 0) && fill_duration(&w->measure, 0) &&
           fill_duration(&w->timeout, COORD_DEFAULT_PROCESS_TIMEOUT_NS) &&
           fill_duration(&w->interval, COORD_DEFAULT_INTERVAL_NS) && complete_load(w, 1);
}

static bool complete_workload(Ls__Workload *w, uint32_t clients)
{
    int64_t interval_ns = COORD_DEFAULT_INTERVAL_NS;

    if (!complete_services(w->services, w->n_services))
        return false;
    if (w->protocol_case == LS__WORKLOAD__PROTOCOL_PROCESS)
        return complete_process(w);

    if (!fill_duration(&w->warmup, coord_load_default_warmup_ns(w)) ||
        !fill_duration(&w->measure, coord_load_measure_ns(w)) ||
        !fill_duration(&w->timeout, COORD_DEFAULT_TIMEOUT_NS))
        return false;
    if (w->measure->ns < interval_ns)
        interval_ns = w->measure->ns;
    if (!fill_duration(&w->interval, interval_ns) || !complete_load(w, clients))
        return false;
    w->has_connections = 1;
    w->has_pacing = w->has_io = w->has_receive_stamps = 1;
    if (w->think != NULL)
        w->think->has_distribution = 1;
    return w->protocol_case == LS__WORKLOAD__PROTOCOL_HTTP ? complete_http(w->http)
                                                           : complete_websocket(w, w->websocket);
}

static Ls__Request *copy_request(const Ls__Request *request)
{
    size_t len = ls__request__get_packed_size(request);
    uint8_t *bytes = malloc(len == 0 ? 1 : len);
    Ls__Request *copy = NULL;

    if (bytes == NULL)
        return NULL;
    if (ls__request__pack(request, bytes) == len)
        copy = ls__request__unpack(NULL, len, bytes);
    free(bytes);
    return copy;
}

/* The first request of the first workload that applies, with the first value of each placeholder:
 * what comes next would be another one in each trial. None, if none applies. */
static enum ls_err fill_ready_request(const Ls__Plan *plan, const char *base_dir,
                                      Ls__Target *target)
{
    if (target->ready->request != NULL)
        return complete_request(target->ready->request) ? LS_OK : LS_ENOMEM;
    for (size_t i = 0; i < plan->n_workloads; i++) {
        const Ls__Workload *w = plan->workloads[i];

        if (!coord_workload_has_target(w, target->name) ||
            w->protocol_case == LS__WORKLOAD__PROTOCOL_PROCESS)
            continue;
        if (w->protocol_case == LS__WORKLOAD__PROTOCOL_WEBSOCKET)
            return LS_OK; /* ready is whoever agrees to WebSocket */
        target->ready->request = copy_request(w->http->requests[0]);
        if (target->ready->request == NULL)
            return LS_ENOMEM;
        target->ready->request->has_weight = 0;
        return coord_plan_first_values(target->ready->request, w->http->data, base_dir);
    }
    return LS_OK;
}

static bool fill_alpn(Ls__Tls *tls)
{
    if (tls->n_alpn > 0)
        return true;
    tls->alpn = calloc(1, sizeof(char *));
    if (tls->alpn == NULL)
        return false;
    tls->alpn[0] = strdup("http/1.1");
    tls->n_alpn = tls->alpn[0] != NULL;
    return tls->n_alpn == 1;
}

static bool complete_tls(Ls__Tls *tls)
{
    tls->has_verify = tls->has_resume = 1;
    return fill_text(&tls->min_version, ls__tls__min_version__default_value) &&
           fill_text(&tls->max_version, ls__tls__max_version__default_value) && fill_alpn(tls);
}

const char *coord_plan_variable(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* What the environment names takes the place of what the plan does. */
static bool complete_absent(Ls__Target *target)
{
    const char *named =
        target->program_variable != NULL ? coord_plan_variable(target->program_variable) : NULL;
    char *copy;

    if (target->probe != NULL &&
        !fill_duration(&target->probe->timeout, COORD_DEFAULT_PROBE_TIMEOUT_NS))
        return false;
    if (named == NULL)
        return true;
    copy = strdup(named);
    if (copy == NULL)
        return false;
    free(target->program);
    target->program = copy;
    return true;
}

static enum ls_err complete_target(const Ls__Plan *plan, const char *base_dir, Ls__Target *target)
{
    target->ready = or_new(target->ready, &ls__ready__descriptor);
    if (target->ready == NULL)
        return LS_ENOMEM;
    target->stop = or_new(target->stop, &ls__stop__descriptor);
    if (target->stop == NULL || (target->tls != NULL && !complete_tls(target->tls)))
        return LS_ENOMEM;
    if (!fill_text(&target->host, ls__target__host__default_value) ||
        !fill_duration(&target->ready->timeout, COORD_DEFAULT_READY_TIMEOUT_NS) ||
        !complete_stop(target->stop) || !complete_services(target->services, target->n_services) ||
        !complete_absent(target))
        return LS_ENOMEM;
    target->has_external = 1;
    if (!target->external)
        target->has_instances = target->has_network = target->ready->has_processes = 1;
    return fill_ready_request(plan, base_dir, target);
}

static bool complete_fleet(Ls__Plan *plan)
{
    bool needs_server = false;
    uint32_t clients = 0, servers = 0;
    bool had_servers;
    Ls__Fleet *fleet;

    plan->fleet = or_new(plan->fleet, &ls__fleet__descriptor);
    if (plan->fleet == NULL)
        return false;
    fleet = plan->fleet;
    fleet->cpus = or_new(fleet->cpus, &ls__fleet_cpus__descriptor);
    if (fleet->cpus == NULL)
        return false;
    for (size_t i = 0; i < plan->n_targets; i++)
        needs_server |= !plan->targets[i]->external;
    for (size_t i = 0; i < fleet->n_agents; i++) {
        clients += fleet->agents[i]->role == LS__AGENT_ROLE__AGENT_ROLE_CLIENT;
        servers += fleet->agents[i]->role == LS__AGENT_ROLE__AGENT_ROLE_SERVER;
        fleet->agents[i]->has_role = 1;
    }
    if (!fleet->has_clients && clients > 0)
        fleet->clients = clients;
    else if (!fleet->has_clients && !coord_plan_needs_clients(plan))
        fleet->clients = 0;
    fleet->has_clients = 1;
    had_servers = fleet->has_servers;
    fleet->has_servers = 1;
    if (!needs_server)
        fleet->servers = 0;
    else if (!had_servers)
        fleet->servers = servers > 1 ? servers : 1;
    fleet->has_on_agent_loss = 1;
    fleet->cpus->has_allow_overlap = 1;
    return fill_text(&fleet->cpus->server, ls__fleet_cpus__server__default_value) &&
           fill_text(&fleet->cpus->client, ls__fleet_cpus__client__default_value) &&
           fill_duration(&fleet->max_start_skew, COORD_DEFAULT_START_SKEW_NS);
}

/* A column for each target that the table takes. */
static bool fill_columns(const Ls__Plan *plan, Ls__PageTable *table)
{
    table->columns = calloc(plan->n_targets + 1, sizeof(Ls__PageColumn *));
    for (size_t i = 0; table->columns != NULL && i < plan->n_targets; i++) {
        const char *name = plan->targets[i]->name;
        Ls__PageColumn *column;
        bool wanted = table->n_targets == 0;

        for (size_t k = 0; k < table->n_targets; k++)
            wanted = wanted || fnmatch(table->targets[k], name, 0) == 0;
        if (!wanted)
            continue;
        column = or_new(NULL, &ls__page_column__descriptor);
        if (column == NULL)
            return false;
        table->columns[table->n_columns++] = column;
        column->title = strdup(name);
        column->target = strdup(name);
        if (column->title == NULL || column->target == NULL)
            return false;
    }
    return table->columns != NULL;
}

static bool complete_table(const Ls__Plan *plan, Ls__PageTable *table)
{
    table->has_rows = table->has_statistic = table->has_compare = 1;
    return fill_text(&table->metric, ls__page_table__metric__default_value) &&
           (table->n_columns > 0 || fill_columns(plan, table));
}

enum ls_err coord_plan_complete(Ls__Plan *plan, const char *base_dir)
{
    if (!complete_fleet(plan))
        return LS_ENOMEM;
    plan->schedule = or_new(plan->schedule, &ls__schedule__descriptor);
    if (plan->schedule == NULL)
        return LS_ENOMEM;
    plan->schedule->has_repetitions = 1;
    plan->schedule->has_order = 1;
    plan->schedule->has_discard = 1;
    for (size_t i = 0; i < plan->n_workloads; i++) {
        if (!complete_workload(plan->workloads[i], plan->fleet->clients))
            return LS_ENOMEM;
    }
    for (size_t i = 0; i < plan->n_tables; i++) {
        if (!complete_table(plan, plan->tables[i]))
            return LS_ENOMEM;
    }
    for (size_t i = 0; i < plan->n_targets; i++) {
        enum ls_err rc = complete_target(plan, base_dir, plan->targets[i]);

        if (rc != LS_OK)
            return rc;
    }
    return LS_OK;
}

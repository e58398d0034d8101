#include "coordinator/plan/plan_check_parts.h"

#include <inttypes.h>
#include <string.h>

#include "common/clock.h"
#include "common/sources.h"
#include "common/units.h"
#include "coordinator/plan/load_law.h"
#include "coordinator/plan/trials.h"

#define REPORTS_MAX 100000 /* of one agent in one trial */

/* ---- connections -------------------------------------------------------------------------------
 */

static void check_connections(struct coord_plan_checker *c, const Ls__Workload *w)
{
    coord_plan_check_range(c, &w->base, "connections", w->connections, 1,
                           COORD_PLAN_CONNECTIONS_MAX);
    if (w->connections >= 1 && w->connections < c->clients)
        coord_plan_check_say(c, &w->base, "connections", -1,
                             "%" PRIu32 " are too few for %" PRIu32
                             " clients: each opens at least one",
                             w->connections, c->clients);
}

/* ---- time -------------------------------------------------------------------------------------
 */

static void check_interval(struct coord_plan_checker *c, const Ls__Workload *w)
{
    int64_t measure_ns = coord_load_measure_ns(w);
    char interval[48];
    char measure[48];

    if (w->interval == NULL || w->interval->ns <= 0 || measure_ns <= 0)
        return;
    (void)ls_format_duration(w->interval->ns, interval, sizeof(interval));
    (void)ls_format_duration(measure_ns, measure, sizeof(measure));
    if (w->interval->ns > measure_ns)
        coord_plan_check_say(c, &w->base, "interval", -1,
                             "%s is longer than the measurement of %s: shorten it", interval,
                             measure);
    else if (measure_ns / w->interval->ns > REPORTS_MAX)
        coord_plan_check_say(c, &w->base, "interval", -1,
                             "%s in %s make more than %d reports: lengthen it", interval, measure,
                             REPORTS_MAX);
}

static void check_times(struct coord_plan_checker *c, const Ls__Workload *w)
{
    coord_plan_check_duration(c, &w->base, "warmup", w->warmup, 0, 3600 * LS_NS_PER_S);
    coord_plan_check_duration(c, &w->base, "measure", w->measure, 100 * LS_NS_PER_MS,
                              86400 * LS_NS_PER_S);
    coord_plan_check_duration(c, &w->base, "timeout", w->timeout, LS_NS_PER_MS, 600 * LS_NS_PER_S);
    coord_plan_check_duration(c, &w->base, "interval", w->interval, 100 * LS_NS_PER_MS,
                              60 * LS_NS_PER_S);
    check_interval(c, w);
}

/* Of the family of each target that the workload is for. */
static void check_sources(struct coord_plan_checker *c, const Ls__Workload *w)
{
    struct ls_sources sources = { 0 };
    bool is_v6 = false;
    struct ls_diag diag;

    for (size_t i = 0; i < c->plan->n_targets; i++) {
        const Ls__Target *target = c->plan->targets[i];

        if (target->name != NULL && coord_workload_has_target(w, target->name) &&
            target->host != NULL)
            is_v6 = strchr(target->host, ':') != NULL;
    }
    for (size_t i = 0; i < w->n_source_addresses; i++) {
        if (ls_sources_add(&sources, w->source_addresses[i], is_v6 ? AF_INET6 : AF_INET, &diag) !=
            LS_OK) {
            coord_plan_check_say(c, &w->base, "source_addresses", (int)i, "%s", diag.text);
            break;
        }
    }
    ls_sources_fini(&sources);
}

void coord_plan_check_workload(struct coord_plan_checker *c, const Ls__Workload *w)
{
    coord_plan_check_name(c, &w->base, w->name, "workload");
    if (w->protocol_case == LS__WORKLOAD__PROTOCOL_HTTP)
        coord_plan_check_http(c, w->http);
    else if (w->protocol_case == LS__WORKLOAD__PROTOCOL_WEBSOCKET)
        coord_plan_check_websocket(c, w);
    else if (w->protocol_case == LS__WORKLOAD__PROTOCOL_PROCESS)
        coord_plan_check_process(c, w);
    else
        coord_plan_check_say(c, &w->base, "http", -1,
                             "is missing: what to send, such as http: {requests: [{path: /}]}");
    coord_plan_check_services(c, &w->base, w->services, w->n_services);
    coord_plan_check_reach(c, w);
    if (w->protocol_case == LS__WORKLOAD__PROTOCOL_PROCESS)
        return; /* the rest is about connections and what goes over them */
    check_connections(c, w);
    check_times(c, w);
    coord_plan_check_load(c, w);
    check_sources(c, w);
}

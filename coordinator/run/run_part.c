/* Trials that are parts of one of the plan's: the probes of a search, the rungs of a ladder. */
#include <stdio.h>

#include "common/exponential.h"
#include "coordinator/plan/load_law.h"
#include "coordinator/run/run_internal.h"

void run_load_init(struct run_load *p, const Ls__Workload *from, int64_t measure_ns,
                   int64_t interval_ns, int64_t timeout_ns)
{
    p->workload = *from;
    ls__load__init(&p->load);
    ls__rate__init(&p->rate);
    ls__duration__init(&p->measure);
    ls__duration__init(&p->interval);
    ls__duration__init(&p->timeout);
    p->measure.ns = measure_ns;
    p->interval.ns = interval_ns;
    p->timeout.ns = timeout_ns;
    p->workload.load = &p->load;
    p->workload.measure = &p->measure;
    p->workload.interval = &p->interval;
    p->workload.timeout = &p->timeout;
}

/* What parts of a trial say of one rate is judged together, so that each needs arrivals of its own:
 * the same ones again would say nothing new. */
static uint64_t part_seed(const struct coord_trial *whole, uint32_t number)
{
    return ls_mix64(whole->seed ^ ls_mix64((uint64_t)whole->index << 32 | number));
}

enum ls_err run_part(struct run *r, const struct coord_trial *whole, const Ls__Workload *workload,
                     const char *kind, uint32_t number, Ls__Trial **out_trial, struct ls_diag *diag)
{
    struct coord_trial trial = *whole;
    bool invalid = r->invalid, incomplete = r->incomplete;
    char part[300];
    enum ls_err rc;

    trial.workload = workload;
    trial.seed = part_seed(whole, number);
    (void)snprintf(part, sizeof(part), "%.200s-%s%03u", whole->workload->name, kind, number);
    *out_trial = NULL;
    rc = run_make_ready(r, diag);
    if (rc == LS_OK)
        rc = run_measure(r, &trial, part, out_trial, diag);
    r->trial = NULL; /* its workload goes now */
    r->invalid = invalid;
    r->incomplete = incomplete;
    return rc;
}

static double server_cpus(const struct run *r, const Ls__Target *target)
{
    return r->servers > 0 && !target->external
               ? ls_cpuset_count(&r->cpus.agents[run_server_of(r, target)])
               : 0;
}

void run_part_cause(const struct run *r, const struct coord_trial *whole, const Ls__Trial *measured,
                    const struct coord_load_limit *limits, size_t limit_count,
                    struct coord_cause *out)
{
    const Ls__Workload *w = whole->workload;

    coord_limited_by(
        measured,
        &(struct coord_cause_input){ .server_cpus = server_cpus(r, whole->target),
                                     .connections = (double)w->connections * coord_load_pipeline(w),
                                     .limits = limits,
                                     .limit_count = limit_count },
        out);
}

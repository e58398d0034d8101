#include "agent/load/worker.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "agent/load/pacer.h"
#include "common/clock.h"

#define BRIEF_REQUESTS 16u /* of a connection: then its set-up is what counts */

struct agent_worker {
    struct agent_worker_setup set;
    struct agent_engine *engine;     /* owned */
    struct agent_recorder *recorder; /* owned */
    struct agent_link_hub *hub;      /* owned */
    struct agent_health health;
    struct agent_pacer pacer;
    pthread_t thread;
    bool running; /* the thread has to be joined */
    bool prompt;  /* has real-time priority */
    atomic_bool stop;
    atomic_int_least64_t started_ns;
};

static void handed(void *ctx)
{
    struct agent_worker *w = ctx;

    w->set.signal(w->set.ctx);
}

#define STAMPED_LEAST 8u /* connections of a worker, if nobody has asked for all */

/* A stamp costs 2 to 6 % of a request on io_uring, 5 % on libev; where the clients have time to
 * spare, as in an open loop that they can keep up with, nobody notices. */
static bool wants_stamps(const struct agent_worker_setup *setup)
{
    if (setup->workload->stamps == LOAD_STAMPS_AUTO)
        return load_law_is_open(setup->workload->law) || strcmp(setup->link->io, "io_uring") == 0;
    return setup->workload->stamps == LOAD_STAMPS_ON;
}

/* In a closed loop all connections do the same, and a part of them shows it as well. */
static uint32_t stamp_every(const struct load_workload *workload, uint32_t links)
{
    bool all = workload->stamps != LOAD_STAMPS_AUTO || load_law_is_open(workload->law);

    return all ? 1 : links / STAMPED_LEAST;
}

/* Is it connections, rather than requests, that the load is made of? */
static bool is_brief(const struct load_workload *workload)
{
    bool closes = true;

    for (uint32_t i = 0; closes && i < workload->request_count; i++)
        closes = workload->requests[i].closes;
    return closes ||
           (workload->lifetime_requests > 0 && workload->lifetime_requests < BRIEF_REQUESTS);
}

enum ls_err agent_worker_create(const struct agent_worker_setup *setup,
                                struct agent_worker **out_worker, struct ls_diag *diag)
{
    struct agent_worker *w = calloc(1, sizeof(*w));
    struct agent_engine_setup engine;
    struct agent_link_env link_env = agent_engine_link_env;
    uint32_t links_max;
    enum ls_err rc = LS_ENOMEM;

    if (w == NULL) {
        (void)ls_fail(diag, rc, "no memory for a worker");
        goto out;
    }
    w->set = *setup;
    w->health.schedstat_fd = -1;
    atomic_init(&w->stop, false);
    atomic_init(&w->started_ns, 0);
    rc = agent_recorder_create(setup->window->start_ns, setup->window->interval_ns, &w->recorder);
    if (rc != LS_OK) {
        (void)ls_fail(diag, rc, "no memory for a worker's histograms");
        goto out;
    }
    links_max = agent_engine_connections(setup->workload, setup->index);
    link_env.carrier = setup->carrier;
    link_env.tls = setup->workload->tls;
    link_env.brief = is_brief(setup->workload);
    link_env.at_once = setup->workload->law != LOAD_LAW_CLOSED; /* then the instant counts */
    link_env.stamps = wants_stamps(setup);
    link_env.stamp_every = stamp_every(setup->workload, links_max);
    link_env.min_wait_ns = setup->workload->min_wait_ns;
    link_env.sources = setup->workload->sources;
    link_env.source_count = setup->workload->source_count;
    link_env.source_first = setup->workload->worker_base + setup->index;
    rc = setup->link->hub_create(&link_env, links_max, &w->hub, diag);
    if (rc != LS_OK)
        goto out;
    engine = (struct agent_engine_setup){
        .workload = setup->workload,
        .window = setup->window,
        .worker = setup->index,
        .driver = setup->driver,
        .link = setup->link,
        .hub = w->hub,
        .recorder = w->recorder,
        .clock = ls_clock_mono_ns,
        .wall_clock = link_env.stamps ? ls_clock_wall_ns : NULL,
        .health = &w->health,
        .spun_ns = &w->pacer.spun_ns,
        .handed = handed,
        .ctx = w,
    };
    rc = agent_engine_create(&engine, &w->engine, diag);
    if (rc != LS_OK)
        goto out;
    *out_worker = w;
    w = NULL; /* now the caller's */
out:
    agent_worker_destroy(w);
    return rc;
}

void agent_worker_destroy(struct agent_worker *worker)
{
    if (worker == NULL)
        return;
    if (worker->running) {
        agent_worker_stop(worker);
        agent_worker_join(worker);
    }
    agent_engine_destroy(worker->engine);
    if (worker->hub != NULL)
        worker->set.link->hub_destroy(worker->hub);
    agent_recorder_destroy(worker->recorder);
    free(worker);
}

/* Turns the sockets once, after waiting as the pacer says. */
static void wait_for_more(struct agent_worker *w, int64_t now_ns, int64_t due_ns, int64_t coarse_ns)
{
    enum agent_pace pace =
        agent_pacer_next(&w->pacer, now_ns, due_ns, coarse_ns, agent_engine_events(w->engine));

    w->set.link->turn(w->hub, pace == AGENT_PACE_WAIT ? w->pacer.until_ns : 0);
}

static bool is_stopped(struct agent_worker *w)
{
    return atomic_load_explicit(&w->stop, memory_order_relaxed);
}

/* Before the start, and only then, with real-time priority where the system allows it: between the
 * wake-up and the instant nobody else has the CPU. A worker sleeps nearly all of that time. */
static void be_prompt(struct agent_worker *w, bool prompt)
{
    struct sched_param param;
    int policy;

    if (prompt == w->prompt || pthread_getschedparam(pthread_self(), &policy, &param) != 0 ||
        (prompt && policy != SCHED_OTHER))
        return; /* somebody has chosen another one for us */
    param.sched_priority = prompt ? 1 : 0;
    if (pthread_setschedparam(pthread_self(), prompt ? SCHED_FIFO : SCHED_OTHER, &param) == 0)
        w->prompt = prompt;
}

/* Opens the connections, keeps them open, and returns the instant of the start: 0 if there is
 * none. */
static int64_t wait_for_start(struct agent_worker *w)
{
    int64_t start_ns = w->set.window->start_ns;
    int64_t decide_ns = start_ns - AGENT_READY_LEAD_NS;
    bool arrived = false;

    while (!is_stopped(w)) {
        int64_t now_ns = ls_clock_mono_ns();
        int64_t coarse_ns;
        bool opening = now_ns >= w->set.window->open_ns;

        if (opening)
            agent_engine_tick(w->engine, now_ns);
        if (!arrived && agent_engine_unsettled(w->engine) == 0 && now_ns < decide_ns) {
            arrived = true;
            be_prompt(w, true);
            if (agent_gate_arrive(w->set.gate))
                w->set.signal(w->set.ctx);
        }
        if (now_ns >= decide_ns && !agent_gate_decide(w->set.gate))
            return 0;
        if (now_ns >= start_ns)
            return now_ns;
        coarse_ns = opening ? agent_engine_coarse_ns(w->engine) : w->set.window->open_ns;
        if (now_ns < decide_ns && decide_ns < coarse_ns)
            coarse_ns = decide_ns;
        wait_for_more(w, now_ns, start_ns, coarse_ns);
    }
    return 0;
}

static void drive(struct agent_worker *w)
{
    for (;;) {
        int64_t now_ns = ls_clock_mono_ns();

        if (is_stopped(w))
            agent_engine_stop(w->engine, now_ns);
        else
            agent_engine_tick(w->engine, now_ns);
        if (agent_engine_is_finished(w->engine))
            return;
        wait_for_more(w, now_ns, agent_engine_due_ns(w->engine), agent_engine_coarse_ns(w->engine));
    }
}

static void *run(void *arg)
{
    struct agent_worker *w = arg;
    int64_t started_ns;

    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* without it waits end 50 us later */
    agent_health_init(&w->health);
    started_ns = wait_for_start(w);
    if (started_ns != 0) {
        atomic_store(&w->started_ns, started_ns);
        agent_engine_start(w->engine, started_ns);
        w->set.signal(w->set.ctx);
        w->pacer.frugal = w->set.workload->frugal;        /* the start is made precisely by all */
        agent_engine_tick(w->engine, ls_clock_mono_ns()); /* the first requests belong to it */
        be_prompt(w, false);
        drive(w);
    } else {
        agent_engine_stop(w->engine, ls_clock_mono_ns());
    }
    agent_health_fini(&w->health);
    w->set.signal(w->set.ctx);
    return NULL;
}

/* Restricts a thread to be created to cpu; -1: leaves it as it is. */
static int set_cpu(pthread_attr_t *attr, int cpu)
{
    cpu_set_t set;

    if (cpu < 0)
        return 0;
    if (cpu >= CPU_SETSIZE)
        return EINVAL;
    CPU_ZERO(&set);
    CPU_SET((unsigned)cpu, &set);
    return pthread_attr_setaffinity_np(attr, sizeof(set), &set);
}

static bool is_on_cpu(pthread_t thread, int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    return pthread_getaffinity_np(thread, sizeof(set), &set) == 0 && CPU_COUNT(&set) == 1 &&
           CPU_ISSET((unsigned)cpu, &set);
}

enum ls_err agent_worker_start(struct agent_worker *w, struct ls_diag *diag)
{
    const int *cpus = w->set.workload->worker_cpus;
    int cpu = cpus != NULL ? cpus[w->set.index] : -1;
    char name[16];
    pthread_attr_t attr;
    int error = pthread_attr_init(&attr);

    if (error != 0)
        return ls_fail(diag, LS_EIO, "cannot start a worker: %s", strerror(error));
    error = set_cpu(&attr, cpu);
    if (error == 0)
        error = pthread_create(&w->thread, &attr, run, w);
    (void)pthread_attr_destroy(&attr); /* cannot fail here */
    if (error != 0 && cpu >= 0)
        return ls_fail(diag, LS_EIO, "cannot start a worker on CPU %d: %s", cpu, strerror(error));
    if (error != 0)
        return ls_fail(diag, LS_EIO, "cannot start a worker: %s", strerror(error));
    w->running = true;
    (void)snprintf(name, sizeof(name), "load-%" PRIu32,
                   w->set.workload->worker_base + w->set.index);
    (void)pthread_setname_np(w->thread, name); /* for people with top; nothing depends on it */
    if (cpu >= 0 && !is_on_cpu(w->thread, cpu))
        return ls_fail(diag, LS_EIO, "worker %" PRIu32 " did not stay on CPU %d", w->set.index,
                       cpu);
    return LS_OK;
}

void agent_worker_stop(struct agent_worker *worker)
{
    atomic_store(&worker->stop, true);
    worker->set.link->wake(worker->hub);
}

void agent_worker_join(struct agent_worker *worker)
{
    if (!worker->running)
        return;
    (void)pthread_join(worker->thread, NULL); /* it is ours, and joined once */
    worker->running = false;
}

int64_t agent_worker_started_ns(struct agent_worker *worker)
{
    return atomic_load(&worker->started_ns);
}

struct agent_recorder *agent_worker_recorder(struct agent_worker *worker)
{
    return worker->recorder;
}

const struct agent_engine *agent_worker_engine(const struct agent_worker *worker)
{
    return worker->engine;
}

const struct tls_context *agent_worker_tls(const struct agent_worker *worker)
{
    return worker->set.carrier != NULL ? agent_link_tls_context(worker->hub) : NULL;
}

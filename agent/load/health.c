#include "agent/load/health.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/clock.h"

void agent_health_init(struct agent_health *health)
{
    *health = (struct agent_health){ .schedstat_fd = -1 };
    health->schedstat_fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
}

void agent_health_fini(struct agent_health *health)
{
    if (health->schedstat_fd >= 0)
        (void)close(health->schedstat_fd); /* read only: nothing to lose */
    health->schedstat_fd = -1;
}

int64_t agent_schedstat_wait_ns(const char *text)
{
    char *end = NULL;
    long long wait;

    (void)strtoll(text, &end, 10);
    if (end == text)
        return 0;
    wait = strtoll(end, NULL, 10);
    return wait > 0 ? wait : 0;
}

static void read_totals(const struct agent_health *health, int64_t now_ns, int64_t spin_ns,
                        struct load_health *out)
{
    struct rusage usage = { 0 };
    char text[96];
    ssize_t n = -1;

    *out = (struct load_health){ .window_ns = now_ns, .spin_ns = spin_ns };
    out->cpu_ns = ls_clock_thread_cpu_ns();
    if (health->schedstat_fd >= 0)
        n = pread(health->schedstat_fd, text, sizeof(text) - 1, 0);
    if (n > 0) {
        text[n] = '\0';
        out->runqueue_wait_ns = agent_schedstat_wait_ns(text);
    }
    if (getrusage(RUSAGE_THREAD, &usage) == 0) {
        out->voluntary_switches = (uint64_t)usage.ru_nvcsw;
        out->involuntary_switches = (uint64_t)usage.ru_nivcsw;
    }
}

void agent_health_start(struct agent_health *health, int64_t now_ns, int64_t spin_ns)
{
    read_totals(health, now_ns, spin_ns, &health->at);
}

void agent_health_lap(struct agent_health *health, int64_t now_ns, int64_t spin_ns,
                      struct load_health *into)
{
    struct load_health now;
    struct load_health lap = { 0 }; /* the rest is counted where it is noticed */

    read_totals(health, now_ns, spin_ns, &now);
    lap.cpu_ns = now.cpu_ns - health->at.cpu_ns;
    lap.runqueue_wait_ns = now.runqueue_wait_ns - health->at.runqueue_wait_ns;
    lap.spin_ns = now.spin_ns - health->at.spin_ns;
    lap.window_ns = now.window_ns - health->at.window_ns;
    lap.voluntary_switches = now.voluntary_switches - health->at.voluntary_switches;
    lap.involuntary_switches = now.involuntary_switches - health->at.involuntary_switches;
    load_health_add(into, &lap);
    health->at = now;
}

void load_health_add(struct load_health *dst, const struct load_health *src)
{
    dst->cpu_ns += src->cpu_ns;
    dst->runqueue_wait_ns += src->runqueue_wait_ns;
    dst->spin_ns += src->spin_ns;
    dst->window_ns += src->window_ns;
    dst->voluntary_switches += src->voluntary_switches;
    dst->involuntary_switches += src->involuntary_switches;
    dst->stamps_dropped += src->stamps_dropped;
    if (src->loop_lag_ns > dst->loop_lag_ns)
        dst->loop_lag_ns = src->loop_lag_ns;
    dst->stalled_ns += src->stalled_ns;
}

#include "common/clock.h"

#include <stdio.h>
#include <time.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec ts;

    (void)clock_gettime(id, &ts); /* fails only for an unknown id */
    return (int64_t)ts.tv_sec * LS_NS_PER_S + ts.tv_nsec;
}

int64_t ls_clock_mono_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t ls_clock_wall_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t ls_clock_thread_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

int64_t ls_clock_process_cpu_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

int64_t ls_clock_of_process_ns(int pid)
{
    struct timespec ts;
    clockid_t id;

    if (clock_getcpuclockid(pid, &id) != 0 || clock_gettime(id, &ts) != 0)
        return -1;
    return (int64_t)ts.tv_sec * LS_NS_PER_S + ts.tv_nsec;
}

void ls_clock_sleep_until(int64_t mono_ns)
{
    struct timespec ts = { .tv_sec = mono_ns / LS_NS_PER_S, .tv_nsec = mono_ns % LS_NS_PER_S };

    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL); /* early is allowed */
}

void ls_clock_format_wall(int64_t wall_ns, char *out, size_t out_bytes)
{
    time_t seconds = (time_t)(wall_ns / LS_NS_PER_S);
    struct tm tm;

    if (gmtime_r(&seconds, &tm) == NULL) {
        (void)snprintf(out, out_bytes, "?");
        return;
    }
    (void)snprintf(out, out_bytes, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900,
                   tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
                   (int)(wall_ns / LS_NS_PER_MS % 1000));
}

#include "common/log.h"

#include <assert.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/utf8.h"

static const char *const names[] = { "debug", "info", "warn", "error" };
static_assert(LS_ARRAY_LEN(names) == LS_LOG_LEVEL_COUNT, "a name for each level");

static atomic_int least_level = LS_LOG_WARN;
static atomic_int log_fd = STDERR_FILENO;

void ls_log_set_level(enum ls_log_level least)
{
    atomic_store(&least_level, (int)least);
}

enum ls_log_level ls_log_level(void)
{
    return (enum ls_log_level)atomic_load(&least_level);
}

void ls_log_set_fd(int fd)
{
    atomic_store(&log_fd, fd);
}

void ls_log(enum ls_log_level level, const char *id, const char *fmt, ...)
{
    char line[1024];
    char when[32];
    va_list ap;
    int used;
    int more;
    size_t len;

    if ((int)level < atomic_load(&least_level))
        return;
    ls_clock_format_wall(ls_clock_wall_ns(), when, sizeof(when));
    used = snprintf(line, sizeof(line) - 1, "%s %s %s ", when, names[level], id);
    va_start(ap, fmt);
    more = vsnprintf(line + used, sizeof(line) - 1 - (size_t)used, fmt, ap);
    va_end(ap);
    len = (size_t)used + (size_t)(more > 0 ? more : 0);
    if (len > sizeof(line) - 2)
        len = sizeof(line) - 2;
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = ' ';
    }
    ls_utf8_clean(line, len); /* what else a terminal may obey, and what was cut at the end */
    line[len++] = '\n';
    (void)!write(atomic_load(&log_fd), line, len); /* nobody is left to tell if that fails */
}

/* The bucket as an instant: each record spends a period, and what was spent more than a burst ago
 * is free again. */
bool ls_log_quota_take(struct ls_log_quota *quota, int64_t now_ns, uint64_t *out_held)
{
    int64_t span_ns = quota->period_ns * (int64_t)quota->burst;

    if (quota->spent_until_ns < now_ns)
        quota->spent_until_ns = now_ns;
    if (quota->spent_until_ns + quota->period_ns > now_ns + span_ns) {
        quota->held++;
        return false;
    }
    quota->spent_until_ns += quota->period_ns;
    *out_held = quota->held;
    quota->held = 0;
    return true;
}

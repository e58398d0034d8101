#include "common/log.h"

#include <assert.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "common/clock.h"

static const char *const names[] = { "debug", "info", "warn", "error" };
static_assert(LS_ARRAY_LEN(names) == LS_LOG_LEVEL_COUNT, "a name for each level");

static atomic_int least_level = LS_LOG_WARN;

void ls_log_set_level(enum ls_log_level least)
{
    atomic_store(&least_level, (int)least);
}

enum ls_log_level ls_log_level(void)
{
    return (enum ls_log_level)atomic_load(&least_level);
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
        if ((unsigned char)line[i] < 0x20)
            line[i] = ' ';
    }
    line[len++] = '\n';
    (void)!write(STDERR_FILENO, line, len); /* nobody is left to tell if stderr fails */
}

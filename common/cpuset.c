#include "common/cpuset.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

static_assert(LS_CPU_MAX == CPU_SETSIZE, "the system's set holds ours, and ours the system's");

/* Digits at *text, moved past them. */
static enum ls_err parse_cpu(const char **text, unsigned *out_cpu)
{
    unsigned cpu = 0;

    if (**text < '0' || **text > '9')
        return LS_EINVAL;
    for (; **text >= '0' && **text <= '9'; (*text)++) {
        if (cpu < LS_CPU_MAX)
            cpu = cpu * 10 + (unsigned)(**text - '0');
    }
    *out_cpu = cpu;
    return cpu < LS_CPU_MAX ? LS_OK : LS_ERANGE;
}

/* "3" or "0-3" at *text. */
static enum ls_err parse_range(const char **text, struct ls_cpuset *set)
{
    unsigned first;
    unsigned last;
    enum ls_err rc = parse_cpu(text, &first);

    if (rc != LS_OK)
        return rc;
    last = first;
    if (**text == '-') {
        (*text)++;
        rc = parse_cpu(text, &last);
        if (rc != LS_OK)
            return rc;
    }
    if (last < first)
        return LS_ERANGE;
    for (unsigned cpu = first; cpu <= last; cpu++)
        ls_cpuset_add(set, cpu);
    return LS_OK;
}

enum ls_err ls_cpuset_parse(const char *text, struct ls_cpuset *out, struct ls_diag *diag)
{
    struct ls_cpuset set;
    const char *at = text;
    enum ls_err rc = LS_OK;

    ls_cpuset_clear(&set);
    while (rc == LS_OK && *text != '\0') {
        rc = parse_range(&at, &set);
        if (rc != LS_OK || *at == '\0')
            break;
        rc = *at == ',' ? LS_OK : LS_EINVAL;
        at++;
    }
    if (rc == LS_ERANGE)
        return ls_fail(diag, rc, "CPU list \"%s\": numbers go from 0 to %d, ranges upwards", text,
                       LS_CPU_MAX - 1);
    if (rc != LS_OK)
        return ls_fail(diag, rc, "\"%s\" is not a CPU list such as 0-3,8", text);
    *out = set;
    return LS_OK;
}

const char *ls_cpuset_format(const struct ls_cpuset *set, char *out, size_t out_bytes)
{
    size_t used = 0;
    size_t room_for_dots = 0; /* the longest whole list so far that ",..." fits behind */

    assert(out_bytes >= sizeof("..."));
    out[0] = '\0';
    for (unsigned first = 0; first < LS_CPU_MAX; first++) {
        char item[16];
        unsigned last = first;
        int len;

        if (!ls_cpuset_has(set, first))
            continue;
        while (last + 1 < LS_CPU_MAX && ls_cpuset_has(set, last + 1))
            last++;
        len = snprintf(item, sizeof(item), first == last ? "%s%u" : "%s%u-%u", used == 0 ? "" : ",",
                       first, last);
        if (used + sizeof(",...") <= out_bytes)
            room_for_dots = used;
        if (used + (size_t)len >= out_bytes) {
            (void)snprintf(out + room_for_dots, out_bytes - room_for_dots, "%s...",
                           room_for_dots == 0 ? "" : ",");
            break;
        }
        (void)memcpy(out + used, item, (size_t)len + 1);
        used += (size_t)len;
        first = last;
    }
    return out;
}

void ls_cpuset_clear(struct ls_cpuset *set)
{
    *set = (struct ls_cpuset){ 0 };
}

void ls_cpuset_add(struct ls_cpuset *set, unsigned cpu)
{
    assert(cpu < LS_CPU_MAX);
    set->bits[cpu / 64] |= UINT64_C(1) << (cpu % 64);
}

bool ls_cpuset_has(const struct ls_cpuset *set, unsigned cpu)
{
    return cpu < LS_CPU_MAX && (set->bits[cpu / 64] >> (cpu % 64) & 1) != 0;
}

unsigned ls_cpuset_count(const struct ls_cpuset *set)
{
    unsigned count = 0;

    for (unsigned cpu = 0; cpu < LS_CPU_MAX; cpu++)
        count += ls_cpuset_has(set, cpu);
    return count;
}

int ls_cpuset_nth(const struct ls_cpuset *set, unsigned n)
{
    for (unsigned cpu = 0; cpu < LS_CPU_MAX; cpu++) {
        if (ls_cpuset_has(set, cpu) && n-- == 0)
            return (int)cpu;
    }
    return -1;
}

bool ls_cpuset_intersects(const struct ls_cpuset *a, const struct ls_cpuset *b)
{
    for (size_t i = 0; i < LS_CPU_MAX / 64; i++) {
        if ((a->bits[i] & b->bits[i]) != 0)
            return true;
    }
    return false;
}

bool ls_cpuset_contains(const struct ls_cpuset *a, const struct ls_cpuset *b)
{
    for (size_t i = 0; i < LS_CPU_MAX / 64; i++) {
        if ((b->bits[i] & ~a->bits[i]) != 0)
            return false;
    }
    return true;
}

bool ls_cpuset_equal(const struct ls_cpuset *a, const struct ls_cpuset *b)
{
    return ls_cpuset_contains(a, b) && ls_cpuset_contains(b, a);
}

enum ls_err ls_cpuset_get_affinity(int tid, struct ls_cpuset *out, struct ls_diag *diag)
{
    cpu_set_t system;

    CPU_ZERO(&system);
    if (sched_getaffinity(tid, sizeof(system), &system) != 0)
        return ls_fail(diag, LS_EIO, "cannot read the CPU affinity of thread %d: %s", tid,
                       strerror(errno));
    ls_cpuset_clear(out);
    for (unsigned cpu = 0; cpu < LS_CPU_MAX; cpu++) {
        if (CPU_ISSET(cpu, &system))
            ls_cpuset_add(out, cpu);
    }
    return LS_OK;
}

enum ls_err ls_cpuset_set_affinity(int tid, const struct ls_cpuset *set, struct ls_diag *diag)
{
    char list[128];
    cpu_set_t system;

    CPU_ZERO(&system);
    for (unsigned cpu = 0; cpu < LS_CPU_MAX; cpu++) {
        if (ls_cpuset_has(set, cpu))
            CPU_SET(cpu, &system);
    }
    if (sched_setaffinity(tid, sizeof(system), &system) != 0)
        return ls_fail(diag, LS_EIO, "cannot pin thread %d to CPUs %s: %s", tid,
                       ls_cpuset_format(set, list, sizeof(list)), strerror(errno));
    return LS_OK;
}

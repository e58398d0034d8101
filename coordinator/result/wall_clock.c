#include "coordinator/result/wall_clock.h"

#include <stdio.h>

#include "common/units.h"

bool coord_wall_clock_is_off(const char *agent, int64_t offset_ns, int64_t error_ns, char *out,
                             size_t out_bytes)
{
    double apart_ns = offset_ns < 0 ? -(double)offset_ns : (double)offset_ns;
    char apart[48], error[48];

    if (apart_ns <= (double)COORD_WALL_CLOCK_OFF_NS + (double)error_ns)
        return false;
    (void)snprintf(out, out_bytes,
                   "%.64s: its wall clock is %s (+- %s) %s the coordinator's: measurements go by "
                   "monotonic clocks and are not affected, but times in logs and the dates of "
                   "certificates are: have both hosts' clocks set (NTP, chrony)",
                   agent, ls_human_duration(apart_ns, apart, sizeof(apart)),
                   ls_human_duration((double)error_ns, error, sizeof(error)),
                   offset_ns < 0 ? "behind" : "ahead of");
    return true;
}

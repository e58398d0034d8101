#include "coordinator/run/capacity_hosts.h"

#include <math.h>

#define ROUNDING 1e-9 /* rate / (rate / n) may be a little more than n */

void coord_hosts_init(struct coord_hosts *hosts, uint32_t there, bool all)
{
    *hosts = (struct coord_hosts){ .there = there > 0 ? there : 1, .each_per_s = INFINITY };
    hosts->least = all ? hosts->there : 1;
}

uint32_t coord_hosts_for(const struct coord_hosts *hosts, double rate_per_s)
{
    double needed = ceil(rate_per_s / hosts->each_per_s - ROUNDING);

    return (uint32_t)fmin(fmax(needed, hosts->least), hosts->there);
}

void coord_hosts_calibrated(struct coord_hosts *hosts, double each_per_s)
{
    hosts->each_per_s = fmin(hosts->each_per_s, each_per_s);
}

bool coord_hosts_add(struct coord_hosts *hosts, uint32_t used, double rate_per_s)
{
    uint32_t more = used + (used + 1) / 2;

    if (used >= hosts->there)
        return false;
    more = more < hosts->there ? more : hosts->there;
    hosts->each_per_s = fmin(hosts->each_per_s, rate_per_s / more);
    return true;
}

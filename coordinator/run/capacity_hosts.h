/* coordinator/run/capacity_hosts.h - how many client hosts a search needs for a rate. Pure.
 *
 * One as long as nothing speaks against it. What does is a calibration that says what each of them
 * can make, or a probe that was theirs and not the server's. The load is split evenly, so what
 * counts is what each of them has to offer; and what was learnt holds for all rates that follow,
 * whatever the number of hosts that there are beyond those in use. */
#ifndef LS_COORDINATOR_RUN_CAPACITY_HOSTS_H
#define LS_COORDINATOR_RUN_CAPACITY_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

struct coord_hosts {
    uint32_t there;
    uint32_t least;    /* no fewer are used */
    double each_per_s; /* the most that one of them is given; INFINITY: nothing is known yet */
};

/* all: every one of them from the beginning on. */
void coord_hosts_init(struct coord_hosts *hosts, uint32_t there, bool all);
uint32_t coord_hosts_for(const struct coord_hosts *hosts, double rate_per_s); /* 1 to there */
/* A calibration says what each is good for, per second. */
void coord_hosts_calibrated(struct coord_hosts *hosts, double each_per_s);
/* So many were the limit at that rate: half as many more from now on. False: there are no more. */
bool coord_hosts_add(struct coord_hosts *hosts, uint32_t used, double rate_per_s);

#endif

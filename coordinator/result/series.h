/* coordinator/result/series.h - what happened over time, in fewer points than there were intervals.
 *
 * The rule: so many consecutive intervals become one point. Their counts are added and rates made
 * of the sums; the lowest and the highest rate of an interval stand beside them; latencies, memory
 * and cores are the highest. No point is both of the measure window and of the drain.
 *
 * result.json and trial.json hold a trial's series in at most COORD_SERIES_MOST points (and two for
 * what is left over at the end of window and drain), fewer where a run has many trials. The
 * trial's folder keeps every interval and every sample.
 */
#ifndef LS_COORDINATOR_RESULT_SERIES_H
#define LS_COORDINATOR_RESULT_SERIES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/attr.h"
#include "common/err.h"
#include "proto/result.pb-c.h"

#define COORD_SERIES_MOST  600u   /* points of a trial */
#define COORD_SERIES_LEAST 60u    /* ... however many trials there are */
#define COORD_SERIES_ALL   36000u /* points of all trials of a run */

/* How many points each of so many trials may have. */
unsigned coord_series_points(uint32_t trials);

/* What an interval has of the measure window, in ns. */
int64_t coord_series_inside(const Ls__Trial *trial, const Ls__Interval *interval);
/* Completed per second of the window. False: so little of the interval lies in it that its rate
 * would be noise. */
bool coord_series_rate(const Ls__Trial *trial, const Ls__Interval *interval, double *out_per_s);

/* From one sample to the next: the server's CPUs, and its context switches per second. */
double coord_series_cores(const Ls__Sample *from, const Ls__Sample *to);
double coord_series_switches(const Ls__Sample *from, const Ls__Sample *to);

/* Makes a trial's intervals and its server's samples fit into that many points, where they do not,
 * and says so in intervals_thinned and samples_thinned. LS_ENOMEM: as far as it got. */
enum ls_err coord_series_thin(Ls__Trial *trial, unsigned points) LS_NODISCARD;
/* The same with every so many becoming one; every > 0. */
enum ls_err coord_series_thin_intervals(Ls__Trial *trial, uint32_t every) LS_NODISCARD;
enum ls_err coord_series_thin_samples(Ls__Server *server, uint32_t every) LS_NODISCARD;

#endif

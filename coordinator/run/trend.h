/* coordinator/run/trend.h - does a series go anywhere? The Mann-Kendall rank test (Mann 1945). */
#ifndef LS_COORDINATOR_RUN_TREND_H
#define LS_COORDINATOR_RUN_TREND_H

#include <stdint.h>

/* Two-sided p of the Mann-Kendall test for a monotonic trend: exact up to 30 values, then the
 * normal approximation with continuity correction. 1 for fewer than 3 values. Ties count as
 * neither. */
double coord_trend_p(const double *values, uint32_t n);

#endif

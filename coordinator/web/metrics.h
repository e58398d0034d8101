/* coordinator/web/metrics.h - figures for Prometheus and whoever reads its format.
 *
 * Text that both parsers take: OpenMetrics 1.0 (ends in "# EOF") and Prometheus' own 0.0.4. Times
 * are seconds, sizes bytes. Names of targets and workloads are labels, and data: escaped.
 */
#ifndef LS_COORDINATOR_WEB_METRICS_H
#define LS_COORDINATOR_WEB_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "proto/result.pb-c.h"

#define COORD_METRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define COORD_METRICS_MAX  (4u << 20) /* bytes */

/* What goes on now. */
struct coord_metrics_now {
    const char *target; /* NULL: no trial is running */
    const char *workload;
    uint32_t index; /* of the trial, from 1 */
    uint32_t repetition;
    const char *phase;  /* "measure" */
    bool has_interval;  /* there is one that all clients have delivered */
    int64_t length_ns;  /* of that interval */
    uint64_t completed; /* in it */
    uint64_t errors;
    int64_t p50_ns;
    int64_t p99_ns;
    int64_t max_ns;
    uint32_t agents; /* that are connected */
};

/* The run, its trials so far and their medians; now: NULL when it is over. LS_ENOMEM. */
enum ls_err coord_metrics_text(const Ls__Result *result, const struct coord_metrics_now *now,
                               struct ls_buf *out, struct ls_diag *diag) LS_NODISCARD;

/* ---- the endpoint, /metrics of a server of its own */

struct coord_metrics;

/* address: "9464", "127.0.0.1:9464", "[::1]:9464"; port 0 is any that is free. Loopback unless
 * another address is named. LS_EINVAL: not one of those; LS_EIO, LS_ENOMEM. */
enum ls_err coord_metrics_start(const char *address, struct coord_metrics **out,
                                struct ls_diag *diag) LS_NODISCARD;
void coord_metrics_stop(struct coord_metrics *metrics); /* NULL is fine */
/* From now on this is what is answered. Copied; never waits for a reader. NULL is fine. */
void coord_metrics_publish(struct coord_metrics *metrics, struct ls_bytes text);
/* "http://127.0.0.1:9464/metrics" */
const char *coord_metrics_url(const struct coord_metrics *metrics);

#endif

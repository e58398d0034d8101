/* coordinator/result/page_metrics.h - metrics that pages print and no summary lists: they follow
 * from others, or are of interest where somebody asks for them. coord_metric_find() knows them,
 * too. */
#ifndef LS_COORDINATOR_RESULT_PAGE_METRICS_H
#define LS_COORDINATOR_RESULT_PAGE_METRICS_H

#include "coordinator/result/summary.h"

/* The i-th of them, NULL past the last. */
const struct coord_metric *coord_page_metric_at(unsigned i);

#endif

/* coordinator/result/html_parts.h - tables that a page has beside those of text and markdown; the
 * caller calls coord_table_fini. */
#ifndef LS_COORDINATOR_RESULT_HTML_PARTS_H
#define LS_COORDINATOR_RESULT_HTML_PARTS_H

#include "coordinator/result/table.h"
#include "proto/result.pb-c.h"

/* A row a metric and target: median, interval, extremes of one workload. */
void coord_html_metrics(const Ls__Result *result, const char *workload, struct coord_table *out);
/* A row a trial and client: start, send lag, share, CPU. At most rows_max rows. */
void coord_html_agents(const Ls__Result *result, size_t rows_max, struct coord_table *out);
/* A row a trial: what the server used. */
void coord_html_servers(const Ls__Result *result, struct coord_table *out);
/* A row an agent: what its host is. */
void coord_html_hosts(const Ls__Result *result, struct coord_table *out);
/* A row a target: its program, and where it ran. */
void coord_html_programs(const Ls__Result *result, struct coord_table *out);

#endif

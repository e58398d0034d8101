/* coordinator/result/heat.h - how many requests were how slow, in rows that a page can paint. */
#ifndef LS_COORDINATOR_RESULT_HEAT_H
#define LS_COORDINATOR_RESULT_HEAT_H

#include "common/buf.h"
#include "common/hist.h"

/* Latencies on a logarithmic scale: 8 rows a decade, from 100 ns on; the last one has all above. */
#define COORD_HEAT_ROWS 84u
unsigned coord_heat_row(int64_t value_ns);

/* The row of each bucket of a histogram: a logarithm for each would be too slow. */
struct coord_heat_rows {
    unsigned char of[LS_HIST_LEN];
};
void coord_heat_rows_init(struct coord_heat_rows *rows);

/* Adds a histogram to a column. */
void coord_heat_add(const struct coord_heat_rows *rows, const struct ls_hist *hist,
                    uint64_t column[COORD_HEAT_ROWS]);
/* Appends a column as "[row of the first count,count,count ...]"; "[0]" if there is none. */
void coord_heat_put(const uint64_t column[COORD_HEAT_ROWS], struct ls_buf *out);

#endif

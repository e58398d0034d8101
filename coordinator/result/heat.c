#include "coordinator/result/heat.h"

#include <math.h>

#include "coordinator/result/html_series.h"

#define ROWS_PER_DECADE 8
#define ROW_LOWEST_NS   100.0

unsigned coord_heat_row(int64_t value_ns)
{
    double row =
        floor(log10((double)(value_ns > 1 ? value_ns : 1) / ROW_LOWEST_NS) * ROWS_PER_DECADE);

    return row < 0 ? 0 : row >= COORD_HEAT_ROWS ? COORD_HEAT_ROWS - 1 : (unsigned)row;
}

void coord_heat_rows_init(struct coord_heat_rows *rows)
{
    for (uint32_t i = 0; i < LS_HIST_LEN; i++)
        rows->of[i] = (unsigned char)coord_heat_row(ls_hist_highest_at(i));
}

void coord_heat_add(const struct coord_heat_rows *rows, const struct ls_hist *hist,
                    uint64_t column[COORD_HEAT_ROWS])
{
    uint32_t first, end;

    ls_hist_range(hist, &first, &end);
    for (uint32_t i = first; i < end; i++)
        column[rows->of[i]] += ls_hist_count_at(hist, i);
}

void coord_heat_put(const uint64_t column[COORD_HEAT_ROWS], struct ls_buf *out)
{
    unsigned first = 0, end = COORD_HEAT_ROWS;

    while (end > 0 && column[end - 1] == 0)
        end--;
    while (first < end && column[first] == 0)
        first++;
    ls_buf_addf(out, "[%u", first);
    for (unsigned row = first; row < end; row++) {
        ls_buf_adds(out, ",");
        coord_html_number(out, (double)column[row]);
    }
    ls_buf_adds(out, "]");
}

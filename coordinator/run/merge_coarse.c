/* coarse.hlog: what merged.hlog has of a long trial, in few lines, for reports. It adds up to the
 * same histogram, counter by counter; a part that comes late is in the line of when it came. */
#include "coordinator/result/series.h"
#include "coordinator/result/store_paths.h"
#include "coordinator/run/merge_internal.h"

/* Of a fixed count nobody knows how long it will take. */
static bool is_wanted(const struct coord_merge *merge)
{
    const struct coord_merge_options *o = &merge->options;

    return o->files != NULL && !o->fixed_count &&
           o->measure_ns / o->interval_ns > (int64_t)COORD_SERIES_MOST;
}

enum ls_err coord_merge_coarse_begin(struct coord_merge *merge, struct ls_diag *diag)
{
    struct merge_coarse *coarse = &merge->coarse;
    int64_t planned = merge->options.measure_ns / merge->options.interval_ns;
    enum ls_err rc = LS_OK;

    if (!is_wanted(merge))
        return LS_OK;
    coarse->every = (uint32_t)(planned / COORD_COARSE_LINES) + 1;
    if (coarse->sum == NULL)
        rc = ls_hist_create(&coarse->sum);
    if (rc != LS_OK)
        return ls_fail(diag, rc, "no memory for " COORD_COARSE_LOG);
    return coord_store_coarse_begin(merge->options.files, merge->start_wall_ns, &coarse->log, diag);
}

static enum ls_err write_line(struct coord_merge *merge, struct ls_diag *diag)
{
    struct merge_coarse *coarse = &merge->coarse;
    enum ls_err rc = coord_store_hlog_write(coarse->log, ls_series_name(coord_merge_primary(merge)),
                                            coarse->start_ns, coarse->end_ns - coarse->start_ns,
                                            coarse->sum, diag);

    ls_hist_reset(coarse->sum);
    coarse->begun = false;
    coarse->taken = 0;
    return rc;
}

static void widen(struct merge_coarse *coarse, int64_t start_ns, int64_t length_ns)
{
    if (!coarse->begun) {
        coarse->begun = true;
        coarse->start_ns = coarse->end_ns = start_ns;
    }
    if (start_ns + length_ns > coarse->end_ns)
        coarse->end_ns = start_ns + length_ns;
}

enum ls_err coord_merge_coarse_add(struct coord_merge *merge, int64_t start_ns, int64_t length_ns,
                                   const struct ls_hist *hist, struct ls_diag *diag)
{
    struct merge_coarse *coarse = &merge->coarse;

    if (coarse->log == NULL)
        return LS_OK;
    widen(coarse, start_ns, length_ns);
    ls_hist_merge(coarse->sum, hist);
    return ++coarse->taken == coarse->every ? write_line(merge, diag) : LS_OK;
}

void coord_merge_coarse_late(struct coord_merge *merge, int64_t start_ns, int64_t length_ns,
                             const struct ls_hist_sparse *hist)
{
    if (merge->coarse.log == NULL)
        return;
    widen(&merge->coarse, start_ns, length_ns);
    ls_hist_sparse_add_to(hist, merge->coarse.sum);
}

enum ls_err coord_merge_coarse_end(struct coord_merge *merge, struct ls_diag *diag)
{
    return merge->coarse.begun ? write_line(merge, diag) : LS_OK;
}

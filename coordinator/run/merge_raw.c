/* What agents reported, row by row as it came, beside what it was added up to. */
#include "coordinator/result/raw.h"
#include "coordinator/result/requests.h"
#include "coordinator/run/merge_internal.h"

enum ls_err coord_merge_keep_interval(const struct coord_merge *merge,
                                      const struct merge_agent *agent, int64_t start_ns,
                                      const Ls__IntervalReport *report, struct ls_diag *diag)
{
    struct coord_raw_interval row;
    struct ls_buf text;
    enum ls_err rc;

    if (merge->options.files == NULL)
        return LS_OK;
    coord_raw_interval_init(&row);
    row.client = agent->place;
    row.index = report->index;
    row.merged = report->merged;
    row.late = report->index < merge->base;
    row.slot_ns = (int64_t)report->index * merge->options.interval_ns;
    row.at_ns = row.slot_ns - merge->options.warmup_ns;
    row.start_ns = start_ns;
    row.length_ns = report->length_ns;
    row.ok_in_window = report->ok_in_window;
    row.bytes_in = report->bytes_in;
    row.bytes_out = report->bytes_out;
    row.in_flight_ns = report->in_flight_ns;
    coord_requests_add(&row.warmup, report->warmup);
    coord_requests_add(&row.measure, report->measure);
    ls_buf_init(&text, COORD_RAW_LINE_MAX);
    coord_raw_put_interval(&text, &row);
    rc = text.ok ? coord_store_rows(merge->options.files, COORD_TABLE_INTERVALS,
                                    coord_raw_put_interval_head,
                                    (struct ls_bytes){ text.data, text.len }, diag)
                 : ls_fail(diag, LS_ENOMEM, "no memory for a row of " COORD_RAW_INTERVALS);
    ls_buf_fini(&text);
    return rc;
}

enum ls_err coord_merge_keep_samples(const struct coord_merge *merge,
                                     const struct merge_agent *agent, int64_t window_ns,
                                     struct ls_diag *diag)
{
    struct coord_raw_sample row;
    struct ls_buf text;
    enum ls_err rc;

    if (merge->options.files == NULL || agent->sample_count == 0)
        return LS_OK;
    ls_buf_init(&text, COORD_RESULT_MAX_BYTES);
    coord_raw_sample_init(&row);
    for (uint32_t i = 0; i < agent->sample_count; i++) {
        const struct merge_sample *sample = &agent->samples[i];

        row.usage = sample->usage;
        row.usage.at_ns = sample->at_ns - window_ns;
        row.edge = sample->edge;
        row.rss_peak_bytes = sample->rss_peak_bytes;
        row.listen_overflows = sample->listen_overflows;
        row.tcp_retransmits = sample->tcp_retransmits;
        row.cpus_busy_ns = sample->cpus_busy_ns;
        row.cpus_steal_ns = sample->cpus_steal_ns;
        coord_raw_put_sample(&text, &row);
    }
    rc = text.ok
             ? coord_store_rows(merge->options.files, COORD_TABLE_SERVER, coord_raw_put_sample_head,
                                (struct ls_bytes){ text.data, text.len }, diag)
             : ls_fail(diag, LS_ENOMEM, "no memory for " COORD_RAW_SERVER);
    ls_buf_fini(&text);
    return rc;
}

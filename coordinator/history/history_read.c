/* Series out of a history, and where they change. */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/history/change_points.h"
#include "coordinator/history/history_internal.h"
#include "coordinator/result/message.h"
#include "coordinator/result/stats.h"
#include "coordinator/result/summary.h"

/* What is judged where no metric is named: as far as a run has it. */
#define JUDGED                                                                          \
    "'throughput_per_s','service_time_p99_ns','response_time_p99_ns','capacity_per_s'," \
    "'cpu_ns_per_request'"

static const char query[] =
    "SELECT r.plan, f.workload, f.target, r.hosts, f.metric, r.run_id, r.started_at, r.folder,"
    " coalesce((SELECT value FROM label l WHERE l.run_id=r.run_id AND l.key='commit'), ''),"
    " f.n, f.median, f.low, f.high, f.higher_is_better"
    " FROM run r JOIN figure f USING (run_id)"
    " WHERE (?1 IS NULL OR r.plan GLOB ?1) AND (?2 IS NULL OR f.workload GLOB ?2)"
    " AND (?3 IS NULL OR f.target GLOB ?3)"
    " AND (?4 IS NULL OR EXISTS (SELECT 1 FROM host h WHERE h.run_id=r.run_id AND h.name GLOB ?4))"
    " AND (?5 IS NULL OR EXISTS (SELECT 1 FROM label l WHERE l.run_id=r.run_id AND l.key='commit'"
    " AND substr(l.value, 1, length(?5))=?5))"
    " AND CASE WHEN ?6 IS NULL THEN f.metric IN (" JUDGED ") ELSE f.metric GLOB ?6 END"
    " ORDER BY r.plan, f.workload, f.target, r.hosts, f.metric, r.started_at, r.run_id";

static const char *text_at(sqlite3_stmt *statement, int column)
{
    const unsigned char *text = sqlite3_column_text(statement, column);

    return text != NULL ? (const char *)text : "";
}

/* The last series, if the row belongs to it; else a new one. NULL: out of memory. */
static Ls__HistorySeries *series_of(Ls__History *out, sqlite3_stmt *row)
{
    Ls__HistorySeries *series = out->n_series > 0 ? out->series[out->n_series - 1] : NULL;

    if (series != NULL && strcmp(series->plan, text_at(row, 0)) == 0 &&
        strcmp(series->workload, text_at(row, 1)) == 0 &&
        strcmp(series->target, text_at(row, 2)) == 0 &&
        strcmp(series->hosts, text_at(row, 3)) == 0 && strcmp(series->metric, text_at(row, 4)) == 0)
        return series;
    series = coord_message_append(&out->n_series, &out->series, &ls__history_series__descriptor);
    if (series == NULL || !coord_message_string(&series->plan, text_at(row, 0)) ||
        !coord_message_string(&series->workload, text_at(row, 1)) ||
        !coord_message_string(&series->target, text_at(row, 2)) ||
        !coord_message_string(&series->hosts, text_at(row, 3)) ||
        !coord_message_string(&series->metric, text_at(row, 4)))
        return NULL;
    series->higher_is_better = sqlite3_column_int(row, 13) != 0;
    return series;
}

static bool add_point(Ls__HistorySeries *series, sqlite3_stmt *row, uint32_t last)
{
    Ls__HistoryPoint *point;

    if (series->n_points == last) { /* the oldest one goes */
        coord_message_free(series->points[0]);
        series->n_points--;
        (void)memmove(series->points, series->points + 1,
                      series->n_points * sizeof(*series->points));
        series->left_out++;
    }
    point =
        coord_message_append(&series->n_points, &series->points, &ls__history_point__descriptor);
    if (point == NULL || !coord_message_string(&point->run_id, text_at(row, 5)) ||
        !coord_message_string(&point->started_at, text_at(row, 6)) ||
        !coord_message_string(&point->folder, text_at(row, 7)) ||
        !coord_message_string(&point->commit, text_at(row, 8)))
        return false;
    point->n = (uint32_t)sqlite3_column_int64(row, 9);
    point->median = sqlite3_column_double(row, 10);
    point->ci95_low = sqlite3_column_double(row, 11);
    point->ci95_high = sqlite3_column_double(row, 12);
    return true;
}

enum ls_err coord_history_read(struct coord_history *history,
                               const struct coord_history_filter *filter, Ls__History *out,
                               struct ls_diag *diag)
{
    const char *const values[] = { filter->plan, filter->workload, filter->target,
                                   filter->host, filter->commit,   filter->metric };
    uint32_t last = filter->last > 0 ? filter->last : COORD_HISTORY_LAST;
    sqlite3_stmt *statement = NULL;
    enum ls_err rc = LS_OK;
    int step = SQLITE_OK;

    if (sqlite3_prepare_v2(history->db, query, -1, &statement, NULL) != SQLITE_OK)
        return history_fail(history, diag, "read");
    for (size_t i = 0; i < LS_ARRAY_LEN(values) && step == SQLITE_OK; i++) {
        if (values[i] != NULL)
            step = sqlite3_bind_text(statement, (int)i + 1, values[i], -1, SQLITE_TRANSIENT);
    }
    if (step != SQLITE_OK)
        rc = history_fail(history, diag, "read");
    while (rc == LS_OK && (step = sqlite3_step(statement)) == SQLITE_ROW) {
        Ls__HistorySeries *series = series_of(out, statement);

        if (series == NULL || !add_point(series, statement, last))
            rc = ls_fail(diag, LS_ENOMEM, "no memory for the history");
    }
    if (rc == LS_OK && step != SQLITE_DONE)
        rc = history_fail(history, diag, "read");
    (void)sqlite3_finalize(statement); /* says again what step has said */
    return rc;
}

/* ---- changes */

static enum ls_err median_of(const double *values, size_t n, double *out)
{
    struct coord_stats stats;
    enum ls_err rc = coord_stats_compute(values, n, 0, 0, &stats);

    *out = rc == LS_OK ? stats.median : 0;
    return rc;
}

static enum ls_err add_change(Ls__HistorySeries *series, const double *values, size_t from,
                              const struct coord_change *change, size_t end)
{
    const Ls__HistoryPoint *point = series->points[change->at];
    Ls__HistoryChange *to =
        coord_message_append(&series->n_changes, &series->changes, &ls__history_change__descriptor);
    enum ls_err rc;

    if (to == NULL || !coord_message_string(&to->run_id, point->run_id) ||
        !coord_message_string(&to->started_at, point->started_at) ||
        !coord_message_string(&to->commit, point->commit))
        return LS_ENOMEM;
    to->at = (uint32_t)change->at;
    to->p = change->p;
    rc = median_of(values + from, change->at - from, &to->before);
    if (rc == LS_OK)
        rc = median_of(values + change->at, end - change->at, &to->after);
    to->better = (to->after > to->before) == (series->higher_is_better != 0);
    return rc;
}

static enum ls_err find_changes(Ls__HistorySeries *series)
{
    double *values = calloc(series->n_points + 1, sizeof(*values));
    struct coord_change *changes = NULL;
    size_t count = 0;
    enum ls_err rc = values != NULL ? LS_OK : LS_ENOMEM;

    for (size_t i = 0; rc == LS_OK && i < series->n_points; i++)
        values[i] = series->points[i]->median;
    if (rc == LS_OK)
        rc = coord_change_points(
            values, series->n_points,
            coord_stats_stream(series->workload, series->target, series->metric), &changes, &count);
    for (size_t i = 0; rc == LS_OK && i < count; i++)
        rc = add_change(series, values, i > 0 ? changes[i - 1].at : 0, &changes[i],
                        i + 1 < count ? changes[i + 1].at : series->n_points);
    free(changes);
    free(values);
    return rc;
}

enum ls_err coord_history_find_changes(Ls__History *history, struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;

    history->level = COORD_CHANGE_LEVEL;
    for (size_t i = 0; rc == LS_OK && i < history->n_series; i++)
        rc = find_changes(history->series[i]);
    return rc == LS_OK ? rc : ls_fail(diag, rc, "no memory to look for changes");
}

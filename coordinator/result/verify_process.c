/* What runs.csv says of the figures of a trial of whole processes. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv.h"
#include "common/fs.h"
#include "coordinator/result/latency.h"
#include "coordinator/result/message.h"
#include "coordinator/result/store_paths.h"
#include "coordinator/result/verify_internal.h"

#define RUNS_FILE "runs.csv"

struct job {
    struct verify *v;
    const Ls__Trial *trial;
    const char *where;
    const char *file;
    const struct ls_csv *csv;
    double *values; /* owned; room for a column */
};

/* The column of that name; -1: there is none. */
static int64_t column_of(const struct ls_csv *csv, const char *name)
{
    for (uint32_t i = 0; i < ls_csv_columns(csv); i++) {
        if (strcmp(ls_csv_name(csv, i), name) == 0)
            return i;
    }
    return -1;
}

static const char *cell(const struct job *job, uint32_t row, int64_t column)
{
    struct ls_bytes text = ls_csv_at(job->csv, row, (uint32_t)column);

    return text.len > 0 ? (const char *)text.data : "";
}

static bool is_measured(const struct job *job, uint32_t row)
{
    return strcmp(cell(job, row, column_of(job->csv, "phase")), "measure") == 0;
}

/* Values of the measured runs. LS_EPROTO: one is no number. */
static enum ls_err collect(struct job *job, const char *name, bool only_positive, size_t *out_n)
{
    int64_t column = column_of(job->csv, name);

    *out_n = 0;
    for (uint32_t row = 0; row < ls_csv_rows(job->csv); row++) {
        char *end = NULL;
        double value;

        if (!is_measured(job, row))
            continue;
        errno = 0;
        value = (double)strtoll(cell(job, row, column), &end, 10);
        if (*end != '\0' || end == cell(job, row, column) || errno != 0)
            return LS_EPROTO;
        if (value > 0 || !only_positive)
            job->values[(*out_n)++] = value;
    }
    return LS_OK;
}

static void check_spread(struct job *job, const char *name, const Ls__Spread *published,
                         bool only_positive)
{
    const struct verify_source source = { .file = job->file, .from = RUNS_FILE };
    Ls__Spread computed = LS__SPREAD__INIT;
    char where[400];
    size_t n = 0;

    (void)snprintf(where, sizeof(where), "%.300s.process.%s", job->where, name);
    if (column_of(job->csv, name) < 0 || collect(job, name, only_positive, &n) != LS_OK) {
        verify_differs(job->v, job->file, where, NULL, NULL,
                       "it cannot be computed again from " RUNS_FILE);
        return;
    }
    job->v->out->figures++;
    if ((n > 0) != (published != NULL)) {
        verify_differs(job->v, job->file, where, published != NULL ? "there" : "absent",
                       n > 0 ? "there" : "absent", "it does not follow from " RUNS_FILE);
        return;
    }
    if (n == 0)
        return;
    coord_spread_fill(&computed, job->values, n);
    verify_message(job->v, &source, where, &published->base, &computed.base);
}

static void check_counts(struct job *job)
{
    static const char *const names[] = { "runs", "warmup_runs", "left_over", NULL };
    const struct verify_source source = { .file = job->file, .from = RUNS_FILE };
    Ls__ProcessResult computed = LS__PROCESS_RESULT__INIT;
    int64_t left_over = column_of(job->csv, "left_over");
    char where[400];

    for (uint32_t row = 0; row < ls_csv_rows(job->csv); row++) {
        computed.runs += is_measured(job, row);
        computed.warmup_runs += !is_measured(job, row);
        computed.left_over += (uint32_t)strtoul(cell(job, row, left_over), NULL, 10);
    }
    (void)snprintf(where, sizeof(where), "%.300s.process", job->where);
    verify_fields(job->v, &source, where, &job->trial->process->base, &computed.base, names);
}

static void check_outcomes(struct job *job)
{
    const Ls__ProcessResult *process = job->trial->process;
    int64_t outcome = column_of(job->csv, "outcome"), detail = column_of(job->csv, "detail");
    char where[400], left[16], right[16];

    for (size_t i = 0; i < process->n_outcomes; i++) {
        const Ls__OutcomeCount *entry = process->outcomes[i];
        uint32_t n = 0;

        for (uint32_t row = 0; row < ls_csv_rows(job->csv); row++)
            n += is_measured(job, row) && strcmp(cell(job, row, outcome), entry->outcome) == 0 &&
                 strcmp(cell(job, row, detail), entry->detail) == 0;
        job->v->out->figures++;
        if (n == entry->count)
            continue;
        (void)snprintf(where, sizeof(where), "%.250s.process.outcomes[%.40s]", job->where,
                       entry->outcome);
        (void)snprintf(left, sizeof(left), "%u", entry->count);
        (void)snprintf(right, sizeof(right), "%u", n);
        verify_differs(job->v, job->file, where, left, right,
                       RUNS_FILE " has another number of runs that ended like that");
    }
}

static enum ls_err read_runs(struct verify *v, const Ls__Trial *trial, char *relative,
                             struct ls_csv **out, struct ls_diag *diag)
{
    char path[PATH_MAX];
    char *text = NULL;
    size_t len = 0;
    enum ls_err rc = coord_path(trial->folder, RUNS_FILE, relative, diag);

    if (rc == LS_OK)
        rc = coord_path(v->dir, relative, path, diag);
    if (rc == LS_OK)
        rc = ls_fs_read(path, LS_CSV_BYTES_MAX, &text, &len, diag);
    if (rc == LS_OK)
        rc = ls_csv_parse((struct ls_bytes){ (unsigned char *)text, len }, out, diag);
    free(text);
    return rc;
}

void verify_process(struct verify *v, const Ls__Trial *trial, const char *where, const char *file)
{
    static const char *const needed[] = { "phase", "outcome", "detail", "left_over" };
    struct job job = { .v = v, .trial = trial, .where = where, .file = file };
    const Ls__ProcessResult *process = trial->process;
    char relative[PATH_MAX] = RUNS_FILE;
    struct ls_diag why = { .text = "" };
    struct ls_csv *csv = NULL;
    enum ls_err rc = read_runs(v, trial, relative, &csv, &why);

    for (size_t i = 0; rc == LS_OK && i < LS_ARRAY_LEN(needed); i++) {
        if (column_of(csv, needed[i]) < 0)
            rc = ls_fail(&why, LS_EPROTO, "it has no column %s", needed[i]);
    }
    if (rc == LS_OK)
        job.values = calloc((size_t)ls_csv_rows(csv) + 1, sizeof(*job.values));
    if (rc == LS_ENOMEM || (rc == LS_OK && job.values == NULL)) {
        v->no_memory = true;
    } else if (rc != LS_OK) {
        verify_differs(v, relative, "", NULL, NULL, why.text);
    } else {
        job.csv = csv;
        check_spread(&job, "wall_ns", process->wall_ns, false);
        check_spread(&job, "user_ns", process->user_ns, false);
        check_spread(&job, "system_ns", process->system_ns, false);
        check_spread(&job, "peak_bytes", process->peak_bytes, false);
        check_spread(&job, "marker_rss_bytes", process->marker_rss_bytes, true);
        check_counts(&job);
        check_outcomes(&job);
    }
    free(job.values);
    ls_csv_destroy(csv);
}

#include "coordinator/plan/trace_file.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/msg_model.h"

#define SECONDS_MAX 86400.0 /* as long as a measure window may be */
#define BETWEEN     " \t,;\r"

/* A plain number that is not negative, all of the word. */
static bool parse_number(const char *word, double *out)
{
    char *end;

    if (word == NULL || word[0] == '\0' || word[strspn(word, "0123456789.eE+-")] != '\0')
        return false;
    *out = strtod(word, &end);
    return *end == '\0' && isfinite(*out) && !signbit(*out);
}

static enum ls_err append(Ls__Trace *trace, double seconds, double per_s, struct ls_diag *diag)
{
    Ls__TracePoint *point = (Ls__TracePoint *)ls_msg_new(&ls__trace_point__descriptor);

    if (point == NULL)
        goto no_memory;
    point->at = (Ls__Duration *)ls_msg_new(&ls__duration__descriptor);
    point->rate = (Ls__Rate *)ls_msg_new(&ls__rate__descriptor);
    if (point->at == NULL || point->rate == NULL)
        goto no_memory;
    point->at->ns = (int64_t)(seconds * 1e9 + 0.5);
    point->rate->per_s = per_s;
    trace->points[trace->n_points++] = point;
    return LS_OK;
no_memory:
    if (point != NULL)
        ls__trace_point__free_unpacked(point, NULL);
    return ls_fail(diag, LS_ENOMEM, "out of memory for a trace of rates");
}

static enum ls_err parse_line(Ls__Trace *trace, char *line, size_t number, struct ls_diag *diag)
{
    char *rest = NULL;
    const char *first, *second, *third;
    double seconds, per_s;
    int64_t last_ns = trace->n_points > 0 ? trace->points[trace->n_points - 1]->at->ns : -1;

    line[strcspn(line, "#")] = '\0';
    first = strtok_r(line, BETWEEN, &rest);
    second = strtok_r(NULL, BETWEEN, &rest);
    third = strtok_r(NULL, BETWEEN, &rest);
    if (first == NULL || (trace->n_points == 0 && strchr("0123456789.+-", first[0]) == NULL))
        return LS_OK; /* nothing, or a heading */
    if (!parse_number(first, &seconds) || !parse_number(second, &per_s) || third != NULL)
        return ls_fail(diag, LS_EINVAL,
                       "line %zu: two numbers are expected, seconds and requests per second",
                       number);
    if (last_ns < 0 && seconds != 0)
        return ls_fail(diag, LS_EINVAL, "line %zu: the first rate begins at 0, not at %g s", number,
                       seconds);
    if (seconds > SECONDS_MAX || per_s > 1e9)
        return ls_fail(diag, LS_EINVAL,
                       "line %zu: %g s at %g/s is out of range: up to a day and 1G/s", number,
                       seconds, per_s);
    if ((int64_t)(seconds * 1e9 + 0.5) <= last_ns)
        return ls_fail(diag, LS_EINVAL, "line %zu: %g s is not later than the line before", number,
                       seconds);
    if (trace->n_points == COORD_TRACE_POINTS_MAX)
        return ls_fail(diag, LS_EINVAL, "line %zu: more than %u rates", number,
                       COORD_TRACE_POINTS_MAX);
    return append(trace, seconds, per_s, diag);
}

static void forget(Ls__Trace *trace)
{
    for (size_t i = 0; i < trace->n_points; i++)
        ls__trace_point__free_unpacked(trace->points[i], NULL);
    free(trace->points);
    trace->points = NULL;
    trace->n_points = 0;
}

enum ls_err coord_trace_parse(Ls__Trace *trace, char *text, struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;
    size_t lines = 1, number = 0;

    for (const char *at = text; *at != '\0'; at++)
        lines += *at == '\n';
    if (lines > COORD_TRACE_POINTS_MAX)
        lines = COORD_TRACE_POINTS_MAX;
    trace->points = calloc(lines, sizeof(Ls__TracePoint *));
    if (trace->points == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for a trace of rates");
    for (char *line = text; rc == LS_OK && line != NULL;) {
        char *end = strchr(line, '\n');

        if (end != NULL)
            *end = '\0';
        rc = parse_line(trace, line, ++number, diag);
        line = end != NULL ? end + 1 : NULL;
    }
    if (rc == LS_OK && trace->n_points == 0)
        rc = ls_fail(diag, LS_EINVAL, "holds no rates: lines of seconds and requests per second");
    if (rc != LS_OK)
        forget(trace);
    return rc;
}

enum ls_err coord_trace_read(Ls__Trace *trace, const char *base_dir, struct ls_diag *diag)
{
    char path[4096];
    char *text = NULL;
    size_t len = 0;
    enum ls_err rc;
    int n = snprintf(path, sizeof(path), "%s%s%s", trace->file[0] == '/' ? "" : base_dir,
                     trace->file[0] == '/' ? "" : "/", trace->file);

    if (n < 0 || (size_t)n >= sizeof(path))
        return ls_fail(diag, LS_EINVAL, "is a path that is too long");
    rc = ls_fs_read(path, COORD_TRACE_FILE_MAX, &text, &len, diag);
    if (rc != LS_OK)
        return rc;
    if (strlen(text) != len)
        rc = ls_fail(diag, LS_EINVAL, "holds a NUL byte: a text is expected");
    else
        rc = coord_trace_parse(trace, text, diag);
    free(text);
    return rc;
}

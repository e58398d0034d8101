/* A run as lines of figures. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/msg_model.h"
#include "coordinator/result/escape.h"
#include "coordinator/result/summary.h"
#include "coordinator/run/verdict.h"
#include "coordinator/web/metrics.h"

#define NAME_MAX_BYTES 160u

/* A label's value. What is no text is shown as in reports; the rest is quoted. */
static void put_value(struct ls_buf *out, const char *text)
{
    struct ls_buf plain;

    ls_buf_init(&plain, out->max);
    coord_escape_text(&plain, text);
    for (size_t i = 0; i < plain.len; i++) {
        if (plain.data[i] == '\\' || plain.data[i] == '"')
            ls_buf_adds(out, "\\");
        ls_buf_add(out, &plain.data[i], 1);
    }
    out->ok = out->ok && plain.ok;
    ls_buf_fini(&plain);
}

static void put_label(struct ls_buf *out, const char *before, const char *name, const char *value)
{
    ls_buf_addf(out, "%s%s=\"", before, name);
    put_value(out, value);
    ls_buf_adds(out, "\"");
}

static void put_head(struct ls_buf *out, const char *name, const char *help)
{
    ls_buf_addf(out, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
}

static void put_number(struct ls_buf *out, double value)
{
    char text[32];

    ls_buf_addf(out, " %s\n", ls_msg_format_double(value, text));
}

/* A family of one line without labels. */
static void put_one(struct ls_buf *out, const char *name, const char *help, double value)
{
    put_head(out, name, help);
    ls_buf_adds(out, name);
    put_number(out, value);
}

/* ---- the run */

static void put_info(const Ls__Result *result, struct ls_buf *out)
{
    put_head(out, "lockstep_run_info", "The run that these figures are of.");
    put_label(out, "lockstep_run_info{", "run_id", result->run_id);
    put_label(out, ",", "name", result->name);
    put_label(out, ",", "version", result->lockstep_version);
    put_label(out, ",", "status", result->status);
    for (size_t i = 0; i < result->n_labels; i++) {
        if (strncmp(result->labels[i], "commit=", 7) == 0)
            put_label(out, ",", "commit", result->labels[i] + 7);
    }
    ls_buf_adds(out, "} 1\n");
}

static void put_trials(const Ls__Result *result, struct ls_buf *out)
{
    static const Ls__Verdict verdicts[] = { LS__VERDICT__VERDICT_VALID,
                                            LS__VERDICT__VERDICT_SUSPECT,
                                            LS__VERDICT__VERDICT_INVALID };

    put_one(out, "lockstep_trials_planned", "Trials of the run.", result->trials_planned);
    put_head(out, "lockstep_trials_finished", "Trials that have ended, by verdict.");
    for (size_t v = 0; v < LS_ARRAY_LEN(verdicts); v++) {
        unsigned n = 0;

        for (size_t i = 0; i < result->n_trials; i++)
            n += result->trials[i]->verdict == verdicts[v];
        put_label(out, "lockstep_trials_finished{", "verdict", coord_verdict_name(verdicts[v]));
        ls_buf_addf(out, "} %u\n", n);
    }
}

/* ---- medians */

/* "response_time_p99_ns" is lockstep_response_time_p99_seconds; *out_scale is for its values. */
static void family_of(const char *metric, char *out, double *out_scale)
{
    size_t len = (size_t)snprintf(out, NAME_MAX_BYTES, "lockstep_");

    *out_scale = 1;
    for (const char *at = metric; *at != '\0' && len + 16 < NAME_MAX_BYTES; at++) {
        bool letter =
            (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9');

        if (strncmp(at, "_ns", 3) == 0 && (at[3] == '\0' || at[3] == '_')) {
            len += (size_t)snprintf(out + len, NAME_MAX_BYTES - len, "_seconds");
            *out_scale = 1e-9;
            at += 2;
        } else if (strcmp(at, "_per_s") == 0) {
            len += (size_t)snprintf(out + len, NAME_MAX_BYTES - len, "_per_second");
            at += 5;
        } else {
            out[len++] = letter ? *at : '_';
        }
    }
    out[len] = '\0';
}

static void put_row(const Ls__Summary *row, const char *family, double scale, struct ls_buf *out)
{
    const struct {
        const char *name;
        double value;
    } values[] = {
        { "median", row->median },
        { "min", row->min },
        { "max", row->max },
        { "ci95_low", row->ci95_low },
        { "ci95_high", row->ci95_high },
    };

    for (size_t i = 0; i < LS_ARRAY_LEN(values); i++) {
        ls_buf_addf(out, "%s{", family);
        put_label(out, "", "workload", row->workload);
        put_label(out, ",", "target", row->target);
        put_label(out, ",", "stat", values[i].name);
        ls_buf_adds(out, "}");
        put_number(out, values[i].value * scale);
    }
}

/* Is it the first row of its family? Names that differ only in what a name cannot hold are one. */
static bool is_first(const Ls__Result *result, size_t at, const char *family)
{
    char other[NAME_MAX_BYTES];
    double unused;

    for (size_t i = 0; i < at; i++) {
        family_of(result->summary[i]->metric, other, &unused);
        if (result->summary[i]->n > 0 && strcmp(other, family) == 0)
            return false;
    }
    return true;
}

/* All lines of a family stand together. */
static void put_family(const Ls__Result *result, size_t first, const char *family,
                       struct ls_buf *out)
{
    const struct coord_metric *metric = coord_metric_find(result->summary[first]->metric);
    char other[NAME_MAX_BYTES], help[200];
    double scale;

    (void)snprintf(help, sizeof(help), "Of the trials that count: %s.",
                   metric != NULL ? metric->noun : "a figure that the plan names");
    put_head(out, family, help);
    for (size_t i = first; i < result->n_summary; i++) {
        family_of(result->summary[i]->metric, other, &scale);
        if (result->summary[i]->n > 0 && strcmp(other, family) == 0 &&
            strcmp(result->summary[i]->metric, result->summary[first]->metric) == 0)
            put_row(result->summary[i], family, scale, out);
    }
}

static void put_summary(const Ls__Result *result, struct ls_buf *out)
{
    char family[NAME_MAX_BYTES];
    double unused;

    for (size_t i = 0; i < result->n_summary; i++) {
        if (result->summary[i]->n == 0)
            continue;
        family_of(result->summary[i]->metric, family, &unused);
        if (is_first(result, i, family))
            put_family(result, i, family, out);
    }
}

/* ---- now */

static void put_latency(const struct coord_metrics_now *now, struct ls_buf *out)
{
    static const char name[] = "lockstep_now_latency_seconds";
    const struct {
        const char *stat;
        int64_t ns;
    } values[] = { { "p50", now->p50_ns }, { "p99", now->p99_ns }, { "max", now->max_ns } };

    put_head(out, name, "Of the latest interval; none in the warm-up.");
    for (size_t i = 0; i < LS_ARRAY_LEN(values) && now->max_ns > 0; i++) {
        ls_buf_addf(out, "%s{stat=\"%s\"}", name, values[i].stat);
        put_number(out, (double)values[i].ns / 1e9);
    }
}

static void put_now(const struct coord_metrics_now *now, struct ls_buf *out)
{
    double seconds = (double)now->length_ns / 1e9;

    put_one(out, "lockstep_agents_connected", "Agents of the run that are there.", now->agents);
    if (now->target == NULL)
        return;
    put_head(out, "lockstep_now_info", "The trial that is running.");
    put_label(out, "lockstep_now_info{", "target", now->target);
    put_label(out, ",", "workload", now->workload);
    put_label(out, ",", "phase", now->phase);
    ls_buf_addf(out, ",repetition=\"%" PRIu32 "\"} 1\n", now->repetition);
    put_one(out, "lockstep_now_trial", "Its number, from 1.", now->index);
    if (!now->has_interval || seconds <= 0)
        return;
    put_one(out, "lockstep_now_requests_per_second",
            "Answered as expected, in the latest interval.", (double)now->completed / seconds);
    put_one(out, "lockstep_now_errors_per_second", "In the latest interval.",
            (double)now->errors / seconds);
    put_latency(now, out);
}

enum ls_err coord_metrics_text(const Ls__Result *result, const struct coord_metrics_now *now,
                               struct ls_buf *out, struct ls_diag *diag)
{
    put_info(result, out);
    put_one(out, "lockstep_run_active", "1 while the run goes on.", now != NULL);
    put_trials(result, out);
    if (now != NULL)
        put_now(now, out);
    put_summary(result, out);
    ls_buf_adds(out, "# EOF\n");
    return out->ok ? LS_OK : ls_fail(diag, LS_ENOMEM, "no memory for the metrics");
}

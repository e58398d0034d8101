/* What a search for a capacity found, and the curve of its probes. */
#include <stdio.h>
#include <string.h>

#include "common/units.h"
#include "coordinator/result/report_parts.h"

static void say_one(const Ls__Trial *trial, struct coord_say *to)
{
    const Ls__CapacityResult *found = trial->capacity;
    char text[700], rate[48], low[48], high[48], took[48], range[128];

    if (found->rate_per_s <= 0) {
        (void)snprintf(text, sizeof(text), "%.64s: no capacity found: %.400s", trial->target,
                       found->why);
        to->say(to->ctx, COORD_STYLE_BAD, text);
        return;
    }
    if (found->high_per_s > 0)
        (void)snprintf(range, sizeof(range), "%s to %s",
                       ls_human_count(found->low_per_s, low, sizeof(low)),
                       ls_human_count(found->high_per_s, high, sizeof(high)));
    else
        (void)snprintf(range, sizeof(range), "%s or more",
                       ls_human_count(found->low_per_s, low, sizeof(low)));
    (void)snprintf(
        text, sizeof(text),
        "%.64s: capacity %s%s requests/s (%s), limited by: %.16s, %s after %zu probes in "
        "%s: %.240s",
        trial->target, strcmp(found->limited_by, "client") == 0 ? "at least " : "",
        ls_human_count(found->rate_per_s, rate, sizeof(rate)), range, found->limited_by,
        found->settled ? "settled" : "not settled", found->n_probes,
        ls_human_duration((double)found->took_ns, took, sizeof(took)), found->why);
    to->say(to->ctx, found->settled ? COORD_STYLE_GOOD : COORD_STYLE_WARN, text);
}

void coord_part_capacity(const Ls__Result *result, const char *workload, struct coord_say *to)
{
    for (size_t i = 0; i < result->n_trials; i++) {
        const Ls__Trial *trial = result->trials[i];

        if (trial->capacity != NULL && strcmp(trial->workload, workload) == 0)
            say_one(trial, to);
    }
}

static const struct coord_column columns[] = {
    { "probe", "probe", true },
    { "rate_per_s", "offered/s", false },
    { "throughput_per_s", "achieved/s", false },
    { "p50_ns", "p50", false },
    { "p99_ns", "p99", false },
    { "share", "share", false },
    { "limit", "beyond", true },
    { "finding", "finding", true },
    { "server_cores_used", "server CPU", false },
    { "limited_by", "limited by", true },
};

static void probe_row(const Ls__CapacityProbe *probe, struct coord_table *out)
{
    coord_table_text(out, probe->kind, COORD_STYLE_NONE);
    coord_table_number(out, probe->rate_per_s, COORD_UNIT_PER_S);
    coord_table_number(out, probe->throughput_per_s, COORD_UNIT_PER_S);
    coord_table_number(out, (double)probe->p50_ns, COORD_UNIT_NS);
    coord_table_number(out, (double)probe->p99_ns, COORD_UNIT_NS);
    coord_table_number(out, probe->share, COORD_UNIT_SHARE);
    coord_table_text(out, probe->limit, COORD_STYLE_NONE);
    coord_table_text(out, probe->finding,
                     strcmp(probe->finding, "breaks") == 0 ? COORD_STYLE_WARN : COORD_STYLE_NONE);
    coord_table_number(out, probe->server_cores_used, COORD_UNIT_CORES);
    coord_table_text(out, probe->limited_by, COORD_STYLE_NONE);
}

void coord_part_probes(const Ls__Trial *trial, struct coord_table *out)
{
    const Ls__CapacityResult *found = trial->capacity;
    double last = -1;

    coord_table_init(out, columns, LS_ARRAY_LEN(columns));
    if (found == NULL)
        return;
    /* By rate, each once; probes of one rate in the order in which they were made. */
    for (size_t shown = 0; shown < found->n_probes;) {
        double next = -1;

        for (size_t i = 0; i < found->n_probes; i++) {
            double rate = found->probes[i]->rate_per_s;

            if (rate > last && (next < 0 || rate < next))
                next = rate;
        }
        if (next < 0)
            return;
        for (size_t i = 0; i < found->n_probes; i++) {
            if (found->probes[i]->rate_per_s <= next && found->probes[i]->rate_per_s > last) {
                probe_row(found->probes[i], out);
                shown++;
            }
        }
        last = next;
    }
}

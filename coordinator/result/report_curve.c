/* Tables of searches and ladders: what was measured at each rate, or with so many connections. */
#include <math.h>
#include <string.h>

#include "coordinator/result/report_parts.h"

#define BAR_MOST 24u

/* ---- order: by rate, those of one rate as they were made */

static void visit_probes(const Ls__CapacityResult *found,
                         void (*visit)(const Ls__CapacityProbe *probe, struct coord_table *out),
                         struct coord_table *out)
{
    double last = -1;

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
                visit(found->probes[i], out);
                shown++;
            }
        }
        last = next;
    }
}

static void bar(struct coord_table *out, double share)
{
    char text[BAR_MOST + 1];
    unsigned n = share >= 1 ? BAR_MOST : share > 0 ? (unsigned)lrint(share * BAR_MOST) : 0;

    (void)memset(text, '#', n);
    text[n] = '\0';
    coord_table_text(out, text, COORD_STYLE_NONE);
}

/* ---- probes */

static const struct coord_column probe_columns[] = {
    { "probe", "probe", true },
    { "rate_per_s", "offered/s", false },
    { "throughput_per_s", "achieved/s", false },
    { "good_per_s", "good/s", false },
    { "p50_ns", "p50", false },
    { "p99_ns", "p99", false },
    { "share", "share", false },
    { "limit", "beyond", true },
    { "finding", "finding", true },
    { "server_cores_used", "server CPU", false },
    { "limited_by", "limited by", true },
    { "clients", "clients", false }, /* where there are several */
};

static void probe_row(const Ls__CapacityProbe *probe, struct coord_table *out)
{
    bool told = strcmp(probe->finding, "useless") != 0;

    coord_table_text(out, probe->kind, COORD_STYLE_NONE);
    coord_table_number(out, probe->rate_per_s, COORD_UNIT_PER_S);
    coord_table_number(out, probe->throughput_per_s, COORD_UNIT_PER_S);
    coord_table_number(out, probe->good_per_s, COORD_UNIT_PER_S);
    coord_table_maybe(out, probe->p99_ns > 0, (double)probe->p50_ns, COORD_UNIT_NS);
    coord_table_maybe(out, probe->p99_ns > 0, (double)probe->p99_ns, COORD_UNIT_NS);
    coord_table_maybe(out, told, probe->share, COORD_UNIT_SHARE);
    coord_table_text(out, told ? probe->limit : "", COORD_STYLE_NONE);
    coord_table_text(out, probe->finding,
                     strcmp(probe->finding, "breaks") == 0 ? COORD_STYLE_WARN : COORD_STYLE_NONE);
    coord_table_maybe(out, probe->server_cores_used > 0, probe->server_cores_used,
                      COORD_UNIT_CORES);
    coord_table_text(out, probe->limited_by, COORD_STYLE_NONE);
    if (out->column_count == LS_ARRAY_LEN(probe_columns))
        coord_table_number(out, (double)probe->n_clients, COORD_UNIT_COUNT);
}

void coord_part_probes(const Ls__Trial *trial, struct coord_table *out)
{
    bool several = trial->capacity != NULL && trial->capacity->clients > 1;

    coord_table_init(out, probe_columns, LS_ARRAY_LEN(probe_columns) - !several);
    if (trial->capacity != NULL)
        visit_probes(trial->capacity, probe_row, out);
}

/* ---- rungs */

static const struct coord_column rung_columns[] = {
    { "connections", "connections", false },
    { "pass", "pass", false },
    { "throughput_per_s", "requests/s", false },
    { "p50_ns", "p50", false },
    { "p99_ns", "p99", false },
    { "server_cores_used", "server CPU", false },
    { "limited_by", "limited by", true },
};

static void rung_row(const Ls__LadderRung *rung, struct coord_table *out)
{
    coord_table_number(out, rung->connections, COORD_UNIT_COUNT);
    coord_table_number(out, rung->pass, COORD_UNIT_COUNT);
    coord_table_number(out, rung->throughput_per_s, COORD_UNIT_PER_S);
    coord_table_number(out, (double)rung->p50_ns, COORD_UNIT_NS);
    coord_table_number(out, (double)rung->p99_ns, COORD_UNIT_NS);
    coord_table_maybe(out, rung->server_cores_used > 0, rung->server_cores_used, COORD_UNIT_CORES);
    coord_table_text(out, rung->limited_by, rung->useful ? COORD_STYLE_NONE : COORD_STYLE_WARN);
}

void coord_part_rungs(const Ls__Trial *trial, struct coord_table *out)
{
    coord_table_init(out, rung_columns, LS_ARRAY_LEN(rung_columns));
    for (size_t i = 0; trial->ladder != NULL && i < trial->ladder->n_rungs; i++)
        rung_row(trial->ladder->rungs[i], out);
}

/* ---- curves, for terminals: bars of a logarithmic latency, or of throughput */

static const struct coord_column curve_columns[] = {
    { "rate_per_s", "offered/s", false },
    { "p99_ns", "p99", false },
    { "curve", "from 100 us to 10 s, a power of ten each 5 #", true },
};

static void curve_row(const Ls__CapacityProbe *probe, struct coord_table *out)
{
    if (probe->p99_ns <= 0)
        return; /* nothing came back */
    coord_table_number(out, probe->rate_per_s, COORD_UNIT_PER_S);
    coord_table_number(out, (double)probe->p99_ns, COORD_UNIT_NS);
    bar(out, log10((double)probe->p99_ns / 1e5) * 5 / BAR_MOST);
}

static const struct coord_column ladder_columns[] = {
    { "connections", "connections", false },
    { "throughput_per_s", "requests/s", false },
    { "curve", "of the largest", true },
};

static void ladder_curve(const Ls__LadderResult *ladder, struct coord_table *out)
{
    double most = 0;

    for (size_t i = 0; i < ladder->n_rungs; i++)
        most = fmax(most, ladder->rungs[i]->throughput_per_s);
    for (size_t i = 0; i < ladder->n_rungs && most > 0; i++) {
        const Ls__LadderRung *rung = ladder->rungs[i];

        if (rung->pass != 1)
            continue;
        coord_table_number(out, rung->connections, COORD_UNIT_COUNT);
        coord_table_number(out, rung->throughput_per_s, COORD_UNIT_PER_S);
        bar(out, rung->throughput_per_s / most);
    }
}

void coord_part_curve(const Ls__Trial *trial, struct coord_table *out)
{
    if (trial->ladder != NULL) {
        coord_table_init(out, ladder_columns, LS_ARRAY_LEN(ladder_columns));
        ladder_curve(trial->ladder, out);
        return;
    }
    coord_table_init(out, curve_columns, LS_ARRAY_LEN(curve_columns));
    if (trial->capacity != NULL)
        visit_probes(trial->capacity, curve_row, out);
}

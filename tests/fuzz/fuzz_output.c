/* Any bytes as what a run of a process workload has printed, all at once and in pieces: judged the
 * same, and of its metrics only what may go into a report. The first byte says what the plan
 * expects, the second how long the pieces are. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/host/output.h"

#define KEPT_BYTES 512u /* less than the longest inputs, so that there is something to cut */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WANTS_MARKER = 1, WANTS_METRIC = 2, WANTS_MATCH = 4, WANTS_OUTPUT = 8, ENDED_ILL = 16 };

static void check_values(const Ls__ProcessRun *run)
{
    assert(run->n_values <= HOST_OUTPUT_METRICS_MAX);
    for (size_t i = 0; i < run->n_values; i++) {
        const Ls__ScriptValue *v = run->values[i];

        assert(isfinite(v->value) && v->name[0] != '\0' && strlen(v->name) <= 64);
        assert(strlen(v->unit) <= 16 && strlen(v->checksum) <= 128);
        assert(v->not_applicable[0] == '\0' || v->value == 0);
        for (const char *c = v->name; *c != '\0'; c++)
            assert(*c > ' ' && *c < 0x7f);
        for (size_t k = 0; k < i; k++)
            assert(strcmp(run->values[k]->name, v->name) != 0);
    }
}

static void check_outcome(const Ls__ProcessRun *run, uint8_t wants)
{
    if ((wants & ENDED_ILL) != 0) {
        assert(run->outcome[0] == '\0');
        return;
    }
    assert(strcmp(run->outcome, "graceful") == 0 || strcmp(run->outcome, "handled") == 0 ||
           strcmp(run->outcome, "output") == 0);
    assert((strcmp(run->outcome, "output") == 0) == (run->why[0] != '\0'));
}

static bool judge(const struct host_expectation *expectation, struct ls_bytes printed, size_t piece,
                  uint8_t wants, Ls__ProcessRun *run)
{
    struct host_output *output;
    char tail[40];
    bool marked;

    assert(host_output_create(expectation, &output, NULL) == LS_OK);
    ls__process_run__init(run);
    for (size_t at = 0; at < printed.len; at += piece) {
        size_t len = printed.len - at < piece ? printed.len - at : piece;

        host_output_feed(output, (struct ls_bytes){ printed.data + at, len });
    }
    assert(strlen(host_output_tail(output, tail, sizeof(tail))) < sizeof(tail));
    assert(host_output_judge(output, (wants & ENDED_ILL) == 0, run, NULL) == LS_OK);
    marked = host_output_is_marked(output);
    host_output_destroy(output);
    assert(run->output_bytes == printed.len);
    assert((run->output_sha256[0] != '\0') == (printed.len <= KEPT_BYTES));
    check_values(run);
    check_outcome(run, wants);
    return marked;
}

static void compare(const Ls__ProcessRun *a, const Ls__ProcessRun *b)
{
    assert(strcmp(a->outcome, b->outcome) == 0 && strcmp(a->why, b->why) == 0);
    assert(strcmp(a->output_sha256, b->output_sha256) == 0);
    assert(a->n_values == b->n_values && a->lines_ignored == b->lines_ignored);
    for (size_t i = 0; i < a->n_values; i++)
        assert(strcmp(a->values[i]->name, b->values[i]->name) == 0 &&
               a->values[i]->value == b->values[i]->value);
}

static void fini(Ls__ProcessRun *run)
{
    Ls__ProcessRun *copy = malloc(sizeof(*copy));

    assert(copy != NULL);
    *copy = *run;
    ls__process_run__free_unpacked(copy, NULL);
}

/* As plan_check.h leaves it. */
static const Ls__Process *process_of(uint8_t wants)
{
    static char name[] = "sum", checksum[] = "9f86", marker[] = "ready", match[] = "^ok",
                handled[] = "^caught";
    static Ls__ProcessMetric metric, *metrics[] = { &metric };
    static Ls__ProcessExpect expect;
    static Ls__Process process;
    static Ls__Size kept;

    ls__process_metric__init(&metric);
    ls__process_expect__init(&expect);
    ls__process__init(&process);
    ls__size__init(&kept);
    metric.name = name;
    metric.checksum = checksum;
    kept.bytes = KEPT_BYTES;
    process.output = &kept;
    process.expect = &expect;
    process.metrics = metrics;
    process.n_metrics = (wants & WANTS_METRIC) != 0;
    process.marker = (wants & WANTS_MARKER) != 0 ? marker : NULL;
    expect.match = (wants & WANTS_MATCH) != 0 ? match : NULL;
    expect.handled = expect.match != NULL ? handled : NULL;
    return &process;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct host_expectation *expectation;
    struct ls_bytes printed, expected = { 0 };
    Ls__ProcessRun whole, pieces;
    bool marked, marked_in_pieces;

    if (size < 2)
        return 0;
    printed = (struct ls_bytes){ data + 2, size - 2 };
    if ((data[0] & WANTS_OUTPUT) != 0)
        expected = (struct ls_bytes){ (const unsigned char *)"ok\n", 3 };
    if (host_expectation_create(process_of(data[0]), expected, &expectation, NULL) != LS_OK)
        return 0;
    marked = judge(expectation, printed, printed.len + 1, data[0], &whole);
    marked_in_pieces = judge(expectation, printed, 1 + data[1] % 64, data[0], &pieces);
    assert(marked == marked_in_pieces);
    compare(&whole, &pieces);
    fini(&whole);
    fini(&pieces);
    host_expectation_destroy(expectation);
    return 0;
}

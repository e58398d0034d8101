/* lockstep compare DIR DIR...: what became better or worse, and a gate for CI. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/buf.h"
#include "common/options.h"
#include "coordinator/bundle/place.h"
#include "coordinator/cli.h"
#include "coordinator/result/compare.h"
#include "coordinator/result/message.h"
#include "coordinator/result/store.h"

#define DIRS_MAX 64u

struct arguments {
    const char *fail_on;
    const char *thresholds;
    struct ls_option_list metrics;
    bool anyway;
    const char *format;
    bool json;
    bool help;
};

static const struct ls_option rows[] = {
    { "fail-on", 0, LS_OPTION_TEXT, offsetof(struct arguments, fail_on), "PERCENT", NULL, 1, 0,
      "exit status 1 if a metric got worse by more than that, 3 if too few runs could tell" },
    { "thresholds", 0, LS_OPTION_TEXT, offsetof(struct arguments, thresholds), "FILE", NULL, 1, 0,
      "the same for each metric by itself, as YAML: fail_on: {throughput_per_s: 5%}" },
    { "metric", 'm', LS_OPTION_LIST, offsetof(struct arguments, metrics), "NAME", NULL, 1, 0,
      "compare this one (repeatable); else those that the load is judged by" },
    { "anyway", 0, LS_OPTION_FLAG, offsetof(struct arguments, anyway), NULL, NULL, 1, 0,
      "also where the load was another one" },
    { "format", 'f', LS_OPTION_TEXT, offsetof(struct arguments, format), "FORMAT", "text", 1, 0,
      "text, json, csv or markdown" },
    { "json", 0, LS_OPTION_FLAG, offsetof(struct arguments, json), NULL, NULL, 1, 0,
      "the same as --format json" },
    { "help", 'h', LS_OPTION_FLAG, offsetof(struct arguments, help), NULL, NULL, 1, 0,
      "this text" },
};

int coord_cli_not_compared(bool json, int status, const char *text)
{
    Ls__Comparisons all = LS__COMPARISONS__INIT;
    struct ls_buf out;

    (void)fprintf(stderr, "lockstep: %s\n", text);
    if (!json)
        return status;
    all.level = COORD_COMPARE_LEVEL;
    all.exit_status = (uint32_t)status;
    all.status = (char *)(uintptr_t) "failed";
    all.error = (char *)(uintptr_t)text; /* it is only read */
    ls_buf_init(&out, COORD_RESULT_MAX_BYTES);
    if (coord_compare_render(&all, COORD_REPORT_JSON, &(struct coord_report_options){ 0 }, &out,
                             NULL) != LS_OK ||
        coord_cli_put(&out, status) != status)
        status = COORD_EXIT_FAULT;
    ls_buf_fini(&out);
    return status;
}

/* From a folder, or from a bundle. */
static enum ls_err load(const char *path, Ls__Result **out, struct ls_diag *diag)
{
    struct coord_place place;
    enum ls_err rc = coord_place_open(path, &place, diag);

    if (rc == LS_OK)
        rc = coord_store_load(place.dir, out, diag);
    coord_place_close(&place);
    return rc;
}

static enum ls_err compare_all(const char **dirs, size_t n, const struct arguments *args,
                               const struct coord_thresholds *thresholds, Ls__Comparisons *all,
                               struct ls_diag *diag)
{
    const struct coord_compare_options options = { .fail_on = all->fail_on,
                                                   .metrics = args->metrics.items,
                                                   .metric_count = args->metrics.count,
                                                   .thresholds = thresholds,
                                                   .anyway = args->anyway };
    Ls__Result *first = NULL, *other = NULL;
    enum ls_err rc = load(dirs[0], &first, diag);

    for (size_t i = 1; rc == LS_OK && i < n; i++) {
        rc = load(dirs[i], &other, diag);
        if (rc != LS_OK)
            break;
        rc = coord_compare(first, dirs[0], other, dirs[i], &options, all, diag);
        ls__result__free_unpacked(other, NULL);
        other = NULL;
    }
    if (first != NULL)
        ls__result__free_unpacked(first, NULL);
    return rc;
}

int coord_cli_compared(Ls__Comparisons *all, enum coord_report_format format)
{
    struct coord_report_options options = coord_cli_looks();
    struct ls_diag diag = { 0 };
    struct ls_buf text;
    int status = COORD_EXIT_OK;

    for (size_t i = 0; i < all->n_comparisons; i++) {
        if (all->comparisons[i]->failed > 0)
            status = COORD_EXIT_THRESHOLD;
        else if (all->comparisons[i]->undecided > 0 && status == COORD_EXIT_OK)
            status = COORD_EXIT_INCOMPLETE;
    }
    all->exit_status = (uint32_t)status;
    if (!coord_message_string(&all->status, "compared"))
        return coord_cli_fail(false, COORD_EXIT_FAULT, "no memory for the comparison");
    ls_buf_init(&text, COORD_RESULT_MAX_BYTES);
    if (coord_compare_render(all, format, &options, &text, &diag) != LS_OK)
        status = coord_cli_fail(false, COORD_EXIT_FAULT, diag.text);
    else
        status = coord_cli_put(&text, status);
    ls_buf_fini(&text);
    return status;
}

int coord_cmd_compare(int argc, char **argv)
{
    struct arguments args = { 0 };
    struct coord_thresholds thresholds = { .count = 0 };
    struct ls_diag diag = { 0 };
    const char *dirs[DIRS_MAX];
    size_t n = 0;
    enum coord_report_format format = COORD_REPORT_TEXT;
    Ls__Comparisons *all = NULL;
    bool json = coord_cli_wants_json(argc, argv);
    enum ls_err rc;
    int status;

    rc = ls_options_parse(rows, LS_ARRAY_LEN(rows), argc, argv, &args, dirs, DIRS_MAX, &n, &diag);
    if (rc == LS_OK && args.help) {
        (void)printf("usage: lockstep compare DIR DIR... [--fail-on PERCENT] [option ...]\n\n"
                     "Compares each result, a folder or a bundle, with the first.\n\n");
        ls_options_help(rows, LS_ARRAY_LEN(rows), stdout);
        status = COORD_EXIT_OK;
        goto out;
    }
    all = coord_message_new(&ls__comparisons__descriptor);
    if (rc == LS_OK)
        rc = coord_report_parse_format(args.json ? "json" : args.format, &format, &diag);
    json = json || format == COORD_REPORT_JSON;
    if (rc == LS_OK && n < 2)
        rc = ls_fail(&diag, LS_EINVAL, "compare: two result folders are needed, %zu given", n);
    if (rc == LS_OK && all == NULL)
        rc = ls_fail(&diag, LS_ENOMEM, "no memory to compare anything");
    if (rc == LS_OK && args.fail_on != NULL)
        rc = coord_compare_percent(args.fail_on, &all->fail_on, &diag);
    if (rc == LS_OK && args.thresholds != NULL)
        rc = coord_thresholds_read(args.thresholds, &thresholds, &diag);
    if (rc == LS_OK) {
        all->level = COORD_COMPARE_LEVEL;
        rc = compare_all(dirs, n, &args, &thresholds, all, &diag);
    }
    status = rc == LS_OK       ? coord_cli_compared(all, format)
             : rc == LS_ENOMEM ? coord_cli_not_compared(json, COORD_EXIT_FAULT, diag.text)
                               : coord_cli_not_compared(json, COORD_EXIT_USAGE, diag.text);
out:
    coord_thresholds_fini(&thresholds);
    coord_message_free(all);
    ls_options_fini(rows, LS_ARRAY_LEN(rows), &args);
    return status;
}

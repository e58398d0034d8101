/* lockstep history: what runs have found over time. */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buf.h"
#include "common/fs.h"
#include "common/options.h"
#include "coordinator/bundle/place.h"
#include "coordinator/cli.h"
#include "coordinator/history/change_points.h"
#include "coordinator/history/history.h"
#include "coordinator/history/history_render.h"
#include "coordinator/result/message.h"
#include "coordinator/result/store.h"

#define WORDS_MAX    4096u
#define RESULTS_DIR  "results"
#define FORMAT_NAMES "text, json, csv or markdown; trend: html, too"

struct arguments {
    const char *db;
    const char *plan;
    const char *workload;
    const char *target;
    const char *host;
    const char *commit;
    const char *metric;
    uint64_t last;
    const char *format;
    const char *out;
    bool fail;
    bool json;
    bool help;
};

#define ROW(field) offsetof(struct arguments, field)

static const struct ls_option rows[] = {
    { "db", 0, LS_OPTION_TEXT, ROW(db), "FILE", RESULTS_DIR "/" COORD_HISTORY_FILE, 1, 0,
      "the history" },
    { "plan", 0, LS_OPTION_TEXT, ROW(plan), "GLOB", NULL, 1, 0, "only runs of these plans" },
    { "workload", 0, LS_OPTION_TEXT, ROW(workload), "GLOB", NULL, 1, 0, "only these workloads" },
    { "target", 0, LS_OPTION_TEXT, ROW(target), "GLOB", NULL, 1, 0, "only these targets" },
    { "host", 0, LS_OPTION_TEXT, ROW(host), "GLOB", NULL, 1, 0, "only runs with such a host" },
    { "commit", 0, LS_OPTION_TEXT, ROW(commit), "BEGIN", NULL, 1, 0,
      "only runs whose label commit begins like that" },
    { "metric", 'm', LS_OPTION_TEXT, ROW(metric), "GLOB", NULL, 1, 0,
      "these metrics; else those that loads are judged by" },
    { "last", 'n', LS_OPTION_COUNT, ROW(last), "N", "200", 1, COORD_CHANGE_MOST,
      "the newest runs of each figure" },
    { "format", 'f', LS_OPTION_TEXT, ROW(format), "FORMAT", "text", 1, 0, FORMAT_NAMES },
    { "out", 'o', LS_OPTION_TEXT, ROW(out), "FILE", NULL, 1, 0, "into a file, not to stdout" },
    { "fail", 0, LS_OPTION_FLAG, ROW(fail), NULL, NULL, 1, 0,
      "trend: exit status 1 if the last change of a figure is for the worse" },
    { "json", 0, LS_OPTION_FLAG, ROW(json), NULL, NULL, 1, 0, "the same as --format json" },
    { "help", 'h', LS_OPTION_FLAG, ROW(help), NULL, NULL, 1, 0, "this text" },
};

static void help(void)
{
    (void)printf("usage: lockstep history add DIR...      these results\n"
                 "       lockstep history rebuild [DIR]   all results below " RESULTS_DIR
                 ", or DIR\n"
                 "       lockstep history list            run by run\n"
                 "       lockstep history trend           where figures have changed\n\n");
    ls_options_help(rows, LS_ARRAY_LEN(rows), stdout);
}

static int status_of(enum ls_err rc)
{
    return rc == LS_ENOMEM || rc == LS_EIO || rc == LS_ETIMEOUT ? COORD_EXIT_FAULT
                                                                : COORD_EXIT_USAGE;
}

/* ---- writing */

static enum ls_err add_one(struct coord_history *history, const char *path, struct ls_diag *diag)
{
    struct coord_place place;
    Ls__Result *result = NULL;
    enum ls_err rc = coord_place_open(path, &place, diag);

    if (rc == LS_OK)
        rc = coord_store_load(place.dir, &result, diag);
    if (rc == LS_OK)
        rc = coord_history_add(history, path, result, diag);
    if (result != NULL)
        ls__result__free_unpacked(result, NULL);
    coord_place_close(&place);
    return rc;
}

/* What cannot be added is said, and the others are. */
static int add(struct coord_history *history, const char **paths, size_t n)
{
    struct ls_diag diag = { 0 };
    int status = COORD_EXIT_OK;

    for (size_t i = 0; i < n; i++) {
        enum ls_err rc = add_one(history, paths[i], &diag);

        if (rc != LS_OK)
            status = coord_cli_fail(false, status_of(rc), diag.text);
    }
    return status;
}

static void tell(void *ctx, const char *folder, const char *why)
{
    (void)ctx;
    (void)fprintf(stderr, "lockstep: left out: %s: %s\n", folder, why);
}

static int rebuild(struct coord_history *history, const char *dir)
{
    struct ls_diag diag = { 0 };
    uint32_t added = 0;
    enum ls_err rc = coord_history_rebuild(history, dir, tell, NULL, &added, &diag);

    if (rc != LS_OK)
        return coord_cli_fail(false, status_of(rc), diag.text);
    (void)printf("%u results\n", added);
    return COORD_EXIT_OK;
}

/* ---- reading */

static bool got_worse(const Ls__History *found)
{
    for (size_t i = 0; i < found->n_series; i++) {
        const Ls__HistorySeries *series = found->series[i];

        if (series->n_changes > 0 && !series->changes[series->n_changes - 1]->better)
            return true;
    }
    return false;
}

static int put(const struct ls_buf *text, const char *file, int status)
{
    struct ls_diag diag = { 0 };

    if (file == NULL)
        return coord_cli_put(text, status);
    if (ls_fs_write(file, (struct ls_bytes){ text->data, text->len }, 0644, &diag) != LS_OK)
        return coord_cli_fail(false, COORD_EXIT_FAULT, diag.text);
    return status;
}

static enum ls_err render(const Ls__History *found, bool trend, const char *format,
                          struct ls_buf *out, struct ls_diag *diag)
{
    const struct coord_report_options looks = coord_cli_looks();
    enum coord_report_format known;
    enum ls_err rc;

    if (trend && strcmp(format, "html") == 0)
        return coord_history_page(found, out, diag);
    rc = coord_report_parse_format(format, &known, diag);
    if (rc != LS_OK)
        return rc;
    return trend ? coord_history_trend(found, known, &looks, out, diag)
                 : coord_history_list(found, known, &looks, out, diag);
}

static int show(struct coord_history *history, bool trend, const struct arguments *args)
{
    const struct coord_history_filter filter = { .plan = args->plan,
                                                 .workload = args->workload,
                                                 .target = args->target,
                                                 .host = args->host,
                                                 .commit = args->commit,
                                                 .metric = args->metric,
                                                 .last = (uint32_t)args->last };
    Ls__History *found = coord_message_new(&ls__history__descriptor);
    struct ls_diag diag = { 0 };
    struct ls_buf text;
    int status = COORD_EXIT_OK;
    enum ls_err rc = found != NULL && coord_message_string(&found->status, "listed")
                         ? LS_OK
                         : ls_fail(&diag, LS_ENOMEM, "no memory for the history");

    ls_buf_init(&text, COORD_RESULT_MAX_BYTES);
    if (rc == LS_OK)
        rc = coord_history_read(history, &filter, found, &diag);
    if (rc == LS_OK && trend)
        rc = coord_history_find_changes(found, &diag);
    if (rc == LS_OK) {
        status = trend && args->fail && got_worse(found) ? COORD_EXIT_THRESHOLD : COORD_EXIT_OK;
        found->exit_status = (uint32_t)status;
        rc = render(found, trend, args->json ? "json" : args->format, &text, &diag);
    }
    status = rc == LS_OK ? put(&text, args->out, status)
                         : coord_cli_fail(false, status_of(rc), diag.text);
    ls_buf_fini(&text);
    coord_message_free(found);
    return status;
}

/* ---- the words */

static int do_word(const char *word, const char **paths, size_t n, const struct arguments *args)
{
    bool writes = strcmp(word, "add") == 0 || strcmp(word, "rebuild") == 0;
    struct coord_history *history = NULL;
    struct ls_diag diag = { 0 };
    struct stat st;
    enum ls_err rc = LS_OK;
    int status;

    if (!writes && strcmp(word, "list") != 0 && strcmp(word, "trend") != 0)
        rc = ls_fail(&diag, LS_EINVAL, "history: '%.40s' is none of add, rebuild, list and trend",
                     word);
    else if (strcmp(word, "add") == 0 && n == 0)
        rc = ls_fail(&diag, LS_EINVAL, "history add: DIR is missing: which results?");
    else if (!writes && stat(args->db, &st) != 0)
        rc = ls_fail(&diag, LS_EINVAL,
                     "there is no history %.200s: 'lockstep history rebuild' makes it from results",
                     args->db);
    if (rc == LS_OK)
        rc = coord_history_open(args->db, &history, &diag);
    if (rc != LS_OK)
        return coord_cli_fail(false, status_of(rc), diag.text);
    if (strcmp(word, "add") == 0)
        status = add(history, paths, n);
    else if (writes)
        status = rebuild(history, n > 0 ? paths[0] : RESULTS_DIR);
    else
        status = show(history, strcmp(word, "trend") == 0, args);
    coord_history_close(history);
    return status;
}

int coord_cmd_history(int argc, char **argv)
{
    static const char *words[WORDS_MAX];
    struct arguments args = { 0 };
    struct ls_diag diag = { 0 };
    size_t plain = 0;

    if (ls_options_parse(rows, LS_ARRAY_LEN(rows), argc, argv, &args, words, WORDS_MAX, &plain,
                         &diag) != LS_OK)
        return coord_cli_fail(false, COORD_EXIT_USAGE, diag.text);
    if (args.help) {
        help();
        return COORD_EXIT_OK;
    }
    if (plain == 0)
        return coord_cli_fail(false, COORD_EXIT_USAGE,
                              "history: a word is missing: add, rebuild, list or trend");
    return do_word(words[0], words + 1, plain - 1, &args);
}

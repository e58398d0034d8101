/* lockstep run PLAN and lockstep check PLAN: the same reading, with and without the doing. */
#include <stddef.h>
#include <stdio.h>

#include "common/options.h"
#include "coordinator/choice.h"
#include "coordinator/cli.h"
#include "coordinator/execute.h"
#include "coordinator/record.h"
#include "coordinator/run/labels.h"
#include "coordinator/suite.h"

struct arguments {
    const char *out;
    const char *listen;
    const char *keys;
    const char *merge;
    const char *resume;
    const char *metrics;
    const char *ui;
    const char *record;
    int64_t wait_ns;
    struct coord_choice choice;
    struct ls_option_list labels;
    bool quick;
    bool json;
    bool quiet;
    bool help;
};

#define ROW(field) offsetof(struct arguments, field)

static const struct ls_option run_rows[] = {
    { "out", 'o', LS_OPTION_TEXT, ROW(out), "DIR", NULL, 1, 0,
      "the result folder (results/NAME-TIME)" },
    COORD_CHOICE_ROWS(struct arguments, choice),
    { "listen", 0, LS_OPTION_TEXT, ROW(listen), "URL", NULL, 1, 0,
      "wait for agents of other hosts here, tls+tcp://ADDRESS:PORT, instead of starting local ones" },
    { "keys", 0, LS_OPTION_TEXT, ROW(keys), "DIR", NULL, 1, 0,
      "the coordinator's key and certificates, from 'lockstep pki issue coordinator NAME'" },
    { "wait", 0, LS_OPTION_DURATION, ROW(wait_ns), "TIME", "60s", 1e8, 8.64e13,
      "for agents that are missing, at the beginning and between trials" },
    { "label", 0, LS_OPTION_LIST, ROW(labels), "KEY=VALUE", NULL, 1, 0,
      "goes into the result, for 'lockstep history': commit=1a2b3c" },
    { "merge", 0, LS_OPTION_TEXT, ROW(merge), "DIR", NULL, 1, 0,
      "take what is not run (--only) from the older result in DIR, with its dates" },
    { "ui", 0, LS_OPTION_MAYBE, ROW(ui), "ADDRESS", NULL, 1, 0,
      "a page to watch it in a browser; at a port, or ADDRESS:PORT (any of loopback)" },
    { "metrics", 0, LS_OPTION_TEXT, ROW(metrics), "ADDRESS", NULL, 1, 0,
      "figures for Prometheus at http://ADDRESS/metrics while it runs: a port, or ADDRESS:PORT" },
    { "record", 0, LS_OPTION_TEXT, ROW(record), "FILE", NULL, 1, 0,
      "what goes to the terminal, as asciicast v2 (asciinema play FILE)" },
    { "resume", 0, LS_OPTION_TEXT, ROW(resume), "DIR", NULL, 1, 0,
      "go on with the run whose result is in DIR, at its first missing trial; PLAN may be left out" },
    { "quick", 0, LS_OPTION_FLAG, ROW(quick), NULL, NULL, 1, 0,
      "seconds a row, once each: a first look" },
    { "json", 0, LS_OPTION_FLAG, ROW(json), NULL, NULL, 1, 0, "the result as one JSON document" },
    { "quiet", 'q', LS_OPTION_FLAG, ROW(quiet), NULL, NULL, 1, 0, "no progress on stderr" },
    { "help", 'h', LS_OPTION_FLAG, ROW(help), NULL, NULL, 1, 0, "this text" },
};

static const struct ls_option check_rows[] = {
    COORD_CHOICE_ROWS(struct arguments, choice),
    { "quick", 0, LS_OPTION_FLAG, ROW(quick), NULL, NULL, 1, 0,
      "seconds a row, once each: a first look" },
    { "json", 0, LS_OPTION_FLAG, ROW(json), NULL, NULL, 1, 0,
      "what would be done, or the mistakes, as one JSON document" },
    { "help", 'h', LS_OPTION_FLAG, ROW(help), NULL, NULL, 1, 0, "this text" },
};

static int execute(const struct coord_execute_options *options)
{
    return coord_suite_is(options->file) ? coord_suite_execute(options) : coord_execute(options);
}

/* A recording that is not whole is no reason to have no result. */
static int execute_recorded(const struct coord_execute_options *options, const char *file)
{
    struct ls_diag diag = { 0 };
    char title[200];
    int status;

    (void)snprintf(title, sizeof(title), "lockstep run %.150s",
                   options->file != NULL ? options->file : options->resume);
    if (coord_record_begin(file, title, &diag) != LS_OK)
        return coord_cli_fail(options->json, COORD_EXIT_USAGE, diag.text);
    status = execute(options);
    if (coord_record_end(&diag) != LS_OK)
        (void)fprintf(stderr, "lockstep: %s: %s\n", file, diag.text);
    return status;
}

static int run_or_check(const struct ls_option *rows, size_t count, bool check_only, int argc,
                        char **argv)
{
    struct arguments args = { 0 };
    struct ls_diag diag = { 0 };
    const char *plan = NULL;
    size_t plain = 0;
    bool json = coord_cli_wants_json(argc, argv);
    char text[80];
    int status;

    if (ls_options_parse(rows, count, argc, argv, &args, &plan, 1, &plain, &diag) != LS_OK) {
        status = coord_cli_fail(json, COORD_EXIT_USAGE, diag.text);
    } else if (args.help) {
        (void)printf("usage: lockstep %s PLAN [option ...]\n"
                     "PLAN is a file, or a folder of them, which are run one after the other.\n\n",
                     argv[0]);
        ls_options_help(rows, count, stdout);
        status = COORD_EXIT_OK;
    } else if (plain == 0 && args.resume == NULL) {
        (void)snprintf(text, sizeof(text), "%s: PLAN is missing: which plan file?", argv[0]);
        status = coord_cli_fail(json, COORD_EXIT_USAGE, text);
    } else if (args.out != NULL && *args.out == '\0') {
        status = coord_cli_fail(json, COORD_EXIT_USAGE, "--out: a folder's name is missing");
    } else if (coord_labels_check(args.labels.items, args.labels.count, &diag) != LS_OK) {
        status = coord_cli_fail(json, COORD_EXIT_USAGE, diag.text);
    } else {
        struct coord_execute_options options = { .file = plan,
                                                 .listen = args.listen,
                                                 .keys = args.keys,
                                                 .wait_ns = args.wait_ns,
                                                 .out_dir = args.out,
                                                 .merge = args.merge,
                                                 .resume = args.resume,
                                                 .only = args.choice.only,
                                                 .seed = args.choice.seed,
                                                 .set = args.choice.set,
                                                 .labels = args.labels,
                                                 .metrics = args.metrics,
                                                 .ui = args.ui,
                                                 .quick = args.quick,
                                                 .json = args.json,
                                                 .quiet = args.quiet,
                                                 .check_only = check_only };

        status = args.record != NULL ? execute_recorded(&options, args.record) : execute(&options);
    }
    ls_options_fini(rows, count, &args);
    return status;
}

int coord_cmd_run(int argc, char **argv)
{
    return run_or_check(run_rows, LS_ARRAY_LEN(run_rows), false, argc, argv);
}

int coord_cmd_check(int argc, char **argv)
{
    return run_or_check(check_rows, LS_ARRAY_LEN(check_rows), true, argc, argv);
}

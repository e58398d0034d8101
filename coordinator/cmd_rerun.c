/* lockstep rerun BUNDLE: somebody's run, here, and beside theirs. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/digest.h"
#include "common/fs.h"
#include "common/options.h"
#include "coordinator/bundle/bundle.h"
#include "coordinator/bundle/place.h"
#include "coordinator/cli.h"
#include "coordinator/execute.h"
#include "coordinator/result/compare.h"
#include "coordinator/result/escape.h"
#include "coordinator/result/message.h"
#include "coordinator/result/store.h"
#include "coordinator/signals.h"

#define NAME_SHOWN_MAX 65536u

struct arguments {
    const char *out;
    const char *fail_on;
    const char *listen;
    const char *keys;
    int64_t wait_ns;
    struct ls_option_list set;
    bool check;
    bool anyway;
    const char *format;
    bool json;
    bool quiet;
    bool help;
};

#define ROW(field) offsetof(struct arguments, field)

static const struct ls_option rows[] = {
    { "out", 'o', LS_OPTION_TEXT, ROW(out), "DIR", NULL, 1, 0,
      "the new result folder (results/NAME-TIME)" },
    { "check", 0, LS_OPTION_FLAG, ROW(check), NULL, NULL, 1, 0,
      "say what would be run, and run nothing" },
    { "fail-on", 0, LS_OPTION_TEXT, ROW(fail_on), "PERCENT", NULL, 1, 0,
      "exit status 1 if a metric is worse here by more than that" },
    { "set", 0, LS_OPTION_LIST, ROW(set), "PATH=VALUE", NULL, 1, 0,
      "change a field of the plan, after what the run itself had changed" },
    { "listen", 0, LS_OPTION_TEXT, ROW(listen), "URL", NULL, 1, 0, "as of 'lockstep run'" },
    { "keys", 0, LS_OPTION_TEXT, ROW(keys), "DIR", NULL, 1, 0, "as of 'lockstep run'" },
    { "wait", 0, LS_OPTION_DURATION, ROW(wait_ns), "TIME", "60s", 1e8, 8.64e13,
      "as of 'lockstep run'" },
    { "anyway", 0, LS_OPTION_FLAG, ROW(anyway), NULL, NULL, 1, 0,
      "compare also where the load was another one" },
    { "format", 'f', LS_OPTION_TEXT, ROW(format), "FORMAT", "text", 1, 0,
      "of the comparison: text, json, csv or markdown" },
    { "json", 0, LS_OPTION_FLAG, ROW(json), NULL, NULL, 1, 0, "the same as --format json" },
    { "quiet", 'q', LS_OPTION_FLAG, ROW(quiet), NULL, NULL, 1, 0, "no progress on stderr" },
    { "help", 'h', LS_OPTION_FLAG, ROW(help), NULL, NULL, 1, 0, "this text" },
};

/* What the plan names by absolute paths is in no bundle: it has to be the same here. */
static enum ls_err check_elsewhere(const Ls__Bundle *manifest, struct ls_diag *diag)
{
    char hex[LS_SHA256_HEX];
    enum ls_err rc = LS_OK;

    for (size_t i = 0; rc == LS_OK && i < manifest->n_elsewhere; i++) {
        const Ls__PlanFile *file = manifest->elsewhere[i];

        rc = ls_sha256_file(file->name, hex, diag);
        if (rc == LS_OK && strcmp(hex, file->sha256) != 0)
            rc = ls_fail(diag, LS_EINVAL,
                         "the plan names %.200s, which is another file here than it was there",
                         file->name);
    }
    for (size_t i = 0; rc == LS_OK && i < manifest->n_left_out; i++) {
        struct ls_buf name; /* somebody's: a terminal is to obey none of it */

        ls_buf_init(&name, NAME_SHOWN_MAX);
        coord_escape_text(&name, manifest->left_out[i]);
        (void)fprintf(
            stderr,
            "lockstep: %s is a private key, which the bundle leaves out ('lockstep bundle "
            "--with-keys')\n",
            name.len > 0 ? (const char *)name.data : "what has no name");
        ls_buf_fini(&name);
    }
    return rc;
}

/* The run's own changes, then those of the command line. The caller frees items. */
static enum ls_err join_changes(const Ls__Result *result, const struct ls_option_list *more,
                                struct ls_option_list *out)
{
    out->items = calloc(result->n_changes + more->count + 1, sizeof(*out->items));
    out->count = 0;
    if (out->items == NULL)
        return LS_ENOMEM;
    for (size_t i = 0; i < result->n_changes; i++)
        out->items[out->count++] = result->changes[i];
    for (size_t i = 0; i < more->count; i++)
        out->items[out->count++] = more->items[i];
    return LS_OK;
}

static int compare(const char *bundle, const Ls__Result *theirs, const Ls__Result *ours,
                   const struct arguments *args, enum coord_report_format format)
{
    Ls__Comparisons *all = coord_message_new(&ls__comparisons__descriptor);
    struct coord_compare_options options = { .anyway = args->anyway };
    struct ls_diag diag = { 0 };
    int status = COORD_EXIT_FAULT;
    enum ls_err rc = all != NULL ? LS_OK : ls_fail(&diag, LS_ENOMEM, "no memory to compare");

    if (rc == LS_OK && args->fail_on != NULL)
        rc = coord_compare_percent(args->fail_on, &all->fail_on, &diag);
    if (rc == LS_OK) {
        all->level = COORD_COMPARE_LEVEL;
        options.fail_on = all->fail_on;
        rc = coord_compare(theirs, bundle, ours, args->out != NULL ? args->out : "this run",
                           &options, all, &diag);
    }
    if (rc == LS_OK)
        status = coord_cli_compared(all, format);
    else
        status = coord_cli_not_compared(format == COORD_REPORT_JSON,
                                        rc == LS_ENOMEM ? COORD_EXIT_FAULT : COORD_EXIT_USAGE,
                                        diag.text);
    coord_message_free(all);
    return status;
}

static int rerun(const char *bundle, const struct coord_place *place, const Ls__Result *theirs,
                 const struct arguments *args, enum coord_report_format format)
{
    char plan[PATH_MAX], base[PATH_MAX], seed[24];
    struct ls_option_list set = { 0 };
    struct ls_diag diag = { 0 };
    Ls__Result *ours = NULL;
    bool json = format == COORD_REPORT_JSON;
    int status = COORD_EXIT_USAGE;

    if (snprintf(plan, sizeof(plan), "%s/plan.yaml", place->dir) >= (int)sizeof(plan) ||
        snprintf(base, sizeof(base), "%s/" COORD_BUNDLE_FILES "/%s", place->unpacked,
                 place->manifest->folder) >= (int)sizeof(base))
        return coord_cli_not_compared(json, COORD_EXIT_USAGE, "the path of TMPDIR is too long");
    if (ls_fs_mkdirs(base, 0700, &diag) != LS_OK ||
        check_elsewhere(place->manifest, &diag) != LS_OK)
        return coord_cli_not_compared(json, COORD_EXIT_USAGE, diag.text);
    if (join_changes(theirs, &args->set, &set) != LS_OK)
        return coord_cli_not_compared(json, COORD_EXIT_FAULT, "no memory for the plan's changes");
    (void)snprintf(seed, sizeof(seed), "%" PRIu64, theirs->seed);
    status = coord_execute(
        &(struct coord_execute_options){ .file = plan,
                                         .base_dir = base,
                                         .out_dir = args->out,
                                         .listen = args->listen,
                                         .keys = args->keys,
                                         .wait_ns = args->wait_ns,
                                         .only = theirs->only[0] != '\0' ? theirs->only : NULL,
                                         .seed = seed,
                                         .set = set,
                                         .quick = strcmp(theirs->profile, "quick") == 0,
                                         .json = json,
                                         .quiet = args->quiet,
                                         .check_only = args->check,
                                         .out_result = args->check ? NULL : &ours });
    free(set.items);
    if (ours != NULL && (status == COORD_EXIT_OK || status == COORD_EXIT_INVALID))
        status = compare(bundle, theirs, ours, args, format);
    else if (ours != NULL)
        status = coord_cli_not_compared(json, status, ours->error);
    if (ours != NULL)
        ls__result__free_unpacked(ours, NULL);
    return status;
}

static int open_and_rerun(const char *bundle, const struct arguments *args,
                          enum coord_report_format format)
{
    struct coord_place place;
    struct ls_diag diag = { 0 };
    Ls__Result *theirs = NULL;
    bool json = format == COORD_REPORT_JSON;
    enum ls_err rc;
    int status;

    coord_signals_hold(); /* told to end, it still removes what was unpacked */
    rc = coord_place_open(bundle, &place, &diag);
    if (rc == LS_OK && place.manifest == NULL)
        rc = ls_fail(&diag, LS_EINVAL, "%.200s is no bundle: 'lockstep bundle DIR' makes one",
                     bundle);
    if (rc == LS_OK)
        rc = coord_store_load(place.dir, &theirs, &diag);
    status = rc == LS_OK       ? rerun(bundle, &place, theirs, args, format)
             : rc == LS_ENOMEM ? coord_cli_not_compared(json, COORD_EXIT_FAULT, diag.text)
                               : coord_cli_not_compared(json, COORD_EXIT_USAGE, diag.text);
    if (theirs != NULL)
        ls__result__free_unpacked(theirs, NULL);
    coord_place_close(&place);
    return status;
}

int coord_cmd_rerun(int argc, char **argv)
{
    struct arguments args = { 0 };
    struct ls_diag diag = { 0 };
    const char *bundle = NULL;
    size_t plain = 0;
    enum coord_report_format format = COORD_REPORT_TEXT;
    bool json = coord_cli_wants_json(argc, argv);
    double unused;
    int status;
    enum ls_err rc =
        ls_options_parse(rows, LS_ARRAY_LEN(rows), argc, argv, &args, &bundle, 1, &plain, &diag);

    if (rc == LS_OK && args.help) {
        (void)printf(
            "usage: lockstep rerun BUNDLE [option ...]\n\n"
            "Runs the plan of a bundle here, with its files and its seed, and compares the "
            "result\nwith the one in the bundle. It starts what the plan names, as 'lockstep "
            "run' does:\n--check shows it first.\n\n");
        ls_options_help(rows, LS_ARRAY_LEN(rows), stdout);
        ls_options_fini(rows, LS_ARRAY_LEN(rows), &args);
        return COORD_EXIT_OK;
    }
    if (rc == LS_OK)
        rc = coord_report_parse_format(args.json ? "json" : args.format, &format, &diag);
    if (rc == LS_OK && args.fail_on != NULL)
        rc = coord_compare_percent(args.fail_on, &unused, &diag);
    if (rc == LS_OK && plain == 0)
        rc = ls_fail(&diag, LS_EINVAL, "rerun: BUNDLE is missing: which file?");
    status = rc == LS_OK ? open_and_rerun(bundle, &args, format)
                         : coord_cli_not_compared(json, COORD_EXIT_USAGE, diag.text);
    ls_options_fini(rows, LS_ARRAY_LEN(rows), &args);
    return status;
}

/* lockstep verify DIR: is a result what it was, and do its figures follow from what was recorded?
 */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/msg_yaml.h"
#include "common/options.h"
#include "coordinator/bundle/place.h"
#include "coordinator/cli.h"
#include "coordinator/plan/plan_file.h"
#include "coordinator/result/message.h"
#include "coordinator/result/store.h"
#include "coordinator/result/store_paths.h"
#include "coordinator/result/verify.h"
#include "coordinator/run/pages.h"

struct arguments {
    const char *ca;
    bool figures_only;
    bool json;
    bool help;
};

static const struct ls_option rows[] = {
    { "ca", 0, LS_OPTION_TEXT, offsetof(struct arguments, ca), "FILE", NULL, 1, 0,
      "it has to be signed by a coordinator that this authority vouches for (ca.pem)" },
    { "figures-only", 0, LS_OPTION_FLAG, offsetof(struct arguments, figures_only), NULL, NULL, 1, 0,
      "compute figures again, but compare no file with SHA256SUMS" },
    { "json", 0, LS_OPTION_FLAG, offsetof(struct arguments, json), NULL, NULL, 1, 0,
      "what was found as one JSON document" },
    { "help", 'h', LS_OPTION_FLAG, offsetof(struct arguments, help), NULL, NULL, 1, 0,
      "this text" },
};

static int print(Ls__Verification *found, bool json, int status)
{
    struct coord_report_options options = coord_cli_looks();
    struct ls_diag diag = { 0 };
    struct ls_buf text;

    found->exit_status = (uint32_t)status;
    ls_buf_init(&text, COORD_RESULT_MAX_BYTES);
    if (coord_verify_render(found, json ? COORD_REPORT_JSON : COORD_REPORT_TEXT, &options, &text,
                            &diag) != LS_OK)
        status = coord_cli_fail(false, COORD_EXIT_FAULT, diag.text);
    else
        status = coord_cli_put(&text, status);
    ls_buf_fini(&text);
    return status;
}

/* With json: one document, also when there was nothing to verify. */
static int fail(bool json, int status, const char *text)
{
    Ls__Verification *found = json ? coord_message_new(&ls__verification__descriptor) : NULL;

    (void)fprintf(stderr, "lockstep: %s\n", text);
    if (found != NULL && coord_message_string(&found->status, "failed") &&
        coord_message_string(&found->error, text))
        status = print(found, true, status);
    coord_message_free(found);
    return status;
}

/* By the plan as it is in the folder, with the changes that the run was begun with. */
static enum ls_err make_pages(const char *dir, Ls__Result *result, struct ls_diag *diag)
{
    char path[PATH_MAX];
    union {
        char **in;
        const char **out;
    } changes = { .in = result->changes };
    const struct coord_plan_source source = { .file = path,
                                              .base_dir = result->plan_folder,
                                              .set = changes.out,
                                              .set_count = result->n_changes,
                                              .quick = strcmp(result->profile, "quick") == 0 };
    struct coord_plan plan = { 0 };
    struct ls_issues issues;
    char *text;
    enum ls_err rc = coord_path(dir, COORD_PLAN_FILE, path, diag);

    if (rc != LS_OK)
        return rc;
    ls_issues_init(&issues, COORD_PLAN_FILE);
    rc = coord_plan_open(&source, &issues, &plan);
    text = rc != LS_OK && rc != LS_ENOMEM ? ls_issues_format(&issues) : NULL;
    if (text != NULL)
        (void)ls_fail(diag, rc, "%.*s", (int)strcspn(text, "\n"), text); /* one is enough */
    free(text);
    ls_issues_fini(&issues);
    if (rc == LS_OK)
        rc = coord_pages_build(result, plan.plan);
    coord_plan_close(&plan);
    return rc;
}

static int verify(const char *path, const struct arguments *args, bool json)
{
    Ls__Verification *found = coord_message_new(&ls__verification__descriptor);
    struct coord_place place;
    struct ls_diag diag = { 0 };
    int status;
    enum ls_err rc;

    if (found == NULL)
        return fail(json, COORD_EXIT_FAULT, "no memory to verify anything");
    rc = coord_place_open(path, &place, &diag);
    if (rc == LS_OK)
        rc = coord_verify(place.dir,
                          &(struct coord_verify_options){ .ca = args->ca,
                                                          .figures_only = args->figures_only,
                                                          .pages = make_pages },
                          found, &diag);
    coord_place_close(&place);
    if (rc == LS_OK && !coord_message_string(&found->folder, path))
        rc = ls_fail(&diag, LS_ENOMEM, "no memory to verify %.200s", path);
    if (rc == LS_OK)
        status = print(found, json, found->n_differences > 0 ? COORD_EXIT_INVALID : COORD_EXIT_OK);
    else
        status = fail(json,
                      rc == LS_ENOMEM   ? COORD_EXIT_FAULT
                      : rc == LS_EPROTO ? COORD_EXIT_INVALID /* a bundle that was changed */
                                        : COORD_EXIT_USAGE,
                      diag.text);
    coord_message_free(found);
    return status;
}

int coord_cmd_verify(int argc, char **argv)
{
    struct arguments args = { 0 };
    struct ls_diag diag = { 0 };
    const char *dir = NULL;
    size_t plain = 0;
    bool json = coord_cli_wants_json(argc, argv);

    if (ls_options_parse(rows, LS_ARRAY_LEN(rows), argc, argv, &args, &dir, 1, &plain, &diag) !=
        LS_OK)
        return fail(json, COORD_EXIT_USAGE, diag.text);
    if (args.help) {
        (void)printf(
            "usage: lockstep verify DIR|BUNDLE [--ca FILE]\n\n"
            "Compares every file with SHA256SUMS, computes every figure again that the raw "
            "data\ngives, and names the file or figure that differs. Exit status 4 if one "
            "does.\n\n");
        ls_options_help(rows, LS_ARRAY_LEN(rows), stdout);
        return COORD_EXIT_OK;
    }
    if (plain == 0)
        return fail(json, COORD_EXIT_USAGE, "verify: DIR is missing: which result folder?");
    return verify(dir, &args, json);
}

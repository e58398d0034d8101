#include "coordinator/suite.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/msg_json.h"
#include "coordinator/cli.h"
#include "coordinator/result/message.h"
#include "coordinator/result/store.h"

#define DOCUMENT_MAX (512u << 20) /* bytes of all results as JSON */

bool coord_suite_is(const char *path)
{
    struct stat st;

    return path != NULL && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The last word of a path, which names the suite: of ".", too. */
static void name_of(const char *path, char *out, size_t out_bytes)
{
    char *folder = realpath(path, NULL);
    const char *slash = folder != NULL ? strrchr(folder, '/') : NULL;

    (void)snprintf(out, out_bytes, "%s", slash != NULL && slash[1] != '\0' ? slash + 1 : "suite");
    free(folder);
}

/* "DIR/startup" for ".../startup.yaml". False: too long. */
static bool out_dir_of(const char *dir, const char *plan, char out[PATH_MAX])
{
    const char *name = strrchr(plan, '/') + 1;

    return snprintf(out, PATH_MAX, "%s/%.*s", dir, (int)(strlen(name) - strlen(".yaml")), name) <
           PATH_MAX;
}

struct suite {
    const struct coord_execute_options *options;
    char dir[PATH_MAX];
    Ls__Results *all; /* of --json */
    int status;
    bool any;
};

static int run_plan(struct suite *suite, const char *plan)
{
    struct coord_execute_options one = *suite->options;
    char out[PATH_MAX], merge[PATH_MAX];
    Ls__Result *result = NULL;
    Ls__Result **grown;
    int status;

    if (!out_dir_of(suite->dir, plan, out))
        return coord_cli_fail(false, COORD_EXIT_USAGE, "the result folder's path is too long");
    one.file = plan;
    one.out_dir = out;
    if (one.merge != NULL) {
        if (!out_dir_of(one.merge, plan, merge))
            return coord_cli_fail(false, COORD_EXIT_USAGE, "--merge: the path is too long");
        one.merge = merge;
    }
    one.suite = true;
    one.json = false; /* there is one document, and it is ours */
    one.out_result = suite->options->json ? &result : NULL;
    status = coord_execute(&one);
    if (result == NULL)
        return status;
    grown = realloc(suite->all->results, (suite->all->n_results + 1) * sizeof(Ls__Result *));
    if (grown == NULL) {
        ls__result__free_unpacked(result, NULL);
        return COORD_EXIT_FAULT;
    }
    suite->all->results = grown;
    grown[suite->all->n_results++] = result;
    return status;
}

static int print_all(const struct suite *suite)
{
    char *json = ls_msg_to_json(&suite->all->base, 2);
    struct ls_buf text;
    int status = suite->status;

    ls_buf_init(&text, DOCUMENT_MAX);
    ls_buf_adds(&text, json != NULL ? json : "");
    ls_buf_adds(&text, "\n");
    status = json != NULL && text.ok ? coord_cli_put(&text, status) : COORD_EXIT_FAULT;
    ls_buf_fini(&text);
    free(json);
    return status;
}

static void run_plans(struct suite *suite, const glob_t *plans)
{
    for (size_t i = 0; i < plans->gl_pathc; i++) {
        int status;

        if (i > 0 && !suite->options->json)
            (void)printf("\n");
        status = run_plan(suite, plans->gl_pathv[i]);
        if (status == COORD_EXIT_NOTHING)
            continue;
        suite->any = true;
        if (suite->status == COORD_EXIT_OK)
            suite->status = status;
        if (status == COORD_EXIT_INTERRUPTED)
            break;
    }
}

int coord_suite_execute(const struct coord_execute_options *options)
{
    struct suite suite = { .options = options };
    char name[NAME_MAX + 1], pattern[PATH_MAX], text[PATH_MAX + 80];
    glob_t plans;

    if (options->resume != NULL)
        return coord_cli_fail(options->json, COORD_EXIT_USAGE,
                              "--resume goes on with one plan's result: name its folder, and no "
                              "folder of plans");
    name_of(options->file, name, sizeof(name));
    if (options->out_dir != NULL)
        (void)snprintf(suite.dir, sizeof(suite.dir), "%s", options->out_dir);
    else
        (void)coord_store_default_dir(name, ls_clock_wall_ns(), suite.dir, sizeof(suite.dir));
    (void)snprintf(pattern, sizeof(pattern), "%s/*.yaml", options->file);
    if (glob(pattern, 0, NULL, &plans) != 0) {
        (void)snprintf(text, sizeof(text), "%s holds no plan: files *.yaml are expected",
                       options->file);
        return coord_cli_fail(options->json, COORD_EXIT_USAGE, text);
    }
    suite.all = coord_message_new(&ls__results__descriptor);
    if (suite.all == NULL) {
        globfree(&plans);
        return coord_cli_fail(options->json, COORD_EXIT_FAULT, "out of memory");
    }
    run_plans(&suite, &plans);
    if (!suite.any) {
        (void)snprintf(text, sizeof(text), "no trial of these plans matches '%.64s'",
                       options->only != NULL ? options->only : "");
        suite.status = coord_cli_fail(false, COORD_EXIT_USAGE, text);
    }
    suite.all->exit_status = (uint32_t)suite.status;
    if (options->json)
        suite.status = print_all(&suite);
    coord_message_free(suite.all);
    globfree(&plans);
    return suite.status;
}

#include "coordinator/resume.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/cli.h"
#include "coordinator/result/store.h"
#include "coordinator/run/run.h"

/* What the command line says again has to come from the result: it is the same run. */
static const char *find_mistake(const struct coord_execute_options *options)
{
    if (options->out_dir != NULL)
        return "--out does not go with --resume: the result stays where it is";
    if (options->seed != NULL || options->only != NULL || options->set.count > 0 ||
        options->quick || options->merge != NULL)
        return "--seed, --only, --set, --quick and --merge do not go with --resume: they are those "
               "that the run was begun with";
    return NULL;
}

static int go_on(const struct coord_execute_options *options, struct coord_resumed *resumed)
{
    const Ls__Result *result = resumed->result;
    struct coord_execute_options all = *options;
    char plan[PATH_MAX], seed[24];
    union {
        char **in;
        const char **out;
    } changes = { .in = result->changes };

    if (snprintf(plan, sizeof(plan), "%s/plan.yaml", options->resume) >= (int)sizeof(plan))
        return coord_cli_fail(options->json, COORD_EXIT_USAGE, "--resume: the path is too long");
    (void)snprintf(seed, sizeof(seed), "%" PRIu64, result->seed);
    if (all.file == NULL) { /* its files are where they were */
        all.file = plan;
        all.base_dir = result->plan_folder;
    }
    if (all.listen == NULL && result->listen[0] != '\0')
        all.listen = result->listen;
    all.seed = seed;
    all.quick = strcmp(result->profile, "quick") == 0;
    all.only = result->only[0] != '\0' ? result->only : NULL;
    all.set = (struct ls_option_list){ .items = changes.out, .count = result->n_changes };
    all.merge = result->merge[0] != '\0' ? result->merge : NULL;
    all.resume = NULL;
    all.resumed = resumed;
    return coord_execute(&all);
}

int coord_resume(const struct coord_execute_options *options)
{
    const char *mistake = find_mistake(options);
    struct coord_resumed resumed = { 0 };
    struct ls_diag diag = { 0 };
    int status;

    if (mistake != NULL)
        return coord_cli_fail(options->json, COORD_EXIT_USAGE, mistake);
    if (coord_store_resume(options->resume, &resumed.store, &resumed.result, &diag) != LS_OK)
        return coord_cli_fail(options->json, COORD_EXIT_USAGE, diag.text);
    if (resumed.result->n_trials >= resumed.result->trials_planned &&
        resumed.result->finished_at[0] != '\0') {
        if (!options->quiet)
            (void)fprintf(stderr, "all %" PRIu32 " trials are there: nothing is left to do\n",
                          resumed.result->trials_planned);
        status = coord_cli_print(resumed.result, options->json, options->resume,
                                 (int)resumed.result->exit_status);
    } else {
        status = go_on(options, &resumed);
    }
    coord_store_close(resumed.store); /* unless the run has them */
    if (resumed.result != NULL)
        ls__result__free_unpacked(resumed.result, NULL);
    return status;
}

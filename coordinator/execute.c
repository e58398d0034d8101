#include "coordinator/execute.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "common/buf.h"
#include "common/msg_yaml.h"
#include "coordinator/cli.h"
#include "coordinator/plan/plan_file.h"
#include "coordinator/plan/trials.h"
#include "coordinator/resume.h"
#include "coordinator/run/fill.h"
#include "coordinator/run/older.h"
#include "coordinator/run/run.h"
#include "coordinator/signals.h"

struct prepared {
    struct coord_plan plan;
    struct coord_trials trials;
};

static void prepared_fini(struct prepared *p)
{
    coord_trials_fini(&p->trials);
    coord_plan_close(&p->plan);
}

/* Every mistake on a line of its own, as editors and people can follow it. */
static int fail_issues(const struct coord_execute_options *options, const struct ls_issues *issues)
{
    char *text = ls_issues_format(issues);
    char summary[200];
    int status = COORD_EXIT_USAGE;

    (void)snprintf(summary, sizeof(summary), "%s: %zu mistake%s in the plan; nothing was run",
                   options->file, issues->count + issues->dropped,
                   issues->count + issues->dropped == 1 ? "" : "s");
    (void)fprintf(stderr, "%slockstep: %s\n", text != NULL ? text : "out of memory\n", summary);
    if (options->json) { /* one document has to carry them all */
        struct ls_buf all;

        ls_buf_init(&all, 1u << 20);
        ls_buf_adds(&all, text != NULL ? text : "");
        ls_buf_adds(&all, summary);
        status =
            coord_cli_print_failure(COORD_EXIT_USAGE, all.ok ? (const char *)all.data : summary);
        ls_buf_fini(&all);
    }
    free(text);
    return status;
}

static enum ls_err read_plan(const struct coord_execute_options *options, struct prepared *p,
                             struct ls_issues *issues)
{
    const struct coord_plan_source source = { .file = options->file,
                                              .text = options->text,
                                              .text_bytes =
                                                  options->text != NULL ? strlen(options->text) : 0,
                                              .base_dir = options->base_dir,
                                              .set = options->set.items,
                                              .set_count = options->set.count,
                                              .quick = options->quick };

    return coord_plan_open(&source, issues, &p->plan);
}

static enum ls_err choose_seed(const struct coord_execute_options *options, const Ls__Plan *plan,
                               uint64_t *out_seed, struct ls_diag *diag)
{
    char *end;

    if (options->seed != NULL) {
        errno = 0;
        *out_seed = strtoull(options->seed, &end, 10);
        if (*options->seed < '0' || *options->seed > '9' || *end != '\0' || errno != 0)
            return ls_fail(diag, LS_EINVAL, "--seed %s: not a number from 0 to 2^64 - 1",
                           options->seed);
        return LS_OK;
    }
    if (plan->schedule != NULL && plan->schedule->has_seed) {
        *out_seed = plan->schedule->seed;
        return LS_OK;
    }
    if (getrandom(out_seed, sizeof(*out_seed), 0) != (ssize_t)sizeof(*out_seed))
        return ls_fail(diag, LS_EIO, "no random numbers for a seed");
    *out_seed &= (UINT64_C(1) << 53) - 1; /* exact in every JSON reader */
    return LS_OK;
}

static bool is_same_run(const Ls__Result *result, const struct prepared *p)
{
    return strcmp(result->plan_sha256, p->plan.sha256) == 0 &&
           result->trials_planned == p->trials.count + coord_older_count(result);
}

static int check_as_json(const struct coord_execute_options *options, const struct prepared *p)
{
    Ls__Result *result = coord_fill_planned(&(struct coord_run_options){
        .plan = p->plan.plan, .trials = &p->trials, .plan_sha256 = p->plan.sha256 });
    int status;

    if (result == NULL)
        return coord_cli_fail(true, COORD_EXIT_FAULT, "out of memory");
    if (options->out_result != NULL) {
        *options->out_result = result; /* now the caller's */
        return COORD_EXIT_OK;
    }
    status = coord_cli_print(result, true, NULL, COORD_EXIT_OK);
    ls__result__free_unpacked(result, NULL);
    return status;
}

/* Local ports of one address; those that are reserved are few, and the agents look at them. */
static uint64_t read_ports(void)
{
    FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    unsigned long first = 0, last = 0;

    if (file == NULL)
        return 0;
    if (fscanf(file, "%lu %lu", &first, &last) != 2 || last < first)
        last = 0;
    (void)fclose(file); /* read only */
    return last > 0 ? last - first + 1 : 0;
}

static int check_as_text(const struct prepared *p)
{
    struct coord_host_limits limits = { 0 };
    struct rlimit files;
    char *text;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        limits.files = (uint64_t)files.rlim_cur;
        limits.files_raised = (uint64_t)files.rlim_max;
    }
    limits.ports = read_ports();
    text = coord_check_render(p->plan.plan, &p->trials, &limits);

    if (text == NULL)
        return coord_cli_fail(false, COORD_EXIT_FAULT, "out of memory");
    (void)fputs(text, stdout);
    free(text);
    return fflush(stdout) == 0 ? COORD_EXIT_OK
                               : coord_cli_fail(false, COORD_EXIT_FAULT, "stdout is closed");
}

static int run(const struct coord_execute_options *options, const struct prepared *p)
{
    Ls__Result *result = NULL;
    char dir[512];
    int status =
        coord_run(&(struct coord_run_options){ .plan = p->plan.plan,
                                               .trials = &p->trials,
                                               .plan_text = { (const unsigned char *)p->plan.text,
                                                              p->plan.text_bytes },
                                               .plan_sha256 = p->plan.sha256,
                                               .base_dir = p->plan.base_dir,
                                               .out_dir = options->out_dir,
                                               .listen = options->listen,
                                               .keys = options->keys,
                                               .wait_ns = options->wait_ns,
                                               .set = options->set.items,
                                               .set_count = options->set.count,
                                               .labels = options->labels.items,
                                               .label_count = options->labels.count,
                                               .metrics = options->metrics,
                                               .ui = options->ui,
                                               .only = options->only,
                                               .resumed = options->resumed,
                                               .merge = options->merge,
                                               .quick = options->quick,
                                               .quiet = options->quiet,
                                               .calibrating = options->calibrating,
                                               .workers_per_client = options->workers_per_client },
                  &result, dir, sizeof(dir));

    if (result == NULL)
        return coord_cli_fail(options->json, status, "out of memory");
    if (options->out_result != NULL) {
        *options->out_result = result; /* now the caller's */
        return status;
    }
    if ((status != COORD_EXIT_USAGE && status != COORD_EXIT_REFUSED) || options->json)
        /* otherwise nothing was run: there is no report */
        status = coord_cli_print(result, options->json, dir[0] != '\0' ? dir : NULL, status);
    ls__result__free_unpacked(result, NULL);
    return status;
}

int coord_execute(const struct coord_execute_options *options)
{
    struct prepared p = { 0 };
    struct ls_issues issues;
    struct ls_diag diag = { 0 };
    uint64_t seed = 0;
    enum ls_err rc;
    int status;

    if (options->resume != NULL)
        return coord_resume(options);
    if (!options->check_only)
        coord_signals_hold(); /* told to end now, it still ends with a result */
    ls_issues_init(&issues, options->file);
    if (read_plan(options, &p, &issues) != LS_OK)
        status = fail_issues(options, &issues);
    else if ((rc = choose_seed(options, p.plan.plan, &seed, &diag)) != LS_OK ||
             (rc = coord_trials_expand(p.plan.plan, seed, options->only, &p.trials, &diag)) !=
                 LS_OK)
        status = rc == LS_ESTATE && options->suite
                     ? COORD_EXIT_NOTHING
                     : coord_cli_fail(options->json, COORD_EXIT_USAGE, diag.text);
    else if (options->resumed != NULL && !is_same_run(options->resumed->result, &p))
        status = coord_cli_fail(options->json, COORD_EXIT_USAGE,
                                "this is not the plan that the run was begun with: only that one "
                                "can be gone on with");
    else if (options->check_only)
        status = options->json || options->out_result != NULL ? check_as_json(options, &p)
                                                              : check_as_text(&p);
    else
        status = run(options, &p);
    ls_issues_fini(&issues);
    prepared_fini(&p);
    return status;
}

/* lockstep slurm PLAN: the allocation that a plan needs, as a job of a Slurm cluster. What is in
 * the job is deploy/slurm/lockstep.sbatch; deploy/slurm/submit.sh hands it in and follows it. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/cpuset.h"
#include "common/fs.h"
#include "common/options.h"
#include "coordinator/choice.h"
#include "coordinator/cli.h"
#include "coordinator/plan/plan_file.h"
#include "coordinator/plan/trials.h"
#include "coordinator/script.h"

#define SBATCH_WORDS_MAX 64u
/* Beside the plan's longest time: agents come, results are written, Slurm looks once a minute. */
#define EXTRA_NS (180 * LS_NS_PER_S)

struct arguments {
    const char *job;
    struct coord_choice choice;
    bool detach;
    bool prepare;
    bool help;
};

#define ROW(field) offsetof(struct arguments, field)

static const struct ls_option rows[] = {
    { "job", 'o', LS_OPTION_TEXT, ROW(job), "DIR", NULL, 1, 0,
      "the job's folder, which every node has to see; DIR/result is the result (slurm-NAME-TIME)" },
    COORD_CHOICE_ROWS(struct arguments, choice),
    { "detach", 0, LS_OPTION_FLAG, ROW(detach), NULL, NULL, 1, 0,
      "hand the job in and do not wait for it" },
    { "prepare", 0, LS_OPTION_FLAG, ROW(prepare), NULL, NULL, 1, 0,
      "only make the job's folder and say what to hand in" },
    { "help", 'h', LS_OPTION_FLAG, ROW(help), NULL, NULL, 1, 0, "this text" },
};

/* What is asked of Slurm. */
struct allocation {
    uint32_t nodes; /* one for the coordinator, one for each agent */
    uint32_t cpus;  /* of each node, at the least; 0: the plan names none */
    int64_t minutes;
};

/* ---- the plan */

static void widen(const char *list, uint32_t *cpus)
{
    struct ls_cpuset set;
    struct ls_diag diag;
    int last;

    if (list == NULL || strcmp(list, "auto") == 0 || ls_cpuset_parse(list, &set, &diag) != LS_OK ||
        ls_cpuset_count(&set) == 0)
        return;
    last = ls_cpuset_nth(&set, ls_cpuset_count(&set) - 1);
    if ((uint32_t)last >= *cpus)
        *cpus = (uint32_t)last + 1;
}

static void allocate(const Ls__Plan *plan, const struct coord_budget *budget,
                     struct allocation *out)
{
    const Ls__Fleet *fleet = plan->fleet;
    int64_t minute_ns = 60 * LS_NS_PER_S;

    out->nodes = 1 + fleet->servers + fleet->clients;
    out->minutes = (budget->longest_ns + EXTRA_NS + minute_ns - 1) / minute_ns;
    widen(fleet->cpus->server, &out->cpus);
    widen(fleet->cpus->client, &out->cpus);
    for (size_t i = 0; i < fleet->n_agents; i++)
        widen(fleet->agents[i]->cpus, &out->cpus);
}

/* ---- the job's folder */

static bool is_plain(const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20)
            return false;
    }
    return true;
}

/* An agent a line: role, name (-: that of its node), labels; between them tabs. */
static enum ls_err add_agents(struct ls_buf *buf, const Ls__Fleet *fleet, Ls__AgentRole role,
                              uint32_t count, struct ls_diag *diag)
{
    const char *word = role == LS__AGENT_ROLE__AGENT_ROLE_SERVER ? "server" : "client";
    uint32_t added = 0;

    for (size_t i = 0; i < fleet->n_agents && added < count; i++) {
        const Ls__FleetAgent *wish = fleet->agents[i];

        if (wish->role != role)
            continue;
        ls_buf_addf(buf, "%s\t%s", word, wish->name != NULL ? wish->name : "-");
        for (size_t k = 0; k < wish->n_labels; k++) {
            if (!is_plain(wish->labels[k]->key) || !is_plain(wish->labels[k]->value))
                return ls_fail(diag, LS_EINVAL,
                               "fleet.agents[%zu]: a label with control characters", i);
            ls_buf_addf(buf, "\t%s=%s", wish->labels[k]->key, wish->labels[k]->value);
        }
        ls_buf_adds(buf, "\n");
        added++;
    }
    for (; added < count; added++)
        ls_buf_addf(buf, "%s\t-\n", word);
    return buf->ok ? LS_OK : ls_fail(diag, LS_ENOMEM, "out of memory");
}

/* Further words of "lockstep run", one a line. */
static enum ls_err add_words(struct ls_buf *buf, const struct coord_choice *choice,
                             struct ls_diag *diag)
{
    const char *given[][2] = { { "--only", choice->only }, { "--seed", choice->seed } };

    for (size_t i = 0; i < LS_ARRAY_LEN(given); i++) {
        if (given[i][1] != NULL)
            ls_buf_addf(buf, "%s\n%s\n", given[i][0], given[i][1]);
        if (given[i][1] != NULL && !is_plain(given[i][1]))
            return ls_fail(diag, LS_EINVAL, "%s: a value with control characters", given[i][0]);
    }
    for (size_t i = 0; i < choice->set.count; i++) {
        if (!is_plain(choice->set.items[i]))
            return ls_fail(diag, LS_EINVAL, "--set: a value with control characters");
        ls_buf_addf(buf, "--set\n%s\n", choice->set.items[i]);
    }
    return buf->ok ? LS_OK : ls_fail(diag, LS_ENOMEM, "out of memory");
}

static enum ls_err put(const char *dir, const char *name, const struct ls_buf *buf,
                       struct ls_diag *diag)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return ls_fs_write(path, (struct ls_bytes){ buf->data, buf->len }, 0644, diag);
}

static enum ls_err write_folder(const char *dir, const char *plan_file, const Ls__Fleet *fleet,
                                const struct arguments *args, struct ls_diag *diag)
{
    struct ls_buf agents, words, plan;
    enum ls_err rc;

    ls_buf_init(&agents, 1u << 20);
    ls_buf_init(&words, 1u << 20);
    ls_buf_init(&plan, 2 * PATH_MAX);
    ls_buf_addf(&plan, "%s\n", plan_file);
    rc = add_agents(&agents, fleet, LS__AGENT_ROLE__AGENT_ROLE_SERVER, fleet->servers, diag);
    if (rc == LS_OK)
        rc = add_agents(&agents, fleet, LS__AGENT_ROLE__AGENT_ROLE_CLIENT, fleet->clients, diag);
    if (rc == LS_OK)
        rc = add_words(&words, &args->choice, diag);
    if (rc == LS_OK)
        rc = ls_fs_mkdirs(dir, 0755, diag);
    if (rc == LS_OK)
        rc = put(dir, "agents", &agents, diag);
    if (rc == LS_OK)
        rc = put(dir, "words", &words, diag);
    if (rc == LS_OK)
        rc = put(dir, "plan", &plan, diag);
    ls_buf_fini(&agents);
    ls_buf_fini(&words);
    ls_buf_fini(&plan);
    return rc;
}

/* ---- the command */

static int fail(int status, const char *text)
{
    return coord_cli_fail(false, status, text);
}

static int hand_in(const char *dir, const Ls__Plan *plan, const struct allocation *a,
                   const struct arguments *args, const char *const *more, size_t more_count)
{
    char script[PATH_MAX], nodes[16], cpus[16], minutes[32];
    const char *words[7 + SBATCH_WORDS_MAX] = {
        args->detach ? "detach" : "follow", dir, plan->name, nodes, cpus, minutes
    };
    size_t count = 6;
    struct ls_diag diag = { 0 };

    (void)snprintf(nodes, sizeof(nodes), "%" PRIu32, a->nodes);
    (void)snprintf(cpus, sizeof(cpus), "%" PRIu32, a->cpus);
    (void)snprintf(minutes, sizeof(minutes), "%" PRId64, a->minutes);
    for (size_t i = 0; i < more_count; i++)
        words[count++] = more[i];
    if (coord_script_find("slurm/submit.sh", script, sizeof(script), &diag) == LS_OK)
        (void)!coord_script_become(script, words, count, &diag);
    return fail(COORD_EXIT_FAULT, diag.text);
}

static int prepare(const struct coord_plan *plan, const char *file, const struct arguments *args,
                   const char *const *more, size_t more_count)
{
    char path[PATH_MAX], dir[PATH_MAX], name[256];
    struct allocation allocation = { 0 };
    struct coord_trials trials = { 0 };
    struct coord_budget budget;
    struct ls_diag diag = { 0 };

    if (coord_trials_expand(plan->plan, 0, args->choice.only, &trials, &diag) != LS_OK)
        return fail(COORD_EXIT_USAGE, diag.text);
    coord_trials_budget(plan->plan, &trials, &budget);
    coord_trials_fini(&trials);
    allocate(plan->plan, &budget, &allocation);
    (void)snprintf(name, sizeof(name), "slurm-%.100s-%lld", plan->plan->name,
                   (long long)(ls_clock_wall_ns() / LS_NS_PER_S));
    if (realpath(file, path) == NULL)
        return fail(COORD_EXIT_USAGE, strerror(errno));
    if (write_folder(args->job != NULL ? args->job : name, path, plan->plan->fleet, args, &diag) !=
        LS_OK)
        return fail(diag.code == LS_EINVAL ? COORD_EXIT_USAGE : COORD_EXIT_FAULT, diag.text);
    if (realpath(args->job != NULL ? args->job : name, dir) == NULL)
        return fail(COORD_EXIT_FAULT, strerror(errno));
    if (!args->prepare)
        return hand_in(dir, plan->plan, &allocation, args, more, more_count);
    (void)printf("LOCKSTEP_JOB=%s sbatch --nodes=%" PRIu32 " --time=%" PRId64, dir,
                 allocation.nodes, allocation.minutes);
    if (allocation.cpus > 0)
        (void)printf(" --mincpus=%" PRIu32, allocation.cpus);
    (void)printf(" lockstep.sbatch\n");
    return COORD_EXIT_OK;
}

static int read_and_prepare(const struct arguments *args, const char *const *words, size_t count)
{
    const struct coord_plan_source source = { .file = words[0],
                                              .set = args->choice.set.items,
                                              .set_count = args->choice.set.count };
    struct coord_plan plan = { 0 };
    struct ls_issues issues;
    int status;

    ls_issues_init(&issues, words[0]);
    if (coord_plan_open(&source, &issues, &plan) == LS_OK) {
        status = prepare(&plan, words[0], args, words + 1, count - 1);
    } else {
        char *text = ls_issues_format(&issues);

        (void)fprintf(stderr, "%s", text != NULL ? text : "");
        free(text);
        status = fail(COORD_EXIT_USAGE, "slurm: the plan is not in order; nothing was handed in");
    }
    ls_issues_fini(&issues);
    coord_plan_close(&plan);
    return status;
}

int coord_cmd_slurm(int argc, char **argv)
{
    struct arguments args = { 0 };
    struct ls_diag diag = { 0 };
    const char *words[1 + SBATCH_WORDS_MAX];
    size_t count = 0;
    int status;

    if (ls_options_parse(rows, LS_ARRAY_LEN(rows), argc, argv, &args, words, LS_ARRAY_LEN(words),
                         &count, &diag) != LS_OK) {
        status = fail(COORD_EXIT_USAGE, diag.text);
    } else if (args.help) {
        (void)printf(
            "usage: lockstep slurm PLAN [option ...] [-- SBATCH_OPTION ...]\n\nRuns a plan "
            "as a job of a Slurm cluster: a node for the coordinator and one for each "
            "agent.\n\n");
        ls_options_help(rows, LS_ARRAY_LEN(rows), stdout);
        status = COORD_EXIT_OK;
    } else if (count == 0) {
        status = fail(COORD_EXIT_USAGE, "slurm: PLAN is missing: which plan file?");
    } else {
        status = read_and_prepare(&args, words, count);
    }
    ls_options_fini(rows, LS_ARRAY_LEN(rows), &args);
    return status;
}

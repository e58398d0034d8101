/* A plan from the first byte to the list of trials. The input is the text up to the first NUL;
 * what follows are changes, "path=value", each up to the next NUL. The oracle: a plan is either
 * refused with a printable reason, or complete; it then reads back from its own JSON as it was. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/msg_json.h"
#include "common/utf8.h"
#include "coordinator/plan/plan_file.h"
#include "coordinator/plan/trials.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SETS_MAX = 4 };

static void demand(bool holds)
{
    if (!holds)
        abort();
}

/* Issues stand within the text, in order, and are safe to print. */
static void check_issues(const struct ls_issues *issues)
{
    char *text = ls_issues_format(issues);
    uint32_t line = 0;

    demand(text != NULL);
    for (const char *c = text; *c != '\0'; c++)
        demand((unsigned char)*c >= 0x20 ? *c != 0x7f : *c == '\n');
    for (size_t i = 0; i < issues->count; i++) {
        if (issues->items[i].origin != NULL)
            break;
        demand(issues->items[i].line >= line);
        line = issues->items[i].line;
    }
    free(text);
}

static void check_trials(const Ls__Plan *plan)
{
    struct coord_trials trials;
    char folder[COORD_TRIAL_FOLDER_MAX];
    char *text;

    if (coord_trials_expand(plan, 7, NULL, &trials, NULL) != LS_OK)
        return; /* workloads whose targets are none */
    for (size_t i = 0; i < trials.count; i++)
        demand(strchr(coord_trial_folder(&trials.items[i], folder, sizeof(folder)), '/') == NULL);
    text = coord_check_render(plan, &trials,
                              &(struct coord_host_limits){ .files = 1024, .files_raised = 1024 });
    demand(text != NULL);
    free(text);
    coord_trials_fini(&trials);
}

/* Not for external targets: the stop that is filled in for them may not be given. */
static void check_round_trip(const Ls__Plan *plan)
{
    char *first = ls_msg_to_json(&plan->base, 1);
    struct coord_plan_source source = { .file = "again", .base_dir = "/" };
    struct coord_plan again = { 0 };
    struct ls_issues issues;
    char *second;

    for (size_t i = 0; i < plan->n_targets; i++) {
        if (plan->targets[i]->external) {
            free(first);
            return;
        }
    }
    demand(first != NULL);
    source.text = first;
    source.text_bytes = strlen(first);
    ls_issues_init(&issues, "again");
    if (coord_plan_open(&source, &issues, &again) == LS_OK) {
        second = ls_msg_to_json(&again.plan->base, 1);
        demand(second != NULL && strcmp(first, second) == 0);
        free(second);
    } else { /* spelt out, it may be longer than a plan may be */
        demand(source.text_bytes > LS_YAML_MAX_BYTES / 8);
    }
    coord_plan_close(&again);
    ls_issues_fini(&issues);
    free(first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *sets[SETS_MAX];
    struct coord_plan_source source = { .file = "fuzz", .base_dir = "/", .set = sets };
    struct coord_plan plan = { 0 };
    struct ls_issues issues;
    char *text = malloc(size + 1);
    size_t at;
    enum ls_err rc;

    demand(text != NULL);
    if (size > 0)
        (void)memcpy(text, data, size);
    text[size] = '\0';
    source.text = text;
    source.text_bytes = strlen(text);
    for (at = source.text_bytes + 1; at < size && source.set_count < SETS_MAX;
         at += strlen(text + at) + 1)
        sets[source.set_count++] = text + at;
    ls_issues_init(&issues, "fuzz");
    rc = coord_plan_open(&source, &issues, &plan);
    demand(rc == LS_OK || rc == LS_EINVAL);
    demand((rc == LS_OK) == (issues.count + issues.dropped == 0));
    check_issues(&issues);
    if (rc == LS_OK) {
        check_trials(plan.plan);
        check_round_trip(plan.plan);
    }
    coord_plan_close(&plan);
    ls_issues_fini(&issues);
    free(text);
    return 0;
}

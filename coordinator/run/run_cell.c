/* What kind of cell a trial is: one with figures, or one that says why there are none. */
#include <stdio.h>
#include <string.h>

#include "coordinator/result/message.h"
#include "coordinator/run/fill.h"
#include "coordinator/run/run_internal.h"

static const char *reason_of_plan(const struct coord_trial *trial)
{
    const Ls__Target *t = trial->target;

    for (size_t i = 0; i < t->n_not_applicable; i++) {
        const Ls__NotApplicable *entry = t->not_applicable[i];

        for (size_t k = 0; k < entry->n_workloads; k++) {
            if (strcmp(entry->workloads[k], trial->workload->name) == 0)
                return entry->reason;
        }
    }
    return NULL;
}

/* A target that was not there a moment ago is not asked for again: a probe may take its time. */
static const char *reason_of_before(const struct run *r, const struct coord_trial *trial)
{
    for (size_t i = r->trials_before; i < r->result->n_trials; i++) {
        const Ls__Trial *earlier = r->result->trials[i];

        if (strcmp(earlier->status, "skipped") == 0 &&
            strcmp(earlier->target, trial->target->name) == 0)
            return earlier->outcome_reason;
    }
    return NULL;
}

static enum ls_err make(const struct coord_trial *trial, const char *kind, const char *reason,
                        Ls__Trial **out_trial)
{
    Ls__Trial *message = coord_fill_trial(trial, 0);

    if (message == NULL)
        return LS_ENOMEM;
    message->verdict = LS__VERDICT__VERDICT_NONE;
    if (!coord_message_string(&message->started_at, "") ||
        !coord_message_string(&message->status, kind) ||
        !coord_message_string(&message->outcome, kind) ||
        !coord_message_string(&message->outcome_reason, reason)) {
        coord_message_free(message);
        return LS_ENOMEM;
    }
    *out_trial = message;
    return LS_OK;
}

enum ls_err run_cell_without_trial(const struct run *r, const struct coord_trial *trial,
                                   Ls__Trial **out_trial)
{
    const char *reason = reason_of_plan(trial);
    char unset[120];

    *out_trial = NULL;
    if (reason != NULL)
        return make(trial, "not_applicable", reason, out_trial);
    if (trial->target->program == NULL && trial->target->program_variable != NULL) {
        (void)snprintf(unset, sizeof(unset), "%.64s is not set", trial->target->program_variable);
        return make(trial, "skipped", unset, out_trial);
    }
    reason = reason_of_before(r, trial);
    return reason != NULL ? make(trial, "skipped", reason, out_trial) : LS_OK;
}

bool run_cell_is_skipped(const struct coord_machine_failure *failure)
{
    return failure != NULL && strcmp(failure->code, "skipped") == 0;
}

enum ls_err run_cell_fill(const struct coord_machine_failure *failure, Ls__Trial *trial)
{
    const Ls__Program *program = trial->server != NULL ? trial->server->program : NULL;
    const char *differs = program != NULL ? program->version_differs : "";
    const char *outcome = "ran", *reason = "";

    if (run_cell_is_skipped(failure)) {
        outcome = "skipped";
        reason = failure->text;
        trial->verdict = LS__VERDICT__VERDICT_NONE;
    } else if (strcmp(trial->status, "done") != 0) {
        outcome = "failed";
        reason = failure != NULL ? failure->text : "it was not measured to its end";
    } else if (differs[0] != '\0') {
        outcome = "version_differs";
        reason = differs;
    }
    return coord_message_string(&trial->outcome, outcome) &&
                   coord_message_string(&trial->outcome_reason, reason)
               ? LS_OK
               : LS_ENOMEM;
}

bool run_cell_any_ran(const Ls__Result *result)
{
    for (size_t i = 0; i < result->n_trials; i++) {
        if (result->trials[i]->verdict != LS__VERDICT__VERDICT_NONE)
            return true;
    }
    return result->n_trials == 0;
}

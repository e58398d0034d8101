/* Targets that may be absent: the probe, what does not apply, and what others have published. */
#include <math.h>
#include <string.h>

#include "common/clock.h"
#include "common/msg_model.h"
#include "coordinator/plan/plan_check_parts.h"

static void check_probe(struct coord_plan_checker *c, const Ls__Probe *probe)
{
    if (probe->n_command > 0 && probe->command[0][0] == '\0')
        coord_plan_check_say(c, &probe->base, "command", 0,
                             "is empty: the name of a program is expected");
    for (size_t i = 0; i < probe->n_command; i++)
        coord_plan_check_placeholders(c, &probe->base, "command", (int)i, probe->command[i]);
    coord_plan_check_pattern(c, &probe->base, "expect", probe->expect);
    coord_plan_check_pattern(c, &probe->base, "version", probe->version);
    coord_plan_check_sha256(c, &probe->base, "sha256", probe->sha256);
    coord_plan_check_duration(c, &probe->base, "timeout", probe->timeout, 10 * LS_NS_PER_MS,
                              600 * LS_NS_PER_S);
}

/* What is printed has to be asked for. */
static void check_asked(struct coord_plan_checker *c, const Ls__Target *target)
{
    const Ls__Probe *probe = target->probe;

    if (probe->n_command == 0 && target->n_version == 0 &&
        (probe->expect != NULL || probe->version != NULL))
        coord_plan_check_say(c, &probe->base, "command", -1,
                             "is missing: what prints the version that is expected, such as [node, "
                             "--version]; or give the target a version");
}

static bool has_workload(const struct coord_plan_checker *c, const char *name)
{
    for (size_t i = 0; i < c->plan->n_workloads; i++) {
        if (c->plan->workloads[i]->name != NULL && strcmp(c->plan->workloads[i]->name, name) == 0)
            return true;
    }
    return false;
}

static void check_workload_name(struct coord_plan_checker *c, const ProtobufCMessage *message,
                                const char *field, int index, const char *name)
{
    if (!has_workload(c, name))
        coord_plan_check_say(c, message, field, index, "there is no workload '%.64s' in this plan",
                             name);
}

static void check_not_applicable(struct coord_plan_checker *c, const Ls__NotApplicable *entry)
{
    if (entry->n_workloads == 0)
        coord_plan_check_say(c, &entry->base, "workloads", -1,
                             "is missing: the names of those that it cannot run");
    for (size_t i = 0; i < entry->n_workloads; i++)
        check_workload_name(c, &entry->base, "workloads", (int)i, entry->workloads[i]);
    if (entry->reason == NULL || entry->reason[0] == '\0')
        coord_plan_check_say(c, &entry->base, "reason", -1,
                             "is missing: why not, such as has no HTTP server");
}

static void check_published(struct coord_plan_checker *c, const Ls__Published *p)
{
    const struct {
        const char *field;
        const char *value;
        const char *hint;
    } needed[] = {
        { "workload", p->workload, "is missing: the name of the workload it is about" },
        { "metric", p->metric, "is missing: what was measured, such as wall_mean_ns" },
        { "source", p->source, "is missing: where it was published" },
        { "date", p->date, "is missing: of when it is, such as 2026-05-01" },
    };

    for (size_t i = 0; i < LS_ARRAY_LEN(needed); i++) {
        if (needed[i].value == NULL || needed[i].value[0] == '\0')
            coord_plan_check_say(c, &p->base, needed[i].field, -1, "%s", needed[i].hint);
    }
    if (p->workload != NULL && p->workload[0] != '\0')
        check_workload_name(c, &p->base, "workload", -1, p->workload);
    if (p->metric != NULL && p->metric[0] != '\0')
        coord_plan_check_metric(c, &p->base, p->metric);
    if (!p->has_value || !isfinite(p->value))
        coord_plan_check_say(c, &p->base, "value", -1, "is missing: a number");
}

static bool names_program(char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strstr(words[i], "{program}") != NULL)
            return true;
    }
    return false;
}

static void check_program(struct coord_plan_checker *c, const Ls__Target *target)
{
    const char *variable = target->program_variable;

    if (variable != NULL)
        coord_plan_check_variable(c, &target->base, variable, "");
    if (target->program != NULL && target->program[0] == '\0')
        coord_plan_check_say(c, &target->base, "program", -1,
                             "is empty: a name or a path is expected");
    if (target->program == NULL && variable == NULL &&
        names_program(target->command, target->n_command))
        coord_plan_check_say(c, &target->base, "program", -1,
                             "is missing: what {program} in the command stands for; or give "
                             "program_variable");
    if (target->program == NULL && target->probe == NULL && variable != NULL &&
        coord_plan_variable(variable) == NULL)
        coord_plan_check_say(c, &target->base, "program_variable", -1,
                             "'%.64s' is not set: set it, give program, or give a probe if the "
                             "target may be absent",
                             variable);
}

void coord_plan_check_absent(struct coord_plan_checker *c, const Ls__Target *target)
{
    if (target->probe != NULL) {
        check_probe(c, target->probe);
        check_asked(c, target);
    }
    check_program(c, target);
    if (coord_plan_check_few(c, &target->base, "not_applicable", target->n_not_applicable)) {
        for (size_t i = 0; i < target->n_not_applicable; i++)
            check_not_applicable(c, target->not_applicable[i]);
    }
    if (coord_plan_check_few(c, &target->base, "published", target->n_published)) {
        for (size_t i = 0; i < target->n_published; i++)
            check_published(c, target->published[i]);
    }
}

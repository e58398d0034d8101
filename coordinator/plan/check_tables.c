/* The tables of a report: what they show has to be there. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "common/msg_model.h"
#include "coordinator/plan/plan_check_parts.h"
#include "coordinator/result/summary.h"

#define TABLES_MAX  50u
#define COLUMNS_MAX 40u

static void check_text(struct coord_plan_checker *c, const ProtobufCMessage *message,
                       const char *field, const char *text)
{
    for (; text != NULL && *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20) {
            coord_plan_check_say(c, message, field, -1, "holds control characters: remove them");
            return;
        }
    }
}

void coord_plan_check_metric(struct coord_plan_checker *c, const ProtobufCMessage *message,
                             const char *name)
{
    const char *names[100];
    const struct coord_metric *metric;
    const char *close;
    size_t count = 0;

    if (name == NULL || coord_metric_find(name) != NULL || strncmp(name, "script/", 7) == 0)
        return;
    for (unsigned i = 0; (metric = coord_metric_at(i)) != NULL && count < LS_ARRAY_LEN(names); i++)
        names[count++] = metric->name;
    close = ls_closest(name, names, count);
    if (close != NULL)
        coord_plan_check_say(c, message, "metric", -1, "'%.64s' is no metric: did you mean %s?",
                             name, close);
    else
        coord_plan_check_say(c, message, "metric", -1,
                             "'%.64s' is no metric: throughput_per_s and service_time_p99_ns are",
                             name);
}

static bool matches_any(const struct coord_plan_checker *c, bool targets, const char *glob)
{
    const Ls__Plan *plan = c->plan;

    for (size_t i = 0; i < (targets ? plan->n_targets : plan->n_workloads); i++) {
        const char *name = targets ? plan->targets[i]->name : plan->workloads[i]->name;

        if (name == NULL || fnmatch(glob, name, 0) == 0)
            return true;
    }
    return false;
}

static void check_globs(struct coord_plan_checker *c, const Ls__PageTable *table, bool targets)
{
    char *const *globs = targets ? table->targets : table->workloads;
    const char *field = targets ? "targets" : "workloads";

    for (size_t i = 0; i < (targets ? table->n_targets : table->n_workloads); i++) {
        if (!matches_any(c, targets, globs[i]))
            coord_plan_check_say(c, &table->base, field, (int)i, "no %.*s is called '%.64s'",
                                 (int)strlen(field) - 1, field, globs[i]);
    }
}

/* Columns are referred to by their titles, and only backwards. */
static void check_reference(struct coord_plan_checker *c, const Ls__PageTable *table, size_t index,
                            const char *field, const char *title)
{
    for (size_t i = 0; i < index; i++) {
        if (table->columns[i]->title == NULL || strcmp(table->columns[i]->title, title) == 0)
            return;
    }
    coord_plan_check_say(c, &table->columns[index]->base, field, -1,
                         "no column before this one is called '%.64s'", title);
}

static void check_column(struct coord_plan_checker *c, const Ls__PageTable *table, size_t index)
{
    const Ls__PageColumn *column = table->columns[index];
    bool of_targets = table->rows == LS__TABLE_ROWS__TABLE_ROWS_TARGETS;

    if (column->title == NULL || column->title[0] == '\0')
        coord_plan_check_say(c, &column->base, "title", -1, "is missing");
    check_text(c, &column->base, "title", column->title);
    coord_plan_check_metric(c, &column->base, column->metric);
    if (of_targets && column->target != NULL)
        coord_plan_check_say(c, &column->base, "target", -1,
                             "does not go with rows: targets, where each row is one");
    else if (!of_targets && column->target == NULL)
        coord_plan_check_say(c, &column->base, "target", -1,
                             "is missing: each column is of a target, unless the rows are");
    else if (column->target != NULL && !matches_any(c, true, column->target))
        coord_plan_check_say(c, &column->base, "target", -1, "no target is called '%.64s'",
                             column->target);
    if (table->rows == LS__TABLE_ROWS__TABLE_ROWS_WORKLOADS && column->workload != NULL)
        coord_plan_check_say(c, &column->base, "workload", -1,
                             "does not go with rows: workloads, where each row is one");
    else if (column->workload != NULL && !matches_any(c, false, column->workload))
        coord_plan_check_say(c, &column->base, "workload", -1, "no workload is called '%.64s'",
                             column->workload);
    if (column->over != NULL && column->change_from != NULL)
        coord_plan_check_say(c, &column->base, "change_from", -1, "does not go with over");
    if (column->over != NULL)
        check_reference(c, table, index, "over", column->over);
    if (column->change_from != NULL)
        check_reference(c, table, index, "change_from", column->change_from);
}

void coord_plan_check_tables(struct coord_plan_checker *c)
{
    const Ls__Plan *plan = c->plan;

    if (plan->n_tables > TABLES_MAX)
        coord_plan_check_say(c, &plan->base, "tables", -1, "are %zu: at most %u are allowed",
                             plan->n_tables, TABLES_MAX);
    for (size_t i = 0; i < plan->n_tables && i < TABLES_MAX; i++) {
        const Ls__PageTable *table = plan->tables[i];

        if (table->title == NULL || table->title[0] == '\0')
            coord_plan_check_say(c, &table->base, "title", -1, "is missing");
        check_text(c, &table->base, "title", table->title);
        check_text(c, &table->base, "note", table->note);
        coord_plan_check_metric(c, &table->base, table->metric);
        check_globs(c, table, true);
        check_globs(c, table, false);
        if (table->n_columns == 0 && table->rows == LS__TABLE_ROWS__TABLE_ROWS_TARGETS)
            coord_plan_check_say(c, &table->base, "columns", -1, "at least one is needed");
        if (table->n_columns > COLUMNS_MAX)
            coord_plan_check_say(c, &table->base, "columns", -1, "are %zu: at most %u are allowed",
                                 table->n_columns, COLUMNS_MAX);
        for (size_t k = 0; k < table->n_columns && k < COLUMNS_MAX; k++)
            check_column(c, table, k);
    }
}

/* coordinator/run/pages_internal.h - what pages.c and pages_notes.c share, and nobody else. */
#ifndef LS_COORDINATOR_RUN_PAGES_INTERNAL_H
#define LS_COORDINATOR_RUN_PAGES_INTERNAL_H

#include <stdbool.h>

#include "common/err.h"
#include "coordinator/result/summary.h"
#include "proto/plan.pb-c.h"
#include "proto/result.pb-c.h"

/* A table in the making. */
struct pages_builder {
    Ls__Result *result;
    const Ls__Plan *plan;
    const Ls__PageTable *table;
    Ls__Page *page;
    double *values; /* room for two figures of every trial */
    enum ls_err rc;
};

/* One figure: whose, of what, and what is made of its repetitions. */
struct pages_figure {
    const char *target;
    const char *workload;
    struct coord_metric metric;
    Ls__Statistic statistic;
};

/* Remembers that memory was out. */
void pages_keep(struct pages_builder *b, bool ok);
/* What a cell shows. False: the plan has nothing for it. */
bool pages_figure_of(const struct pages_builder *b, const Ls__PageColumn *column, const char *row,
                     struct pages_figure *out);
/* What others have published in the place of a cell; NULL: nothing. */
const Ls__Published *pages_published_of(const struct pages_builder *b, const Ls__PageColumn *column,
                                        const char *row);
/* The column that one is put against, and where it is; NULL: it stands for itself. */
const Ls__PageColumn *pages_base_of(const struct pages_builder *b, const Ls__PageColumn *column,
                                    size_t *out_index);
/* What has to be said below a table: the plan's note, and what was found. */
void pages_add_notes(struct pages_builder *b);

#endif

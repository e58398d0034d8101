/* coordinator/run/labels.h - what a run is called beside its name: --label, and a CI job's commit.
 */
#ifndef LS_COORDINATOR_RUN_LABELS_H
#define LS_COORDINATOR_RUN_LABELS_H

#include <stddef.h>

#include "common/err.h"
#include "proto/result.pb-c.h"

/* LS_EINVAL: not key=value, with a key of letters, digits, '.', '_' and '-'; or one key twice. */
enum ls_err coord_labels_check(const char *const *labels, size_t count,
                               struct ls_diag *diag) LS_NODISCARD;

/* Fills result->labels. Unless given, commit and branch come from the variables that CI systems set
 * (the README lists them). LS_ENOMEM. */
enum ls_err coord_labels_fill(Ls__Result *result, const char *const *labels,
                              size_t count) LS_NODISCARD;

/* The value of a label, NULL if there is none. */
const char *coord_label_find(const Ls__Result *result, const char *key);

#endif

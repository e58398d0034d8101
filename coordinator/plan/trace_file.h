/* coordinator/plan/trace_file.h - rates over time, from a file into a plan's Trace. */
#ifndef LS_COORDINATOR_PLAN_TRACE_FILE_H
#define LS_COORDINATOR_PLAN_TRACE_FILE_H

#include "common/attr.h"
#include "common/err.h"
#include "proto/plan.pb-c.h"

#define COORD_TRACE_FILE_MAX   (1u << 20)
#define COORD_TRACE_POINTS_MAX 10000u

/* Reads trace->file, relative to base_dir, into trace->points, which must be empty. LS_EIO: cannot
 * be read. LS_EINVAL: not a trace; diag says in which line. LS_ENOMEM. */
enum ls_err coord_trace_read(Ls__Trace *trace, const char *base_dir,
                             struct ls_diag *diag) LS_NODISCARD;
/* The same from text, which it changes. */
enum ls_err coord_trace_parse(Ls__Trace *trace, char *text, struct ls_diag *diag) LS_NODISCARD;

#endif

/* agent/runs.h - process workloads of a server: from a Prepare command to a series of runs
 * (agent/host/series.h), and from runs to reports. */
#ifndef LS_AGENT_RUNS_H
#define LS_AGENT_RUNS_H

#include <stdbool.h>

#include "agent/expand.h"
#include "agent/files.h"
#include "agent/host/series.h"
#include "common/err.h"
#include "proto/wire.pb-c.h"

struct agent_session;

bool agent_runs_are_asked_for(const Ls__Prepare *prepare);

/* What is run: the target's command, or the workload's, and the workload's args behind it; and the
 * environment of both. The caller hands the lists to agent_expand_free(). Errors of
 * agent_expand_argv(). */
enum ls_err agent_runs_argv(const Ls__Prepare *prepare, const struct agent_expand *values,
                            char ***out_argv, struct ls_diag *diag) LS_NODISCARD;
enum ls_err agent_runs_env(const Ls__Prepare *prepare, const struct agent_expand *values,
                           char ***out_envp, struct ls_diag *diag) LS_NODISCARD;

/* files hold what prepare->plan_files name, and are borrowed until host_series_destroy().
 * LS_EPROTO, and errors of host_series_create(). */
enum ls_err agent_runs_create(const Ls__Prepare *prepare, const struct agent_files *files,
                              const char *spawner_path, struct host_series **out_series,
                              struct ls_diag *diag) LS_NODISCARD;

/* Reports what has ended, as far as there is room, and after the last of them the totals. True:
 * is_over, and all is reported. */
bool agent_runs_report(struct agent_session *session, struct host_series *series, bool is_over);

#endif

/* agent/host/series.h - the runs of a process workload: which are started when, and what became of
 * each.
 *
 * A series stands in a target (agent/host/target.h) in the place of a server: what the target's
 * supervisor starts is the spawner (agent/host/spawner.h), and the target is UP when all runs have
 * ended. A run is not disturbed while it runs: its output goes into a file in memory, which is
 * looked into every 20 ms, and more often only while it grows fast. What has been read is given
 * back, so that a run may print more than there is memory. Only where a marker is awaited it goes
 * into a pipe, which is read as it comes.
 *
 * After HOST_SERIES_REFUSED runs that did not end as expected no more are started.
 */
#ifndef LS_AGENT_HOST_SERIES_H
#define LS_AGENT_HOST_SERIES_H

#include "agent/host/supervisor.h"
#include "common/err.h"
#include "proto/wire.pb-c.h"

#define HOST_SERIES_REFUSED 3u

struct host_target;
struct host_series;

struct host_series_spec {
    const Ls__Process *process; /* as plan_check.h leaves it */
    struct ls_bytes input;      /* of process->stdin_file; data NULL: it names none */
    struct ls_bytes expected;   /* of process->expect->output_file, likewise */
    int64_t budget_ns;          /* within which runs begin; 0: only their number counts */
    int64_t timeout_ns;         /* of one run */
    const char *spawner_path;   /* where its binary is to be */
};

/* Copies the spec, but for input and expected, which stay the caller's. LS_EINVAL: a message that
 * no checked plan has, or a pattern; LS_ENOMEM. */
enum ls_err host_series_create(const struct host_series_spec *spec, struct host_series **out_series,
                               struct ls_diag *diag) LS_NODISCARD;
void host_series_destroy(struct host_series *series); /* NULL is fine */

/* For the control thread: the next run that has ended, the caller's to free; NULL: none yet. */
Ls__ProcessRun *host_series_next(struct host_series *series);
/* After the last one. The text is series'. */
void host_series_totals(struct host_series *series, Ls__ProcessTotals *out);

/* ---- for the target that it stands in, on that one's thread */

/* *fd is the end that runs are to print their errors to, and is taken over, also when it fails;
 * afterwards it is the one that the spawner gets, or -1. LS_EIO, LS_ENOMEM. */
enum ls_err host_series_prepare(struct host_series *series, int *fd,
                                struct ls_diag *diag) LS_NODISCARD;
/* Makes the job that of the spawner. */
void host_series_job(const struct host_series *series, struct host_supervisor_job *job);
/* All runs. LS_ESTATE: stop was asked; else target's code and diag say why not. */
enum ls_err host_series_run(struct host_series *series, struct host_target *target) LS_NODISCARD;

#endif

/* coordinator/run/progress.h - what a run shows on stderr while it goes: on a terminal a few lines
 * at the bottom (trial, phases, figures, agents) below lines that stay, otherwise a line a second
 * at most. NO_COLOR and TERM=dumb are respected. */
#ifndef LS_COORDINATOR_RUN_PROGRESS_H
#define LS_COORDINATOR_RUN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/attr.h"
#include "coordinator/run/merge.h"

struct coord_progress;
struct coord_live;
struct coord_live_agent;

/* quiet: only warnings. NULL: out of memory, which is no reason not to run; every call takes NULL.
 */
struct coord_progress *coord_progress_create(bool quiet);
void coord_progress_destroy(struct coord_progress *progress); /* clears a live line */

/* What is said from now on, and which trial it is, is told to the live page as well. */
void coord_progress_attach(struct coord_progress *progress, struct coord_live *live);
/* Which trial: "[3/6] node hello r2". */
void coord_progress_trial(struct coord_progress *progress, uint32_t index, uint32_t total,
                          const char *target, const char *workload, uint32_t repetition);
/* The state of things; shown when it is time to. latest: NULL if there is none yet. end_ns: when
 * the phase is expected to end, 0: not known. */
void coord_progress_update(struct coord_progress *progress, int64_t now_ns, const char *phase,
                           int64_t end_ns, const struct coord_merge_progress *latest);
/* Who is there: as the live page has it. */
void coord_progress_agents(struct coord_progress *progress, const struct coord_live_agent *agents,
                           size_t n);
/* What was measured has been judged: its reasons, each kind once for a target. */
void coord_progress_reasons(struct coord_progress *progress, const Ls__Trial *trial);
/* What a trial came to, in a line. */
void coord_progress_done(struct coord_progress *progress, const Ls__Trial *trial);
/* A line that stays, whatever is live below it. */
void coord_progress_say(struct coord_progress *progress, const char *fmt, ...) LS_PRINTF(2, 3);
/* A line that stays and belongs to the trial; nothing when quiet. */
void coord_progress_note(struct coord_progress *progress, const char *fmt, ...) LS_PRINTF(2, 3);
/* When update() wants to be called next. */
int64_t coord_progress_next_ns(const struct coord_progress *progress);

#endif

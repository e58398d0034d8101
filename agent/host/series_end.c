/* How a run of a series ended, as the plan expects it or not, and what is told of it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/host/cgroup.h"
#include "agent/host/proc.h"
#include "agent/host/series_state.h"
#include "common/clock.h"
#include "common/msg_model.h"

static uint64_t count_oom_kills(void)
{
    char text[16384];
    const char *at;

    if (host_proc_slurp("/proc/vmstat", text, sizeof(text)) < 0)
        return 0;
    at = strstr(text, "\noom_kill ");
    return at != NULL ? strtoull(at + 10, NULL, 10) : 0;
}

uint64_t host_series_oom_kills(struct host_target *t)
{
    struct host_cgroup_use use = { 0 };

    if (t->group == NULL || host_cgroup_memory_by(t->group)[0] == '\0')
        return count_oom_kills();
    host_cgroup_read(t->group, &use);
    return use.oom_kills;
}

/* Its group's count, and this machine's where there is no group that is limited. */
static bool was_out_of_memory(struct host_series *s, struct host_target *t)
{
    uint64_t before = s->oom_kills;

    s->oom_kills = host_series_oom_kills(t);
    return s->oom_kills > before;
}

static bool say(char **field, const char *text)
{
    *field = strdup(text);
    return *field != NULL;
}

/* How it ended, but for what it has printed. NULL: as expected. */
static const char *outcome_of(struct host_series *s, struct host_target *t,
                              const struct spawner_report *report, char detail[64])
{
    if (report->timed_out != 0) {
        (void)snprintf(detail, 64, "after %.3g s", (double)s->spec.timeout_ns / LS_NS_PER_S);
        return "timeout";
    }
    if (WIFSIGNALED(report->status)) {
        const char *name = sigabbrev_np(WTERMSIG(report->status));

        (void)snprintf(detail, 64, "signal %s", name != NULL ? name : "unknown");
        return WTERMSIG(report->status) == SIGKILL && was_out_of_memory(s, t) ? "memory" : "signal";
    }
    (void)snprintf(detail, 64, "exit %d", WEXITSTATUS(report->status));
    return (uint32_t)WEXITSTATUS(report->status) == s->process->expect->exit ? NULL : "non_zero";
}

/* An outcome that the plan does not expect. */
static bool is_refused(const struct host_series *s, const char *outcome)
{
    const Ls__ProcessExpect *expect = s->process->expect;
    char word[LS_MSG_WORD_MAX];

    for (size_t i = 0; i < expect->n_outcomes; i++) {
        const char *name =
            ls_msg_enum_word(&ls__process_outcome__descriptor, (int)expect->outcomes[i], word);

        if (name != NULL && strcmp(name, outcome) == 0)
            return false;
    }
    return true;
}

static bool explain(const struct host_output *output, const char *outcome, const char *detail,
                    Ls__ProcessRun *run)
{
    char tail[120], text[300];

    if (run->why[0] != '\0')
        return true;
    (void)host_output_tail(output, tail, sizeof(tail));
    (void)snprintf(text, sizeof(text), "it ended with %s (%s)%s%s", outcome, detail,
                   tail[0] != '\0' ? "; it printed: " : "", tail);
    return say(&run->why, text);
}

static enum ls_err keep(struct host_series *s, Ls__ProcessRun *run, struct ls_diag *diag)
{
    enum ls_err rc = LS_OK;

    (void)pthread_mutex_lock(&s->lock);
    if (s->done_count == s->done_room) {
        size_t room = 2 * s->done_room + 64;
        Ls__ProcessRun **grown = realloc(s->done, room * sizeof(Ls__ProcessRun *));

        if (grown == NULL)
            rc = LS_ENOMEM;
        else
            s->done = grown;
        s->done_room = grown != NULL ? room : s->done_room;
    }
    if (rc == LS_OK)
        s->done[s->done_count++] = run;
    (void)pthread_mutex_unlock(&s->lock);
    return rc == LS_OK ? rc : ls_fail(diag, rc, "no memory for the runs of a process workload");
}

static Ls__ProcessRun *make_run(struct host_series *s, const struct host_slot *slot,
                                const struct spawner_report *report)
{
    Ls__ProcessRun *run = malloc(sizeof(*run));

    if (run == NULL)
        return NULL;
    ls__process_run__init(run);
    if (s->first_ns == 0)
        s->first_ns = report->begin_ns;
    run->index = slot->index;
    run->warmup = slot->warmup;
    run->start_ns = report->begin_ns - s->first_ns;
    run->wall_ns = report->wall_ns;
    run->user_ns = report->user_ns;
    run->system_ns = report->system_ns;
    run->peak_bytes = report->peak_bytes;
    run->marker_rss_bytes = slot->marker_rss_bytes;
    run->left_over = report->left_over;
    return run;
}

static enum ls_err conclude(struct host_series *s, struct host_target *t, struct host_slot *slot,
                            const struct spawner_report *report, Ls__ProcessRun *run)
{
    struct ls_diag *diag = &t->diag;
    char detail[64];
    const char *outcome = outcome_of(s, t, report, detail);
    enum ls_err rc = host_output_judge(slot->output, outcome == NULL, run, diag);
    bool ok = rc == LS_OK && say(&run->detail, detail);

    s->has_figures |= run->n_values > 0;
    if (slot->read_fd < 0 && ok) { /* nobody knows what it has printed */
        free(run->output_sha256);
        ok = say(&run->output_sha256, "");
    }
    if (ok && outcome != NULL)
        ok = say(&run->outcome, outcome);
    if (ok && is_refused(s, run->outcome)) {
        s->refused++;
        ok = explain(slot->output, run->outcome, detail, run);
    }
    return ok || rc != LS_OK ? rc : ls_fail(diag, LS_ENOMEM, "no memory for a run");
}

enum ls_err host_series_end(struct host_series *s, struct host_target *t, struct host_slot *slot,
                            const struct spawner_report *report)
{
    Ls__ProcessRun *run = make_run(s, slot, report);
    enum ls_err rc;

    if (run == NULL)
        return ls_fail(&t->diag, LS_ENOMEM, "no memory for a run");
    host_series_drain(s, slot);
    rc = conclude(s, t, slot, report, run);
    if (rc == LS_OK)
        rc = keep(s, run, &t->diag);
    if (rc != LS_OK)
        ls__process_run__free_unpacked(run, NULL);
    if (slot->warmup)
        s->warmups_left--;
    s->active--;
    host_series_free_slot(slot);
    return rc;
}

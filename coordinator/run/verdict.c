#include "coordinator/run/verdict.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/result/message.h"
#include "coordinator/run/verdict_internal.h"

const char *coord_verdict_name(Ls__Verdict verdict)
{
    switch (verdict) {
    case LS__VERDICT__VERDICT_VALID:
        return "valid";
    case LS__VERDICT__VERDICT_SUSPECT:
        return "suspect";
    case LS__VERDICT__VERDICT_NONE:
        return "none";
    default:
        return "invalid";
    }
}

void coord_verdict_add(Ls__Trial *trial, const char *code, Ls__Verdict verdict, const char *fmt,
                       ...)
{
    char text[2600]; /* a target's last words are up to 2 KiB, and the last of them count */
    Ls__Reason *reason;
    va_list ap;

    if (verdict > trial->verdict)
        trial->verdict = verdict;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    reason = coord_message_append(&trial->n_reasons, &trial->reasons, &ls__reason__descriptor);
    if (reason == NULL)
        return;
    reason->verdict = verdict;
    if (!coord_message_string(&reason->code, code) || !coord_message_string(&reason->text, text))
        trial->verdict = INVALID; /* a reason that cannot be read must not look like none */
}

static struct room find_room(const Ls__Trial *trial, uint32_t cpus)
{
    const Ls__Server *server = trial->server;
    struct room room = { .known = false, .left = true };

    if (server == NULL || cpus == 0 || server->cpu_cores_used <= 0)
        return room;
    room.known = true;
    room.used = (server->cpu_cores_used + server->foreign_cpu_cores + server->steal_cores) / cpus;
    room.left = room.used < COORD_LIMIT_BUSY;
    return room;
}

uint64_t coord_judge_connections(const struct judge *j)
{
    if (j->in->connections > 0)
        return j->in->connections;
    return j->trial->connections != NULL ? j->trial->connections->asked : 0;
}

static coord_check_fn *const checks[] = {
    coord_check_books,   coord_check_agents,       coord_check_target,   coord_check_cpu_accounts,
    coord_check_answers, coord_check_connections,  coord_check_skew,     coord_check_little,
    coord_check_clipped, coord_check_generator,    coord_check_send_lag, coord_check_achieved,
    coord_check_shed,    coord_check_pipelines,    coord_check_shared,   coord_check_foreign,
    coord_check_network, coord_check_governor,     coord_check_window,   coord_check_trend,
    coord_check_stalled, coord_check_client_hosts, coord_check_headroom, coord_check_messages,
    coord_check_unread,
};

static bool took_place(const Ls__Trial *trial)
{
    return strcmp(trial->status, "done") == 0 && trial->window != NULL;
}

/* On a connection, at most: as planned, and as the server has allowed. */
static uint32_t in_flight_of(const Ls__Trial *trial)
{
    uint32_t planned = trial->pipeline > 0 ? trial->pipeline : 1;
    uint32_t granted = trial->http2 != NULL ? trial->http2->streams_granted : 0;

    return granted > 0 && granted < planned ? granted : planned;
}

void coord_verdict_judge(Ls__Trial *trial, const struct coord_verdict_input *input)
{
    struct judge j = { .trial = trial, .in = input };

    for (size_t i = 0; i < trial->n_reasons; i++) {
        if (trial->reasons[i]->verdict > trial->verdict)
            trial->verdict = trial->reasons[i]->verdict;
    }
    if (!took_place(trial)) {
        /* Whoever ended it knows better why than the figures that are missing. */
        if (trial->verdict != INVALID)
            coord_verdict_add(trial, "not_measured", INVALID,
                              "the trial was not measured to its end");
        return;
    }
    j.room = find_room(trial, input->server_cpus);
    j.open = trial->offered_per_s > 0;
    j.window_s = (double)trial->window->duration_ns / 1e9;
    j.pipelines = (double)coord_judge_connections(&j) * in_flight_of(trial);
    for (size_t i = 0; i < LS_ARRAY_LEN(checks); i++)
        checks[i](&j);
}

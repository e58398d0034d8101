/* coordinator/run/verdict_internal.h - what the checks share; for verdict*.c only. */
#ifndef LS_COORDINATOR_RUN_VERDICT_INTERNAL_H
#define LS_COORDINATOR_RUN_VERDICT_INTERNAL_H

#include "coordinator/run/verdict.h"

#define INVALID LS__VERDICT__VERDICT_INVALID
#define SUSPECT LS__VERDICT__VERDICT_SUSPECT

/* How much of the server's CPUs was in use, by whomever. */
struct room {
    bool known;
    bool left;   /* the server could have done more */
    double used; /* 0 to 1 */
};

struct judge {
    Ls__Trial *trial;
    const struct coord_verdict_input *in;
    struct room room;
    bool open;
    double window_s;
    double pipelines; /* connections x pipeline: the most that can be in flight */
};

/* Connections of all clients, as planned or as asked for. */
uint64_t coord_judge_connections(const struct judge *j);

/* Each looks at one thing and adds its reason, if there is one. */
typedef void coord_check_fn(struct judge *j);

/* verdict_counts.c: was it counted right? */
coord_check_fn coord_check_books;
coord_check_fn coord_check_agents;
coord_check_fn coord_check_target;
coord_check_fn coord_check_cpu_accounts;
coord_check_fn coord_check_answers;
coord_check_fn coord_check_messages;
coord_check_fn coord_check_connections;
coord_check_fn coord_check_skew;
coord_check_fn coord_check_little;
coord_check_fn coord_check_clipped;

/* verdict_generator.c: was the generator the limit? */
coord_check_fn coord_check_generator;
coord_check_fn coord_check_stalled;
coord_check_fn coord_check_unread;
coord_check_fn coord_check_headroom;
coord_check_fn coord_check_send_lag;
coord_check_fn coord_check_achieved;
coord_check_fn coord_check_shed;
coord_check_fn coord_check_pipelines;

/* verdict_quiet.c: was it quiet? */
coord_check_fn coord_check_shared;
coord_check_fn coord_check_foreign;
coord_check_fn coord_check_client_hosts;
coord_check_fn coord_check_network;
coord_check_fn coord_check_governor;
coord_check_fn coord_check_window;
coord_check_fn coord_check_trend;

#endif

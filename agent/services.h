/* agent/services.h - the programs beside a target: databases and the like, of the target and of the
 * workload. All are started at once and awaited; the target comes after them, and goes before them.
 *
 * Each is a target of its own (agent/host/target.h), ready when its port accepts connections, under
 * a supervisor of its own, in a folder of its own below the trial's. Control thread.
 */
#ifndef LS_AGENT_SERVICES_H
#define LS_AGENT_SERVICES_H

#include <stdbool.h>

#include "agent/host/target.h"
#include "agent/policy/policy.h"
#include "common/err.h"
#include "proto/wire.pb-c.h"

struct agent_services;

struct agent_services_env {
    const struct agent_policy *policy;
    const char *dir; /* of the trial */
    struct host_env host;
};

/* How many PREPARE asks for. */
size_t agent_services_count(const Ls__Prepare *prepare);

/* env is borrowed but for host, which is copied. LS_EPROTO, LS_EIO, LS_ENOMEM; LS_OK: the caller
 * owns *out_services. */
enum ls_err agent_services_start(const Ls__Prepare *prepare, const struct agent_services_env *env,
                                 struct agent_services **out_services,
                                 struct ls_diag *diag) LS_NODISCARD;
/* Kills at once what still runs; NULL is fine. */
void agent_services_destroy(struct agent_services *services);

/* Takes what has happened. */
void agent_services_poll(struct agent_services *services);
bool agent_services_are_up(const struct agent_services *services);
/* One could not be started, or has ended by itself: event->diag says which and why. Once. */
bool agent_services_failure(struct agent_services *services, struct host_target_event *out_event);
void agent_services_stop(struct agent_services *services); /* again: nothing */
bool agent_services_are_stopped(const struct agent_services *services);

/* What is to be reported, one entry a service; borrowed from services. */
Ls__ServiceUse **agent_services_use(struct agent_services *services, size_t *out_count);

#endif

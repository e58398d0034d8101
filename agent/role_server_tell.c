/* What is told of a target that is up: what runs, with which environment, held by what. */
#include "agent/role_server.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "agent/expand.h"
#include "agent/session.h"
#include "common/log.h"
#include "common/pb.h"
#include "common/utf8.h"

static size_t count(char *const *list)
{
    size_t n = 0;

    while (list[n] != NULL)
        n++;
    return n;
}

/* Names of files are bytes; messages carry text. */
static char *as_text(const char *name, char *out, size_t out_bytes)
{
    (void)snprintf(out, out_bytes, "%s", name);
    ls_utf8_clean(out, strlen(out));
    return out;
}

/* What is told of the target's containment; both live as long as the call that sends it. */
struct told_containment {
    Ls__Containment message;
    char *limits[HOST_LIMITS_MAX];
};

static void tell_containment(const struct host_containment *c, size_t instances,
                             struct told_containment *out)
{
    union {
        const char *in;
        char *out;
    } limit;

    ls__containment__init(&out->message);
    out->message.by = ls_pb_text(c->by);
    out->message.cpu_from = ls_pb_text(c->cpu_from);
    out->message.network = ls_pb_text(c->network_pid != 0 ? "private" : "host");
    out->message.instances = (uint32_t)instances;
    for (unsigned i = 0; i < c->limit_count; i++) {
        limit.in = c->limits[i];
        out->limits[i] = limit.out;
    }
    out->message.limits = out->limits;
    out->message.n_limits = c->limit_count;
}

void server_tell_up(struct server *s, const struct host_target_event *event)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__TargetUp report = LS__TARGET_UP__INIT;
    Ls__Program program = LS__PROGRAM__INIT;
    struct told_containment containment;
    char path[PATH_MAX], interpreter[PATH_MAX], binary[PATH_MAX], shim[512];

    if (agent_expand_publish(s->envp, &program.environment, &program.environment_hidden, NULL) ==
        LS_OK) {
        program.n_environment = count(program.environment);
        program.n_environment_hidden = count(program.environment_hidden);
    }
    program.argv = s->argv;
    program.n_argv = count(s->argv);
    program.path = as_text(event->program.path, path, sizeof(path));
    program.sha256 = ls_pb_text(event->program.sha256);
    program.version = ls_pb_text(event->program.version);
    program.interpreter = as_text(event->program.interpreter, interpreter, sizeof(interpreter));
    program.folder = s->dir;
    program.probed = ls_pb_text(event->program.probed);
    program.version_differs = ls_pb_text(event->program.version_differs);
    program.binary = as_text(event->program.binary, binary, sizeof(binary));
    program.binary_sha256 = ls_pb_text(event->program.binary_sha256);
    program.shim = as_text(event->program.shim, shim, sizeof(shim));
    tell_containment(event->containment, 1 + s->other_count, &containment);
    s->network_pid = event->containment->network_pid;
    report.containment = &containment.message;
    report.network_pid = (uint32_t)event->containment->network_pid;
    report.network_inode = event->containment->network_inode;
    report.trial = agent_session_trial(s->env.session);
    report.program = &program;
    report.readiness_requests = event->readiness_requests;
    report.up_after_ns = event->up_after_ns;
    envelope.body_case = LS__ENVELOPE__BODY_TARGET_UP;
    envelope.target_up = &report;
    if (agent_session_report(s->env.session, &envelope) != LS_OK)
        ls_log(LS_LOG_ERROR, "server.report_lost", "trial=%" PRIu32, report.trial);
    agent_expand_free(program.environment);
    agent_expand_free(program.environment_hidden);
}

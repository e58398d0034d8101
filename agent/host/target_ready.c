/* From started to ready: it answers as expected, and all of it is there. */
#include "agent/host/target_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/host/port.h"
#include "agent/host/serving.h"
#include "agent/load/probe.h"
#include "common/clock.h"

#define RETRY_REFUSED_NS (2 * LS_NS_PER_MS)
#define RETRY_WRONG_NS   (10 * LS_NS_PER_MS)  /* it accepts: do not keep it busy with our asking */
#define SHORT_NS         (100 * LS_NS_PER_MS) /* for a whole attempt */
#define HAND_ON_NS       (100 * LS_NS_PER_MS)
#define CONNECTIONS_EACH 4
#define CONNECTIONS_MAX  512

/* What the last attempt met, for the message when time is up. */
struct attempt {
    bool accepted;
    bool answered;  /* as expected, but not by all */
    unsigned count; /* who were there then */
    struct ls_diag diag;
};

static bool try_ready(struct host_target *t, struct load_probe *probe, int64_t deadline_ns,
                      struct attempt *last)
{
    struct agent_reply reply = { .outcome = LOAD_ABORTED, .why = "" };
    struct ls_diag diag = { 0 };
    int64_t began_ns = ls_clock_mono_ns();
    uint64_t sent = 0;
    bool cut_short;
    enum ls_err rc = load_probe_exchange(probe, 0, deadline_ns, &reply, &sent, &diag);

    t->readiness_requests += sent;
    if (rc == LS_OK)
        last->answered = reply.outcome == LOAD_OK;
    if (rc == LS_OK && last->answered) {
        last->accepted = true;
        return true;
    }
    if (rc == LS_ESTATE) /* cancelled: says nothing about the target */
        return false;
    /* One that the deadline cut short tells less than one before it that had come to its end. */
    cut_short = rc == LS_ETIMEOUT && sent == 0 && deadline_ns - began_ns < SHORT_NS &&
                last->diag.text[0] != '\0';
    if ((sent > 0 || rc == LS_OK || !last->accepted) && !cut_short)
        last->diag = diag;
    last->accepted = last->accepted || sent > 0 || rc == LS_OK;
    return false;
}

/* ---- more than one */

static bool read_processes(struct host_target *t, struct host_server_process **out, size_t *count)
{
    return t->supervisor != NULL && host_serving_read(host_supervisor_pid(t->supervisor),
                                                      t->spec.port, out, count, NULL) == LS_OK;
}

/* Instances of which a process listens. */
static unsigned count_listening(const struct host_target *t,
                                const struct host_server_process *processes, size_t count)
{
    unsigned found = 0;

    for (size_t i = 0; i < t->instance_count; i++) {
        bool listens = false;

        for (size_t k = 0; k < count && !listens; k++)
            listens = processes[k].listens && processes[k].top == t->instances[i].pid;
        found += listens;
    }
    return found;
}

static unsigned count_serving(const struct host_server_process *processes, size_t count)
{
    unsigned found = 0;

    for (size_t i = 0; i < count; i++)
        found += processes[i].serves;
    return found;
}

/* Opens so many that each process should have got one, however they are given out. */
static size_t open_connections(const struct host_target *t, int *out_fds)
{
    const struct load_workload *w = t->spec.ready;
    size_t want = (size_t)CONNECTIONS_EACH * t->spec.ready_processes, count = 0;

    while (count < want && count < CONNECTIONS_MAX) {
        int fd = socket(w->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0)
            break;
        out_fds[count++] = fd;
        if (connect(fd, (const struct sockaddr *)&w->address, w->address_len) < 0 &&
            errno != EINPROGRESS)
            break;
    }
    return count;
}

/* While connections of ours are open, and with a moment for them to be handed on. */
static unsigned serving_now(struct host_target *t)
{
    struct host_server_process *processes = NULL;
    int64_t until_ns = ls_clock_mono_ns() + HAND_ON_NS;
    unsigned found = 0;
    int fds[CONNECTIONS_MAX];
    size_t open = open_connections(t, fds), count = 0;

    do {
        host_target_wait(t, ls_clock_mono_ns() + LS_NS_PER_MS);
        if (read_processes(t, &processes, &count))
            found = count_serving(processes, count);
        free(processes);
        processes = NULL;
    } while (found < t->spec.ready_processes && ls_clock_mono_ns() < until_ns && !t->exited &&
             !t->lost && !host_target_stop_asked(t));
    for (size_t i = 0; i < open; i++)
        (void)close(fds[i]);
    return found;
}

/* One has answered: are the others there, too? */
static bool all_are_ready(struct host_target *t, struct attempt *last)
{
    struct host_server_process *processes = NULL;
    size_t count = 0;

    if (t->instance_count > 1) {
        last->count = 0;
        if (read_processes(t, &processes, &count))
            last->count = count_listening(t, processes, count);
        free(processes);
        if (last->count < t->instance_count)
            return false;
    }
    if (t->spec.ready_processes <= 1)
        return true;
    last->count = serving_now(t);
    return last->count >= t->spec.ready_processes;
}

static enum ls_err all_not_ready(struct host_target *t, const struct attempt *last, double limit_s)
{
    if (last->count < t->instance_count)
        return ls_fail(&t->diag, LS_ETIMEOUT,
                       "%u of the target's %zu instances listened on port %u within %.3g s: does "
                       "each share the port (SO_REUSEPORT)?",
                       last->count, t->instance_count, t->spec.port, limit_s);
    return ls_fail(&t->diag, LS_ETIMEOUT,
                   "%u processes of the target took connections within %.3g s, %u were to be ready",
                   last->count, limit_s, t->spec.ready_processes);
}

/* What it does instead of listening where it should. */
static const char *describe_listeners(struct host_target *t, char out[160])
{
    struct host_server_process *processes = NULL;
    size_t count = 0;

    (void)snprintf(out, 160, "it listens nowhere");
    if (!read_processes(t, &processes, &count))
        count = 0;
    for (size_t i = 0; i < count; i++) {
        if (processes[i].listens)
            (void)snprintf(out, 160, "it listens on that port at another address");
        else if (processes[i].elsewhere != 0)
            (void)snprintf(out, 160, "it listens on port %u instead", processes[i].elsewhere);
        else
            continue;
        break;
    }
    free(processes);
    return out;
}

/* What really runs, behind scripts and version managers: the process that listens is asked, for the
 * one that was started may be its parent. */
static void look_at_binary(struct host_target *t)
{
    struct host_server_process *processes = NULL;
    pid_t pid = t->instances[0].pid;
    size_t count = 0;

    if (!read_processes(t, &processes, &count))
        count = 0;
    for (size_t i = 0; i < count; i++) {
        if (processes[i].listens) {
            pid = processes[i].pid;
            break;
        }
    }
    free(processes);
    host_program_look_at(pid, &t->file, &t->binary, t->shim, sizeof(t->shim));
}

static enum ls_err not_ready(struct host_target *t, const struct attempt *last)
{
    double limit_s = (double)t->spec.ready_timeout_ns / LS_NS_PER_S;
    char listeners[160];

    t->code = "not_ready";
    if (!last->accepted)
        return ls_fail(
            &t->diag, LS_ETIMEOUT,
            "the target did not accept a connection on %s port %u within %.3g s: %s (%.200s)",
            t->spec.host, t->spec.port, limit_s, describe_listeners(t, listeners), last->diag.text);
    if (last->answered)
        return all_not_ready(t, last, limit_s);
    return ls_fail(&t->diag, LS_ETIMEOUT,
                   "the target did not answer as expected within %.3g s (%llu requests); the last "
                   "answer: %.300s",
                   limit_s, (unsigned long long)t->readiness_requests, last->diag.text);
}

enum ls_err host_target_await_ready(struct host_target *t)
{
    int64_t deadline_ns = t->begun_ns + t->spec.ready_timeout_ns;
    struct attempt last = { 0 };
    struct load_probe *probe = NULL;
    enum ls_err rc = load_probe_create(t->spec.ready, t->epoll_fd, &probe, &t->diag);

    while (rc == LS_OK) {
        int64_t until_ns = ls_clock_mono_ns();
        bool ready = try_ready(t, probe, deadline_ns, &last) && all_are_ready(t, &last);

        if (ready)
            t->up_after_ns = ls_clock_mono_ns() - t->begun_ns;
        else
            until_ns += last.accepted ? RETRY_WRONG_NS : RETRY_REFUSED_NS;
        host_target_wait(t, until_ns);
        if (t->exited || t->lost) /* what answers is not the program that was started */
            rc = host_target_explain_end(t, "before it was ready");
        else if (ready)
            break;
        else if (host_target_stop_asked(t))
            rc = LS_ESTATE;
        else if (ls_clock_mono_ns() >= deadline_ns)
            rc = not_ready(t, &last);
    }
    load_probe_destroy(probe);
    if (rc == LS_OK)
        look_at_binary(t);
    return rc;
}

/* A service: whatever it is that it speaks, it takes connections; without a port, it runs. */
enum ls_err host_target_await_accepting(struct host_target *t)
{
    int64_t deadline_ns = t->begun_ns + t->spec.ready_timeout_ns;

    for (;;) {
        bool ready = t->spec.port == 0 || host_port_accepts(t->spec.host, t->spec.port);

        host_target_wait(t, ls_clock_mono_ns() + (ready ? 0 : RETRY_REFUSED_NS));
        if (t->exited || t->lost) /* who accepts is not the program that was started */
            return host_target_explain_end(t, "before it was ready");
        if (host_target_stop_asked(t))
            return LS_ESTATE;
        if (ready) {
            t->up_after_ns = ls_clock_mono_ns() - t->begun_ns;
            return LS_OK;
        }
        if (ls_clock_mono_ns() >= deadline_ns) {
            t->code = "not_ready";
            return ls_fail(
                &t->diag, LS_ETIMEOUT, "it did not accept a connection on %s port %u within %.3g s",
                t->spec.host, t->spec.port, (double)t->spec.ready_timeout_ns / LS_NS_PER_S);
        }
    }
}

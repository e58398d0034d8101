#include "agent/control.h"

#include <errno.h>
#include <ev.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/clock_answer.h"
#include "agent/exit.h"
#include "agent/host/facts.h"
#include "agent/session.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/pb.h"
#include "common/transport.h"

struct control {
    const struct agent_control_options *options;
    struct ev_loop *loop;
    struct agent_session *session; /* owned */
    struct ls_dialer *dialer;      /* owned */
    ev_async wake;
    ev_io deadline;
    ev_timer lease;
    ev_io clock_asked;
    ev_timer clock_knock;
    struct agent_clock clock;
    ev_signal on_int;
    ev_signal on_term;
    int timer_fd;
    bool lease_over;
    bool leaving;
    int status;
};

static void leave(struct control *c, int status)
{
    if (!c->leaving)
        c->status = status;
    c->leaving = true;
}

/* After anything that happened: what is due, when to come back, whether to go. */
static void settle(struct control *c)
{
    int64_t next = agent_session_tick(c->session, ls_clock_mono_ns());
    struct itimerspec at = { 0 };

    if (next != INT64_MAX) {
        at.it_value.tv_sec = next / LS_NS_PER_S;
        at.it_value.tv_nsec = next % LS_NS_PER_S;
    }
    (void)timerfd_settime(c->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
    if (c->options->once && agent_session_said_bye(c->session))
        leave(c, AGENT_EXIT_OK);
    if (c->options->once && c->lease_over)
        leave(c, AGENT_EXIT_INCOMPLETE);
    if (c->leaving && agent_session_phase(c->session) == LS_PHASE_IDLE)
        ev_break(c->loop, EVBREAK_ALL);
}

/* ---- what happens */

static void wake_from_any_thread(void *ctx)
{
    struct control *c = ctx;

    ev_async_send(c->loop, &c->wake);
}

static void on_wake(struct ev_loop *loop, ev_async *w, int events)
{
    struct control *c = w->data;

    (void)loop;
    (void)events;
    agent_session_poll(c->session, ls_clock_mono_ns());
    settle(c);
}

static void on_deadline(struct ev_loop *loop, ev_io *w, int events)
{
    struct control *c = w->data;
    uint64_t times;

    (void)loop;
    (void)events;
    (void)!read(c->timer_fd, &times, sizeof(times)); /* EAGAIN: it was set anew meanwhile */
    settle(c);
}

static void on_lease(struct ev_loop *loop, ev_timer *w, int events)
{
    struct control *c = w->data;

    (void)loop;
    (void)events;
    ls_log(LS_LOG_WARN, "agent.lease_over", "agent=%s the coordinator is gone: load and target end",
           c->options->name);
    c->lease_over = true;
    agent_session_abandon(c->session, ls_clock_mono_ns());
    settle(c);
}

static void on_signal(struct ev_loop *loop, ev_signal *w, int events)
{
    struct control *c = w->data;

    (void)loop;
    (void)events;
    leave(c, AGENT_EXIT_INTERRUPTED);
    agent_session_abandon(c->session, ls_clock_mono_ns());
    settle(c);
}

/* ---- the session's effects */

static enum ls_err send_report(void *ctx, Ls__Envelope *report)
{
    struct control *c = ctx;
    struct ls_diag diag;
    enum ls_err rc = ls_dialer_report(c->dialer, report, &diag);

    if (rc != LS_OK && rc != LS_EAGAIN)
        ls_log(LS_LOG_ERROR, "agent.report_failed", "%s", diag.text);
    return rc;
}

static uint32_t report_room(void *ctx)
{
    struct control *c = ctx;

    return ls_dialer_room(c->dialer);
}

static uint64_t reports_unacked(void *ctx)
{
    struct control *c = ctx;

    return ls_dialer_unacked(c->dialer);
}

/* ---- the connection */

static void on_up(void *ctx, bool resumed)
{
    struct control *c = ctx;

    ls_log(LS_LOG_INFO, "agent.up", "agent=%s resumed=%d", c->options->name, resumed);
    ev_timer_stop(c->loop, &c->lease);
    c->lease_over = false;
    settle(c);
}

static void start_lease(struct control *c)
{
    ev_timer_stop(c->loop, &c->lease);
    ev_timer_set(&c->lease, (double)c->options->lease_ns / 1e9, 0.);
    ev_timer_start(c->loop, &c->lease);
}

static void on_down(void *ctx, const char *why)
{
    struct control *c = ctx;

    ls_log(LS_LOG_INFO, "agent.down", "agent=%s why=%s", c->options->name, why);
    if (!ev_is_active(&c->lease) && !c->lease_over)
        start_lease(c);
    settle(c);
}

static void on_clock_asked(struct ev_loop *loop, ev_io *w, int events)
{
    struct control *c = w->data;

    (void)loop;
    (void)events;
    agent_clock_readable(&c->clock);
}

static void on_clock_knock(struct ev_loop *loop, ev_timer *w, int events)
{
    struct control *c = w->data;

    (void)loop;
    (void)events;
    agent_clock_knock(&c->clock, ls_clock_mono_ns());
}

static void open_clock(struct control *c, const Ls__ClockUdp *command)
{
    struct ls_diag diag;
    char host[64];

    ev_io_stop(c->loop, &c->clock_asked);
    ls_dialer_host(c->dialer, host, sizeof(host));
    if (agent_clock_open(&c->clock, command, host, ls_clock_mono_ns(), &diag) != LS_OK) {
        ls_log(LS_LOG_INFO, "agent.no_clock_socket", "%s", diag.text);
        return;
    }
    ev_io_set(&c->clock_asked, c->clock.fd, EV_READ);
    ev_io_start(c->loop, &c->clock_asked);
    ev_timer_start(c->loop, &c->clock_knock);
}

static void on_command(void *ctx, const Ls__Envelope *command)
{
    struct control *c = ctx;

    if (command->body_case == LS__ENVELOPE__BODY_CLOCK_UDP) {
        open_clock(c, command->clock_udp);
        return;
    }
    agent_session_command(c->session, command, ls_clock_mono_ns());
    settle(c);
}

static void on_flushed(void *ctx)
{
    struct control *c = ctx;

    agent_session_flushed(c->session, ls_clock_mono_ns());
    settle(c);
}

static void on_refused(void *ctx, const char *code, const char *text)
{
    struct control *c = ctx;

    ls_log(LS_LOG_ERROR, "agent.refused", "agent=%s code=%s %s", c->options->name, code, text);
    leave(c, AGENT_EXIT_REFUSED);
    agent_session_abandon(c->session, ls_clock_mono_ns());
    settle(c);
}

/* ---- life */

static enum ls_err dial(struct control *c, struct ls_diag *diag)
{
    static const struct ls_dialer_env callbacks = { .up = on_up,
                                                    .down = on_down,
                                                    .command = on_command,
                                                    .flushed = on_flushed,
                                                    .refused = on_refused };
    struct ls_dialer_env env = callbacks;
    Ls__Hello hello = LS__HELLO__INIT;
    Ls__Facts *facts = malloc(sizeof(*facts));
    Ls__HostLimits *limits = malloc(sizeof(*limits));
    unsigned char random[16];
    char boot_id[33];
    struct ls_dialer_options options = { .url = c->options->url, .hello = &hello };
    enum ls_err rc = ls_fail(diag, LS_EIO, "no random numbers for the boot id");

    if (facts == NULL || limits == NULL) {
        free(facts);
        free(limits);
        return ls_fail(diag, LS_ENOMEM, "out of memory for the host's facts");
    }
    ls__facts__init(facts);
    ls__host_limits__init(limits);
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        goto out;
    for (size_t i = 0; i < sizeof(random); i++)
        (void)snprintf(boot_id + 2 * i, 3, "%02x", random[i]);
    rc = host_facts_read(facts, diag);
    if (rc != LS_OK)
        goto out;
    hello.agent = ls_pb_text(c->options->name);
    hello.role =
        c->options->role == &agent_role_server ? LS__ROLE__ROLE_SERVER : LS__ROLE__ROLE_CLIENT;
    hello.boot_id = boot_id;
    hello.software = ls_pb_text("lockstep " LS_VERSION);
    hello.pid = (uint32_t)getpid();
    hello.facts = facts;
    rc = agent_policy_describe(c->options->policy, limits);
    if (rc != LS_OK) {
        (void)ls_fail(diag, rc, "out of memory for the host's limits");
        goto out;
    }
    hello.limits = limits;
    env.ctx = c;
    rc = ls_dialer_create(c->loop, &options, &env, &c->dialer, diag);
out:
    ls__facts__free_unpacked(facts, NULL);
    ls__host_limits__free_unpacked(limits, NULL);
    return rc;
}

static enum ls_err set_up(struct control *c, const char *work_dir,
                          const struct agent_session_env *env, struct ls_diag *diag)
{
    enum ls_err rc;

    c->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (c->timer_fd < 0)
        return ls_fail(diag, LS_EIO, "timerfd_create: %s", strerror(errno));
    c->loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
    if (c->loop == NULL)
        return ls_fail(diag, LS_ENOMEM, "no event loop could be made");
    ev_async_init(&c->wake, on_wake);
    ev_io_init(&c->deadline, on_deadline, c->timer_fd, EV_READ);
    ev_init(&c->lease, on_lease);
    ev_init(&c->clock_asked, on_clock_asked);
    ev_timer_init(&c->clock_knock, on_clock_knock, AGENT_CLOCK_KNOCK_S, AGENT_CLOCK_KNOCK_S);
    c->clock_asked.data = c->clock_knock.data = c;
    ev_signal_init(&c->on_int, on_signal, SIGINT);
    ev_signal_init(&c->on_term, on_signal, SIGTERM);
    c->wake.data = c->deadline.data = c->lease.data = c->on_int.data = c->on_term.data = c;
    ev_async_start(c->loop, &c->wake);
    ev_io_start(c->loop, &c->deadline);
    ev_signal_start(c->loop, &c->on_int);
    ev_signal_start(c->loop, &c->on_term);
    rc = agent_session_create(c->options->role, work_dir, env, wake_from_any_thread, c, &c->session,
                              diag);
    if (rc == LS_OK)
        rc = dial(c, diag);
    if (rc == LS_OK && c->options->once)
        start_lease(c); /* a coordinator that never answers is gone, too */
    return rc;
}

static void tear_down(struct control *c)
{
    agent_session_destroy(c->session);
    ls_dialer_destroy(c->dialer);
    ls_transport_fini();
    agent_clock_fini(&c->clock);
    if (c->loop != NULL)
        ev_loop_destroy(c->loop);
    if (c->timer_fd >= 0)
        (void)close(c->timer_fd);
}

/* The socket of a process that was killed refuses, that of one that is only stopped does not. */
static bool somebody_listens(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool yes = false;

    if (strlen(path) < sizeof(address.sun_path)) {
        (void)memcpy(address.sun_path, path, strlen(path) + 1);
        yes = fd >= 0 && (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ||
                          errno == EAGAIN); /* its queue is full */
    }
    if (fd >= 0)
        (void)close(fd);
    return yes;
}

/* A coordinator that was killed cannot tidy up. Its private folder is empty once the last of its
 * agents has removed what is its own and the socket, and only then can it be removed. */
static void tidy_after(const char *url, const char *work_dir)
{
    static const char scheme[] = "ipc://";
    char folder[256];
    char log[512];
    char *slash;
    struct ls_diag diag;

    if (strncmp(url, scheme, strlen(scheme)) != 0)
        return;
    (void)snprintf(folder, sizeof(folder), "%s", url + strlen(scheme));
    if (somebody_listens(folder))
        return; /* it was stopped for a while, and needs its folder for other agents */
    (void)unlink(folder);
    slash = strrchr(folder, '/');
    if (slash == NULL || slash == folder || ls_fs_remove_tree(work_dir, &diag) != LS_OK)
        return;
    *slash = '\0';
    (void)snprintf(log, sizeof(log), "%s.log", work_dir); /* our own stderr */
    (void)unlink(log);
    (void)rmdir(folder);
}

int agent_control_run(const struct agent_control_options *options)
{
    struct control c = { .options = options, .timer_fd = -1, .clock = { .fd = -1 } };
    const struct agent_session_env env = { .policy = options->policy,
                                           .report = send_report,
                                           .room = report_room,
                                           .unacked = reports_unacked,
                                           .ctx = &c };
    struct ls_diag diag = { 0 };
    char own_dir[256] = "";
    const char *work_dir = options->work_dir;

    if (work_dir == NULL) {
        if (ls_fs_private_dir("lockstep-agent", own_dir, sizeof(own_dir), &diag) != LS_OK) {
            ls_log(LS_LOG_ERROR, "agent.no_folder", "%s", diag.text);
            return AGENT_EXIT_FAULT;
        }
        work_dir = own_dir;
    }
    if (set_up(&c, work_dir, &env, &diag) == LS_OK) {
        settle(&c);
        ev_run(c.loop, 0);
    } else {
        ls_log(LS_LOG_ERROR, "agent.no_start", "%s", diag.text);
        c.status = AGENT_EXIT_FAULT;
    }
    tear_down(&c);
    if (options->once && c.lease_over && options->work_dir != NULL)
        tidy_after(options->url, options->work_dir);
    if (own_dir[0] != '\0' && ls_fs_remove_tree(own_dir, &diag) != LS_OK)
        ls_log(LS_LOG_WARN, "agent.folder_left", "%s", diag.text);
    return c.status;
}

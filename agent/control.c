#include "agent/control.h"

#include <errno.h>
#include <ev.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "agent/clock_answer.h"
#include "agent/deadman.h"
#include "agent/exit.h"
#include "agent/introduce.h"
#include "agent/notify.h"
#include "agent/policy/policy.h"
#include "agent/session.h"
#include "agent/work_dir.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/transport.h"

/* Beyond its lease, for a control thread that hangs: it may be busy for some seconds. */
#define HANG_EXTRA_NS (8 * LS_NS_PER_S)
#define RETRY_MIN_NS  (250 * LS_NS_PER_MS) /* doubled from refusal to refusal */
#define RETRY_MAX_NS  (3 * LS_NS_PER_S)
#define RETRY_SLOW_NS (30 * LS_NS_PER_S) /* what only people can mend */
#define SAY_AGAIN_NS  (60 * LS_NS_PER_S) /* a trouble that does not change */
#define LOOK_NS       LS_NS_PER_S        /* for what is wrong while there is no session */

struct control {
    const struct agent_control_options *options;
    struct ev_loop *loop;
    struct agent_introduction intro;
    struct agent_deadman *deadman; /* owned */
    struct agent_notify notify;
    const struct agent_session_env *session_env;
    const char *work_dir;
    struct agent_session *session; /* owned; NULL: between two of them */
    struct ls_dialer *dialer;      /* owned; NULL: this session is over */
    ev_async wake;
    ev_io deadline;
    ev_timer lease;
    ev_io clock_asked;
    ev_timer clock_knock;
    struct agent_clock clock;
    ev_timer wait;
    ev_timer retry;
    ev_timer look;    /* what is wrong; signs of life for the service manager */
    ev_prepare alive; /* each turn of the loop is one for the deadman */
    ev_signal signals[3];
    int timer_fd;
    bool enrolled; /* in this session */
    bool lease_over;
    bool leaving;
    bool loopback_fine; /* that it dials one: a coordinator was there, or it was said */
    int status;
    int64_t backoff_ns;
    int64_t retry_ns;                                  /* after this session */
    char said[sizeof(((struct ls_diag *)NULL)->text)]; /* the trouble that was logged last */
    int64_t said_ns;
};

static void set_timer(struct control *c, ev_timer *timer, int64_t ns)
{
    ev_timer_stop(c->loop, timer);
    ev_now_update(c->loop);
    ev_timer_set(timer, (double)ns / 1e9, 0.);
    ev_timer_start(c->loop, timer);
}

/* ---- coming and going */

static void leave(struct control *c, int status)
{
    if (!c->leaving) {
        c->status = status;
        agent_notify_say(&c->notify, "STOPPING=1");
    }
    c->leaving = true;
}

/* From now on nothing is sent or received; what runs is ended, settle() sees when it has. status:
 * to leave with, if this was to be the only one. */
static void end_session(struct control *c, int status, int64_t retry_ns)
{
    if (c->dialer == NULL)
        return;
    ls_dialer_destroy(c->dialer);
    c->dialer = NULL;
    ev_timer_stop(c->loop, &c->lease);
    ev_timer_stop(c->loop, &c->clock_knock);
    ev_io_stop(c->loop, &c->clock_asked);
    agent_clock_fini(&c->clock);
    set_timer(c, &c->look, LOOK_NS);
    c->enrolled = false;
    c->retry_ns = retry_ns;
    if (c->options->once)
        leave(c, status);
    agent_session_abandon(c->session, ls_clock_mono_ns());
}

/* Not all at once, when a coordinator comes back to hundreds. */
static int64_t jittered(int64_t ns)
{
    uint32_t random = 0;

    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
        random = (uint32_t)ls_clock_mono_ns();
    return ns / 2 + (int64_t)((double)ns / 2 * ((double)random / UINT32_MAX));
}

/* The session is over and idle. */
static void close_session(struct control *c)
{
    agent_session_destroy(c->session);
    c->session = NULL;
    set_timer(c, &c->retry, jittered(c->retry_ns));
}

/* After anything that happened: what is due, when to come back, whether to go. */
static void settle(struct control *c)
{
    struct itimerspec at = { 0 };
    int64_t next;

    if (c->session == NULL) {
        if (c->leaving)
            ev_break(c->loop, EVBREAK_ALL);
        return;
    }
    next = agent_session_tick(c->session, ls_clock_mono_ns());
    if (next != INT64_MAX) {
        at.it_value.tv_sec = next / LS_NS_PER_S;
        at.it_value.tv_nsec = next % LS_NS_PER_S;
    }
    (void)timerfd_settime(c->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
    if (c->dialer != NULL && agent_session_said_bye(c->session)) {
        c->backoff_ns = RETRY_MIN_NS;
        end_session(c, AGENT_EXIT_OK, RETRY_MIN_NS);
    }
    if (agent_session_phase(c->session) != LS_PHASE_IDLE)
        return;
    if (c->leaving)
        ev_break(c->loop, EVBREAK_ALL);
    else if (c->dialer == NULL)
        close_session(c);
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
    if (c->session != NULL)
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
    end_session(c, AGENT_EXIT_INCOMPLETE, RETRY_MIN_NS);
    settle(c);
}

/* Once: on the coordinator's own host all is well, and it will come. */
static void say_loopback(struct control *c)
{
    if (c->loopback_fine || c->dialer == NULL || !ls_dialer_is_alone(c->dialer))
        return;
    c->loopback_fine = true;
    ls_log(LS_LOG_WARN, "agent.loopback",
           "agent=%s url=%s nobody listens there, and a loopback address is this host itself: if "
           "the coordinator runs on another host, give that host's address in --dial",
           c->options->name, c->options->url);
}

static void on_wait(struct ev_loop *loop, ev_timer *w, int events)
{
    struct control *c = w->data;

    (void)loop;
    (void)events;
    say_loopback(c);
    ls_log(LS_LOG_WARN, "agent.nobody_came", "agent=%s no coordinator has taken it: it leaves",
           c->options->name);
    leave(c, AGENT_EXIT_INCOMPLETE);
    c->lease_over = true;
    end_session(c, AGENT_EXIT_INCOMPLETE, 0);
    settle(c);
}

/* The second one: leave at once. Supervisors end the targets of a process that has gone. */
static void on_signal(struct ev_loop *loop, ev_signal *w, int events)
{
    struct control *c = w->data;

    (void)events;
    if (c->leaving)
        ev_break(loop, EVBREAK_ALL);
    ls_log(LS_LOG_INFO, "agent.told_to_end", "agent=%s signal=%s", c->options->name,
           sigabbrev_np(w->signum) != NULL ? sigabbrev_np(w->signum) : "?");
    leave(c, AGENT_EXIT_INTERRUPTED);
    end_session(c, AGENT_EXIT_INTERRUPTED, 0);
    settle(c);
}

/* Says what keeps it from its coordinator: when that changes, and once a minute. */
static void say_trouble(struct control *c, const char *id, const char *text)
{
    int64_t now_ns = ls_clock_mono_ns();

    if (strcmp(c->said, text) == 0 && now_ns - c->said_ns < SAY_AGAIN_NS)
        return;
    (void)snprintf(c->said, sizeof(c->said), "%s", text);
    c->said_ns = now_ns;
    ls_log(LS_LOG_INFO, id, "agent=%s url=%s %s", c->options->name, c->options->url, text);
    agent_notify_say(&c->notify, "STATUS=dials %s: %s", c->options->url, text);
}

static void on_look(struct ev_loop *loop, ev_timer *w, int events)
{
    struct control *c = w->data;
    bool calm = c->dialer != NULL && ls_dialer_is_up(c->dialer);
    int64_t next_ns = calm ? 0 : LOOK_NS; /* whatever ends the calm starts it again */

    (void)loop;
    (void)events;
    agent_notify_beat(&c->notify);
    say_loopback(c);
    if (c->dialer != NULL && !calm && ls_dialer_trouble(c->dialer)[0] != '\0')
        say_trouble(c, "agent.dialling", ls_dialer_trouble(c->dialer));
    if (c->notify.beat_ns != 0 && (calm || c->notify.beat_ns < next_ns))
        next_ns = c->notify.beat_ns;
    if (next_ns != 0)
        set_timer(c, &c->look, next_ns);
}

static void on_turn(struct ev_loop *loop, ev_prepare *w, int events)
{
    struct control *c = w->data;

    (void)loop;
    (void)events;
    agent_deadman_beat(c->deadman);
}

/* ---- the session's effects */

static enum ls_err send_report(void *ctx, Ls__Envelope *report)
{
    struct control *c = ctx;
    struct ls_diag diag;
    enum ls_err rc;

    if (c->dialer == NULL)
        return LS_OK; /* nobody is there to report to */
    rc = ls_dialer_report(c->dialer, report, &diag);
    if (rc != LS_OK && rc != LS_EAGAIN)
        ls_log(LS_LOG_ERROR, "agent.report_failed", "%s", diag.text);
    return rc;
}

static uint32_t report_room(void *ctx)
{
    struct control *c = ctx;

    return c->dialer != NULL ? ls_dialer_room(c->dialer) : UINT32_MAX;
}

static uint64_t reports_unacked(void *ctx)
{
    struct control *c = ctx;

    return c->dialer != NULL ? ls_dialer_unacked(c->dialer) : 0;
}

/* ---- the connection */

/* Does this host's policy let this coordinator use it? A local one is the agent's own user. */
static bool coordinator_may(struct control *c)
{
    const struct ls_identity *who = ls_dialer_identity(c->dialer);
    struct ls_diag diag = { 0 };

    if (agent_policy_url_is_local(c->options->url) ||
        agent_policy_coordinator(c->options->policy, who->proven ? who->name : "", &diag) == LS_OK)
        return true;
    ls_log(LS_LOG_ERROR, "agent.policy", "agent=%s %s", c->options->name, diag.text);
    return false;
}

/* Most refusals are cured by time: there is no run now, this one has all that it needs. */
static void on_refused(void *ctx, const char *code, const char *text)
{
    struct control *c = ctx;
    char why[280];

    if (c->options->wait_ns > 0 || strcmp(code, "superseded") == 0) {
        ls_log(LS_LOG_ERROR, "agent.refused", "agent=%s code=%s %s", c->options->name, code, text);
        leave(c, AGENT_EXIT_REFUSED);
    } else if (strcmp(code, "foreign_run") == 0 || strcmp(code, "lost_state") == 0) {
        ls_log(LS_LOG_INFO, "agent.run_gone", "agent=%s %s", c->options->name, text);
        end_session(c, AGENT_EXIT_INCOMPLETE, RETRY_MIN_NS);
        settle(c);
        return;
    } else {
        (void)snprintf(why, sizeof(why), "code=%s %.240s", code, text);
        say_trouble(c, "agent.refused", why);
    }
    c->retry_ns = strcmp(code, "version") == 0 ? RETRY_SLOW_NS : c->backoff_ns;
    c->backoff_ns = 2 * c->backoff_ns < RETRY_MAX_NS ? 2 * c->backoff_ns : RETRY_MAX_NS;
    if (c->enrolled || c->leaving) {
        end_session(c, AGENT_EXIT_INCOMPLETE, c->retry_ns);
    } else { /* there was no run to lose, so it goes on waiting for its one, too */
        ls_dialer_destroy(c->dialer);
        c->dialer = NULL;
    }
    settle(c);
}

static void on_up(void *ctx, bool resumed)
{
    struct control *c = ctx;

    if (!coordinator_may(c)) { /* another one may come to this address */
        end_session(c, AGENT_EXIT_REFUSED, RETRY_SLOW_NS);
        settle(c);
        return;
    }
    ls_log(LS_LOG_INFO, resumed ? "agent.back" : "agent.enrolled", "agent=%s run=%s",
           c->options->name, ls_dialer_run_id(c->dialer));
    agent_notify_say(&c->notify, "STATUS=in run %s", ls_dialer_run_id(c->dialer));
    ev_timer_stop(c->loop, &c->lease);
    ev_timer_stop(c->loop, &c->wait);
    c->enrolled = c->loopback_fine = true;
    c->said[0] = '\0';
    settle(c);
}

static void on_down(void *ctx, const char *why)
{
    struct control *c = ctx;

    ls_log(LS_LOG_INFO, "agent.down", "agent=%s why=%s", c->options->name, why);
    if (!ev_is_active(&c->lease))
        set_timer(c, &c->lease, c->options->lease_ns);
    set_timer(c, &c->look, LOOK_NS);
    settle(c);
}

static void on_clock_asked(struct ev_loop *loop, ev_io *w, int events)
{
    struct control *c = w->data;

    (void)loop;
    (void)events;
    if (agent_clock_readable(&c->clock))
        set_timer(c, &c->clock_knock, AGENT_CLOCK_QUIET_NS);
}

static void on_clock_knock(struct ev_loop *loop, ev_timer *w, int events)
{
    struct control *c = w->data;

    (void)loop;
    (void)events;
    set_timer(c, &c->clock_knock, agent_clock_knock(&c->clock, ls_clock_mono_ns()));
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
    set_timer(c, &c->clock_knock, AGENT_CLOCK_KNOCK_NS);
}

static void on_command(void *ctx, const Ls__Envelope *command)
{
    struct control *c = ctx;

    if (command->body_case == LS__ENVELOPE__BODY_CLOCK_UDP) {
        open_clock(c, command->clock_udp);
        return;
    }
    if (command->body_case == LS__ENVELOPE__BODY_BYE)
        ls_log(LS_LOG_INFO, "agent.run_ended", "agent=%s run=%s %s", c->options->name,
               ls_dialer_run_id(c->dialer), command->bye->why);
    agent_session_command(c->session, command, ls_clock_mono_ns());
    settle(c);
}

static void on_flushed(void *ctx)
{
    struct control *c = ctx;

    agent_session_flushed(c->session, ls_clock_mono_ns());
    settle(c);
}

/* ---- life */

static enum ls_err begin_session(struct control *c, struct ls_diag *diag)
{
    static const struct ls_dialer_env callbacks = { .up = on_up,
                                                    .down = on_down,
                                                    .command = on_command,
                                                    .flushed = on_flushed,
                                                    .refused = on_refused };
    struct ls_dialer_options options = { .url = c->options->url,
                                         .hello = &c->intro.hello,
                                         .credentials = c->options->credentials };
    struct ls_dialer_env env = callbacks;
    enum ls_err rc = agent_introduction_begin(&c->intro, diag);

    c->lease_over = false;
    if (rc == LS_OK)
        rc = agent_session_create(c->options->role, c->work_dir, c->session_env,
                                  wake_from_any_thread, c, &c->session, diag);
    if (rc != LS_OK)
        return rc;
    env.ctx = c;
    rc = ls_dialer_create(c->loop, &options, &env, &c->dialer, diag);
    if (rc != LS_OK) {
        agent_session_destroy(c->session);
        c->session = NULL;
    }
    return rc;
}

static void on_retry(struct ev_loop *loop, ev_timer *w, int events)
{
    struct control *c = w->data;
    struct ls_diag diag;

    (void)loop;
    (void)events;
    if (begin_session(c, &diag) != LS_OK) {
        say_trouble(c, "agent.no_session", diag.text);
        set_timer(c, &c->retry, RETRY_MAX_NS);
        return;
    }
    agent_notify_say(&c->notify, "STATUS=dials %s", c->options->url);
}

static void init_watchers(struct control *c)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };

    ev_async_init(&c->wake, on_wake);
    ev_io_init(&c->deadline, on_deadline, c->timer_fd, EV_READ);
    ev_init(&c->lease, on_lease);
    ev_init(&c->wait, on_wait);
    ev_init(&c->retry, on_retry);
    ev_timer_init(&c->look, on_look, 0., 0.);
    ev_prepare_init(&c->alive, on_turn);
    ev_init(&c->clock_asked, on_clock_asked);
    ev_init(&c->clock_knock, on_clock_knock);
    c->clock_asked.data = c->clock_knock.data = c->alive.data = c;
    c->wake.data = c->deadline.data = c->lease.data = c->wait.data = c->retry.data = c->look.data =
        c;
    ev_async_start(c->loop, &c->wake);
    ev_io_start(c->loop, &c->deadline);
    ev_timer_start(c->loop, &c->look);
    ev_prepare_start(c->loop, &c->alive);
    for (size_t i = 0; i < LS_ARRAY_LEN(c->signals); i++) {
        ev_signal_init(&c->signals[i], on_signal, numbers[i]);
        c->signals[i].data = c;
        ev_signal_start(c->loop, &c->signals[i]);
    }
}

static enum ls_err set_up(struct control *c, struct ls_diag *diag)
{
    const struct agent_control_options *o = c->options;
    enum ls_err rc;

    c->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (c->timer_fd < 0)
        return ls_fail(diag, LS_EIO, "timerfd_create: %s", strerror(errno));
    c->loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
    if (c->loop == NULL)
        return ls_fail(diag, LS_ENOMEM, "no event loop could be made");
    init_watchers(c);
    c->backoff_ns = RETRY_MIN_NS;
    rc = agent_notify_init(&c->notify, diag);
    if (rc == LS_OK)
        rc = agent_introduction_init(&c->intro, o->name,
                                     o->role == &agent_role_server ? LS__ROLE__ROLE_SERVER
                                                                   : LS__ROLE__ROLE_CLIENT,
                                     o->address, &o->labels, o->policy, diag);
    if (rc == LS_OK)
        rc = agent_deadman_start(o->lease_ns + HANG_EXTRA_NS, NULL, NULL, &c->deadman, diag);
    if (rc == LS_OK)
        rc = begin_session(c, diag);
    if (rc == LS_OK && o->wait_ns > 0)
        set_timer(c, &c->wait, o->wait_ns);
    return rc;
}

static void tear_down(struct control *c)
{
    agent_deadman_stop(c->deadman);
    agent_session_destroy(c->session);
    ls_dialer_destroy(c->dialer);
    ls_transport_fini();
    agent_clock_fini(&c->clock);
    agent_introduction_fini(&c->intro);
    agent_notify_fini(&c->notify);
    if (c->loop != NULL)
        ev_loop_destroy(c->loop);
    if (c->timer_fd >= 0)
        (void)close(c->timer_fd);
}

int agent_control_run(const struct agent_control_options *options)
{
    struct control c = {
        .options = options, .timer_fd = -1, .clock = { .fd = -1 }, .notify = { .fd = -1 }
    };
    const struct agent_session_env env = { .policy = options->policy,
                                           .report = send_report,
                                           .room = report_room,
                                           .unacked = reports_unacked,
                                           .ctx = &c };
    struct ls_diag diag = { 0 };
    char own_dir[256] = "";
    const char *work_dir = NULL;

    if (agent_work_dir_choose(options->work_dir, own_dir, sizeof(own_dir), &work_dir, &diag) !=
        LS_OK) {
        ls_log(LS_LOG_ERROR, "agent.no_folder", "%s", diag.text);
        c.status = AGENT_EXIT_FAULT;
        goto out;
    }
    c.session_env = &env;
    c.work_dir = work_dir;
    if (set_up(&c, &diag) == LS_OK) {
        ls_log(LS_LOG_INFO, "agent.begins", "agent=%s role=%s url=%s", options->name,
               options->role->name, options->url);
        /* Its coordinator may come in weeks: dialling is all that a start can be. */
        agent_notify_say(&c.notify, "READY=1\nSTATUS=dials %s", options->url);
        settle(&c);
        ev_run(c.loop, 0);
    } else {
        ls_log(LS_LOG_ERROR, "agent.no_start", "%s", diag.text);
        c.status = diag.code == LS_EREFUSED ? AGENT_EXIT_REFUSED
                   : diag.code == LS_EINVAL ? AGENT_EXIT_USAGE
                                            : AGENT_EXIT_FAULT;
    }
    tear_down(&c);
    if (options->once && c.lease_over && options->work_dir != NULL)
        agent_work_dir_tidy(options->url, options->work_dir);
out:
    if (own_dir[0] != '\0' && ls_fs_remove_tree(own_dir, &diag) != LS_OK)
        ls_log(LS_LOG_WARN, "agent.folder_left", "%s", diag.text);
    return c.status;
}

#include "tests/common/transport_rig.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/support/test.h"

#define DEADLINE_NS          (20 * LS_NS_PER_S)
#define TURNS_AFTER_DEADLINE 200u

void rig_set_pace(void)
{
    static const struct ls_pace pace = {
        .tick_ns = 20 * LS_NS_PER_MS,
        .heartbeat_ns = 60 * LS_NS_PER_MS,
        .silence_ns = 400 * LS_NS_PER_MS,
        .greeting_ns = 500 * LS_NS_PER_MS,
        .linger_ns = 200 * LS_NS_PER_MS,
        .backoff_min_ns = 1 * LS_NS_PER_MS,
        .backoff_max_ns = 20 * LS_NS_PER_MS,
    };

    ls_transport_set_pace(&pace);
}

static void on_poll(struct ev_loop *loop, ev_timer *w, int events)
{
    (void)loop;
    (void)w;
    (void)events;
}

void rig_init(struct rig *rig)
{
    *rig = (struct rig){ 0 };
    rig_set_pace();
    tmpdir_make(&rig->dir);
    (void)snprintf(rig->url, sizeof(rig->url), "ipc://%.80s/control", rig->dir.path);
    rig->loop = ev_loop_new(EVFLAG_AUTO);
    assert_non_null(rig->loop);
    ev_timer_init(&rig->poll, on_poll, 0.0, 0.005);
}

void rig_fini(struct rig *rig)
{
    ls_dialer_destroy(rig->dialer);
    ls_listener_destroy(rig->listener);
    ev_loop_destroy(rig->loop);
    assert_int_equal(rmdir(rig->dir.path), 0); /* nothing was left in it */
    tmpdir_remove(&rig->dir);
    ls_transport_fini();
    ls_transport_set_pace(NULL);
}

void rig_reset(struct rig *rig)
{
    struct rig fresh = { .loop = rig->loop, .poll = rig->poll, .dir = rig->dir };

    assert_true(rig->listener == NULL && rig->dialer == NULL);
    memcpy(fresh.url, rig->url, sizeof(fresh.url));
    *rig = fresh;
}

/* ---- the coordinator's end ---- */

static enum ls_err on_enrol(void *ctx, struct ls_peer *peer, const Ls__Hello *hello, void **out_ctx,
                            struct ls_diag *diag)
{
    struct rig *rig = ctx;
    enum ls_err rc = rig->hooks.enrol != NULL ? rig->hooks.enrol(rig, hello, diag) : LS_OK;

    if (rc == LS_OK) {
        rig->enrolled++;
        rig->peer = peer;
        *out_ctx = rig;
    }
    return rc;
}

static void on_peer_up(void *ctx, void *peer_ctx)
{
    struct rig *rig = ctx;

    assert_ptr_equal(peer_ctx, rig);
    rig->peer_ups++;
}

static void on_peer_down(void *ctx, void *peer_ctx, const char *why)
{
    struct rig *rig = ctx;

    (void)peer_ctx;
    rig->peer_downs++;
    (void)snprintf(rig->last_why, sizeof(rig->last_why), "%s", why);
}

static enum ls_err on_report(void *ctx, void *peer_ctx, const Ls__Envelope *report)
{
    struct rig *rig = ctx;
    enum ls_err rc = rig->hooks.report != NULL ? rig->hooks.report(rig, report) : LS_OK;

    (void)peer_ctx;
    if (rc != LS_OK)
        return rc;
    rig->reports++;
    if (report->body_case != LS__ENVELOPE__BODY_TARGET_LOG || report->seq != rig->reports ||
        report->target_log->offset != rig->reports)
        rig->out_of_order = true;
    else
        rig->report_sum += report->target_log->offset;
    return LS_OK;
}

static void on_forgotten(void *ctx, void *peer_ctx)
{
    struct rig *rig = ctx;

    (void)peer_ctx;
    rig->forgotten++;
}

static void on_taken(void *ctx, void *peer_ctx)
{
    struct rig *rig = ctx;

    (void)peer_ctx;
    rig->takens++;
}

static void on_clock(void *ctx, void *peer_ctx, int64_t sent_ns, int64_t peer_received_ns,
                     int64_t peer_replied_ns, int64_t received_ns)
{
    struct rig *rig = ctx;

    (void)peer_ctx;
    rig->clocks++;
    rig->clock[0] = sent_ns;
    rig->clock[1] = peer_received_ns;
    rig->clock[2] = peer_replied_ns;
    rig->clock[3] = received_ns;
}

void rig_listener_env(struct rig *rig, struct ls_listener_env *out)
{
    *out = (struct ls_listener_env){ .enrol = on_enrol,
                                     .up = on_peer_up,
                                     .down = on_peer_down,
                                     .report = on_report,
                                     .forgotten = on_forgotten,
                                     .taken = on_taken,
                                     .clock = on_clock,
                                     .ctx = rig };
}

void rig_listen_at(struct rig *rig, const char *url, const char *run_id)
{
    struct ls_listener_env env;
    struct ls_diag diag = { 0 };

    rig_listener_env(rig, &env);
    if (ls_listener_create(rig->loop,
                           &(struct ls_listener_options){
                               .url = url, .run_id = run_id, .credentials = rig->coordinator_keys },
                           &env, &rig->listener, &diag) != LS_OK)
        fail_msg("%s", diag.text);
}

void rig_listen(struct rig *rig)
{
    rig_listen_at(rig, rig->url, "run-1");
}

/* ---- the agent's end ---- */

static void on_up(void *ctx, bool resumed)
{
    struct rig *rig = ctx;

    rig->ups++;
    rig->resumes += resumed;
    if (rig->hooks.dialer_up != NULL)
        rig->hooks.dialer_up(rig);
}

static void on_down(void *ctx, const char *why)
{
    struct rig *rig = ctx;

    assert_non_null(why);
    rig->downs++;
}

static void on_command(void *ctx, const Ls__Envelope *command)
{
    struct rig *rig = ctx;

    rig->commands++;
    if (command->body_case != LS__ENVELOPE__BODY_PUT_FILE || command->seq != rig->commands ||
        command->put_file->offset != rig->commands)
        rig->out_of_order = true;
    if (rig->hooks.command != NULL)
        rig->hooks.command(rig, command);
}

static void on_flushed(void *ctx)
{
    struct rig *rig = ctx;

    rig->flushes++;
}

static void on_refused(void *ctx, const char *code, const char *text)
{
    struct rig *rig = ctx;

    rig->refusals++;
    (void)snprintf(rig->refused_code, sizeof(rig->refused_code), "%s", code);
    (void)snprintf(rig->refused_text, sizeof(rig->refused_text), "%s", text);
}

enum ls_err rig_dialer(struct rig *rig, const char *url, const char *agent, const char *boot_id,
                       uint32_t reports_max, struct ls_dialer **out)
{
    struct ls_dialer_env env = { .up = on_up,
                                 .down = on_down,
                                 .command = on_command,
                                 .flushed = on_flushed,
                                 .refused = on_refused,
                                 .ctx = rig };
    struct ls_dialer_options options = { .url = url,
                                         .reports_max = reports_max,
                                         .credentials = rig->agent_keys };
    Ls__Hello hello = LS__HELLO__INIT;
    char name[64];
    char boot[64];
    char software[] = "lockstep test";

    (void)snprintf(name, sizeof(name), "%s", agent);
    (void)snprintf(boot, sizeof(boot), "%s", boot_id);
    hello.agent = name;
    hello.boot_id = boot;
    hello.software = software;
    hello.pid = (uint32_t)getpid();
    options.hello = &hello;
    return ls_dialer_create(rig->loop, &options, &env, out, &rig->diag);
}

void rig_dial(struct rig *rig, const char *agent, const char *boot_id)
{
    assert_int_equal(rig_dialer(rig, rig->url, agent, boot_id, 0, &rig->dialer), LS_OK);
}

/* ---- running ---- */

void rig_until(struct rig *rig, bool (*done)(struct rig *rig))
{
    int64_t deadline_ns = ls_clock_mono_ns() + DEADLINE_NS;
    unsigned turns = 0;

    ev_timer_again(rig->loop, &rig->poll);
    while (!done(rig)) {
        /* A machine that stood still meanwhile proves nothing: we must have had our turns. */
        if (ls_clock_mono_ns() >= deadline_ns && ++turns > TURNS_AFTER_DEADLINE)
            fail_msg("not within the deadline; peer: %s; dialer: %s", rig->last_why,
                     rig->dialer != NULL ? ls_dialer_trouble(rig->dialer) : "none");
        ev_run(rig->loop, EVRUN_ONCE);
    }
    ev_timer_stop(rig->loop, &rig->poll);
}

void rig_run_ms(struct rig *rig, int ms)
{
    int64_t deadline_ns = ls_clock_mono_ns() + ms * LS_NS_PER_MS;

    ev_timer_again(rig->loop, &rig->poll);
    while (ls_clock_mono_ns() < deadline_ns)
        ev_run(rig->loop, EVRUN_ONCE);
    ev_timer_stop(rig->loop, &rig->poll);
}

bool rig_both_up(struct rig *rig)
{
    return rig->dialer != NULL && ls_dialer_is_up(rig->dialer) && rig->peer != NULL &&
           ls_peer_is_up(rig->peer);
}

bool rig_was_refused(struct rig *rig)
{
    return rig->refusals > 0;
}

enum ls_err rig_report(struct ls_dialer *dialer, uint64_t n)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__TargetLog log = LS__TARGET_LOG__INIT;
    uint8_t text[] = "some line of a log";

    log.trial = 1;
    log.offset = n;
    log.data = (ProtobufCBinaryData){ .data = text, .len = sizeof(text) };
    envelope.body_case = LS__ENVELOPE__BODY_TARGET_LOG;
    envelope.target_log = &log;
    return ls_dialer_report(dialer, &envelope, NULL);
}

enum ls_err rig_command(struct ls_peer *peer, uint64_t n)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__PutFile file = LS__PUT_FILE__INIT;
    uint8_t text[] = "some piece of a file";

    file.offset = n;
    file.data = (ProtobufCBinaryData){ .data = text, .len = sizeof(text) };
    envelope.body_case = LS__ENVELOPE__BODY_PUT_FILE;
    envelope.put_file = &file;
    return ls_peer_command(peer, &envelope, NULL);
}

unsigned rig_open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL)
        count++;
    (void)closedir(dir);
    return count;
}

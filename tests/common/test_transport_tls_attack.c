/* TLS sessions under attack: a man in the middle, and strangers in great numbers. */
#include "tests/support/test.h"

#include <malloc.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/common/tamper_proxy.h"
#include "tests/common/tls_rig.h"

/* ---- a man in the middle ---- */

enum { REPORTS = 20 };

struct middle {
    struct tls_rig t; /* first: conditions get it */
    struct tamper_proxy proxy;
};

static void middle_init(struct middle *m)
{
    tls_rig_init(&m->t);
    tls_rig_keys(&m->t);
    tls_rig_listen(&m->t);
    tamper_proxy_init(&m->proxy, m->t.rig.loop, (uint16_t)tls_rig_port(&m->t));
}

static void middle_fini(struct middle *m)
{
    tamper_proxy_fini(&m->proxy);
    tls_rig_fini(&m->t);
}

static void middle_dial(struct middle *m)
{
    char url[64];

    (void)snprintf(url, sizeof(url), "tls+tcp://127.0.0.1:%u", m->proxy.port);
    assert_int_equal(rig_dialer(&m->t.rig, url, "client-1", "boot-a", 0, &m->t.rig.dialer), LS_OK);
}

static bool all_is_delivered(struct rig *rig)
{
    return rig->reports == REPORTS && rig->commands == REPORTS && rig_both_up(rig) &&
           ls_dialer_unacked(rig->dialer) == 0 && ls_peer_unacked(rig->peer) == 0;
}

/* What he did ended the connection, and the one after it has delivered everything. */
static bool is_over_it(struct rig *rig)
{
    struct middle *m = (struct middle *)rig;
    bool harmless = m->proxy.touched_type == 20; /* a record for middle boxes that says nothing */

    return m->proxy.touched && all_is_delivered(rig) && (m->proxy.accepted > 1 || harmless);
}

static void produce(struct rig *rig)
{
    if (rig->resumes > 0 || rig->peer == NULL)
        return;
    for (; rig->reports_made < REPORTS; rig->reports_made++)
        assert_int_equal(rig_report(rig->dialer, rig->reports_made + 1), LS_OK);
}

static enum ls_err command_him(struct rig *rig, const Ls__Envelope *report)
{
    (void)report;
    if (rig->commands_made < REPORTS)
        assert_int_equal(rig_command(rig->peer, ++rig->commands_made), LS_OK);
    return LS_OK;
}

static void tamper_with(enum tamper what, enum tamper_way way, unsigned record)
{
    struct middle m;

    middle_init(&m);
    m.t.rig.hooks.dialer_up = produce;
    m.t.rig.hooks.report = command_him;
    m.proxy.what = what;
    m.proxy.way = way;
    m.proxy.record = record;
    middle_dial(&m);
    rig_until(&m.t.rig, is_over_it);
    assert_false(m.t.rig.out_of_order);
    assert_int_equal(m.t.rig.report_sum, REPORTS * (REPORTS + 1) / 2);
    assert_int_equal(m.t.rig.enrolled, 1);
    middle_fini(&m);
}

static void a_record_that_was_tampered_with_ends_the_connection_and_costs_nothing(void **state)
{
    /* Hellos, certificates or the end of the handshake, and data. */
    static const unsigned records[] = { 0, 3, 8 };

    (void)state;
    for (int what = TAMPER_FLIP; what < TAMPER_COUNT; what++) {
        for (int way = TAMPER_FROM_AGENT; way <= TAMPER_TO_AGENT; way++) {
            for (size_t i = 0; i < LS_ARRAY_LEN(records); i++)
                tamper_with((enum tamper)what, (enum tamper_way)way, records[i]);
        }
    }
}

static bool reports_are_stored(struct rig *rig)
{
    return rig->reports == REPORTS && ls_dialer_unacked(rig->dialer) == 0;
}

static bool is_turned_away(struct rig *rig)
{
    struct tls_rig *t = (struct tls_rig *)rig;

    return strstr(tls_rig_log(t), "transport.turned_away") != NULL;
}

static bool is_down(struct rig *rig)
{
    return rig->peer_downs > 0;
}

/* All that an agent once sent, byte for byte, to the same coordinator. */
static void a_session_that_was_recorded_says_nothing_to_anybody_when_played_again(void **state)
{
    struct middle m;
    int fd;

    (void)state;
    middle_init(&m);
    m.t.rig.hooks.dialer_up = produce;
    middle_dial(&m);
    rig_until(&m.t.rig, reports_are_stored);
    ls_dialer_destroy(m.t.rig.dialer);
    m.t.rig.dialer = NULL;
    rig_until(&m.t.rig, is_down);
    assert_string_equal(tls_rig_log(&m.t), "");
    assert_true(m.proxy.recorded_len > 1000);
    fd = tls_rig_connect(&m.t);
    assert_int_equal(send(fd, m.proxy.recorded, m.proxy.recorded_len, MSG_NOSIGNAL),
                     (ssize_t)m.proxy.recorded_len);
    rig_until(&m.t.rig, is_turned_away);
    assert_int_equal(m.t.rig.enrolled, 1);
    assert_int_equal(m.t.rig.peer_ups, 1);
    assert_int_equal(m.t.rig.reports, REPORTS);
    assert_false(ls_peer_is_up(m.t.rig.peer));
    (void)close(fd);
    middle_fini(&m);
}

/* ---- strangers ---- */

struct storm {
    struct tls_rig t; /* first: conditions get it */
    unsigned char hello[4096];
    size_t hello_len;
    char rogue_dir[300];
    int mute[64];
    size_t mute_next;
    unsigned descriptors;
    size_t memory;
};

static void make_client_hello(struct storm *s)
{
    SSL_CTX *ctx = keys_client(NULL);
    SSL *ssl = SSL_new(ctx);
    BIO *in = BIO_new(BIO_s_mem());
    BIO *out = BIO_new(BIO_s_mem());
    int len;

    SSL_set_bio(ssl, in, out);
    SSL_set_connect_state(ssl);
    assert_int_equal(SSL_do_handshake(ssl), -1);
    len = BIO_read(out, s->hello, sizeof(s->hello));
    assert_true(len > 100);
    s->hello_len = (size_t)len;
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    ERR_clear_error();
}

static void storm_init(struct storm *s)
{
    struct keys *other = keys_create("lab");

    memset(s, 0, sizeof(*s));
    tls_rig_init(&s->t);
    tls_rig_folder(&s->t, "rogue", s->rogue_dir);
    keys_issue_agent(other, "client-1", s->rogue_dir);
    keys_destroy(other);
    make_client_hello(s);
    for (size_t i = 0; i < LS_ARRAY_LEN(s->mute); i++)
        s->mute[i] = -1;
    tls_rig_keys(&s->t);
    tls_rig_listen(&s->t);
}

static void storm_fini(struct storm *s)
{
    for (size_t i = 0; i < LS_ARRAY_LEN(s->mute); i++) {
        if (s->mute[i] >= 0)
            (void)close(s->mute[i]);
        s->mute[i] = -1;
    }
    tls_rig_fini(&s->t);
}

static void reset_and_close(int fd)
{
    struct linger now = { .l_onoff = 1, .l_linger = 0 };

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    (void)close(fd);
}

static void act_reset(struct storm *s)
{
    reset_and_close(tls_rig_connect(&s->t));
}

static void act_fin(struct storm *s)
{
    (void)close(tls_rig_connect(&s->t));
}

/* Stays until it is its place's turn again, or the other end has had enough. */
static void act_mute(struct storm *s)
{
    int *at = &s->mute[s->mute_next++ % LS_ARRAY_LEN(s->mute)];

    if (*at >= 0)
        (void)close(*at);
    *at = tls_rig_connect(&s->t);
}

static void act_garbage(struct storm *s)
{
    static const char garbage[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n\xff\xfe\xfd";
    int fd = tls_rig_connect(&s->t);

    (void)!send(fd, garbage, sizeof(garbage), MSG_NOSIGNAL);
    (void)close(fd);
}

static void act_hello_and_reset(struct storm *s)
{
    int fd = tls_rig_connect(&s->t);

    (void)!send(fd, s->hello, s->hello_len, MSG_NOSIGNAL);
    ev_run(s->t.rig.loop, EVRUN_NOWAIT);
    reset_and_close(fd);
}

static void act_half_a_hello(struct storm *s)
{
    int fd = tls_rig_connect(&s->t);

    (void)!send(fd, s->hello, s->hello_len / 2, MSG_NOSIGNAL);
    (void)shutdown(fd, SHUT_WR);
    ev_run(s->t.rig.loop, EVRUN_NOWAIT);
    reset_and_close(fd);
}

static void act_rogue(struct storm *s)
{
    tls_rig_client(&s->t, s->rogue_dir, 0);
    rig_until(&s->t.rig, tls_rig_client_ended);
    assert_int_equal(s->t.got_len, 0);
    tls_rig_client_end(&s->t);
}

static void act_nobody(struct storm *s)
{
    tls_rig_client(&s->t, NULL, 0);
    rig_until(&s->t.rig, tls_rig_client_ended);
    tls_rig_client_end(&s->t);
}

/* Those after this have keys, and misuse them. */
static void act_shake_hands_and_leave(struct storm *s)
{
    tls_rig_client(&s->t, s->t.agent_dir, 0);
    rig_until(&s->t.rig, tls_rig_client_shook_hands);
    (void)SSL_shutdown(s->t.ssl);
    tls_rig_client_end(&s->t);
}

static void act_oversize(struct storm *s)
{
    static const unsigned char head[] = { 0xff, 0xff, 0xff, 0xff };

    tls_rig_client(&s->t, s->t.agent_dir, 0);
    rig_until(&s->t.rig, tls_rig_client_shook_hands);
    tls_rig_client_send(&s->t, head, sizeof(head));
    rig_until(&s->t.rig, tls_rig_client_ended);
    tls_rig_client_end(&s->t);
}

static void act_half_a_frame_and_reset(struct storm *s)
{
    static const unsigned char head[] = { 100, 0, 0, 0, 8, 1 };
    int fd;

    tls_rig_client(&s->t, s->t.agent_dir, 0);
    rig_until(&s->t.rig, tls_rig_client_shook_hands);
    tls_rig_client_send(&s->t, head, sizeof(head));
    fd = dup(s->t.fd);
    assert_true(fd >= 0);
    tls_rig_client_end(&s->t);
    reset_and_close(fd);
}

static void blow(struct storm *s, unsigned connections)
{
    static void (*const acts[])(struct storm * s) = {
        act_reset,
        act_fin,
        act_mute,
        act_garbage,
        act_hello_and_reset,
        act_half_a_hello,
        act_rogue,
        act_nobody,
        act_shake_hands_and_leave,
        act_oversize,
        act_half_a_frame_and_reset,
    };

    for (unsigned i = 0; i < connections; i++) {
        acts[i % LS_ARRAY_LEN(acts)](s);
        if (i % 7 == 0)
            rig_run_ms(&s->t.rig, 1);
        ev_run(s->t.rig.loop, EVRUN_NOWAIT);
    }
    for (size_t i = 0; i < LS_ARRAY_LEN(s->mute); i++) {
        if (s->mute[i] >= 0)
            (void)close(s->mute[i]);
        s->mute[i] = -1;
    }
}

static bool descriptors_are_back(struct rig *rig)
{
    const struct storm *s = (const struct storm *)rig;

    return rig_open_descriptors() <= s->descriptors;
}

/* nng frees streams on a thread of its own, some time after they are closed. */
static bool memory_is_back(struct rig *rig)
{
    const struct storm *s = (const struct storm *)rig;

    return mallinfo2().uordblks < s->memory + 64 * 1024;
}

static unsigned connections_wanted(void)
{
    const char *text = getenv("LS_HOSTILE_CONNECTIONS");

    return text != NULL ? (unsigned)strtoul(text, NULL, 10) : 2000;
}

static unsigned lines_of(const char *text)
{
    unsigned lines = 0;

    for (; (text = strchr(text, '\n')) != NULL; text++)
        lines++;
    return lines;
}

static bool a_report_came(struct rig *rig)
{
    return rig->reports > 0;
}

static bool is_back(struct rig *rig)
{
    return rig->resumes > 0 && rig_both_up(rig);
}

static void thousands_of_hostile_connections_leave_everything_as_it_was(void **state)
{
    static struct storm s;
    int64_t began_ns;
    int64_t seconds;

    (void)state;
    storm_init(&s);
    s.descriptors = rig_open_descriptors();
    blow(&s, 200); /* buffers, pools and arenas reach their size */
    rig_until(&s.t.rig, descriptors_are_back);
    rig_run_ms(&s.t.rig, 50);
    s.memory = mallinfo2().uordblks;
    began_ns = ls_clock_mono_ns();
    blow(&s, connections_wanted());
    rig_until(&s.t.rig, descriptors_are_back);
    rig_until(&s.t.rig, memory_is_back);
    assert_int_equal(s.t.rig.enrolled, 0);
    tls_rig_dial(&s.t, "127.0.0.1", "client-1", "boot-a");
    assert_int_equal(rig_report(s.t.rig.dialer, 1), LS_OK);
    rig_until(&s.t.rig, a_report_came);
    seconds = (ls_clock_mono_ns() - began_ns) / LS_NS_PER_S + 1;
    /* A burst for the first storm and the second, then a line a second. */
    assert_true(lines_of(tls_rig_log(&s.t)) <= 2 * 20 + (unsigned)seconds + 5);
    storm_fini(&s);
}

static void mute_strangers_are_in_nobody_s_way_and_do_not_stay(void **state)
{
    static struct storm s;

    (void)state;
    storm_init(&s);
    s.descriptors = rig_open_descriptors();
    for (size_t i = 0; i < LS_ARRAY_LEN(s.mute); i++) {
        act_mute(&s);
        ev_run(s.t.rig.loop, EVRUN_NOWAIT);
        if (i % 2 == 0)
            (void)!send(s.mute[i], s.hello, s.hello_len, MSG_NOSIGNAL); /* and not a word more */
    }
    tls_rig_dial(&s.t, "127.0.0.1", "client-1", "boot-a");
    rig_until(&s.t.rig, rig_both_up);
    s.descriptors += (unsigned)LS_ARRAY_LEN(s.mute) + 2; /* our ends, and the honest one's two */
    rig_until(&s.t.rig, descriptors_are_back);
    assert_true(rig_both_up(&s.t.rig));
    assert_non_null(strstr(tls_rig_log(&s.t), "why=no greeting in time"));
    storm_fini(&s);
}

/* Sends a socket to nobody: it stays open and is none of our descriptors. */
static void hide(int into, int fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = { 0 };
    char byte = 0;
    struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
    struct msghdr message = { .msg_iov = &iov,
                              .msg_iovlen = 1,
                              .msg_control = control.bytes,
                              .msg_controllen = sizeof(control.bytes) };
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);

    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &fd, sizeof(fd));
    assert_int_equal(sendmsg(into, &message, 0), 1);
    assert_int_equal(close(fd), 0);
}

/* Who keeps quiet in great numbers takes no more than half of the descriptors: agents that are
 * there stay, files can be opened, and when the quiet ones are shown out others get in. */
static void strangers_do_not_take_the_descriptors_of_a_run(void **state)
{
    static struct storm s;
    enum { STRANGERS = 64 };
    struct rlimit before;
    struct rlimit few;
    int files[8];
    int pair[2];

    (void)state;
    storm_init(&s);
    tls_rig_dial(&s.t, "127.0.0.1", "client-1", "boot-a");
    rig_until(&s.t.rig, rig_both_up);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    few.rlim_cur =
        rig_open_descriptors() + STRANGERS; /* were they all let in, none would be left */
    for (int i = 0; i < STRANGERS; i++)
        hide(pair[0], tls_rig_connect(&s.t));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int turn = 0; turn < 20; turn++) {
        rig_run_ms(&s.t.rig, 5);
        for (size_t i = 0; i < LS_ARRAY_LEN(files); i++) {
            files[i] = dup(STDERR_FILENO);
            assert_true(files[i] >= 0);
        }
        for (size_t i = 0; i < LS_ARRAY_LEN(files); i++)
            (void)close(files[i]);
    }
    assert_true(rig_both_up(&s.t.rig));
    assert_int_equal(rig_report(s.t.rig.dialer, 1), LS_OK);
    rig_until(&s.t.rig, a_report_came);
    ls_dialer_drop(s.t.rig.dialer); /* it comes back through the crowd */
    rig_until(&s.t.rig, is_back);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    (void)close(pair[0]);
    (void)close(pair[1]);
    storm_fini(&s);
}

/* glibc counts what its threads keep for themselves as in use, and fills those caches slowly: to
 * see whether memory comes back, they are turned off, which has to be done before the program
 * starts. */
static void without_caches(char **argv)
{
    if (getenv("GLIBC_TUNABLES") != NULL)
        return;
    (void)setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
    (void)execv("/proc/self/exe", argv); /* otherwise: with them */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_that_was_tampered_with_ends_the_connection_and_costs_nothing),
        cmocka_unit_test(a_session_that_was_recorded_says_nothing_to_anybody_when_played_again),
        cmocka_unit_test(thousands_of_hostile_connections_leave_everything_as_it_was),
        cmocka_unit_test(strangers_do_not_take_the_descriptors_of_a_run),
        cmocka_unit_test(mute_strangers_are_in_nobody_s_way_and_do_not_stay),
    };
    (void)argc;
    without_caches(argv);
    return cmocka_run_group_tests_name("common.transport_tls_attack", tests, NULL, NULL);
}

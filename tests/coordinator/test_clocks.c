/* coordinator/fleet/clocks.c: which of two offsets is believed, and the socket on loopback, with an
 * agent made of plain calls. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <ev.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "coordinator/fleet/clocks.h"
#include "coordinator/result/wall_clock.h"

#define S  LS_NS_PER_S
#define MS LS_NS_PER_MS

/* ---- which is believed */

static void exchange(struct ls_offset *offset, int64_t now_ns, int64_t ahead_ns, int64_t way_ns)
{
    ls_offset_add(offset, now_ns - 2 * way_ns, now_ns - way_ns + ahead_ns,
                  now_ns - way_ns + ahead_ns, now_ns);
}

static void the_tighter_bound_decides(void **state)
{
    struct ls_offset session, udp;
    struct coord_clock clock = { .error_ns = -1 };

    (void)state;
    ls_offset_init(&session);
    ls_offset_init(&udp);
    assert_false(coord_clock_at(&session, &udp, S, &clock));
    assert_int_equal(clock.error_ns, -1);
    exchange(&session, S, 500, 50000);
    assert_true(coord_clock_at(&session, &udp, S, &clock));
    assert_string_equal(clock.source, "session");
    assert_int_equal(clock.error_ns, 50000);
    exchange(&udp, S, 700, 9000);
    assert_true(coord_clock_at(&session, &udp, S, &clock));
    assert_string_equal(clock.source, "udp");
    assert_int_equal(clock.offset_ns, 700);
    assert_int_equal(clock.error_ns, 9000);
    assert_int_equal(clock.round_trip_ns, 18000);
    assert_int_equal(clock.exchanges, 2);
    exchange(&session, S + MS, 600, 2000);
    assert_true(coord_clock_at(&session, &udp, S + MS, &clock));
    assert_string_equal(clock.source, "session");
}

/* Datagrams that stopped passing do not hold the offset of an hour ago against the session's. */
static void an_old_offset_gives_way(void **state)
{
    struct ls_offset session, udp;
    struct coord_clock clock;

    (void)state;
    ls_offset_init(&session);
    ls_offset_init(&udp);
    exchange(&udp, S, 0, 1000);
    exchange(&session, 3600 * S, 100 * MS, 200000);
    assert_true(coord_clock_at(&session, &udp, 3600 * S, &clock));
    assert_string_equal(clock.source, "session");
}

static void after_a_jump_the_newer_one_is_believed(void **state)
{
    struct ls_offset session, udp;
    struct coord_clock clock;

    (void)state;
    ls_offset_init(&session);
    ls_offset_init(&udp);
    exchange(&udp, 10 * S, 0, 1000);
    exchange(&session, 10 * S, 0, 50000);
    exchange(&session, 11 * S, 20 * S, 50000); /* the datagrams have not seen it yet */
    assert_true(coord_clock_at(&session, &udp, 11 * S, &clock));
    assert_int_equal(clock.offset_ns, 20 * S);
    assert_int_equal(clock.steps, 1);
    assert_true(clock.stepped_ns > 19 * S);
    exchange(&udp, 12 * S, 20 * S, 1000);
    assert_true(coord_clock_at(&session, &udp, 12 * S, &clock));
    assert_string_equal(clock.source, "udp");
    assert_int_equal(clock.steps, 1); /* the same one, seen by both */
}

/* ---- the socket */

struct scene {
    struct ev_loop *loop;
    struct coord_clocks *clocks;
    struct ls_clock_echo echo;
    int fd; /* the agent's */
    unsigned answers;
    uint32_t agent;
    int64_t round_trip_ns;
    unsigned char last[LS_CLOCK_DATAGRAM_BYTES]; /* the last reply */
};

static void on_answer(void *ctx, uint32_t agent, int64_t sent_ns, int64_t received_ns,
                      int64_t replied_ns, int64_t answered_ns)
{
    struct scene *s = ctx;

    s->answers++;
    s->agent = agent;
    s->round_trip_ns = answered_ns - sent_ns - (replied_ns - received_ns);
}

static int connect_to(const Ls__ClockUdp *command)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)command->port) };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(inet_pton(AF_INET, command->host, &to.sin_addr), 1);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static void begin(struct scene *s)
{
    Ls__ClockUdp command = LS__CLOCK_UDP__INIT;

    *s = (struct scene){ .loop = ev_loop_new(EVFLAG_AUTO), .agent = UINT32_MAX };
    assert_non_null(s->loop);
    assert_int_equal(
        coord_clocks_create(s->loop, "tcp://127.0.0.1:0", 3, on_answer, s, &s->clocks, NULL),
        LS_OK);
    coord_clocks_probe(s->clocks, 2); /* it was not invited: nothing happens */
    assert_int_equal(coord_clocks_invite(s->clocks, 2, &command, NULL), LS_OK);
    coord_clocks_probe(s->clocks, 2); /* it has not knocked: nowhere to send to */
    assert_string_equal(command.host, "127.0.0.1");
    assert_int_equal(command.agent, 2);
    assert_int_equal(command.key.len, LS_CLOCK_KEY_BYTES);
    ls_clock_echo_init(&s->echo, command.agent, command.key.data);
    s->fd = connect_to(&command);
}

static void end(struct scene *s)
{
    coord_clocks_destroy(s->clocks);
    ev_loop_destroy(s->loop);
    (void)close(s->fd);
}

static void say(struct scene *s, const unsigned char *datagram, size_t len)
{
    assert_int_equal(send(s->fd, datagram, len, 0), len);
    ev_run(s->loop, EVRUN_ONCE);
}

static void knock(struct scene *s)
{
    unsigned char out[LS_CLOCK_DATAGRAM_BYTES];

    ls_clock_echo_knock(&s->echo, out);
    say(s, out, sizeof(out));
}

/* Loopback delivers at once, or never. */
static bool asked(struct scene *s, uint64_t *out_number)
{
    struct pollfd readable = { .fd = s->fd, .events = POLLIN };
    unsigned char in[LS_CLOCK_DATAGRAM_BYTES + 1];
    ssize_t n;

    if (poll(&readable, 1, 0) != 1)
        return false;
    n = recv(s->fd, in, sizeof(in), 0);
    assert_int_equal(n, LS_CLOCK_DATAGRAM_BYTES);
    return ls_clock_echo_take(&s->echo, (struct ls_bytes){ in, (size_t)n }, out_number);
}

static void answer(struct scene *s, uint64_t number)
{
    int64_t now_ns = ls_clock_mono_ns();

    ls_clock_echo_reply(&s->echo, number, now_ns, now_ns, s->last);
    say(s, s->last, sizeof(s->last));
}

/* Of two machines that came up at other times, one of which has its wall clock off. */
static void wall_clocks_are_compared_whatever_the_monotonic_ones_say(void **state)
{
    static const struct {
        int64_t offset_ns, agent_zero_ns, own_zero_ns, apart_ns;
    } cases[] = {
        { 0, 1000 * S, 1000 * S, 0 },
        { 259200 * S, 741 * S, 259941 * S, 0 },
        { -3600 * S, 5000 * S, 1400 * S, 0 },
        { 259200 * S, 741 * S, 259941 * S + 7 * S, -7 * S },
        { 300, 1000 * S + 60 * S, 1000 * S, 60 * S + 300 },
        { INT64_MAX, INT64_MAX, -S, COORD_WALL_MAX_NS },
        { INT64_MIN, INT64_MIN, S, -COORD_WALL_MAX_NS },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        const struct coord_clock clock = { .offset_ns = cases[i].offset_ns };

        assert_int_equal(coord_clock_wall(&clock, cases[i].agent_zero_ns, cases[i].own_zero_ns),
                         cases[i].apart_ns);
    }
}

static void a_wall_clock_is_off_beyond_its_uncertainty_and_five_seconds(void **state)
{
    char text[400] = "untouched";

    (void)state;
    assert_false(coord_wall_clock_is_off("c1", 0, 0, text, sizeof(text)));
    assert_false(coord_wall_clock_is_off("c1", 5 * S, 0, text, sizeof(text)));
    assert_false(coord_wall_clock_is_off("c1", -7 * S, 2 * S, text, sizeof(text)));
    assert_string_equal(text, "untouched");
    assert_true(coord_wall_clock_is_off("c1", -8 * S, 2 * S, text, sizeof(text)));
    assert_non_null(strstr(text, "c1: its wall clock is 8.00 s (+- 2.00 s) behind"));
    assert_true(coord_wall_clock_is_off("c1", 60 * S, MS, text, sizeof(text)));
    assert_non_null(strstr(text, "ahead of the coordinator's"));
    assert_non_null(strstr(text, "NTP"));
    assert_true(coord_wall_clock_is_off("c1", INT64_MIN, INT64_MAX / 2, text, sizeof(text)));
}

static void who_knocks_is_asked_and_its_answer_counts(void **state)
{
    struct scene s;
    uint64_t number = 0;

    (void)state;
    begin(&s);
    assert_false(asked(&s, &number));
    knock(&s);
    assert_true(asked(&s, &number));
    answer(&s, number);
    assert_int_equal(s.answers, 1);
    assert_int_equal(s.agent, 2);
    assert_true(s.round_trip_ns >= 0);
    say(&s, s.last, sizeof(s.last)); /* again: it does not count twice */
    assert_int_equal(s.answers, 1);
    for (unsigned i = 0; i < 5; i++)
        coord_clocks_probe(s.clocks, 2);
    for (unsigned i = 0; i < 5; i++) {
        assert_true(asked(&s, &number));
        answer(&s, number);
    }
    assert_int_equal(s.answers, 6);
    end(&s);
}

static void strangers_are_not_answered(void **state)
{
    static const unsigned char noise[2000] = "LSCK\1\1";
    const unsigned char other[LS_CLOCK_KEY_BYTES] = { 7 };
    struct ls_clock_echo false_echo;
    unsigned char out[LS_CLOCK_DATAGRAM_BYTES];
    struct scene s;
    uint64_t number;

    (void)state;
    begin(&s);
    for (size_t len = 0; len < 200; len += 13)
        say(&s, noise, len);
    say(&s, noise, sizeof(noise));
    ls_clock_echo_init(&false_echo, 2, other);
    ls_clock_echo_knock(&false_echo, out);
    say(&s, out, sizeof(out));
    ls_clock_echo_init(&false_echo, 1, s.echo.key); /* who was never invited */
    ls_clock_echo_knock(&false_echo, out);
    say(&s, out, sizeof(out));
    ls_clock_echo_init(&false_echo, UINT32_MAX, s.echo.key);
    ls_clock_echo_knock(&false_echo, out);
    say(&s, out, sizeof(out));
    assert_false(asked(&s, &number));
    knock(&s); /* and all of that has done no harm */
    assert_true(asked(&s, &number));
    end(&s);
}

/* A new process of an agent has a new key; what the old one still says is nothing. */
static void a_new_invitation_voids_the_old_one(void **state)
{
    Ls__ClockUdp command = LS__CLOCK_UDP__INIT;
    struct scene s;
    uint64_t number;

    (void)state;
    begin(&s);
    assert_int_equal(coord_clocks_invite(s.clocks, 2, &command, NULL), LS_OK);
    knock(&s);
    assert_false(asked(&s, &number));
    ls_clock_echo_init(&s.echo, 2, command.key.data);
    knock(&s);
    assert_true(asked(&s, &number));
    end(&s);
}

static void addresses_are_those_of_the_listener(void **state)
{
    static const struct {
        const char *url, *host; /* NULL: no socket */
    } rows[] = {
        { "ipc:///run/somewhere/coordinator", "127.0.0.1" },
        { "tls+tcp://127.0.0.1:0", "127.0.0.1" },
        { "tls+tcp://0.0.0.0:0", "" }, /* the agents know what they have dialled */
        { "tls+tcp://*:0", "" },
        { "tls+tcp://192.0.2.1:7411", NULL }, /* not ours */
        { "tls+tcp://lab.example:7411", NULL },
        { "nonsense", NULL },
    };
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);

    (void)state;
    assert_non_null(loop);
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        Ls__ClockUdp command = LS__CLOCK_UDP__INIT;
        struct coord_clocks *clocks = NULL;
        struct ls_diag diag = { 0 };
        enum ls_err rc = coord_clocks_create(loop, rows[i].url, 1, on_answer, NULL, &clocks, &diag);

        assert_true((rc == LS_OK) == (rows[i].host != NULL));
        assert_true((diag.text[0] != '\0') == (rc != LS_OK));
        if (rc != LS_OK)
            continue;
        assert_int_equal(coord_clocks_invite(clocks, 0, &command, NULL), LS_OK);
        assert_string_equal(command.host, rows[i].host);
        assert_true(command.port > 0);
        coord_clocks_destroy(clocks);
    }
    ev_loop_destroy(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tighter_bound_decides),
        cmocka_unit_test(an_old_offset_gives_way),
        cmocka_unit_test(after_a_jump_the_newer_one_is_believed),
        cmocka_unit_test(wall_clocks_are_compared_whatever_the_monotonic_ones_say),
        cmocka_unit_test(a_wall_clock_is_off_beyond_its_uncertainty_and_five_seconds),
        cmocka_unit_test(who_knocks_is_asked_and_its_answer_counts),
        cmocka_unit_test(strangers_are_not_answered),
        cmocka_unit_test(a_new_invitation_voids_the_old_one),
        cmocka_unit_test(addresses_are_those_of_the_listener),
    };
    return cmocka_run_group_tests_name("coordinator.clocks", tests, NULL, NULL);
}

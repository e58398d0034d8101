/* agent/clock_answer.c on loopback, asked by a coordinator made of plain calls. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/clock_answer.h"
#include "common/clock.h"

struct scene {
    struct agent_clock clock;
    struct ls_clock_asker asker;
    int fd; /* the coordinator's */
    struct sockaddr_in from;
};

static unsigned char key[LS_CLOCK_KEY_BYTES] = { 1, 2, 3 };
static char nowhere[] = "";
static char loopback[] = "127.0.0.1";

static Ls__ClockUdp command_for(const struct sockaddr_in *at)
{
    Ls__ClockUdp command = LS__CLOCK_UDP__INIT;

    command.host = nowhere;
    command.port = ntohs(at->sin_port);
    command.agent = 5;
    command.key = (ProtobufCBinaryData){ .data = key, .len = sizeof(key) };
    return command;
}

static void begin(struct scene *s)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(at);
    Ls__ClockUdp command;

    *s = (struct scene){ .clock = { .fd = -1 } };
    s->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(s->fd >= 0);
    assert_int_equal(bind(s->fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(getsockname(s->fd, (struct sockaddr *)&at, &len), 0);
    ls_clock_asker_init(&s->asker, 5, key);
    command = command_for(&at);
    assert_int_equal(agent_clock_open(&s->clock, &command, loopback, 1000, NULL), LS_OK);
}

static void end(struct scene *s)
{
    agent_clock_fini(&s->clock);
    (void)close(s->fd);
}

/* What has come from the agent; loopback delivers at once. */
static enum ls_clock_news hear(struct scene *s, struct ls_clock_exchange *out)
{
    unsigned char in[LS_CLOCK_DATAGRAM_BYTES + 1];
    socklen_t len = sizeof(s->from);
    ssize_t n = recvfrom(s->fd, in, sizeof(in), 0, (struct sockaddr *)&s->from, &len);

    return n < 0 ? LS_CLOCK_NOTHING
                 : ls_clock_asker_take(&s->asker, (struct ls_bytes){ in, (size_t)n }, out);
}

static void ask(struct scene *s)
{
    unsigned char out[LS_CLOCK_DATAGRAM_BYTES];

    ls_clock_asker_sent(&s->asker, ls_clock_asker_probe(&s->asker, out), ls_clock_mono_ns());
    assert_int_equal(
        sendto(s->fd, out, sizeof(out), 0, (struct sockaddr *)&s->from, sizeof(s->from)),
        sizeof(out));
}

static void it_knocks_until_it_is_asked_and_answers(void **state)
{
    struct ls_clock_exchange exchange = { 0 };
    struct scene s;
    int64_t before_ns;

    (void)state;
    begin(&s);
    assert_int_equal(hear(&s, &exchange), LS_CLOCK_KNOCKED);
    /* Nobody has asked: again. */
    assert_int_equal(agent_clock_knock(&s.clock, 2000), AGENT_CLOCK_KNOCK_NS);
    assert_int_equal(hear(&s, &exchange), LS_CLOCK_KNOCKED);
    before_ns = ls_clock_mono_ns();
    for (unsigned i = 0; i < 10; i++)
        ask(&s);
    assert_true(agent_clock_readable(&s.clock));
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(hear(&s, &exchange), LS_CLOCK_ANSWERED);
        assert_true(exchange.received_ns >= before_ns &&
                    exchange.replied_ns >= exchange.received_ns);
        assert_true(exchange.replied_ns <= ls_clock_mono_ns());
    }
    assert_true(s.clock.asked_ns >= before_ns);
    assert_int_equal(agent_clock_knock(&s.clock, s.clock.asked_ns + AGENT_CLOCK_QUIET_NS - 1), 1);
    assert_int_equal(hear(&s, &exchange), LS_CLOCK_NOTHING);
    assert_int_equal(agent_clock_knock(&s.clock, s.clock.asked_ns + AGENT_CLOCK_QUIET_NS),
                     AGENT_CLOCK_KNOCK_NS); /* forgotten? */
    assert_int_equal(hear(&s, &exchange), LS_CLOCK_KNOCKED);
    end(&s);
}

static void noise_has_no_answer(void **state)
{
    unsigned char noise[LS_CLOCK_DATAGRAM_BYTES] = "LSCK\1\2";
    struct ls_clock_exchange exchange;
    struct scene s;

    (void)state;
    begin(&s);
    assert_int_equal(hear(&s, &exchange), LS_CLOCK_KNOCKED);
    for (size_t len = 0; len <= sizeof(noise); len += 4)
        assert_int_equal(sendto(s.fd, noise, len, 0, (struct sockaddr *)&s.from, sizeof(s.from)),
                         len);
    assert_false(agent_clock_readable(&s.clock));
    assert_int_equal(hear(&s, &exchange), LS_CLOCK_NOTHING);
    assert_int_equal(s.clock.asked_ns, 0);
    end(&s);
}

static void commands_that_make_no_sense_leave_no_socket(void **state)
{
    static char name[] = "coordinator.example";
    struct sockaddr_in at = { .sin_port = htons(9) };
    struct agent_clock clock = { .fd = -1 };
    struct ls_diag diag = { 0 };
    Ls__ClockUdp command = command_for(&at);

    (void)state;
    assert_int_equal(agent_clock_open(&clock, &command, "", 0, &diag), LS_EINVAL); /* by ipc */
    assert_true(diag.text[0] != '\0');
    command.host = name;
    assert_int_equal(agent_clock_open(&clock, &command, loopback, 0, NULL), LS_EINVAL);
    command.host = loopback; /* not where the coordinator is */
    assert_int_equal(agent_clock_open(&clock, &command, "192.0.2.7", 0, &diag), LS_EREFUSED);
    assert_non_null(strstr(diag.text, "datagrams are wanted at 127.0.0.1"));
    assert_int_equal(clock.fd, -1);
    assert_int_equal(agent_clock_open(&clock, &command, "", 0, NULL), LS_OK); /* by ipc */
    agent_clock_fini(&clock);
    command.port = 65536;
    assert_int_equal(agent_clock_open(&clock, &command, loopback, 0, NULL), LS_EINVAL);
    command.port = 9;
    command.key.len = 16;
    assert_int_equal(agent_clock_open(&clock, &command, loopback, 0, NULL), LS_EPROTO);
    assert_int_equal(clock.fd, -1);
    (void)agent_clock_knock(&clock, 0); /* nothing to knock with */
    agent_clock_fini(&clock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_knocks_until_it_is_asked_and_answers),
        cmocka_unit_test(noise_has_no_answer),
        cmocka_unit_test(commands_that_make_no_sense_leave_no_socket),
    };
    return cmocka_run_group_tests_name("agent.clock_answer", tests, NULL, NULL);
}

#include "tests/support/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "agent/load/link.h"
#include "agent/load/links/uring_ring.h"
#include "common/clock.h"
#include "tests/support/failmalloc.h"

#define DEADLINE_NS (20 * LS_NS_PER_S)

/* Every way that tcp can be had: each test runs over each. */
static const struct way {
    const char *name;
    const char *io;
    bool at_once;
    bool stamps;
    int64_t min_wait_ns;
} ways[] = {
    { "agent.tcp_link.libev", "libev", true, false, 0 },
    { "agent.tcp_link.libev_stamps", "libev", false, true, 0 },
    { "agent.tcp_link.io_uring", "io_uring", false, false, 0 },
    { "agent.tcp_link.io_uring_at_once", "io_uring", true, false, 0 },
    { "agent.tcp_link.io_uring_stamps", "io_uring", false, true, 0 },
    { "agent.tcp_link.io_uring_min_wait", "io_uring", false, true, LS_NS_PER_MS },
};
static const struct way *way;

/* One link and the other end of its connection. */
struct side {
    const struct agent_link_class *link;
    struct agent_link_hub *hub;
    void *state;
    struct sockaddr_in address;
    int listener;
    int peer; /* accepted */

    bool opened;
    int open_error;
    uint64_t received;
    size_t largest;   /* of a receive, since it was set to 0 */
    int64_t wall_ns;  /* of the last receive */
    unsigned stamped; /* receives with a stamp */
    bool in_order;    /* byte i received was (uint8_t)(i % 251) */
    unsigned ends;
    enum load_outcome how;
    int error;
    uint64_t to_send; /* bytes that pull() still has */
    uint64_t pulled;
    bool in_flush;
    bool ended_in_flush;
    bool close_in_opened;
    bool close_in_bytes;
    bool answer_in_bytes; /* as many bytes as came */
};

static bool is_gathering(void)
{
    return !way->at_once && strcmp(way->io, "io_uring") == 0;
}

static uint8_t pattern(uint64_t i)
{
    return (uint8_t)(i % 251);
}

static void close_link(struct side *side)
{
    side->link->close(side->hub, side->state);
}

static void on_opened(void *ctx, int error)
{
    struct side *side = ctx;

    assert_false(side->opened);
    side->opened = true;
    side->open_error = error;
    if (side->close_in_opened)
        close_link(side);
}

static void on_bytes(void *ctx, struct ls_bytes in, int64_t wall_ns)
{
    struct side *side = ctx;

    for (size_t i = 0; i < in.len; i++)
        side->in_order = side->in_order && in.data[i] == pattern(side->received + i);
    side->received += in.len;
    side->largest = in.len > side->largest ? in.len : side->largest;
    side->wall_ns = wall_ns;
    side->stamped += wall_ns != 0;
    if (side->answer_in_bytes) {
        side->to_send += in.len;
        side->link->flush(side->hub, side->state);
    }
    if (side->close_in_bytes)
        close_link(side);
}

static void on_ended(void *ctx, enum load_outcome how, int error)
{
    struct side *side = ctx;

    side->ends++;
    side->how = how;
    side->error = error;
    side->ended_in_flush = side->in_flush;
    close_link(side);
}

static size_t on_pull(void *ctx, uint8_t *out, size_t cap)
{
    struct side *side = ctx;
    size_t len = side->to_send < cap ? (size_t)side->to_send : cap;

    for (size_t i = 0; i < len; i++)
        out[i] = pattern(side->pulled + i);
    side->pulled += len;
    side->to_send -= len;
    return len;
}

static const struct agent_link_env env = {
    .opened = on_opened, .bytes = on_bytes, .ended = on_ended, .pull = on_pull
};

static void setup(struct side *side)
{
    struct ls_diag diag = { 0 };
    struct agent_link_env with = env;
    socklen_t len = sizeof(side->address);

    *side = (struct side){ .peer = -1, .in_order = true };
    side->link = agent_link_find("tcp", way->io);
    assert_non_null(side->link);
    with.at_once = way->at_once;
    with.stamps = way->stamps;
    with.min_wait_ns = way->min_wait_ns;
    if (side->link->hub_create(&with, 1, &side->hub, &diag) != LS_OK)
        fail_msg("%s", diag.text);
    side->state = calloc(1, side->link->link_size);
    assert_non_null(side->state);
    side->address.sin_family = AF_INET;
    side->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    side->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(side->listener, (struct sockaddr *)&side->address, len), 0);
    assert_int_equal(listen(side->listener, 4), 0);
    assert_int_equal(getsockname(side->listener, (struct sockaddr *)&side->address, &len), 0);
}

static void teardown(struct side *side)
{
    close_link(side);
    side->link->hub_destroy(side->hub);
    free(side->state);
    if (side->peer >= 0)
        (void)close(side->peer);
    if (side->listener >= 0)
        (void)close(side->listener);
}

static void start_open(struct side *side)
{
    side->link->open(side->hub, side->state, side, (const struct sockaddr *)&side->address,
                     sizeof(side->address));
}

static void turn_until(struct side *side, const bool *flag)
{
    int64_t deadline_ns = ls_clock_mono_ns() + DEADLINE_NS;

    while (!*flag) {
        assert_true(ls_clock_mono_ns() < deadline_ns);
        side->link->turn(side->hub, deadline_ns);
    }
}

static void turn_until_count(struct side *side, const uint64_t *count, uint64_t least)
{
    int64_t deadline_ns = ls_clock_mono_ns() + DEADLINE_NS;

    while (*count < least) {
        assert_true(ls_clock_mono_ns() < deadline_ns);
        side->link->turn(side->hub, deadline_ns);
    }
}

static void turn_until_ended(struct side *side)
{
    int64_t deadline_ns = ls_clock_mono_ns() + DEADLINE_NS;

    while (side->ends == 0) {
        assert_true(ls_clock_mono_ns() < deadline_ns);
        side->link->turn(side->hub, deadline_ns);
    }
}

/* After setup(). */
static void connect_both(struct side *side)
{
    start_open(side);
    turn_until(side, &side->opened);
    assert_int_equal(side->open_error, 0);
    side->peer = accept4(side->listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(side->peer >= 0);
}

static void flush(struct side *side)
{
    side->in_flush = true;
    side->link->flush(side->hub, side->state);
    side->in_flush = false;
}

/* The peer sends the next bytes of the pattern. */
static void peer_send(struct side *side, uint64_t from, uint64_t len)
{
    uint8_t chunk[4096];

    while (len > 0) {
        size_t n = len < sizeof(chunk) ? (size_t)len : sizeof(chunk);

        for (size_t i = 0; i < n; i++)
            chunk[i] = pattern(from + i);
        assert_int_equal(send(side->peer, chunk, n, MSG_NOSIGNAL), n);
        from += n;
        len -= n;
    }
}

/* The peer reads until it has len bytes of the pattern, the link being turned meanwhile. */
static void peer_receive(struct side *side, uint64_t len)
{
    static uint8_t chunk[65536];
    int64_t deadline_ns = ls_clock_mono_ns() + DEADLINE_NS;

    for (uint64_t got = 0; got < len;) {
        ssize_t n = recv(side->peer, chunk, sizeof(chunk), MSG_DONTWAIT);

        assert_true(ls_clock_mono_ns() < deadline_ns);
        side->link->turn(side->hub, 0);
        if (n < 0) {
            assert_int_equal(errno, EAGAIN);
            continue;
        }
        assert_true(n > 0);
        for (ssize_t i = 0; i < n; i++)
            assert_int_equal(chunk[i], pattern(got + (uint64_t)i));
        got += (uint64_t)n;
    }
}

static void peer_reset(struct side *side)
{
    struct linger hard = { .l_onoff = 1, .l_linger = 0 };

    assert_int_equal(setsockopt(side->peer, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)), 0);
    assert_int_equal(close(side->peer), 0);
    side->peer = -1;
}

static void bytes_go_both_ways_in_order(void **state)
{
    struct side side;

    (void)state;
    setup(&side);
    connect_both(&side);
    side.to_send = 100;
    flush(&side);
    peer_receive(&side, 100);
    peer_send(&side, 0, 200000);
    turn_until_count(&side, &side.received, 200000);
    assert_true(side.in_order);
    assert_int_equal(side.ends, 0);
    teardown(&side);
}

/* For connections still to come: small segments and windows, so that a send is taken in pieces. */
static void make_narrow(const struct side *side)
{
    const int segment = 536;
    const int buffer = 16384;

    assert_int_equal(setsockopt(side->listener, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof(segment)),
                     0);
    assert_int_equal(setsockopt(side->listener, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer)), 0);
}

/* The link's socket is the one whose peer is ours. */
static void shrink_send_buffer(const struct side *side)
{
    const int tiny = 4096;

    for (int fd = 0; fd < 1024; fd++) {
        struct sockaddr_in peer;
        socklen_t len = sizeof(peer);

        if (getpeername(fd, (struct sockaddr *)&peer, &len) == 0 && len == sizeof(peer) &&
            peer.sin_port == side->address.sin_port) {
            assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &tiny, sizeof(tiny)), 0);
            return;
        }
    }
    fail_msg("the link has no socket");
}

static void a_full_socket_loses_nothing_and_goes_on_by_itself(void **state)
{
    (void)state;
    for (int narrow = 0; narrow < 2; narrow++) {
        uint64_t total = narrow ? 1u << 20 : 24u << 20; /* more than two sockets hold */
        struct side side;

        setup(&side);
        if (narrow)
            make_narrow(&side);
        connect_both(&side);
        if (narrow)
            shrink_send_buffer(&side);
        side.to_send = total;
        flush(&side);
        assert_true(side.to_send > 0); /* or nothing was full */
        flush(&side);                  /* changes nothing */
        peer_receive(&side, total);
        assert_int_equal(side.to_send, 0);
        side.pulled = 0; /* the pattern begins again, over an empty socket */
        side.to_send = 10;
        flush(&side);
        peer_receive(&side, 10);
        teardown(&side);
    }
}

/* Each is little; the socket takes some of them whole, one in part or not at all, and then none. */
static void small_sends_into_a_full_socket_lose_nothing_either(void **state)
{
    static const uint64_t sizes[] = { 300, 500, 12000 };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(sizes); i++) {
        struct side side;
        uint64_t total = 0;

        setup(&side);
        make_narrow(&side);
        connect_both(&side);
        shrink_send_buffer(&side);
        while (side.to_send == 0 || total < (256u << 10)) {
            side.to_send += sizes[i];
            total += sizes[i];
            flush(&side);
            side.link->turn(side.hub, 0);
        }
        peer_receive(&side, total);
        assert_int_equal(side.to_send, 0);
        teardown(&side);
    }
}

/* One is on its way when bytes come that are answered by the next: nobody calls flush() again. */
static void a_send_upon_a_send_leaves_by_itself(void **state)
{
    struct side side;

    (void)state;
    setup(&side);
    connect_both(&side);
    side.answer_in_bytes = true;
    for (unsigned i = 1; i <= 50; i++) {
        peer_send(&side, side.received, 10);
        side.to_send += 10;
        flush(&side);
        turn_until_count(&side, &side.received, 10 * i);
    }
    peer_receive(&side, 50 * 20);
    assert_int_equal(side.ends, 0);
    teardown(&side);
}

static void a_refused_connect_says_so_and_can_be_tried_again(void **state)
{
    struct side side;

    (void)state;
    setup(&side);
    assert_int_equal(close(side.listener), 0);
    side.listener = -1;
    for (int i = 0; i < 2; i++) {
        side.opened = false;
        start_open(&side);
        turn_until(&side, &side.opened);
        assert_int_equal(side.open_error, ECONNREFUSED);
    }
    assert_int_equal(side.ends, 0);
    teardown(&side);
}

static void an_address_that_cannot_be_is_an_error_of_the_open(void **state)
{
    struct side side;

    (void)state;
    setup(&side);
    side.address.sin_family = AF_UNIX; /* with the length of an IPv4 address */
    start_open(&side);
    turn_until(&side, &side.opened);
    assert_int_not_equal(side.open_error, 0);
    teardown(&side);
}

static void fin_and_reset_are_told_apart(void **state)
{
    struct side side;

    (void)state;
    setup(&side);
    connect_both(&side);
    assert_int_equal(close(side.peer), 0);
    side.peer = -1;
    turn_until_ended(&side);
    assert_int_equal(side.how, LOAD_CLOSED_EARLY);
    assert_int_equal(side.error, 0);
    teardown(&side);

    setup(&side);
    connect_both(&side);
    peer_reset(&side);
    turn_until_ended(&side);
    assert_int_equal(side.how, LOAD_RESET);
    assert_int_equal(side.error, ECONNRESET);
    teardown(&side);
}

static void what_arrived_before_the_fin_is_handed_over_before_the_end(void **state)
{
    struct side side;

    (void)state;
    setup(&side);
    connect_both(&side);
    peer_send(&side, 0, 100000);
    assert_int_equal(shutdown(side.peer, SHUT_WR), 0);
    turn_until_ended(&side);
    assert_int_equal(side.received, 100000);
    assert_true(side.in_order);
    assert_int_equal(side.how, LOAD_CLOSED_EARLY);
    teardown(&side);
}

#define BUFFER_BYTES \
    16384u /* what io_uring's receives take at most, until they see that more comes */

static void peer_answers(struct side *side, uint64_t len)
{
    side->largest = 0;
    peer_send(side, side->received, len);
    turn_until_count(side, &side->received, side->received + len);
    assert_true(side->in_order);
}

/* After it bytes come as they are there. */
static void bring_much(struct side *side)
{
    peer_answers(side, 100000);
    peer_answers(side, 100000);
    assert_true(side->largest > BUFFER_BYTES);
}

static void large_and_small_answers_follow_each_other_and_so_does_the_end(void **state)
{
    bool is_uring = strcmp(way->io, "io_uring") == 0;
    uint64_t total;
    struct side side;

    (void)state;
    setup(&side);
    connect_both(&side);
    for (unsigned round = 0; round < 3; round++) {
        peer_answers(&side, 100000);
        if (is_uring)
            assert_true(side.largest <= BUFFER_BYTES);
        bring_much(&side);
        for (unsigned i = 0; i < 40; i++)
            peer_answers(&side, 1 + i);
        assert_int_equal(side.ends, 0);
    }
    bring_much(&side);
    if (way->stamps)
        assert_true(side.stamped > 0 && side.wall_ns > 0);
    total = side.received + 50000;
    peer_send(&side, side.received, 50000);
    assert_int_equal(shutdown(side.peer, SHUT_WR), 0);
    side.to_send = 10; /* its end is not ours */
    flush(&side);
    peer_receive(&side, 10);
    turn_until_ended(&side);
    assert_int_equal(side.how, LOAD_CLOSED_EARLY);
    assert_int_equal(side.received, total);
    assert_true(side.in_order);
    teardown(&side);
}

static void a_reset_among_large_answers_is_told_once(void **state)
{
    struct side side;

    (void)state;
    setup(&side);
    connect_both(&side);
    bring_much(&side);
    peer_reset(&side);
    turn_until_ended(&side);
    assert_int_equal(side.how, LOAD_RESET);
    assert_int_equal(side.error, ECONNRESET);
    assert_int_equal(side.ends, 1);
    teardown(&side);

    setup(&side);
    connect_both(&side);
    bring_much(&side);
    side.close_in_bytes = true;
    peer_send(&side, side.received, 50000);
    turn_until_count(&side, &side.received, side.received + 1);
    peer_reset(&side);
    for (unsigned i = 0; i < 3; i++)
        side.link->turn(side.hub, 0);
    assert_int_equal(side.ends, 0);
    teardown(&side);
}

static void a_failed_send_is_reported_later_and_stops_the_pulling(void **state)
{
    struct side side;

    (void)state;
    setup(&side);
    connect_both(&side);
    side.to_send = 1;
    flush(&side);
    peer_receive(&side, 1);
    peer_reset(&side);
    for (int i = 0; i < 100 && side.to_send == 0; i++) {
        side.to_send = 1;
        flush(&side);
        if (is_gathering())
            break; /* no send has been tried yet */
    }
    if (!is_gathering()) /* one send has met the reset, the next was not tried */
        assert_int_equal(side.to_send, 1);
    assert_int_equal(side.ends, 0);
    turn_until_ended(&side);
    assert_false(side.ended_in_flush);
    assert_int_equal(side.how, LOAD_RESET);
    assert_int_equal(side.ends, 1);
    teardown(&side);
}

static void callbacks_may_close_and_then_there_are_no_more(void **state)
{
    struct side side;

    (void)state;
    setup(&side);
    connect_both(&side);
    side.close_in_bytes = true;
    peer_send(&side, 0, 10);
    turn_until_count(&side, &side.received, 10);
    assert_int_equal(close(side.peer), 0);
    side.peer = -1;
    side.link->turn(side.hub, 0);
    assert_int_equal(side.ends, 0);
    flush(&side); /* of a closed link: nothing */
    close_link(&side);
    close_link(&side);
    teardown(&side);

    setup(&side);
    side.close_in_opened = true;
    start_open(&side);
    turn_until(&side, &side.opened);
    side.link->turn(side.hub, 0);
    assert_int_equal(side.ends, 0);
    teardown(&side);
}

static void a_link_can_be_opened_again(void **state)
{
    struct side side;

    (void)state;
    setup(&side);
    connect_both(&side);
    for (int i = 0; i < 5; i++) {
        side.to_send = 32u << 20; /* leaves a partial send behind */
        flush(&side);
        close_link(&side);
        assert_int_equal(close(side.peer), 0);
        side.opened = false;
        start_open(&side);
        turn_until(&side, &side.opened);
        assert_int_equal(side.open_error, 0);
        side.peer = accept4(side.listener, NULL, NULL, SOCK_CLOEXEC);
        assert_true(side.peer >= 0);
        side.pulled = 0;
        side.to_send = 5;
        flush(&side);
        peer_receive(&side, 5);
    }
    teardown(&side);
}

static void *wake_it(void *arg)
{
    struct side *side = arg;

    side->link->wake(side->hub);
    return NULL;
}

static void sends_that_are_gathered_leave_in_order_and_grow(void **state)
{
    struct side side;

    (void)state;
    setup(&side);
    connect_both(&side);
    for (int i = 0; i < 50; i++) {
        side.to_send += 700; /* together more than is pulled at once */
        flush(&side);
    }
    peer_receive(&side, 35000);
    assert_int_equal(side.to_send, 0);
    teardown(&side);
}

static void what_is_sent_at_once_needs_no_turn(void **state)
{
    struct side side;
    struct pollfd fd;

    (void)state;
    if (!way->at_once)
        return;
    setup(&side);
    connect_both(&side);
    side.to_send = 10;
    flush(&side);
    fd = (struct pollfd){ .fd = side.peer, .events = POLLIN };
    assert_int_equal(poll(&fd, 1, 20000), 1);
    teardown(&side);
}

static void stamps_are_when_the_kernel_had_the_bytes(void **state)
{
    struct side side;
    int64_t deadline_ns = ls_clock_wall_ns() + DEADLINE_NS;
    int64_t before_ns;
    int64_t after_ns;

    (void)state;
    setup(&side);
    connect_both(&side);
    do { /* the kernel takes a moment before it stamps for anybody */
        before_ns = ls_clock_wall_ns();
        peer_send(&side, side.received, 100);
        after_ns = ls_clock_wall_ns();
        turn_until_count(&side, &side.received, side.received + 100);
        assert_true(before_ns < deadline_ns);
    } while (way->stamps && side.stamped == 0);
    if (way->stamps) {
        assert_true(side.wall_ns >= before_ns && side.wall_ns <= after_ns);
    } else {
        assert_int_equal(side.stamped, 0);
    }
    teardown(&side);
}

#define MANY 700u /* more than a hub has receive buffers */

struct many {
    uint32_t stamp_every;
    int64_t min_wait_ns; /* 0: the way's */
    const struct agent_link_class *link;
    struct agent_link_hub *hub;
    struct side sides[MANY];
    unsigned char *states;
};

static void open_many(struct many *m)
{
    struct agent_link_env with = env;
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct ls_diag diag = { 0 };

    with.at_once = way->at_once;
    with.stamps = way->stamps;
    with.stamp_every = m->stamp_every;
    with.min_wait_ns = m->min_wait_ns > 0 ? m->min_wait_ns : way->min_wait_ns;
    m->link = agent_link_find("tcp", way->io);
    assert_int_equal(m->link->hub_create(&with, MANY, &m->hub, &diag), LS_OK);
    m->states = calloc(MANY, m->link->link_size);
    assert_non_null(m->states);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(listener, 4), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    for (unsigned i = 0; i < MANY; i++) {
        m->sides[i] = (struct side){ .link = m->link,
                                     .hub = m->hub,
                                     .state = m->states + i * m->link->link_size,
                                     .address = address,
                                     .listener = listener,
                                     .in_order = true };
        connect_both(&m->sides[i]);
    }
    (void)close(listener);
}

static void close_many(struct many *m)
{
    for (unsigned i = 0; i < MANY; i++) {
        close_link(&m->sides[i]);
        (void)close(m->sides[i].peer);
    }
    m->link->hub_destroy(m->hub);
    free(m->states);
}

static void more_answers_at_once_than_buffers_all_arrive(void **state)
{
    struct many *m = calloc(1, sizeof(*m));

    (void)state;
    assert_non_null(m);
    open_many(m);
    for (int round = 0; round < 3; round++) {
        for (unsigned i = 0; i < MANY; i++)
            peer_send(&m->sides[i], m->sides[i].received, 20000);
        for (unsigned i = 0; i < MANY; i++) {
            turn_until_count(&m->sides[i], &m->sides[i].received, 20000u * (unsigned)(round + 1));
            assert_true(m->sides[i].in_order);
        }
    }
    close_many(m);
    free(m);
}

static void stamps_may_be_of_a_part_of_the_connections(void **state)
{
    struct many *m = calloc(1, sizeof(*m));
    int64_t deadline_ns = ls_clock_mono_ns() + DEADLINE_NS;
    uint64_t total = 0;

    (void)state;
    if (!way->stamps) {
        free(m);
        return;
    }
    assert_non_null(m);
    m->stamp_every = 100;
    open_many(m);
    do { /* the kernel takes a moment before it stamps for anybody */
        assert_true(ls_clock_mono_ns() < deadline_ns);
        for (unsigned i = 0; i < MANY; i++)
            peer_send(&m->sides[i], total, 10);
        total += 10;
        for (unsigned i = 0; i < MANY; i++)
            turn_until_count(&m->sides[i], &m->sides[i].received, total);
    } while (m->sides[0].stamped == 0);
    for (unsigned i = 0; i < MANY; i++) {
        assert_true(m->sides[i].in_order);
        if (i % 100 != 0)
            assert_int_equal(m->sides[i].stamped, 0);
    }
    close_many(m);
    free(m);
}

/* However long it would wait if nothing were there. */
static void with_min_wait_what_is_there_is_taken_at_once(void **state)
{
    struct many *m = calloc(1, sizeof(*m));
    int64_t began_ns;

    (void)state;
    assert_non_null(m);
    if (way->min_wait_ns == 0) {
        free(m);
        return;
    }
    m->min_wait_ns = DEADLINE_NS / 2;
    open_many(m);
    began_ns = ls_clock_mono_ns();
    peer_send(&m->sides[0], 0, 10);
    turn_until_count(&m->sides[0], &m->sides[0].received, 10);
    assert_true(ls_clock_mono_ns() - began_ns < m->min_wait_ns);
    close_many(m);
    free(m);
}

/* Answers and ends of closed connections are still on their way when their states are used again.
 */
static void what_completes_late_touches_no_later_connection(void **state)
{
    struct side side;

    (void)state;
    setup(&side);
    for (int i = 0; i < 200; i++) {
        side.opened = false;
        side.received = side.pulled = 0;
        connect_both(&side);
        side.to_send = i % 3 == 0 ? 8u << 20 : 5; /* a partial send, a gathered one */
        flush(&side);
        peer_send(&side, 0, 3000);
        if (i % 2 == 0)
            turn_until_count(&side, &side.received, 3000);
        close_link(&side);
        assert_int_equal(close(side.peer), 0);
        side.peer = -1;
    }
    assert_true(side.in_order);
    assert_int_equal(side.ends, 0);
    teardown(&side);
}

static void a_turn_ends_at_its_instant_or_when_woken(void **state)
{
    static const struct {
        const char *name;
        const char *io;
    } links[] = { { "tcp", "libev" }, { "tcp", "io_uring" }, { "null", "none" } };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(links); i++) {
        struct side side;
        struct ls_diag diag = { 0 };
        pthread_t thread;

        side.link = agent_link_find(links[i].name, links[i].io);
        assert_int_equal(side.link->hub_create(&env, 1, &side.hub, &diag), LS_OK);
        side.link->turn(side.hub, 0);
        side.link->turn(side.hub, 1); /* long past */
        side.link->turn(side.hub, ls_clock_mono_ns() + LS_NS_PER_MS);
        assert_int_equal(pthread_create(&thread, NULL, wake_it, &side), 0);
        side.link->turn(side.hub, INT64_MAX);
        assert_int_equal(pthread_join(thread, NULL), 0);
        side.link->hub_destroy(side.hub);
    }
}

/* How long a wait for two takes when there is one after a millisecond. */
static int64_t wait_for_two(struct uring *uring, int timer_fd, int64_t least_ns)
{
    const struct itimerspec ms = { .it_value.tv_nsec = LS_NS_PER_MS };
    int64_t began_ns = ls_clock_mono_ns();
    int64_t took_ns;
    uint64_t times;

    assert_int_equal(timerfd_settime(timer_fd, 0, &ms, NULL), 0);
    io_uring_prep_read(uring_sqe(uring), timer_fd, &times, sizeof(times), 0);
    while (uring_ready(uring) == 0)
        uring_wait_for_many(uring, 2, least_ns, began_ns + DEADLINE_NS);
    uring_seen(uring);
    took_ns = ls_clock_mono_ns() - began_ns;
    assert_true(took_ns < DEADLINE_NS);
    return took_ns;
}

/* Unless the first was there before the wait, which a busy machine may bring about now and then. */
static void a_wait_for_many_gives_the_others_time(void **state)
{
    const int64_t least_ns = 50 * LS_NS_PER_MS;
    struct ls_diag diag = { 0 };
    int timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    struct uring uring;
    bool lasted = false;

    (void)state;
    if (uring_probe_min_wait(&diag) != LS_OK) {
        print_message("skipped: %s\n", diag.text);
        (void)close(timer_fd);
        return;
    }
    assert_int_equal(uring_init(&uring, 1, &diag), LS_OK);
    assert_int_equal(uring_start(&uring), 0);
    for (int i = 0; i < 20 && !lasted; i++)
        lasted = wait_for_two(&uring, timer_fd, least_ns) >= least_ns;
    assert_true(lasted);
    uring_fini(&uring);
    (void)close(timer_fd);
}

static void create_once(void *ctx)
{
    const struct agent_link_class *link = ctx;
    struct agent_link_hub *hub = NULL;
    struct ls_diag diag = { 0 };
    enum ls_err rc = link->hub_create(&env, 3, &hub, &diag);

    assert_true(rc == (failmalloc_hit() ? LS_ENOMEM : LS_OK));
    assert_true((rc == LS_OK) == (diag.text[0] == '\0'));
    link->hub_destroy(hub);
}

static void hubs_survive_each_failing_allocation(void **state)
{
    static const struct {
        const char *name;
        const char *io;
        int allocations;
    } links[] = { { "tcp", "libev", 3 }, { "tcp", "io_uring", 4 }, { "null", "none", 1 } };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(links); i++) {
        struct agent_link_class link = *agent_link_find(links[i].name, links[i].io);

        assert_int_equal(failmalloc_each(create_once, &link), links[i].allocations);
    }
}

int main(void)
{
    const struct CMUnitTest over_each_way[] = {
        cmocka_unit_test(bytes_go_both_ways_in_order),
        cmocka_unit_test(a_full_socket_loses_nothing_and_goes_on_by_itself),
        cmocka_unit_test(small_sends_into_a_full_socket_lose_nothing_either),
        cmocka_unit_test(a_send_upon_a_send_leaves_by_itself),
        cmocka_unit_test(a_refused_connect_says_so_and_can_be_tried_again),
        cmocka_unit_test(an_address_that_cannot_be_is_an_error_of_the_open),
        cmocka_unit_test(fin_and_reset_are_told_apart),
        cmocka_unit_test(what_arrived_before_the_fin_is_handed_over_before_the_end),
        cmocka_unit_test(large_and_small_answers_follow_each_other_and_so_does_the_end),
        cmocka_unit_test(a_reset_among_large_answers_is_told_once),
        cmocka_unit_test(a_failed_send_is_reported_later_and_stops_the_pulling),
        cmocka_unit_test(callbacks_may_close_and_then_there_are_no_more),
        cmocka_unit_test(a_link_can_be_opened_again),
        cmocka_unit_test(sends_that_are_gathered_leave_in_order_and_grow),
        cmocka_unit_test(what_is_sent_at_once_needs_no_turn),
        cmocka_unit_test(stamps_are_when_the_kernel_had_the_bytes),
        cmocka_unit_test(more_answers_at_once_than_buffers_all_arrive),
        cmocka_unit_test(stamps_may_be_of_a_part_of_the_connections),
        cmocka_unit_test(with_min_wait_what_is_there_is_taken_at_once),
        cmocka_unit_test(what_completes_late_touches_no_later_connection),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_turn_ends_at_its_instant_or_when_woken),
        cmocka_unit_test(a_wait_for_many_gives_the_others_time),
        cmocka_unit_test(hubs_survive_each_failing_allocation),
    };
    int failed = cmocka_run_group_tests_name("agent.tcp_link", tests, NULL, NULL);

    for (size_t i = 0; i < LS_ARRAY_LEN(ways); i++) {
        const struct agent_link_class *link = agent_link_find("tcp", ways[i].io);
        struct ls_diag why = { 0 };

        way = &ways[i];
        if (link->probe != NULL && link->probe(&why) != LS_OK) {
            print_message("%s: skipped: %s\n", way->name, why.text);
            continue;
        }
        failed += cmocka_run_group_tests_name(way->name, over_each_way, NULL, NULL);
    }
    return failed;
}

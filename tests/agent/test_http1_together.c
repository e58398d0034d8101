/* The http1 driver in a pipeline: what is handed over, sent and told together is what it would be
 * one by one. */
#include "tests/support/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/load/driver.h"
#include "agent/load/variation.h"
#include "tests/support/guard.h"

#define BYTES(text)                                     \
    {                                                   \
        (const unsigned char *)(text), sizeof(text) - 1 \
    }
#define OK_HEAD "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
#define OK      OK_HEAD "hello"

enum { LOG_BYTES = 1024, DEEP = 8 };

struct talk {
    unsigned char conn[1024];
    struct agent_driver_env env;
    const struct agent_driver *driver;
    char log[LOG_BYTES];
    size_t log_len;
};

static const uint32_t names[DEEP + 2] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 };

static void say(struct talk *talk, const char *text)
{
    talk->log_len += (size_t)snprintf(talk->log + talk->log_len, LOG_BYTES - talk->log_len, "%s%s",
                                      talk->log_len > 0 ? "; " : "", text);
    assert_true(talk->log_len < LOG_BYTES);
}

static void on_done(void *ctx, uint32_t op, const struct agent_reply *reply)
{
    char text[160];

    (void)snprintf(text, sizeof(text), "%" PRIu32 " %s %u %" PRIu64, op,
                   load_outcome_name(reply->outcome), reply->status, reply->body_bytes);
    say(ctx, text);
}

static void on_done_alike(void *ctx, const uint32_t *ops, uint32_t count,
                          const struct agent_reply *reply)
{
    say(ctx, reply->more ? "together, and more" : "together");
    for (uint32_t i = 0; i < count; i++)
        on_done(ctx, ops[i], reply);
}

static void talk_begin(struct talk *talk, const struct load_workload *load)
{
    uint32_t most = 0;

    *talk = (struct talk){ .driver = agent_driver_find("http1") };
    talk->env = (struct agent_driver_env){
        .workload = load, .done = on_done, .done_alike = on_done_alike, .ctx = talk
    };
    assert_true(talk->driver->conn_size <= sizeof(talk->conn));
    assert_int_equal(talk->driver->open(talk->conn, &talk->env, &most), LS_OK);
    assert_int_equal(most, DEEP);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* As load_variation_prepare() lays renderings out, but for the last one, which lies elsewhere. */
static const char store[] = "GET /0 HTTP/1.1\r\nHost: x\r\n\r\n"
                            "GET /1 HTTP/1.1\r\nHost: x\r\n\r\n"
                            "GET /2 HTTP/1.1\r\nHost: x\r\n\r\n";
static const char elsewhere[] = "GET /3 HTTP/1.1\r\nHost: x\r\n\r\n";

enum { RENDERINGS = 4, RENDERED = sizeof(elsewhere) - 1 };

static struct load_rendering table[RENDERINGS] = {
    { .bytes = (const unsigned char *)store, .len = RENDERED },
    { .bytes = (const unsigned char *)store + RENDERED, .len = RENDERED },
    { .bytes = (const unsigned char *)store + 2 * RENDERED, .len = RENDERED },
    { .bytes = (const unsigned char *)elsewhere, .len = RENDERED },
};
static const struct load_variation varied = { .table = table,
                                              .table_len = RENDERINGS,
                                              .in_turn = true };
static const struct load_request requests[] = {
    { .label = "GET /{}", .varied = &varied },
    { .bytes = BYTES("GET /a HTTP/1.1\r\nHost: x\r\n\r\n"), .label = "GET /a" },
    { .bytes = BYTES("GET /b HTTP/1.1\r\nConnection: close\r\n\r\n"),
      .label = "GET /b",
      .closes = true },
};
static const struct load_workload turns = { .requests = requests,
                                            .request_count = 1,
                                            .pipeline = DEEP };

static void renderings_leave_as_they_are_in_any_room(void **state)
{
    (void)state;
    for (size_t room = 1; room <= (DEEP + 1) * RENDERED; room++) {
        unsigned char out[(DEEP + 1) * RENDERED];
        uint32_t ops = 0;
        size_t len = 0;
        struct talk talk;

        talk_begin(&talk, &turns);
        for (uint32_t i = 0; i < DEEP; i++)
            assert_int_equal(talk.driver->submit(talk.conn, i, i + 1), LS_OK);
        while (len < DEEP * RENDERED) {
            size_t cap = room < sizeof(out) - len ? room : sizeof(out) - len;

            len += talk.driver->drain(talk.conn, out + len, cap, &ops);
            assert_int_equal(ops, (len + RENDERED - 1) / RENDERED); /* each with its first byte */
        }
        assert_int_equal(len, DEEP * RENDERED);
        for (uint32_t i = 0; i < DEEP; i++)
            assert_memory_equal(out + i * RENDERED, table[(i + 1) % RENDERINGS].bytes, RENDERED);
        assert_int_equal(talk.driver->drain(talk.conn, out, sizeof(out), &ops), 0);
        talk.driver->close(talk.conn);
    }
}

/* What is sent of count requests from number first on, handed over at once or one by one. */
static size_t sent_of(const struct load_workload *load, uint64_t first, uint32_t count,
                      bool at_once, unsigned char *out, size_t cap)
{
    uint32_t taken = 0;
    uint32_t ops = 0;
    struct talk talk;
    size_t len;

    talk_begin(&talk, load);
    if (at_once)
        taken = talk.driver->submit_all(talk.conn, names, count, first);
    while (!at_once && taken < count &&
           talk.driver->submit(talk.conn, taken, first + taken) == LS_OK)
        taken++;
    len = talk.driver->drain(talk.conn, out, cap, &ops);
    assert_int_equal(ops, taken);
    talk.driver->eof(talk.conn, LOAD_RESET);
    assert_int_equal(talk.driver->submit_all(talk.conn, names, count, first), 0);
    talk.driver->close(talk.conn);
    return len;
}

static void requests_handed_over_at_once_are_those_handed_over_one_by_one(void **state)
{
    (void)state;
    /* From each request on, alone or with those behind it. */
    for (uint32_t i = 0; i < LS_ARRAY_LEN(requests) * LS_ARRAY_LEN(requests); i++) {
        uint32_t from = i / LS_ARRAY_LEN(requests);
        uint32_t rest = LS_ARRAY_LEN(requests) - from;
        struct load_workload load = { .requests = requests + from,
                                      .request_count = 1 + i % rest,
                                      .pipeline = DEEP };

        for (uint64_t first = 0; first < 9; first++) {
            for (uint32_t count = 0; count <= DEEP + 2; count++) {
                unsigned char apart[1024];
                unsigned char at_once[1024];
                size_t len = sent_of(&load, first, count, false, apart, sizeof(apart));

                assert_int_equal(sent_of(&load, first, count, true, at_once, sizeof(at_once)), len);
                assert_memory_equal(at_once, apart, len);
            }
        }
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

static const struct load_request any = { .bytes = BYTES("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
                                         .label = "GET /" };
static const struct load_request hello = { .bytes = BYTES("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
                                           .label = "GET /",
                                           .expect_body_given = true,
                                           .expect_body = BYTES("hello") };

/* DEEP of it are asked, and the head of an answer is known. */
static void ask(struct talk *talk, const struct load_workload *load)
{
    unsigned char out[1024];

    talk_begin(talk, load);
    assert_int_equal(talk->driver->submit_all(talk->conn, names, DEEP, 0), DEEP);
    assert_true(talk->driver->drain(talk->conn, out, sizeof(out), NULL) > 0);
    assert_int_equal(talk->driver->feed(talk->conn, (struct ls_bytes)BYTES(OK)), LS_OK);
    talk->log_len = 0;
}

static void answers_are_told_together_if_all_is_well_and_alike(void **state)
{
    static const struct load_workload load = { .requests = &any,
                                               .request_count = 1,
                                               .pipeline = DEEP };
    struct talk talk;

    (void)state;
    ask(&talk, &load);
    assert_int_equal(
        talk.driver->feed(
            talk.conn, (struct ls_bytes)BYTES(
                           OK OK_HEAD "12345" OK "HTTP/1.1 404 Gone\r\nContent-Length: 1\r\n\r\n!"
                                      "HTTP/1.1 20")),
        LS_OK);
    assert_string_equal(
        talk.log, "together, and more; 1 ok 200 5; 2 ok 200 5; 3 ok 200 5; 4 bad_status 404 1");
    talk.log_len = 0;
    /* The head that is known now is that of the 404, until the next one has been parsed. */
    assert_int_equal(
        talk.driver->feed(talk.conn,
                          (struct ls_bytes)BYTES("0 OK\r\nContent-Length: 5\r\n\r\nhello" OK OK)),
        LS_OK);
    assert_string_equal(talk.log, "5 ok 200 5; 6 ok 200 5; together; 7 ok 200 5");
    talk.driver->close(talk.conn);
}

/* Wherever a byte of several answers is wrong, the answer that it is in is, and no other; the piece
 * ends at a guard page. */
static void each_byte_of_answers_that_come_together_is_looked_at(void **state)
{
    static const struct load_workload load = { .requests = &hello,
                                               .request_count = 1,
                                               .pipeline = DEEP };
    enum { ANSWER = sizeof(OK) - 1, BODY = sizeof(OK_HEAD) - 1, COUNT = DEEP - 1 };
    struct guard guard;

    (void)state;
    guard_init(&guard, COUNT * ANSWER);
    for (unsigned wrong = 0; wrong < COUNT; wrong++) {
        for (size_t at = BODY; at < ANSWER; at++) {
            unsigned char answers[COUNT * ANSWER];
            char log[LOG_BYTES] = "";
            struct talk talk;

            ask(&talk, &load);
            for (unsigned i = 0; i < COUNT; i++)
                (void)memcpy(answers + i * ANSWER, OK, ANSWER);
            answers[wrong * ANSWER + at] ^= 1;
            talk.env.done_alike = NULL;
            assert_int_equal(
                talk.driver->feed(
                    talk.conn, guard_copy(&guard, (struct ls_bytes){ answers, sizeof(answers) })),
                LS_OK);
            for (unsigned i = 0; i < COUNT; i++)
                (void)snprintf(log + strlen(log), sizeof(log) - strlen(log), "%s%u %s 200 5",
                               i > 0 ? "; " : "", i + 1, i == wrong ? "bad_body" : "ok");
            assert_string_equal(talk.log, log);
            talk.driver->close(talk.conn);
        }
    }
    guard_fini(&guard);
}

/* The Date goes on between answers of one piece. */
static void a_second_may_pass_within_a_piece(void **state)
{
#define DATED(second)                                                                      \
    "HTTP/1.1 200 OK\r\nDate: Tue, 01 Dec 2026 05:00:0" second " GMT\r\nContent-Length: 5" \
    "\r\n\r\nhello"
    static const struct load_workload load = { .requests = &hello,
                                               .request_count = 1,
                                               .pipeline = DEEP };
    struct talk talk;

    (void)state;
    ask(&talk, &load);
    assert_int_equal(talk.driver->feed(talk.conn, (struct ls_bytes)BYTES(DATED("0"))), LS_OK);
    talk.log_len = 0;
    assert_int_equal(talk.driver->feed(talk.conn, (struct ls_bytes)BYTES(
                                                      DATED("1") DATED("1") DATED("2") DATED("2"))),
                     LS_OK);
    assert_string_equal(talk.log, "together; 2 ok 200 5; 3 ok 200 5; 4 ok 200 5; 5 ok 200 5");
    talk.driver->close(talk.conn);
#undef DATED
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renderings_leave_as_they_are_in_any_room),
        cmocka_unit_test(requests_handed_over_at_once_are_those_handed_over_one_by_one),
        cmocka_unit_test(answers_are_told_together_if_all_is_well_and_alike),
        cmocka_unit_test(each_byte_of_answers_that_come_together_is_looked_at),
        cmocka_unit_test(a_second_may_pass_within_a_piece),
    };

    return cmocka_run_group_tests_name("agent.http1_together", tests, NULL, NULL);
}

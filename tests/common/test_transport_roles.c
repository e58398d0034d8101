/* Every message to every end in every state of a connection: taken, or refused. The messages come
 * from the descriptors, so that a new one fails here until somebody has decided who may send it. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/common/transport_raw.h"
#include "tests/common/wire_fill.h"

/* Who takes it: a coordinator as the first message, or later; an agent before WELCOME, or later. */
struct decision {
    Ls__Envelope__BodyCase body;
    bool coordinator_first, coordinator, agent_first, agent;
    bool client, server; /* whose report it is */
};

/* REFUSE ends an agent's session in any state. */
static const struct decision decisions[] = {
    { LS__ENVELOPE__BODY_HELLO, true, false, false, false, false, false },
    { LS__ENVELOPE__BODY_WELCOME, false, false, true, false, false, false },
    { LS__ENVELOPE__BODY_REFUSE, false, false, true, true, false, false },
    { LS__ENVELOPE__BODY_ACK, false, true, false, true, false, false },
    { LS__ENVELOPE__BODY_PING, false, true, false, true, false, false },
    { LS__ENVELOPE__BODY_CLOCK_PROBE, false, false, false, true, false, false },
    { LS__ENVELOPE__BODY_CLOCK_REPLY, false, true, false, false, false, false },
    { LS__ENVELOPE__BODY_PUT_FILE, false, false, false, true, false, false },
    { LS__ENVELOPE__BODY_PREPARE, false, false, false, true, false, false },
    { LS__ENVELOPE__BODY_ARM, false, false, false, true, false, false },
    { LS__ENVELOPE__BODY_DISARM, false, false, false, true, false, false },
    { LS__ENVELOPE__BODY_COLLECT, false, false, false, true, false, false },
    { LS__ENVELOPE__BODY_ABORT, false, false, false, true, false, false },
    { LS__ENVELOPE__BODY_BYE, false, false, false, true, false, false },
    { LS__ENVELOPE__BODY_CLOCK_UDP, false, false, false, true, false, false },
    { LS__ENVELOPE__BODY_PHASE, false, true, false, false, true, true },
    { LS__ENVELOPE__BODY_INTERVAL, false, true, false, false, true, false },
    { LS__ENVELOPE__BODY_CLIENT, false, true, false, false, true, false },
    { LS__ENVELOPE__BODY_TARGET_UP, false, true, false, false, false, true },
    { LS__ENVELOPE__BODY_SAMPLE, false, true, false, false, false, true },
    { LS__ENVELOPE__BODY_TARGET_LOG, false, true, false, false, false, true },
    { LS__ENVELOPE__BODY_SERVER, false, true, false, false, false, true },
    { LS__ENVELOPE__BODY_PROCESS, false, true, false, false, false, true },
};

static const struct decision *decide(const ProtobufCFieldDescriptor *body)
{
    for (size_t i = 0; i < LS_ARRAY_LEN(decisions); i++) {
        if ((unsigned)decisions[i].body == body->id)
            return &decisions[i];
    }
    fail_msg("who may send %s, and when? Decide in tests/common/test_transport_roles.c and in "
             "ls_report_fits_role()",
             body->name);
    return NULL;
}

/* What follows the message under test: the reason tells which of the two was refused. */
#define GARBAGE "a frame of 542393671 bytes"

/* Values that make sense to the connection at hand: nothing was sent yet. */
static Ls__Envelope *make(const ProtobufCFieldDescriptor *body, const char *run_id)
{
    Ls__Envelope *envelope = wire_fill(body, run_id, 1);

    if (envelope->body_case == LS__ENVELOPE__BODY_ACK)
        envelope->ack->seq = 0;
    if (envelope->body_case == LS__ENVELOPE__BODY_WELCOME)
        envelope->welcome->last_acked_seq = 0;
    if (envelope->body_case == LS__ENVELOPE__BODY_HELLO) {
        envelope->hello->commands_done = 0;
        envelope->hello->next_seq = 1;
        envelope->hello->run_id[0] = '\0'; /* of a session that goes on */
    }
    return envelope;
}

static void send_body(int fd, const ProtobufCFieldDescriptor *body, const char *run_id)
{
    Ls__Envelope *envelope = make(body, run_id);

    raw_send(fd, envelope);
    ls_envelope_free(envelope);
}

/* ---- to a coordinator */

static bool has_enrolled(struct rig *rig)
{
    return rig->peer_ups == 1;
}

static bool gone_or_enrolled(struct rig *rig)
{
    return raw_was_closed(rig) || rig->peer_ups == 1;
}

static bool is_gone(struct rig *rig)
{
    return raw_was_closed(rig) && rig->peer_downs == rig->peer_ups;
}

static void as_first_message(const ProtobufCFieldDescriptor *body, bool taken)
{
    struct raw raw;

    raw_init(&raw);
    rig_listen(&raw.rig);
    raw.fd = raw_connect_ipc(&raw.rig);
    send_body(raw.fd, body, "");
    rig_until(&raw.rig, gone_or_enrolled);
    if ((raw.rig.enrolled == 1) != taken)
        fail_msg("%s as the first message to a coordinator is %s", body->name,
                 taken ? "refused" : "taken");
    assert_int_equal(raw.rig.reports, 0);
    raw_fini(&raw);
}

static void as_later_message(const ProtobufCFieldDescriptor *body, bool taken)
{
    struct raw raw;
    bool refused;

    raw_init(&raw);
    rig_listen(&raw.rig);
    raw.fd = raw_connect_ipc(&raw.rig);
    raw_hello(raw.fd);
    rig_until(&raw.rig, has_enrolled);
    send_body(raw.fd, body, raw_run_1);
    raw_garbage(raw.fd);
    rig_until(&raw.rig, is_gone);
    refused = strstr(raw.rig.last_why, GARBAGE) == NULL;
    /* An answer to no question is refused for what it says, not for what it is. */
    if (body->id == LS__ENVELOPE__BODY_CLOCK_REPLY)
        refused = strstr(raw.rig.last_why, "an answer to no clock probe") == NULL;
    if (refused == taken)
        fail_msg("%s to a coordinator: %s", body->name, raw.rig.last_why);
    if (!taken)
        assert_int_equal(raw.rig.reports, 0);
    raw_fini(&raw);
}

/* ---- to an agent */

static const ProtobufCFieldDescriptor *under_test;

static void answer_with_it_first(int fd)
{
    send_body(fd, under_test, raw_run_1);
    raw_garbage(fd);
}

static void answer_with_it_later(int fd)
{
    raw_welcome(fd, raw_run_1, 0);
    answer_with_it_first(fd);
}

static bool agent_has_answered(struct rig *rig)
{
    struct raw *raw = (struct raw *)rig;

    if (raw->fd < 0)
        raw->fd = accept4(raw->listening, NULL, NULL, SOCK_CLOEXEC);
    if (raw->fd < 0)
        return false;
    if (raw->got_len == 0 && !raw_was_closed(rig) && raw->got_len > 0)
        raw->answer(raw->fd);
    return raw->got_len > 0 && raw_was_closed(rig);
}

static void to_an_agent(const ProtobufCFieldDescriptor *body, void (*answer)(int fd), bool taken)
{
    struct sockaddr_un sun;
    struct raw raw;
    const char *why;
    bool refused;

    raw_init(&raw);
    under_test = body;
    raw.answer = answer;
    sun = raw_address(&raw.rig);
    raw.listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(raw.listening, (const struct sockaddr *)&sun, sizeof(sun)), 0);
    assert_int_equal(listen(raw.listening, 8), 0);
    rig_dial(&raw.rig, "client-1", "boot-a");
    rig_until(&raw.rig, agent_has_answered);
    why = ls_dialer_trouble(raw.rig.dialer);
    refused = strstr(why, GARBAGE) == NULL;
    if (body->id == LS__ENVELOPE__BODY_REFUSE)
        refused = raw.rig.refusals == 0; /* it takes it, and leaves */
    if (refused == taken)
        fail_msg("%s to an agent %s WELCOME: %s", body->name,
                 answer == answer_with_it_first ? "before" : "after", why);
    if (!taken)
        assert_int_equal(raw.rig.commands, 0);
    raw_fini(&raw);
}

static void for_each_body(void (*check)(const ProtobufCFieldDescriptor *body,
                                        const struct decision *decision))
{
    for (unsigned i = 0; i < ls__envelope__descriptor.n_fields; i++) {
        const ProtobufCFieldDescriptor *body = &ls__envelope__descriptor.fields[i];

        if (wire_is_body(body))
            check(body, decide(body));
    }
}

static void check_ends(const ProtobufCFieldDescriptor *body, const struct decision *decision)
{
    as_first_message(body, decision->coordinator_first);
    as_later_message(body, decision->coordinator);
    to_an_agent(body, answer_with_it_first, decision->agent_first);
    to_an_agent(body, answer_with_it_later, decision->agent);
}

static void each_end_takes_what_the_other_sends_and_nothing_else(void **state)
{
    (void)state;
    for_each_body(check_ends);
}

static void check_role(const ProtobufCFieldDescriptor *body, const struct decision *decision)
{
    Ls__Envelope__BodyCase kind = decision->body;

    if (ls_report_fits_role(kind, LS__ROLE__ROLE_CLIENT) != decision->client ||
        ls_report_fits_role(kind, LS__ROLE__ROLE_SERVER) != decision->server)
        fail_msg("%s is not from whom it should be", body->name);
    assert_true((ls_body_kind(kind) == LS_BODY_REPORT) == (decision->client || decision->server));
}

static void each_report_belongs_to_a_role(void **state)
{
    (void)state;
    for_each_body(check_role);
}

/* ---- numbers */

static void check_number(const ProtobufCFieldDescriptor *body, const struct decision *decision)
{
    Ls__Envelope *envelope = make(body, raw_run_1), *out = NULL;
    static unsigned char bytes[65536];
    size_t len;

    (void)decision;
    envelope->seq = envelope->seq == 0 ? 1 : 0;
    len = ls__envelope__pack(envelope, bytes);
    if (ls_envelope_unpack((struct ls_bytes){ bytes, len }, &out, NULL) != LS_EPROTO)
        fail_msg("%s with the number %d is taken", body->name, (int)envelope->seq);
    ls_envelope_free(envelope);
}

static void what_is_numbered_needs_a_number_and_nothing_else_has_one(void **state)
{
    (void)state;
    for_each_body(check_number);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_end_takes_what_the_other_sends_and_nothing_else),
        cmocka_unit_test(each_report_belongs_to_a_role),
        cmocka_unit_test(what_is_numbered_needs_a_number_and_nothing_else_has_one),
    };

    rig_set_pace();
    return cmocka_run_group_tests_name("common.transport_roles", tests, NULL, NULL);
}

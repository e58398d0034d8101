/* PREPARE with each of its fields missing, one after the other, and with each of its numbers at its
 * ends: what a checked plan always has may be absent in what a stranger sends, or make no sense. An
 * agent fails the trial, and goes on living. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/host/target.h"
#include "agent/session.h"
#include "common/clock.h"
#include "common/msg_model.h"
#include "common/msg_yaml.h"
#include "common/transport.h"
#include "tests/support/tmpdir.h"

static const char prepare_text[] =
    "trial: 1\n"
    "target:\n"
    "  name: x\n"
    "  command: [/nowhere/x, '{port}']\n"
    "  version: [/nowhere/x, -v]\n"
    "  env: {A: b}\n"
    "  host: 127.0.0.1\n"
    "  port: 9\n"
    "  ready: {timeout: 1s, request: {path: /, expect: {status: 200, body: x}}}\n"
    "  stop: {signal: TERM, grace: 1s}\n"
    "  tls: {verify: false, alpn: [http/1.1]}\n"
    "  probe: {command: [/nowhere/x, -v], expect: x, version: y, sha256: z, timeout: 1s}\n"
    "workload:\n"
    "  name: w\n"
    "  PROTOCOL\n"
    "  connections: 4\n"
    "  load: LOAD\n"
    "  warmup: 1s\n"
    "  measure: 1s\n"
    "  timeout: 1s\n"
    "  interval: 1s\n"
    "workers: 1\n"
    "workers_total: 2\n"
    "seed: 7\n"
    "server_addresses: ['10.0.0.5:7']\n";

static const char *const protocols[] = {
    "http:\n"
    "    pipeline: 1\n"
    "    requests:\n"
    "      - {path: '/{seq:0-9}', headers: {Host: x, A: '{pick:a,b}'}, expect: {body: 'a{seq}'}}\n"
    "      - {method: POST, body: '{rand:1-6}', weight: 3}",
    "http: {version: http2, streams: 1, requests: [{path: /x, expect: {status: 200}}]}",
    "websocket: {path: '/{name}', headers: {A: b}, subprotocol: x, pipeline: 1, message: {size: 64},\n"
    "    echo: {expect: x}, deflate: {}, fragment: 16}",
    "websocket: {pipeline: 1, message: {text: x}, room: {delivery: '{name}: {message}'}}",
    "process: {args: ['{dir}'], command: [/nowhere/x], runs: 2, warmup_runs: 1, concurrency: 1,\n"
    "    stdin: x, env: {A: b}, expect: {exit: 0, output: x, match: x, outcomes: [graceful]},\n"
    "    memory: 4MiB, marker: x, metrics: [{name: a, unit: b, checksum: c}], output: 1KiB}",
    "process: {args: [a], runs: 1, expect: {outcomes: [graceful]}, output: 1KiB}\n"
    "  services: [{name: s, command: [/nowhere/y, '{port}'], env: {A: b}, host: 127.0.0.1, port: 9,\n"
    "    timeout: 1s, stop: {signal: TERM, grace: 1s}, cpus: '0'}]",
};

static const char *const loads[] = {
    "{closed: {}}\n  think: {mean: 1ms}",
    "{constant: {rate: 10/s}}\n  lifetime: {requests: 5, time: 1s}",
    "{poisson: {rate: 10/s}}",
    "{ramp: {from: 1/s, to: 9/s, over: 1s}}",
    "{steps: {rates: [1/s, 2/s], each: 1s}}",
    "{trace: {points: [{at: 0s, rate: 1/s}]}}",
    "{waves: {size: 4, requests: 8}}",
};

/* ---- an agent */

static unsigned failures, prepared, servers;

static enum ls_err report(void *ctx, Ls__Envelope *envelope)
{
    (void)ctx;
    failures += envelope->body_case == LS__ENVELOPE__BODY_PHASE && envelope->phase->failure != NULL;
    servers += envelope->body_case == LS__ENVELOPE__BODY_SERVER;
    return LS_OK;
}

static uint32_t room(void *ctx)
{
    (void)ctx;
    return 100;
}

static uint64_t unacked(void *ctx)
{
    (void)ctx;
    return 0;
}

static struct agent_session_env env = { .report = report, .room = room, .unacked = unacked };
static struct tmpdir tmp;

static void wake(void *ctx)
{
    (void)ctx;
}

static void offer(const struct agent_role_class *role, Ls__Prepare *prepare)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT, *received = NULL;
    struct agent_session *session = NULL;
    static unsigned char bytes[65536];
    size_t len;

    envelope.version = LS_WIRE_VERSION;
    envelope.seq = 1;
    envelope.body_case = LS__ENVELOPE__BODY_PREPARE;
    envelope.prepare = prepare;
    assert_true(ls__envelope__get_packed_size(&envelope) < sizeof(bytes));
    len = ls__envelope__pack(&envelope, bytes);
    if (ls_envelope_unpack((struct ls_bytes){ bytes, len }, &received, NULL) != LS_OK)
        return; /* that is as good */
    assert_int_equal(agent_session_create(role, tmp.path, &env, wake, NULL, &session, NULL), LS_OK);
    agent_session_command(session, received, 1);
    prepared += agent_session_phase(session) == LS_PHASE_PREPARE;
    ls_envelope_free(received);
    agent_session_destroy(session);
}

/* ---- holes */

static unsigned holes;

static void dig(const struct agent_role_class *role, Ls__Prepare *prepare,
                ProtobufCMessage *message)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        ProtobufCMessage *kept;

        if (ls_msg_count(message, field) == 0 ||
            field->label == PROTOBUF_C_LABEL_REQUIRED) /* packing would refuse, and so unpacking */
            continue;
        if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
            for (size_t k = 0; k < ls_msg_count(message, field); k++)
                dig(role, prepare, ls_msg_sub(message, field, k));
        }
        kept = ls_msg_new(message->descriptor);
        assert_non_null(kept);
        ls_msg_move(kept, message, field);
        holes++;
        offer(role, prepare);
        ls_msg_move(message, kept, field);
        protobuf_c_message_free_unpacked(kept, NULL);
    }
}

static Ls__Prepare *prepare_with(const char *protocol, const char *load)
{
    const char *first = strstr(prepare_text, "PROTOCOL"), *second = strstr(prepare_text, "LOAD");
    char text[sizeof(prepare_text) + 700];
    ProtobufCMessage *message = NULL;
    struct ls_marks *marks = NULL;
    struct ls_issues issues;

    (void)snprintf(text, sizeof(text), "%.*s%s%.*s%s%s", (int)(first - prepare_text), prepare_text,
                   protocol, (int)(second - first - (long)strlen("PROTOCOL")),
                   first + strlen("PROTOCOL"), load, second + strlen("LOAD"));
    ls_issues_init(&issues, "prepare");
    if (ls_msg_from_yaml(&ls__prepare__descriptor,
                         (struct ls_bytes){ (const unsigned char *)text, strlen(text) }, &issues,
                         &message, &marks) != LS_OK)
        fail_msg("%s\n%s", ls_issues_format(&issues), text);
    ls_issues_fini(&issues);
    ls_marks_destroy(marks);
    return (Ls__Prepare *)message;
}

/* ---- numbers at their ends */

static const union {
    uint64_t bits;
    double real;
} ends[] = { { 0 },
             { 1 },
             { UINT32_MAX },
             { INT32_MAX },
             { UINT64_MAX },
             { INT64_MAX },
             { (uint64_t)1 << 63 },
             { .real = 1e300 },
             { .real = -1 },
             { .real = 1.0 / 0.0 },
             { .real = 0.0 / 0.0 } };

/* Bytes of a number; 0: it is none. Enums and flags have no ends that the wire would let pass. */
static size_t number_bytes(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_UINT32:
        return 4;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    default:
        return 0;
    }
}

static void bend(const struct agent_role_class *role, Ls__Prepare *prepare,
                 ProtobufCMessage *message)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        size_t bytes = number_bytes(field);
        unsigned char kept[8];
        void *at = (unsigned char *)message + field->offset;

        if (field->label == PROTOBUF_C_LABEL_REPEATED && bytes > 0)
            continue; /* PREPARE has no list of numbers */
        for (size_t k = 0;
             field->type == PROTOBUF_C_TYPE_MESSAGE && k < ls_msg_count(message, field); k++)
            bend(role, prepare, ls_msg_sub(message, field, k));
        if (bytes == 0 || ls_msg_count(message, field) == 0)
            continue;
        (void)memcpy(kept, at, bytes);
        for (size_t k = 0; k < LS_ARRAY_LEN(ends); k++) {
            (void)memcpy(at, &ends[k], bytes);
            holes++;
            offer(role, prepare);
        }
        (void)memcpy(at, kept, bytes);
    }
}

/* Each load with the first protocol, each protocol with the second load. */
static void for_each_prepare(const struct agent_role_class *role,
                             void (*spoil)(const struct agent_role_class *role,
                                           Ls__Prepare *prepare, ProtobufCMessage *message))
{
    failures = holes = prepared = 0;
    for (size_t i = 0; i < LS_ARRAY_LEN(loads) + LS_ARRAY_LEN(protocols) - 1; i++) {
        bool other = i >= LS_ARRAY_LEN(loads);
        Ls__Prepare *prepare =
            prepare_with(protocols[other ? i - LS_ARRAY_LEN(loads) + 1 : 0], loads[other ? 1 : i]);

        spoil(role, prepare, &prepare->base);
        ls__prepare__free_unpacked(prepare, NULL);
    }
}

static void a_client_survives_every_hole(void **state)
{
    (void)state;
    for_each_prepare(&agent_role_client, dig);
    assert_true(holes > 300 && failures > 50);
    assert_true(prepared > 50); /* without holes it is one that is taken */
}

static void a_server_survives_every_hole(void **state)
{
    (void)state;
    for_each_prepare(&agent_role_server, dig);
    assert_true(holes > 300 && failures > 50 && prepared > 50);
}

static void a_client_survives_every_number(void **state)
{
    (void)state;
    for_each_prepare(&agent_role_client, bend);
    assert_true(holes > 1000 && failures > 300 && prepared > 300);
}

static void a_server_survives_every_number(void **state)
{
    (void)state;
    for_each_prepare(&agent_role_server, bend);
    assert_true(holes > 1000 && prepared > 300);
}

static void a_target_of_several_instances_is_reported_though_its_service_did_not_start(void **state)
{
    Ls__Prepare *prepare = prepare_with(protocols[0], loads[0]);
    Ls__Prepare *other = prepare_with(protocols[LS_ARRAY_LEN(protocols) - 1], loads[0]);
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    struct agent_session *session = NULL;

    (void)state;
    failures = servers = 0;
    prepare->target->instances = 2;
    prepare->target->has_instances = 1;
    prepare->target->services = other->workload->services;
    prepare->target->n_services = other->workload->n_services;
    other->workload->services = NULL;
    other->workload->n_services = 0;
    envelope.body_case = LS__ENVELOPE__BODY_PREPARE;
    envelope.prepare = prepare;
    assert_int_equal(
        agent_session_create(&agent_role_server, tmp.path, &env, wake, NULL, &session, NULL),
        LS_OK);
    agent_session_command(session, &envelope, 1);
    for (unsigned i = 0; i < 2000 && servers == 0; i++) {
        agent_session_poll(session, ls_clock_mono_ns());
        ls_clock_sleep_until(ls_clock_mono_ns() + 5 * LS_NS_PER_MS);
    }
    assert_int_equal(servers, 1);
    assert_true(failures > 0);
    agent_session_destroy(session);
    ls__prepare__free_unpacked(prepare, NULL);
    ls__prepare__free_unpacked(other, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_survives_every_hole),
        cmocka_unit_test(a_server_survives_every_hole),
        cmocka_unit_test(a_client_survives_every_number),
        cmocka_unit_test(a_server_survives_every_number),
        cmocka_unit_test(
            a_target_of_several_instances_is_reported_though_its_service_did_not_start),
    };
    struct agent_policy *policy = NULL;
    int failed;

    host_target_main_hook(argc, argv);
    tmpdir_make(&tmp);
    if (agent_policy_without_file(AGENT_POLICY_LOCAL, &policy) != LS_OK)
        return 70;
    env.policy = policy;
    failed = cmocka_run_group_tests_name("agent.prepare_holes", tests, NULL, NULL);
    agent_policy_destroy(policy);
    tmpdir_remove(&tmp);
    return failed;
}

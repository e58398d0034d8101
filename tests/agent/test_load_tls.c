/* Loads and probes over TLS, against a server in this process. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/load/probe.h"
#include "common/clock.h"
#include "tests/support/load_run.h"
#include "tests/support/responder.h"
#include "tests/support/script_server.h"
#include "tests/support/tls_peer.h"

#define MS   LS_NS_PER_MS
#define NAME "example.test"
#define BYTES(text)                                     \
    {                                                   \
        (const unsigned char *)(text), sizeof(text) - 1 \
    }
#define BODY      "Hello, World!"
#define KEEP      "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n" BODY
#define CLOSE     "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 13\r\n\r\n" BODY
#define UNTIL_END "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" BODY

static struct tls_pki *pki;
static struct tls_identity identity;
static enum load_io io;

static const struct load_request requests[] = {
    { .bytes = BYTES("GET / HTTP/1.1\r\nHost: " NAME "\r\n\r\n"),
      .label = "GET /",
      .expect_status = 200,
      .expect_body_given = true,
      .expect_body = BYTES(BODY) },
    { .bytes = BYTES("GET / HTTP/1.1\r\nHost: " NAME "\r\nConnection: close\r\n\r\n"),
      .label = "GET / and close",
      .closes = true,
      .expect_status = 200,
      .expect_body_given = true,
      .expect_body = BYTES(BODY) },
};

/* A server, and a load or a probe of it. */
struct scene {
    struct tls_server_setup server;
    struct load_tls tls;
    struct load_workload workload;
    struct load_run run;
    struct tls_server_seen seen;
    uint64_t handshakes; /* recorded, of the measure window */
    int64_t handshake_max_ns;
};

static void prepare(struct scene *scene)
{
    *scene = (struct scene){ .workload = load_run_null_workload() };
    scene->server.tls.identity = &identity;
    scene->server.answer = KEEP;
    scene->tls = tls_settings(pki, NAME);
    scene->workload.driver = "http1";
    scene->workload.link = "tcp";
    scene->workload.io = io;
    scene->workload.requests = requests;
}

static void one_request_per_connection(struct scene *scene)
{
    scene->server.answer = CLOSE;
    scene->server.answers = 1;
    scene->server.end = PEER_NOTIFY;
    scene->workload.requests = &requests[1];
}

static void play_once(struct scene *scene, int64_t lead_ns)
{
    struct tls_server *server = tls_server_start(&scene->server);
    struct load_window window;

    scene->workload.tls = &scene->tls;
    tls_server_address(server, &scene->workload.address, &scene->workload.address_len);
    load_run_init(&scene->run, &scene->workload);
    window = load_run_window(lead_ns, 20 * MS, 100 * MS);
    load_run_all(&scene->run, &window);
    scene->handshakes = ls_hist_count(scene->run.series[LS_SERIES_HANDSHAKE_TIME]);
    scene->handshake_max_ns = ls_hist_max(scene->run.series[LS_SERIES_HANDSHAKE_TIME]);
    load_run_fini(&scene->run);
    tls_server_stop(server, &scene->seen);
}

/* A load that was armed too late has opened its connections twice: then counts prove nothing. */
static bool was_late(const struct scene *scene)
{
    return scene->run.seen[LOAD_EVENT_LATE] > 0;
}

static void play(struct scene *scene)
{
    int64_t lead_ns = 300 * MS;

    do {
        assert_true(lead_ns < 20 * LS_NS_PER_S);
        play_once(scene, lead_ns);
        lead_ns *= 2;
    } while (was_late(scene));
}

static uint64_t outcome(const struct scene *scene, enum load_outcome outcome)
{
    return scene->run.totals.warmup.outcome[outcome] + scene->run.totals.measure.outcome[outcome];
}

static uint64_t sent(const struct scene *scene)
{
    return scene->run.totals.warmup.sent + scene->run.totals.measure.sent;
}

/* ---- loads ----------------------------------------------------------------------------------- */

static void connections_that_are_kept_shake_hands_once(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        struct scene scene;

        prepare(&scene);
        scene.workload.workers = scene.workload.workers_total = workers;
        scene.workload.pipeline = 2 * workers;
        scene.server.key_updates = workers == 2 ? 3 : 0;
        play(&scene);
        assert_true(sent(&scene) > 0);
        assert_int_equal(outcome(&scene, LOAD_OK), sent(&scene));
        assert_int_equal(scene.seen.requests, sent(&scene));
        assert_int_equal(scene.seen.accepted, 4);
        assert_string_equal(scene.seen.sni, NAME);
        assert_int_equal(scene.run.totals.connections.opened, 4);
        assert_int_equal(scene.run.totals.tls.full + scene.run.totals.tls.resumed, 4);
        assert_int_equal(scene.run.totals.tls.full, scene.seen.full);
        assert_string_equal(scene.run.totals.tls.version, "TLSv1.3");
        assert_int_equal(scene.handshakes, 4); /* though all before the window */
        assert_string_equal(scene.run.totals.sample, "");
    }
}

static void handshakes_of_the_window_are_timed_and_all_are_counted(void **state)
{
    (void)state;
    for (int resume = 0; resume < 2; resume++) {
        struct scene scene;
        uint64_t opened;

        prepare(&scene);
        one_request_per_connection(&scene);
        scene.tls.resume = resume == 1;
        play(&scene);
        opened = scene.run.totals.connections.opened;
        assert_int_equal(outcome(&scene, LOAD_OK), sent(&scene));
        assert_int_equal(scene.seen.requests, sent(&scene));
        assert_int_equal(scene.run.totals.tls.full + scene.run.totals.tls.resumed, opened);
        /* A client is through first, and may be stopped before the server is. */
        assert_in_range(scene.seen.full + scene.seen.resumed, scene.seen.requests, opened);
        assert_int_equal(scene.seen.sni_changes, 0);
        assert_true(scene.handshakes > 0 && scene.handshakes <= opened);
        assert_in_range(scene.handshake_max_ns, 1000, 30 * LS_NS_PER_S);
        if (resume) {
            assert_in_range(scene.seen.full, 1, scene.run.totals.tls.full);
            if (opened > 8) /* a slow machine may not come to a second one of each */
                assert_true(scene.seen.resumed > 0 && scene.run.totals.tls.resumed > 0);
        } else {
            assert_int_equal(scene.run.totals.tls.resumed, 0);
            assert_int_equal(scene.seen.resumed, 0);
        }
    }
}

static void a_bare_fin_cuts_what_lasts_until_close_and_is_an_error(void **state)
{
    static const struct {
        enum tls_peer_end end;
        enum load_outcome outcome;
    } rows[] = { { PEER_NOTIFY, LOAD_OK },
                 { PEER_FIN, LOAD_TLS_ERROR },
                 { PEER_RESET, LOAD_RESET } };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        struct scene scene;

        prepare(&scene);
        one_request_per_connection(&scene);
        scene.server.answer = UNTIL_END;
        scene.server.end = rows[i].end;
        play(&scene);
        assert_true(sent(&scene) > 0);
        assert_int_equal(outcome(&scene, rows[i].outcome) + outcome(&scene, LOAD_ABORTED),
                         sent(&scene));
        assert_int_equal(outcome(&scene, rows[i].outcome) > 0, true);
        if (rows[i].end == PEER_FIN)
            assert_non_null(strstr(scene.run.totals.sample, "tls_error"));
    }
}

static void a_server_that_is_not_trusted_gets_no_request(void **state)
{
    struct tls_pki *other = tls_pki_create("another CA");
    struct scene scene;
    const struct load_connections *connections;

    (void)state;
    prepare(&scene);
    scene.tls.ca = tls_pki_ca(other);
    play(&scene);
    connections = &scene.run.totals.connections;
    assert_int_equal(sent(&scene), 0);
    assert_int_equal(scene.seen.requests, 0);
    assert_int_equal(connections->opened, 0);
    assert_int_equal(connections->failures[0].error, EKEYREJECTED);
    assert_int_equal(connections->failures[0].count, connections->failed);
    assert_non_null(strstr(scene.run.totals.sample, "does not verify for '" NAME "'"));
    tls_pki_destroy(other);
}

static void the_responder_counts_the_same_over_tls(void **state)
{
    static const struct {
        const char *option;
        const char *value;
        enum load_outcome outcome; /* of what it does now and then; LOAD_OK: nothing */
    } rows[] = { { NULL, NULL, LOAD_OK },
                 { "--body-bytes", "300000", LOAD_OK },
                 { "--every", "7:reset", LOAD_RESET },
                 { "--every", "7:close", LOAD_CLOSED_EARLY },
                 { "--every", "7:garbage", LOAD_BAD_FRAMING },
                 { "--every", "7:drip:2ms", LOAD_OK } };
    static const struct load_request any = { .bytes = BYTES("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
                                             .label = "GET /" };
    int tries = 0;

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        const char *options[] = { "--tls-self-signed", rows[i].option, rows[i].value, NULL };
        struct responder responder;
        struct load_window window;
        struct sockaddr_in *address;
        struct scene scene;
        uint64_t wrong;

        assert_true(tries++ < 30);
        responder_start(&responder, options);
        prepare(&scene);
        scene.tls.verify = false;
        scene.workload.tls = &scene.tls;
        scene.workload.requests = &any;
        address = (struct sockaddr_in *)(void *)&scene.workload.address;
        address->sin_family = AF_INET;
        address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address->sin_port = htons(responder.port);
        scene.workload.address_len = sizeof(*address);
        load_run_init(&scene.run, &scene.workload);
        window = load_run_window(300 * MS, 20 * MS, 100 * MS);
        load_run_all(&scene.run, &window);
        load_run_fini(&scene.run);
        responder_stop(&responder);
        if (was_late(&scene)) {
            i--;
            continue;
        }
        wrong = rows[i].outcome != LOAD_OK ? outcome(&scene, rows[i].outcome) : 0;
        assert_true(sent(&scene) > 0);
        if (outcome(&scene, LOAD_OK) + wrong != sent(&scene) ||
            (sent(&scene) >= 14 && (wrong > 0) != (rows[i].outcome != LOAD_OK)))
            fail_msg("%s: %s", rows[i].value, scene.run.totals.sample);
        assert_int_equal(responder_count(&responder, "requests"), sent(&scene));
        /* A few more were accepted than became connections, when the load ended. */
        assert_in_range(responder_count(&responder, "connections"),
                        scene.run.totals.connections.opened,
                        scene.run.totals.connections.opened + 4);
    }
}

/* ---- probes ---------------------------------------------------------------------------------- */

struct trial {
    enum ls_err rc;
    struct agent_reply reply;
    uint64_t sent;
    struct ls_diag diag;
};

static void ask(struct load_probe *probe, uint32_t request, int64_t within_ns, struct trial *out)
{
    *out = (struct trial){ .rc = LS_OK };
    out->rc = load_probe_exchange(probe, request, ls_clock_mono_ns() + within_ns, &out->reply,
                                  &out->sent, &out->diag);
}

static struct load_probe *probe_of(struct scene *scene)
{
    struct load_probe *probe = NULL;
    struct ls_diag diag = { 0 };

    scene->workload.tls = &scene->tls;
    scene->workload.request_count = LS_ARRAY_LEN(requests);
    if (load_probe_create(&scene->workload, -1, &probe, &diag) != LS_OK)
        fail_msg("%s", diag.text);
    return probe;
}

static void a_probe_speaks_tls_and_keeps_its_connection(void **state)
{
    static const int versions[] = { 0x0303, 0x0304 };

    (void)state;
    for (size_t v = 0; v < LS_ARRAY_LEN(versions); v++) {
        struct tls_server *server;
        struct load_probe *probe;
        struct scene scene;
        struct trial trial;

        prepare(&scene);
        scene.tls.min_version = scene.tls.max_version = (uint16_t)versions[v];
        scene.server.answers = 3;
        scene.server.end = PEER_NOTIFY;
        scene.server.key_updates = versions[v] == 0x0304;
        server = tls_server_start(&scene.server);
        tls_server_address(server, &scene.workload.address, &scene.workload.address_len);
        probe = probe_of(&scene);
        for (int i = 0; i < 7; i++) {
            ask(probe, 0, 20 * LS_NS_PER_S, &trial);
            if (trial.rc != LS_OK && strstr(trial.diag.text, "closed without an answer") != NULL)
                ask(probe, 0, 20 * LS_NS_PER_S, &trial); /* a farewell that came too late to see */
            if (trial.rc != LS_OK || trial.reply.outcome != LOAD_OK)
                fail_msg("%d: %s", i, trial.diag.text);
        }
        load_probe_destroy(probe);
        tls_server_stop(server, &scene.seen);
        assert_int_equal(scene.seen.requests, 7);
        assert_int_equal(scene.seen.accepted, 3);
    }
}

static void a_probe_says_why_there_is_no_agreement(void **state)
{
    struct tls_pki *other = tls_pki_create("another CA");
    struct tls_server *server;
    struct load_probe *probe;
    struct scene scene;
    struct trial trial;

    (void)state;
    prepare(&scene);
    scene.tls.ca = tls_pki_ca(other);
    server = tls_server_start(&scene.server);
    tls_server_address(server, &scene.workload.address, &scene.workload.address_len);
    probe = probe_of(&scene);
    ask(probe, 0, 20 * LS_NS_PER_S, &trial);
    assert_int_equal(trial.rc, LS_EPROTO);
    assert_int_equal(trial.sent, 0);
    assert_non_null(strstr(trial.diag.text, "127.0.0.1:"));
    assert_non_null(strstr(trial.diag.text, "does not verify for '" NAME "': unable to get"));
    load_probe_destroy(probe);
    tls_server_stop(server, NULL);
    tls_pki_destroy(other);
}

static void a_probe_tells_a_cut_answer_from_a_whole_one(void **state)
{
    static const struct {
        enum tls_peer_end end;
        enum ls_err rc;
        enum load_outcome outcome;
        const char *says;
    } rows[] = { { PEER_NOTIFY, LS_OK, LOAD_OK, "" },
                 { PEER_FIN, LS_EPROTO, LOAD_TLS_ERROR, "hung up without close_notify" } };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        struct tls_server *server;
        struct load_probe *probe;
        struct scene scene;
        struct trial trial;

        prepare(&scene);
        one_request_per_connection(&scene);
        scene.workload.requests = requests;
        scene.server.answer = UNTIL_END;
        scene.server.end = rows[i].end;
        server = tls_server_start(&scene.server);
        tls_server_address(server, &scene.workload.address, &scene.workload.address_len);
        probe = probe_of(&scene);
        ask(probe, 1, 20 * LS_NS_PER_S, &trial);
        assert_int_equal(trial.rc, rows[i].rc);
        assert_int_equal(trial.reply.outcome, rows[i].outcome);
        assert_non_null(strstr(trial.diag.text, rows[i].says));
        load_probe_destroy(probe);
        tls_server_stop(server, NULL);
    }
}

static void a_probe_waits_for_a_handshake_no_longer_than_it_may(void **state)
{
    static const struct script silent = { .end = SCRIPT_HOLD };
    struct script_server server;
    struct load_probe *probe;
    struct scene scene;
    struct trial trial;

    (void)state;
    prepare(&scene);
    script_server_start(&server, &silent, 1, -1);
    scene.workload.address = server.address;
    scene.workload.address_len = server.address_len;
    probe = probe_of(&scene);
    ask(probe, 0, 50 * MS, &trial);
    assert_int_equal(trial.rc, LS_ETIMEOUT);
    assert_non_null(strstr(trial.diag.text, "no end of the TLS handshake within 0.05s"));
    load_probe_destroy(probe);
    script_server_stop(&server);
}

static int make_pki(void **state)
{
    (void)state;
    pki = tls_pki_create("a CA for the moment");
    tls_pki_issue(pki, "DNS:" NAME, PKI_SOUND, &identity);
    return 0;
}

static int forget_pki(void **state)
{
    (void)state;
    tls_identity_fini(&identity);
    tls_pki_destroy(pki);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_that_are_kept_shake_hands_once),
        cmocka_unit_test(handshakes_of_the_window_are_timed_and_all_are_counted),
        cmocka_unit_test(a_bare_fin_cuts_what_lasts_until_close_and_is_an_error),
        cmocka_unit_test(a_server_that_is_not_trusted_gets_no_request),
        cmocka_unit_test(the_responder_counts_the_same_over_tls),
        cmocka_unit_test(a_probe_speaks_tls_and_keeps_its_connection),
        cmocka_unit_test(a_probe_says_why_there_is_no_agreement),
        cmocka_unit_test(a_probe_tells_a_cut_answer_from_a_whole_one),
        cmocka_unit_test(a_probe_waits_for_a_handshake_no_longer_than_it_may),
    };
    int failed;

    io = LOAD_IO_LIBEV;
    failed = cmocka_run_group_tests_name("agent.load_tls", tests, make_pki, forget_pki);
    io = LOAD_IO_AUTO;
    return failed + cmocka_run_group_tests_name("agent.load_tls", tests, make_pki, forget_pki);
}

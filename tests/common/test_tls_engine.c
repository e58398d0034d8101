/* The engine below real streams of nng's, without the session above it. */
#include "tests/support/test.h"

#include <nng/nng.h>
#include <nng/supplemental/tls/tls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/tls_engine.h"
#include "tests/support/keys.h"
#include "tests/support/tmpdir.h"

struct fixture {
    struct tmpdir tmp;
    struct keys *keys;
    struct ls_credentials *coordinator;
    struct ls_credentials *agent;
    nng_stream_listener *listener;
    nng_stream_dialer *dialer;
    nng_stream *at_coordinator;
    nng_stream *at_agent;
    nng_aio *aio[2];
};

static const char *names = "DNS:localhost,IP:127.0.0.1"; /* of the coordinator, beside its URI */

static void issue_coordinator(struct fixture *f, const char *dir)
{
    char all[200];

    (void)snprintf(all, sizeof(all), "URI:lockstep:coordinator/main%s%s",
                   names[0] != '\0' ? "," : "", names);
    keys_issue(f->keys, &(struct keys_want){ .names = all, .purpose = "serverAuth" }, dir);
}

static void set_up(struct fixture *f)
{
    char url[64];
    char dir[300];
    int port = 0;

    *f = (struct fixture){ 0 };
    tmpdir_make(&f->tmp);
    f->keys = keys_create("lab");
    (void)snprintf(dir, sizeof(dir), "%s/coordinator", f->tmp.path);
    issue_coordinator(f, dir);
    assert_int_equal(ls_credentials_open(dir, LS_IDENTITY_COORDINATOR, &f->coordinator, NULL),
                     LS_OK);
    (void)snprintf(dir, sizeof(dir), "%s/agent", f->tmp.path);
    keys_issue_agent(f->keys, "client-1", dir);
    assert_int_equal(ls_credentials_open(dir, LS_IDENTITY_AGENT, &f->agent, NULL), LS_OK);
    assert_int_equal(ls_tls_engine_start(NULL), LS_OK);
    assert_int_equal(nng_stream_listener_alloc(&f->listener, "tls+tcp://127.0.0.1:0"), 0);
    assert_int_equal(ls_tls_listener(f->listener, f->coordinator, NULL), LS_OK);
    assert_int_equal(nng_stream_listener_listen(f->listener), 0);
    assert_int_equal(nng_stream_listener_get_int(f->listener, NNG_OPT_TCP_BOUND_PORT, &port), 0);
    (void)snprintf(url, sizeof(url), "tls+tcp://127.0.0.1:%d", port);
    assert_int_equal(nng_stream_dialer_alloc(&f->dialer, url), 0);
    for (size_t i = 0; i < LS_ARRAY_LEN(f->aio); i++) {
        assert_int_equal(nng_aio_alloc(&f->aio[i], NULL, NULL), 0);
        nng_aio_set_timeout(f->aio[i], 20000);
    }
}

/* Dials; false: that failed. The other end is accepted all the same. */
static bool connect_both(struct fixture *f)
{
    ls_tls_opening();
    nng_stream_listener_accept(f->listener, f->aio[0]);
    ls_tls_opening();
    nng_stream_dialer_dial(f->dialer, f->aio[1]);
    nng_aio_wait(f->aio[1]);
    if (nng_aio_result(f->aio[1]) != 0) {
        nng_aio_stop(f->aio[0]);
        if (nng_aio_result(f->aio[0]) == 0)
            f->at_coordinator = nng_aio_get_output(f->aio[0], 0); /* TCP came as far as that */
        return false;
    }
    f->at_agent = nng_aio_get_output(f->aio[1], 0);
    nng_aio_wait(f->aio[0]);
    assert_int_equal(nng_aio_result(f->aio[0]), 0);
    f->at_coordinator = nng_aio_get_output(f->aio[0], 0);
    return true;
}

static void tear_down(struct fixture *f)
{
    nng_stream_listener_close(f->listener);
    nng_stream_dialer_close(f->dialer);
    for (size_t i = 0; i < LS_ARRAY_LEN(f->aio); i++) {
        nng_aio_stop(f->aio[i]);
        nng_aio_free(f->aio[i]);
    }
    if (f->at_agent != NULL)
        nng_stream_free(f->at_agent);
    if (f->at_coordinator != NULL)
        nng_stream_free(f->at_coordinator);
    nng_stream_listener_free(f->listener);
    nng_stream_dialer_free(f->dialer);
    ls_credentials_close(f->coordinator);
    ls_credentials_close(f->agent);
    keys_destroy(f->keys);
    (void)ls_tls_engine_end();
    tmpdir_remove(&f->tmp);
}

static void nng_uses_the_engine_also_after_it_was_ended(void **state)
{
    bool ended = true;

    (void)state;
    for (int i = 0; i < 3; i++) {
        if (ended)
            assert_string_not_equal(nng_tls_engine_name(), "lockstep-openssl"); /* it has its own */
        assert_int_equal(ls_tls_engine_start(NULL), LS_OK);
        assert_string_equal(nng_tls_engine_name(), "lockstep-openssl");
        assert_int_equal(ls_tls_engine_start(NULL), LS_OK); /* once more does no harm */
        ended = ls_tls_engine_end();
    }
}

static void bytes_go_both_ways_whole_and_in_order(void **state)
{
    enum { BYTES = 1 << 20 };
    unsigned char *sent = malloc(BYTES);
    unsigned char *got = malloc(BYTES);
    struct fixture f;

    (void)state;
    assert_true(sent != NULL && got != NULL);
    for (size_t i = 0; i < BYTES; i++)
        sent[i] = (unsigned char)(i * 7 + i / 251);
    set_up(&f);
    assert_int_equal(ls_tls_dialer(f.dialer, f.agent, "127.0.0.1", NULL), LS_OK);
    assert_true(connect_both(&f));
    for (int way = 0; way < 2; way++) {
        nng_stream *from = way == 0 ? f.at_agent : f.at_coordinator;
        nng_stream *to = way == 0 ? f.at_coordinator : f.at_agent;
        size_t out = 0;
        size_t in = 0;

        while (in < BYTES) {
            nng_iov give = { .iov_buf = sent + out, .iov_len = BYTES - out };
            nng_iov take = { .iov_buf = got + in, .iov_len = BYTES - in };

            (void)nng_aio_set_iov(f.aio[1], 1, &take);
            nng_stream_recv(to, f.aio[1]);
            if (out < BYTES) {
                (void)nng_aio_set_iov(f.aio[0], 1, &give);
                nng_stream_send(from, f.aio[0]);
                nng_aio_wait(f.aio[0]);
                assert_int_equal(nng_aio_result(f.aio[0]), 0);
                out += nng_aio_count(f.aio[0]);
            }
            nng_aio_wait(f.aio[1]);
            assert_int_equal(nng_aio_result(f.aio[1]), 0);
            in += nng_aio_count(f.aio[1]);
        }
        assert_memory_equal(sent, got, BYTES);
        memset(got, 0, BYTES);
    }
    tear_down(&f);
    free(sent);
    free(got);
}

static int try_to_receive(struct fixture *f, nng_stream *stream)
{
    unsigned char byte;
    nng_iov iov = { .iov_buf = &byte, .iov_len = 1 };

    (void)nng_aio_set_iov(f->aio[0], 1, &iov);
    nng_stream_recv(stream, f->aio[0]);
    nng_aio_wait(f->aio[0]);
    return nng_aio_result(f->aio[0]);
}

static void nobody_is_proven_before_the_handshake_is_over(void **state)
{
    struct ls_tls_peer peer;
    struct fixture f;

    (void)state;
    set_up(&f);
    assert_int_equal(ls_tls_dialer(f.dialer, f.agent, "127.0.0.1", NULL), LS_OK);
    assert_true(connect_both(&f));
    ls_tls_look(f.at_agent, &peer); /* nothing has been sent or received yet */
    assert_false(peer.identity.proven);
    assert_string_equal(peer.identity.name, "");
    assert_string_equal(peer.trouble, "");
    tear_down(&f);
}

/* Ends with what the agent's side comes to. */
static int receive_as(struct fixture *f, const char *host)
{
    unsigned char byte;
    nng_iov iov = { .iov_buf = &byte, .iov_len = 1 };

    assert_int_equal(ls_tls_dialer(f->dialer, f->agent, host, NULL), LS_OK);
    assert_true(connect_both(f));
    (void)nng_aio_set_iov(f->aio[1], 1, &iov);
    nng_stream_recv(f->at_coordinator, f->aio[1]); /* its part of the handshake */
    return try_to_receive(f, f->at_agent);
}

static void a_wrong_name_ends_it_with_the_reason_on_record(void **state)
{
    static const struct {
        const char *names;
        const char *host;
        const char *says;
    } cases[] = {
        { "DNS:localhost", "elsewhere.test", "hostname mismatch" },
        { "DNS:*.example.test", "lab.example.test", "hostname mismatch" }, /* no wildcards */
        { "DNS:lab.example.test", "x.lab.example.test", "hostname mismatch" },
        { "", "leaf", "hostname mismatch" }, /* that is the subject's common name */
        { "IP:127.0.0.1", "127.0.0.2", "IP address mismatch" },
        { "DNS:127.0.0.1", "127.0.0.1", "IP address mismatch" },
        { "IP:127.0.0.1", "::1", "IP address mismatch" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct ls_tls_peer peer;
        struct fixture f;

        names = cases[i].names;
        set_up(&f);
        if (receive_as(&f, cases[i].host) != NNG_EPEERAUTH)
            fail_msg("%s was taken for %s", cases[i].names, cases[i].host);
        ls_tls_look(f.at_agent, &peer);
        assert_false(peer.identity.proven);
        assert_non_null(strstr(peer.trouble, cases[i].says));
        assert_int_equal(try_to_receive(&f, f.at_agent), NNG_EPEERAUTH); /* and stays so */
        tear_down(&f);
    }
    names = "DNS:localhost,IP:127.0.0.1";
}

static bool is_known_as(const char *host)
{
    unsigned char byte = 7;
    nng_iov iov = { .iov_buf = &byte, .iov_len = 1 };
    struct ls_tls_peer peer;
    struct fixture f;

    set_up(&f);
    assert_int_equal(ls_tls_dialer(f.dialer, f.agent, host, NULL), LS_OK);
    assert_true(connect_both(&f));
    (void)nng_aio_set_iov(f.aio[1], 1, &iov);
    nng_stream_send(f.at_coordinator, f.aio[1]);
    assert_int_equal(try_to_receive(&f, f.at_agent), 0);
    ls_tls_look(f.at_agent, &peer);
    tear_down(&f);
    return peer.identity.proven && strcmp(peer.identity.uri, "lockstep:coordinator/main") == 0;
}

static void each_name_in_the_certificate_is_a_right_one(void **state)
{
    (void)state;
    names = "DNS:lab.example.test,DNS:localhost,IP:127.0.0.1,IP:2001:db8::7";
    assert_true(is_known_as("lab.example.test"));
    assert_true(is_known_as("LOCALHOST"));
    assert_true(is_known_as("127.0.0.1"));
    assert_true(is_known_as("2001:db8:0::7"));
    names = "DNS:localhost,IP:127.0.0.1";
}

/* nng's own default has no name to check and no keys: with the engine, it is of no use. */
static void a_stream_that_nobody_gave_keys_connects_to_nobody(void **state)
{
    struct fixture f;

    (void)state;
    set_up(&f);
    assert_false(connect_both(&f));
    assert_int_equal(nng_aio_result(f.aio[1]), NNG_EPEERAUTH);
    tear_down(&f);
}

static void what_nng_can_set_does_not_weaken_it(void **state)
{
    nng_tls_config *config = NULL;
    struct fixture f;

    (void)state;
    set_up(&f);
    assert_int_equal(nng_tls_config_alloc(&config, NNG_TLS_MODE_CLIENT), 0);
    assert_int_equal(nng_tls_config_auth_mode(config, NNG_TLS_AUTH_MODE_NONE), NNG_ENOTSUP);
    assert_int_equal(nng_tls_config_auth_mode(config, NNG_TLS_AUTH_MODE_OPTIONAL), NNG_ENOTSUP);
    assert_int_equal(nng_tls_config_version(config, NNG_TLS_1_2, NNG_TLS_1_2), NNG_ENOTSUP);
    assert_int_equal(nng_tls_config_ca_chain(config, "x", NULL), NNG_ENOTSUP);
    assert_int_equal(nng_tls_config_own_cert(config, "x", "x", NULL), NNG_ENOTSUP);
    assert_int_equal(nng_stream_dialer_set_ptr(f.dialer, NNG_OPT_TLS_CONFIG, config), 0);
    nng_tls_config_free(config);
    assert_false(connect_both(&f));
    tear_down(&f);
}

static void keys_of_the_other_role_and_no_host_are_refused(void **state)
{
    char endless[400];
    struct fixture f;

    (void)state;
    memset(endless, 'x', sizeof(endless) - 1);
    endless[sizeof(endless) - 1] = '\0';
    set_up(&f);
    assert_int_equal(ls_tls_dialer(f.dialer, f.coordinator, "127.0.0.1", NULL), LS_EREFUSED);
    assert_int_equal(ls_tls_listener(f.listener, f.agent, NULL), LS_EREFUSED);
    assert_int_equal(ls_tls_dialer(f.dialer, f.agent, "", NULL), LS_EINVAL);
    assert_int_equal(ls_tls_dialer(f.dialer, f.agent, endless, NULL), LS_EINVAL);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nng_uses_the_engine_also_after_it_was_ended),
        cmocka_unit_test(bytes_go_both_ways_whole_and_in_order),
        cmocka_unit_test(nobody_is_proven_before_the_handshake_is_over),
        cmocka_unit_test(a_wrong_name_ends_it_with_the_reason_on_record),
        cmocka_unit_test(each_name_in_the_certificate_is_a_right_one),
        cmocka_unit_test(a_stream_that_nobody_gave_keys_connects_to_nobody),
        cmocka_unit_test(what_nng_can_set_does_not_weaken_it),
        cmocka_unit_test(keys_of_the_other_role_and_no_host_are_refused),
    };
    return cmocka_run_group_tests_name("common.tls_engine", tests, NULL, NULL);
}

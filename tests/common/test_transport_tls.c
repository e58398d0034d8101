/* Sessions over TLS: who gets in, who does not, and what each side says about it. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/common/tls_rig.h"

static bool has_no_session(struct rig *rig)
{
    struct tls_rig *t = (struct tls_rig *)rig;

    return strstr(tls_rig_log(t), "tls.no_session") != NULL;
}

static bool is_turned_away(struct rig *rig)
{
    struct tls_rig *t = (struct tls_rig *)rig;

    return strstr(tls_rig_log(t), "transport.turned_away") != NULL;
}

static bool a_report_came(struct rig *rig)
{
    return rig->reports > 0;
}

/* ---- those who belong ---- */

static void both_ends_know_who_the_other_one_is(void **state)
{
    const struct ls_identity *peer;
    const struct ls_identity *coordinator;
    struct tls_rig t;

    (void)state;
    tls_rig_init(&t);
    tls_rig_keys(&t);
    tls_rig_listen(&t);
    tls_rig_dial(&t, "127.0.0.1", "client-1", "boot-a");
    rig_until(&t.rig, rig_both_up);
    peer = ls_peer_identity(t.rig.peer);
    assert_true(peer->proven);
    assert_int_equal(peer->role, LS_IDENTITY_AGENT);
    assert_string_equal(peer->name, "client-1");
    assert_string_equal(peer->uri, "lockstep:agent/client-1");
    assert_string_equal(peer->fingerprint, ls_credentials_identity(t.rig.agent_keys)->fingerprint);
    assert_int_equal(strncmp(ls_peer_address(t.rig.peer), "127.0.0.1:", 10), 0);
    coordinator = ls_dialer_identity(t.rig.dialer);
    assert_true(coordinator->proven);
    assert_string_equal(coordinator->uri, "lockstep:coordinator/main");
    assert_string_equal(coordinator->fingerprint,
                        ls_credentials_identity(t.rig.coordinator_keys)->fingerprint);
    assert_int_equal(rig_report(t.rig.dialer, 1), LS_OK);
    rig_until(&t.rig, a_report_came);
    assert_string_equal(tls_rig_log(&t), "");
    tls_rig_fini(&t);
}

static void the_coordinator_is_known_by_each_name_in_its_certificate(void **state)
{
    static const char *const hosts[] = { "localhost", "127.0.0.1" };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(hosts); i++) {
        struct tls_rig t;

        tls_rig_init(&t);
        tls_rig_keys(&t);
        tls_rig_listen(&t);
        tls_rig_dial(&t, hosts[i], "client-1", "boot-a");
        rig_until(&t.rig, rig_both_up);
        tls_rig_fini(&t);
    }
}

static void ipv6_works_too(void **state)
{
    struct tls_rig t;

    (void)state;
    tls_rig_init(&t);
    tls_rig_keys(&t);
    rig_listen_at(&t.rig, "tls+tcp://[::1]:0", "run-1");
    tls_rig_dial(&t, "[::1]", "client-1", "boot-a");
    rig_until(&t.rig, rig_both_up);
    assert_int_equal(strncmp(ls_peer_address(t.rig.peer), "[::1]:", 6), 0);
    tls_rig_fini(&t);
}

/* ---- agents that the coordinator turns away ---- */

struct agent_case {
    const char *what;
    struct keys_want want;
    const char *says; /* in the coordinator's log */
    bool foreign;     /* of another authority */
    bool revoked;
};

static void attempt(const struct agent_case *c)
{
    struct keys *other = keys_create("lab"); /* of the same name */
    char dir[300];
    struct tls_rig t;

    tls_rig_init(&t);
    tls_rig_folder(&t, "stranger", dir);
    keys_issue(c->foreign ? other : t.keys, &c->want, dir);
    if (c->revoked) {
        keys_revoke(t.keys, dir);
        keys_write_crl(t.keys, t.coordinator_dir);
    }
    tls_rig_keys(&t);
    tls_rig_listen(&t);
    tls_rig_client(&t, dir, 0);
    rig_until(&t.rig, tls_rig_client_ended);
    rig_until(&t.rig, is_turned_away);
    if (strstr(tls_rig_log(&t), c->says) == NULL)
        fail_msg("%s: \"%s\" instead of \"%s\"", c->what, tls_rig_log(&t), c->says);
    tls_rig_expect_log(&t, "from=127.0.0.1:");
    assert_int_equal(t.rig.enrolled, 0);
    assert_int_equal(t.got_len, 0);
    tls_rig_dial(&t, "127.0.0.1", "client-1", "boot-a"); /* who belongs gets in all the same */
    rig_until(&t.rig, rig_both_up);
    tls_rig_fini(&t);
    keys_destroy(other);
}

#define AGENT "URI:lockstep:agent/client-2"

static void agents_without_a_sound_certificate_are_turned_away(void **state)
{
    static const struct ls_bytes two[] = {
        { (const unsigned char *)"lockstep:agent/a", 16 },
        { (const unsigned char *)"lockstep:agent/b", 16 },
    };
    static const struct ls_bytes nul[] = {
        { (const unsigned char *)"lockstep:agent/client-1\0.evil", 29 },
    };
    static const struct agent_case cases[] = {
        { "foreign", { .names = AGENT, .purpose = "clientAuth" }, "why=", true, false },
        { "expired",
          { .names = AGENT, .purpose = "clientAuth", .from_days = -3, .until_days = -1 },
          "Z): it says it is lockstep:agent/client-2",
          false,
          false },
        { "early",
          { .names = AGENT, .purpose = "clientAuth", .from_days = 1, .until_days = 3 },
          "why=certificate is not yet valid (this host's clock says ",
          false,
          false },
        { "revoked",
          { .names = AGENT, .purpose = "clientAuth" },
          "why=certificate revoked",
          false,
          true },
        { "self-signed",
          { .names = AGENT, .purpose = "clientAuth", .self_signed = true },
          "why=self-signed certificate",
          false,
          false },
        { "coordinator as agent",
          { .names = "URI:lockstep:coordinator/x", .purpose = "serverAuth" },
          "why=unsuitable certificate purpose",
          false,
          false },
        { "coordinator's name with an agent's purpose",
          { .names = "URI:lockstep:coordinator/x", .purpose = "clientAuth,serverAuth" },
          "why=the certificate of lockstep:coordinator/x where one of an agent has to be",
          false,
          false },
        { "no purpose",
          { .names = AGENT },
          "why=the certificate of lockstep:agent/client-2 is not for a TLS client",
          false,
          false },
        { "server's purpose",
          { .names = AGENT, .purpose = "serverAuth" },
          "why=unsuitable",
          false,
          false },
        { "no identity",
          { .names = "DNS:client-2", .purpose = "clientAuth" },
          "why=the certificate names no holder",
          false,
          false },
        { "two identities",
          { .uris = two, .uri_count = 2, .purpose = "clientAuth" },
          "why=the certificate names more than one holder",
          false,
          false },
        { "a NUL in it",
          { .uris = nul, .uri_count = 1, .purpose = "clientAuth" },
          "why=the certificate's holder is none of ours",
          false,
          false },
        { "an authority's",
          { .names = AGENT, .purpose = "clientAuth", .authority = true },
          "is one of an authority",
          false,
          false },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++)
        attempt(&cases[i]);
}

static void a_client_without_certificate_is_turned_away(void **state)
{
    struct tls_rig t;

    (void)state;
    tls_rig_init(&t);
    tls_rig_keys(&t);
    tls_rig_listen(&t);
    tls_rig_client(&t, NULL, 0);
    rig_until(&t.rig, tls_rig_client_ended);
    rig_until(&t.rig, is_turned_away);
    tls_rig_expect_log(&t, "peer did not return a certificate");
    assert_int_equal(t.got_len, 0);
    tls_rig_fini(&t);
}

static void a_client_of_tls_1_2_is_turned_away(void **state)
{
    struct tls_rig t;

    (void)state;
    tls_rig_init(&t);
    tls_rig_keys(&t);
    tls_rig_listen(&t);
    tls_rig_client(&t, t.agent_dir, TLS1_2_VERSION);
    rig_until(&t.rig, tls_rig_client_ended);
    rig_until(&t.rig, is_turned_away);
    tls_rig_expect_log(&t, "the other side has no TLS 1.3");
    tls_rig_fini(&t);
}

/* The certificate is client-1's: another name in HELLO is a lie. */
static void an_agent_by_another_name_than_its_certificate_s_is_refused(void **state)
{
    unsigned char frame[64] = { 0 };
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__Hello hello = LS__HELLO__INIT;
    char agent[] = "client-2";
    char boot[] = "boot-b";
    size_t len;
    struct tls_rig t;

    (void)state;
    envelope.version = LS_WIRE_VERSION;
    envelope.body_case = LS__ENVELOPE__BODY_HELLO;
    envelope.hello = &hello;
    hello.agent = agent;
    hello.boot_id = boot;
    hello.next_seq = 1;
    len = ls__envelope__get_packed_size(&envelope);
    assert_true(len + LS_FRAME_HEAD < sizeof(frame));
    frame[0] = (unsigned char)len;
    (void)ls__envelope__pack(&envelope, frame + LS_FRAME_HEAD);

    tls_rig_init(&t);
    tls_rig_keys(&t);
    tls_rig_listen(&t);
    tls_rig_client(&t, t.agent_dir, 0);
    rig_until(&t.rig, tls_rig_client_shook_hands);
    tls_rig_client_send(&t, frame, LS_FRAME_HEAD + len);
    rig_until(&t.rig, tls_rig_client_ended);
    tls_rig_expect_log(&t, "why=identity: the certificate is one of lockstep:agent/client-1, the "
                           "name said is 'client-2'");
    assert_int_equal(t.rig.enrolled, 0);
    assert_true(t.got_len > 0); /* REFUSE */
    tls_rig_fini(&t);
}

/* ---- coordinators that the agent does not take ---- */

static void a_coordinator_without_a_sound_certificate_gets_no_agent(void **state)
{
    static const struct {
        struct keys_want want;
        const char *host;
        const char *says;
        bool foreign;
        bool revoked;
    } cases[] = {
        { { .names = "URI:lockstep:coordinator/main,DNS:example.test,IP:127.0.0.2",
            .purpose = "serverAuth" },
          "127.0.0.1",
          "IP address mismatch",
          false,
          false },
        { { .names = "URI:lockstep:coordinator/main,DNS:*.test,IP:127.0.0.1",
            .purpose = "serverAuth" },
          "localhost",
          "hostname mismatch",
          false,
          false },
        { { .names = "URI:lockstep:coordinator/main,DNS:127.0.0.1", .purpose = "serverAuth" },
          "127.0.0.1",
          "IP address mismatch", /* an address is no name */
          false,
          false },
        { { .names = "URI:lockstep:coordinator/main,IP:127.0.0.1", .purpose = "serverAuth" },
          "127.0.0.1",
          "why=",
          true,
          false },
        { { .names = "URI:lockstep:coordinator/main,IP:127.0.0.1", .purpose = "serverAuth" },
          "127.0.0.1",
          "certificate revoked: it says it is lockstep:coordinator/main",
          false,
          true },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct keys *other = keys_create("lab");
        struct tls_rig t;

        tls_rig_init(&t);
        keys_issue(cases[i].foreign ? other : t.keys, &cases[i].want, t.coordinator_dir);
        if (cases[i].revoked) {
            keys_revoke(t.keys, t.coordinator_dir);
            keys_write_crl(t.keys, t.agent_dir); /* the coordinator's own list is an old one */
        }
        tls_rig_keys(&t);
        tls_rig_listen(&t);
        tls_rig_dial(&t, cases[i].host, "client-1", "boot-a");
        rig_until(&t.rig, has_no_session);
        tls_rig_expect_log(&t, cases[i].says);
        rig_until(&t.rig, is_turned_away); /* with the alert, unless the reset overtook it */
        assert_int_equal(t.rig.enrolled + t.rig.ups, 0);
        tls_rig_fini(&t);
        keys_destroy(other);
    }
}

/* ---- keys that change while the programs run ---- */

static bool is_back(struct rig *rig)
{
    return rig->resumes > 0 && rig_both_up(rig);
}

static void a_renewed_certificate_is_used_for_the_next_connection(void **state)
{
    char before[LS_SHA256_HEX];
    char coordinator_before[LS_SHA256_HEX];
    struct tls_rig t;

    (void)state;
    tls_rig_init(&t);
    tls_rig_keys(&t);
    tls_rig_listen(&t);
    tls_rig_dial(&t, "127.0.0.1", "client-1", "boot-a");
    rig_until(&t.rig, rig_both_up);
    memcpy(before, ls_peer_identity(t.rig.peer)->fingerprint, sizeof(before));
    memcpy(coordinator_before, ls_dialer_identity(t.rig.dialer)->fingerprint, sizeof(before));
    keys_issue_agent(t.keys, "client-1", t.agent_dir);
    keys_issue_coordinator(t.keys, "main", t.coordinator_dir);
    ls_dialer_drop(t.rig.dialer);
    rig_until(&t.rig, is_back);
    assert_int_equal(t.rig.enrolled, 1); /* the same session */
    assert_string_not_equal(ls_peer_identity(t.rig.peer)->fingerprint, before);
    assert_string_not_equal(ls_dialer_identity(t.rig.dialer)->fingerprint, coordinator_before);
    assert_string_equal(tls_rig_log(&t), "");
    tls_rig_fini(&t);
}

static void a_session_is_not_gone_on_with_by_another_coordinator(void **state)
{
    struct tls_rig t;
    char other[300], url[96];

    (void)state;
    tls_rig_init(&t);
    tls_rig_keys(&t);
    tls_rig_listen(&t);
    (void)snprintf(url, sizeof(url), "%s", ls_listener_url(t.rig.listener));
    tls_rig_dial(&t, "127.0.0.1", "client-1", "boot-a");
    rig_until(&t.rig, rig_both_up);
    ls_listener_destroy(t.rig.listener);
    ls_credentials_close(t.rig.coordinator_keys);
    tls_rig_folder(&t, "other", other);
    keys_issue_coordinator(t.keys, "other", other);
    assert_int_equal(
        ls_credentials_open(other, LS_IDENTITY_COORDINATOR, &t.rig.coordinator_keys, NULL), LS_OK);
    rig_listen_at(&t.rig, url, "run-1"); /* it has heard of it */
    rig_until(&t.rig, rig_was_refused);
    assert_string_equal(t.rig.refused_code, "foreign_run");
    assert_int_equal(t.rig.resumes, 0);
    tls_rig_fini(&t);
}

static void an_agent_revoked_in_the_middle_does_not_come_back(void **state)
{
    struct tls_rig t;

    (void)state;
    tls_rig_init(&t);
    tls_rig_keys(&t);
    tls_rig_listen(&t);
    tls_rig_dial(&t, "127.0.0.1", "client-1", "boot-a");
    rig_until(&t.rig, rig_both_up);
    keys_revoke(t.keys, t.agent_dir);
    keys_write_crl(t.keys, t.coordinator_dir); /* the coordinator's alone, while it listens */
    ls_dialer_drop(t.rig.dialer);
    rig_until(&t.rig, is_turned_away);
    tls_rig_expect_log(&t, "why=certificate revoked: it says it is lockstep:agent/client-1");
    assert_int_equal(t.rig.resumes, 0);
    keys_issue_agent(t.keys, "client-1", t.agent_dir); /* another chance */
    rig_until(&t.rig, is_back);
    tls_rig_fini(&t);
}

static bool peer_is_down(struct rig *rig)
{
    return rig->peer_downs > 0;
}

static void who_is_revoked_is_cut_off_within_a_sweep(void **state)
{
    struct tls_rig t;

    (void)state;
    tls_rig_init(&t);
    tls_rig_keys(&t);
    tls_rig_listen(&t);
    tls_rig_dial(&t, "127.0.0.1", "client-1", "boot-a");
    rig_until(&t.rig, rig_both_up);
    keys_revoke(t.keys, t.agent_dir);
    keys_write_crl(t.keys, t.coordinator_dir);
    rig_until(&t.rig, peer_is_down); /* nobody has touched the connection */
    assert_string_equal(t.rig.last_why, "certificate revoked: it was lockstep:agent/client-1");
    rig_until(&t.rig, is_turned_away);
    assert_int_equal(t.rig.resumes, 0);
    tls_rig_fini(&t);
}

static bool dialer_is_down(struct rig *rig)
{
    return rig->downs > 0;
}

static void an_agent_leaves_a_coordinator_that_is_revoked(void **state)
{
    struct tls_rig t;

    (void)state;
    tls_rig_init(&t);
    tls_rig_keys(&t);
    tls_rig_listen(&t);
    tls_rig_dial(&t, "127.0.0.1", "client-1", "boot-a");
    rig_until(&t.rig, rig_both_up);
    keys_revoke(t.keys, t.coordinator_dir);
    keys_write_crl(t.keys, t.agent_dir);
    rig_until(&t.rig, dialer_is_down);
    rig_until(&t.rig, has_no_session);
    tls_rig_expect_log(&t, "certificate revoked: it says it is lockstep:coordinator/main");
    tls_rig_fini(&t);
}

static bool ends_have_new_keys(struct rig *rig)
{
    return ls_credentials_generation(rig->coordinator_keys) == 2 &&
           ls_credentials_generation(rig->agent_keys) == 2;
}

static void a_connection_outlives_the_renewal_of_its_keys(void **state)
{
    struct tls_rig t;

    (void)state;
    tls_rig_init(&t);
    tls_rig_keys(&t);
    tls_rig_listen(&t);
    tls_rig_dial(&t, "127.0.0.1", "client-1", "boot-a");
    rig_until(&t.rig, rig_both_up);
    keys_issue_agent(t.keys, "client-1", t.agent_dir);
    keys_issue_coordinator(t.keys, "main", t.coordinator_dir);
    rig_until(&t.rig, ends_have_new_keys);
    rig_run_ms(&t.rig, 200); /* some sweeps */
    assert_int_equal(rig_report(t.rig.dialer, 1), LS_OK);
    rig_until(&t.rig, a_report_came);
    assert_int_equal(t.rig.downs + t.rig.peer_downs, 0);
    tls_rig_fini(&t);
}

static void a_certificate_that_ends_soon_is_told_of_once(void **state)
{
    static const struct keys_want short_lived = { .names = "URI:lockstep:agent/client-1",
                                                  .purpose = "clientAuth",
                                                  .from_days = -20,
                                                  .until_days = 1 };
    const char *said;
    struct tls_rig t;

    (void)state;
    tls_rig_init(&t);
    keys_issue(t.keys, &short_lived, t.agent_dir);
    tls_rig_keys(&t);
    tls_rig_listen(&t);
    tls_rig_dial(&t, "127.0.0.1", "client-1", "boot-a");
    rig_until(&t.rig, rig_both_up);
    ls_dialer_drop(t.rig.dialer);
    rig_until(&t.rig, is_back);
    tls_rig_expect_log(&t, "lockstep pki issue agent client-1 --renew");
    said = strstr(tls_rig_log(&t), "tls.ends_soon");
    assert_non_null(said);
    assert_null(strstr(said + 1, "tls.ends_soon"));
    tls_rig_fini(&t);
}

static bool has_said_that_it_keeps_the_old_ones(struct rig *rig)
{
    struct tls_rig *t = (struct tls_rig *)rig;

    return strstr(tls_rig_log(t), "tls.not_renewed") != NULL && is_back(rig);
}

static void keys_that_are_broken_in_the_middle_are_not_taken_over(void **state)
{
    static const struct keys_want broken = { .names = "URI:lockstep:agent/client-1",
                                             .purpose = "clientAuth",
                                             .foreign_key = true };
    struct tls_rig t;

    (void)state;
    tls_rig_init(&t);
    tls_rig_keys(&t);
    tls_rig_listen(&t);
    tls_rig_dial(&t, "127.0.0.1", "client-1", "boot-a");
    rig_until(&t.rig, rig_both_up);
    keys_issue(t.keys, &broken, t.agent_dir);
    ls_dialer_drop(t.rig.dialer);
    rig_until(&t.rig, has_said_that_it_keeps_the_old_ones);
    tls_rig_expect_log(&t, "the keys from before stay in use");
    tls_rig_fini(&t);
}

/* nng 1.5.2 frees what a failed dial leaves behind on its own time, and aborts if it is ended
 * before that. Nothing to see here but that the process lives. */
static void an_agent_may_leave_whenever_it_likes(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        struct tls_rig t;
        char url[64];

        tls_rig_init(&t);
        tls_rig_keys(&t);
        tls_rig_listen(&t);
        (void)snprintf(url, sizeof(url), "tls+tcp://127.0.0.1:%u", tls_rig_port(&t));
        if (i % 2 == 0) {
            ls_listener_destroy(t.rig.listener); /* nobody listens any more */
            t.rig.listener = NULL;
        }
        assert_int_equal(rig_dialer(&t.rig, url, "client-1", "boot-a", 0, &t.rig.dialer), LS_OK);
        rig_run_ms(&t.rig, i % 4);
        tls_rig_fini(&t);
    }
}

/* ---- before anything is dialled ---- */

static void keys_of_the_wrong_kind_are_refused_at_once(void **state)
{
    static const char *const nowhere[] = {
        "tls+tcp://127.0.0.1:0",      "tls+tcp://*:7000",     "tls+tcp://:7000",
        "tls+tcp://127.0.0.1",        "tls+tcp://127.0.0.1:", "tls+tcp://127.0.0.1:70000",
        "tls+tcp://127.0.0.1:7000/x", "tls+tcp://[::1:7000",  "tls+tcp://a b:7000",
        "tls+tcp://user@host:7000",   "tls+tcp://[::g]:7000", "tls+tcp://a%00b:7000",
    };
    struct ls_listener_env lenv = { 0 };
    struct ls_listener *listener = NULL;
    struct ls_diag diag = { 0 };
    struct tls_rig t;
    struct ls_credentials *coordinator;
    struct ls_credentials *agent;

    (void)state;
    tls_rig_init(&t);
    tls_rig_keys(&t);
    coordinator = t.rig.coordinator_keys;
    agent = t.rig.agent_keys;
    assert_int_equal(rig_dialer(&t.rig, "tls+tcp://127.0.0.1:1", "client-2", "b", 0, &t.rig.dialer),
                     LS_EREFUSED);
    assert_non_null(strstr(t.rig.diag.text, "those of lockstep:agent/client-1"));
    t.rig.agent_keys = coordinator;
    assert_int_equal(rig_dialer(&t.rig, "tls+tcp://127.0.0.1:1", "main", "b", 0, &t.rig.dialer),
                     LS_EREFUSED);
    assert_non_null(strstr(t.rig.diag.text, "who dials has to be an agent"));
    t.rig.agent_keys = NULL;
    assert_int_equal(rig_dialer(&t.rig, "tls+tcp://192.0.2.1:1", "x", "b", 0, &t.rig.dialer),
                     LS_EREFUSED);
    assert_non_null(strstr(t.rig.diag.text, "--keys DIR"));
    assert_int_equal(rig_dialer(&t.rig, "tcp://192.0.2.1:1", "x", "b", 0, &t.rig.dialer),
                     LS_EREFUSED);
    assert_non_null(strstr(t.rig.diag.text, "use tls+tcp://192.0.2.1:1 and --keys DIR"));
    t.rig.agent_keys = agent;
    for (size_t i = 0; i < LS_ARRAY_LEN(nowhere); i++) {
        assert_int_equal(rig_dialer(&t.rig, nowhere[i], "client-1", "b", 0, &t.rig.dialer),
                         LS_EINVAL);
        assert_non_null(strstr(t.rig.diag.text, nowhere[i]));
    }
    assert_int_equal(ls_listener_create(t.rig.loop,
                                        &(struct ls_listener_options){ .url = TLS_RIG_URL,
                                                                       .run_id = "run-1",
                                                                       .credentials = agent },
                                        &lenv, &listener, &diag),
                     LS_EREFUSED);
    assert_non_null(strstr(diag.text, "who listens has to be a coordinator"));
    tls_rig_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_know_who_the_other_one_is),
        cmocka_unit_test(the_coordinator_is_known_by_each_name_in_its_certificate),
        cmocka_unit_test(ipv6_works_too),
        cmocka_unit_test(agents_without_a_sound_certificate_are_turned_away),
        cmocka_unit_test(a_client_without_certificate_is_turned_away),
        cmocka_unit_test(a_client_of_tls_1_2_is_turned_away),
        cmocka_unit_test(an_agent_by_another_name_than_its_certificate_s_is_refused),
        cmocka_unit_test(a_coordinator_without_a_sound_certificate_gets_no_agent),
        cmocka_unit_test(a_renewed_certificate_is_used_for_the_next_connection),
        cmocka_unit_test(a_session_is_not_gone_on_with_by_another_coordinator),
        cmocka_unit_test(an_agent_revoked_in_the_middle_does_not_come_back),
        cmocka_unit_test(who_is_revoked_is_cut_off_within_a_sweep),
        cmocka_unit_test(an_agent_leaves_a_coordinator_that_is_revoked),
        cmocka_unit_test(a_connection_outlives_the_renewal_of_its_keys),
        cmocka_unit_test(a_certificate_that_ends_soon_is_told_of_once),
        cmocka_unit_test(keys_that_are_broken_in_the_middle_are_not_taken_over),
        cmocka_unit_test(an_agent_may_leave_whenever_it_likes),
        cmocka_unit_test(keys_of_the_wrong_kind_are_refused_at_once),
    };
    return cmocka_run_group_tests_name("common.transport_tls", tests, NULL, NULL);
}

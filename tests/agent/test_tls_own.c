/* Records of TLS 1.3 that are made and read without OpenSSL, once a connection goes on: the other
 * end is OpenSSL on memory, and must not notice. */
#include "tests/support/test.h"

#include <openssl/err.h>
#include <stdio.h>
#include <string.h>

#include "agent/load/tls.h"
#include "agent/load/tls_records.h"
#include "tests/support/tls_peer.h"

#define NAME        "example.test"
#define WIRE_BYTES  (64u << 10)
#define ROUND_BYTES 13u

static struct tls_pki *pki;
static struct tls_identity identity;
static struct load_tls settings;
static struct tls_peer_setup peer_setup;

/* A session and the other end of it. */
struct talk {
    struct tls_context *context;
    struct tls_session *session;
    SSL_CTX *ctx;
    struct tls_peer peer;
    size_t piece; /* most that the session takes at once; 0: all */
    uint64_t told;
    uint64_t heard;
    enum tls_result result; /* of the last open */
};

static uint8_t pattern(uint64_t i)
{
    return (uint8_t)(i % 251);
}

static const struct tls_stats *stats(const struct talk *talk)
{
    return tls_context_stats(talk->context);
}

/* Gives the session len bytes of wire, in pieces; what comes of it is the pattern. */
static void give(struct talk *talk, const uint8_t *wire, size_t len)
{
    static uint8_t plain[TLS_OPEN_LEAST + 1000];

    for (size_t at = 0; at < len && talk->result == TLS_OK;) {
        size_t n = talk->piece > 0 && talk->piece < len - at ? talk->piece : len - at;

        tls_take(talk->session, (struct ls_bytes){ wire + at, n });
        at += n;
        if (!tls_is_secured(talk->session)) {
            talk->result = tls_shake(talk->session);
            if (talk->result != TLS_OK || !tls_is_secured(talk->session))
                continue;
        }
        do {
            size_t got = 0;

            talk->result = tls_open(talk->session, plain, sizeof(plain), &got);
            for (size_t i = 0; i < got; i++)
                assert_int_equal(plain[i], pattern(talk->heard + i));
            talk->heard += got;
        } while (talk->result == TLS_OK && tls_has_more(talk->session));
    }
}

/* Carries what either end has to say until neither has anything. */
static void carry(struct talk *talk)
{
    static uint8_t wire[WIRE_BYTES];
    size_t len = 1;
    int n = 1;

    while (len > 0 || n > 0) {
        len = tls_drain(talk->session, wire, sizeof(wire));
        if (len > 0)
            assert_int_equal(BIO_write(talk->peer.in, wire, (int)len), len);
        if (!SSL_is_init_finished(talk->peer.ssl))
            (void)SSL_do_handshake(talk->peer.ssl);
        ERR_clear_error();
        n = BIO_read(talk->peer.out, wire, sizeof(wire));
        if (n > 0)
            give(talk, wire, (size_t)n);
    }
}

static void shake(struct talk *talk)
{
    talk->told = talk->heard = 0;
    talk->result = TLS_OK;
    tls_peer_init(&talk->peer, talk->ctx);
    talk->session = tls_begin(talk->context);
    assert_non_null(talk->session);
    assert_int_equal(tls_shake(talk->session), TLS_OK);
    carry(talk);
    assert_true(tls_is_secured(talk->session) && SSL_is_init_finished(talk->peer.ssl));
}

static void hang_up(struct talk *talk)
{
    tls_end(talk->session);
    tls_peer_fini(&talk->peer);
}

static void setup(struct talk *talk)
{
    struct ls_diag diag = { 0 };

    *talk = (struct talk){ .ctx = tls_peer_context(&peer_setup) };
    if (tls_context_create(&settings, &talk->context, &diag) != LS_OK)
        fail_msg("%s", diag.text);
    tls_context_expect_many(talk->context);
}

static void teardown(struct talk *talk)
{
    hang_up(talk);
    tls_context_destroy(talk->context);
    SSL_CTX_free(talk->ctx);
}

/* The peer gets len more bytes of the pattern. */
static void tell(struct talk *talk, size_t len)
{
    static uint8_t plain[TLS_PLAIN_MAX];
    static uint8_t wire[TLS_PLAIN_MAX + TLS_SEAL_ROOM];
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        plain[i] = pattern(talk->told + i);
    carry(talk); /* what comes first has to leave first */
    assert_int_equal(
        tls_seal(talk->session, (struct ls_bytes){ plain, len }, wire, sizeof(wire), &n), TLS_OK);
    assert_true(n > len && n <= len + TLS_SEAL_ROOM);
    assert_int_equal(BIO_write(talk->peer.in, wire, (int)n), n);
    for (size_t got = 0; got < len;) {
        int part = SSL_read(talk->peer.ssl, plain, sizeof(plain));

        assert_true(part > 0);
        for (int i = 0; i < part; i++)
            assert_int_equal(plain[i], pattern(talk->told + got + (size_t)i));
        got += (size_t)part;
    }
    talk->told += len;
}

static void peer_write(struct talk *talk, uint64_t from, size_t len)
{
    static uint8_t plain[TLS_PLAIN_MAX];

    for (size_t i = 0; i < len; i++)
        plain[i] = pattern(from + i);
    assert_int_equal(SSL_write(talk->peer.ssl, plain, (int)len), len);
}

/* The peer says len more bytes of it, in one record. */
static void hear(struct talk *talk, size_t len)
{
    uint64_t before = talk->heard;

    peer_write(talk, before, len);
    carry(talk);
    assert_int_equal(talk->result, TLS_OK);
    assert_int_equal(talk->heard - before, len);
}

static void rounds(struct talk *talk, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        tell(talk, ROUND_BYTES);
        hear(talk, ROUND_BYTES);
    }
}

/* A session whose records are its own. */
static void begin_own(struct talk *talk)
{
    setup(talk);
    shake(talk);
    rounds(talk, 3);
    assert_int_equal(stats(talk)->own, 1);
}

static void assert_trouble(const struct talk *talk, const char *part)
{
    char text[200];

    if (strstr(tls_context_trouble(talk->context, text, sizeof(text)), part) == NULL)
        fail_msg("\"%s\" is not in: %s", part, text);
}

/* ---- records --------------------------------------------------------------------------------- */

static void from_hex(const char *text, uint8_t *out)
{
    for (unsigned value; sscanf(text, "%2x", &value) == 1; text += 2)
        *out++ = (uint8_t)value;
}

/* RFC 8448, 3: the client's application data, and its secret. */
static void a_record_is_the_one_of_the_rfc(void **state)
{
    const struct tls_suite suite = { EVP_aes_128_gcm(), EVP_sha256() };
    struct tls_direction seals = { 0 };
    struct tls_direction opens = { 0 };
    uint8_t secret[32];
    uint8_t want[72];
    uint8_t plain[50];
    uint8_t out[128];
    unsigned type = 0;
    size_t len = 0;

    (void)state;
    from_hex("9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5", secret);
    from_hex(
        "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a"
        "9a20441e2b62974e1f5a6292a2977014bd1e3deae63aeebb21694915e4",
        want);
    for (unsigned i = 0; i < sizeof(plain); i++)
        plain[i] = (uint8_t)i;
    assert_true(tls_direction_init(&seals, &suite, secret, true));
    assert_true(tls_direction_init(&opens, &suite, secret, false));
    assert_int_equal(
        tls_record_seal(&seals, TLS_RECORD_DATA, (struct ls_bytes){ plain, sizeof(plain) }, out),
        sizeof(want));
    assert_memory_equal(out, want, sizeof(want));
    assert_true(tls_record_open(&opens, (struct ls_bytes){ want, sizeof(want) }, out, &len, &type));
    assert_int_equal(type, TLS_RECORD_DATA);
    assert_int_equal(len, sizeof(plain));
    assert_memory_equal(out, plain, sizeof(plain));
    tls_direction_fini(&seals);
    tls_direction_fini(&opens);
}

static void a_record_that_is_bent_anywhere_opens_not_and_changes_nothing(void **state)
{
    const struct tls_suite suite = { EVP_aes_256_gcm(), EVP_sha384() };
    static const uint8_t secret[48] = { 7 };
    struct tls_direction seals = { 0 };
    struct tls_direction opens = { 0 };
    uint8_t record[64];
    uint8_t out[64];
    unsigned type;
    size_t sealed;
    size_t len;

    (void)state;
    assert_true(tls_direction_init(&seals, &suite, secret, true));
    assert_true(tls_direction_init(&opens, &suite, secret, false));
    sealed = tls_record_seal(&seals, TLS_RECORD_ALERT,
                             (struct ls_bytes){ (const uint8_t *)"abc", 3 }, record);
    for (size_t i = 0; i < sealed; i++) {
        record[i] ^= 1;
        assert_false(
            tls_record_open(&opens, (struct ls_bytes){ record, sealed }, out, &len, &type));
        record[i] ^= 1;
    }
    for (size_t n = 0; n < sealed; n++)
        assert_false(tls_record_open(&opens, (struct ls_bytes){ record, n }, out, &len, &type));
    assert_true(tls_record_open(&opens, (struct ls_bytes){ record, sealed }, out, &len, &type));
    assert_true(type == TLS_RECORD_ALERT && len == 3);
    assert_false(tls_record_open(&opens, (struct ls_bytes){ record, sealed }, out, &len, &type));
    tls_direction_fini(&seals);
    tls_direction_fini(&opens);
}

/* ---- connections ----------------------------------------------------------------------------- */

static void the_peer_notices_nothing_whatever_the_cipher_and_the_cuts(void **state)
{
    static const char *const ciphers[] = { "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384",
                                           "TLS_CHACHA20_POLY1305_SHA256" };
    static const size_t pieces[] = { 0, 1, 4, 21, 1000 };
    static const size_t sizes[] = { 1, 2, 13, 1000, 16383, 16384 };

    (void)state;
    for (size_t c = 0; c < LS_ARRAY_LEN(ciphers); c++) {
        for (size_t p = 0; p < LS_ARRAY_LEN(pieces); p++) {
            struct talk talk;

            settings.ciphers = ciphers[c];
            setup(&talk);
            talk.piece = pieces[p];
            shake(&talk);
            rounds(&talk, 3);
            talk.piece = 0; /* it begins with a record that comes whole */
            rounds(&talk, 1);
            talk.piece = pieces[p];
            for (size_t i = 0; i < LS_ARRAY_LEN(sizes); i++) {
                tell(&talk, sizes[i]);
                hear(&talk, sizes[i]);
                tls_rest(talk.session);
            }
            assert_int_equal(stats(&talk)->own, 1);
            assert_int_equal(stats(&talk)->full, 1);
            teardown(&talk);
        }
    }
}

static void records_that_do_not_fit_together_are_opened_one_after_the_other(void **state)
{
    struct talk talk;

    (void)state;
    begin_own(&talk);
    for (unsigned i = 0; i < 3; i++)
        peer_write(&talk, talk.heard + i * 10000u, 10000);
    carry(&talk);
    assert_int_equal(talk.heard, 3 * ROUND_BYTES + 30000);
    teardown(&talk);
}

static void other_versions_keep_openssls_records(void **state)
{
    struct talk talk;

    (void)state;
    settings.max_version = 0x0303;
    setup(&talk);
    shake(&talk);
    rounds(&talk, 10);
    assert_int_equal(stats(&talk)->own, 0);
    teardown(&talk);
}

static void keys_may_be_updated_before_and_after(void **state)
{
    static const int kinds[] = { SSL_KEY_UPDATE_REQUESTED, SSL_KEY_UPDATE_NOT_REQUESTED };

    (void)state;
    for (size_t k = 0; k < LS_ARRAY_LEN(kinds); k++) {
        for (unsigned before = 0; before < 8; before++) {
            struct talk talk;

            setup(&talk);
            shake(&talk);
            rounds(&talk, before);
            assert_int_equal(SSL_key_update(talk.peer.ssl, kinds[k]), 1);
            rounds(&talk, 5);
            assert_int_equal(stats(&talk)->own, before > 1); /* else OpenSSL has new keys */
            assert_int_equal(SSL_key_update(talk.peer.ssl, kinds[k]), 1);
            rounds(&talk, 5);
            assert_trouble(&talk, "");
            teardown(&talk);
        }
    }
}

/* So much in a ticket that it takes several records. */
static int stuff_ticket(SSL *ssl, void *arg)
{
    static const char stuff[3000] = "";

    (void)arg;
    return SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), stuff, sizeof(stuff));
}

static void late_tickets_are_passed_over(void **state)
{
    (void)state;
    for (unsigned stuffed = 0; stuffed < 2; stuffed++) {
        struct talk talk;

        setup(&talk);
        if (stuffed == 1)
            assert_int_equal(SSL_CTX_set_session_ticket_cb(talk.ctx, stuff_ticket, NULL, NULL), 1);
        shake(&talk);
        assert_int_equal(SSL_set_max_send_fragment(talk.peer.ssl, 512), 1);
        rounds(&talk, 3);
        for (unsigned i = 0; i < 5; i++) {
            assert_int_equal(SSL_new_session_ticket(talk.peer.ssl), 1);
            rounds(&talk, 2);
        }
        assert_int_equal(stats(&talk)->own, 1);
        hang_up(&talk);
        shake(&talk); /* the early ones were taken */
        assert_int_equal(stats(&talk)->resumed, 1);
        teardown(&talk);
    }
}

static void ends_are_told_as_ever(void **state)
{
    uint8_t wire[512];
    struct talk talk;
    int n;

    (void)state;
    begin_own(&talk);
    assert_int_equal(tls_hung_up(talk.session), TLS_FAILED);
    assert_trouble(&talk, "without close_notify");
    teardown(&talk);

    begin_own(&talk);
    peer_write(&talk, talk.heard, 5);
    (void)SSL_shutdown(talk.peer.ssl);
    carry(&talk);
    assert_int_equal(talk.result, TLS_CLOSED);
    assert_int_equal(talk.heard, 3 * ROUND_BYTES + 5); /* nothing that came is withheld */
    assert_int_equal(tls_hung_up(talk.session), TLS_CLOSED);
    assert_trouble(&talk, "");
    teardown(&talk);

    /* The peer gets nonsense and says so. */
    begin_own(&talk);
    memset(wire, 0, sizeof(wire));
    memcpy(wire, "\x17\x03\x03\x00\x20", 5);
    assert_int_equal(BIO_write(talk.peer.in, wire, 37), 37);
    n = SSL_read(talk.peer.ssl, wire, sizeof(wire));
    assert_true(n <= 0);
    carry(&talk);
    assert_int_equal(talk.result, TLS_FAILED);
    assert_trouble(&talk, "alert 'bad record mac'");
    teardown(&talk);
}

/* What is no record, or cannot be opened: the connection is over, and the peer is told why. */
static void nonsense_ends_it_and_the_peer_is_told(void **state)
{
    static const struct {
        const char *head;
        const char *why;
        int alert;
    } rows[] = {
        { "\x17\x03\x03\x00\x20", "bad record mac", SSL_AD_BAD_RECORD_MAC },
        { "\x17\x03\x03\x00\x05", "bad record mac", SSL_AD_BAD_RECORD_MAC },
        { "\x16\x03\x03\x00\x20", "bad record type", SSL_AD_UNEXPECTED_MESSAGE },
        { "\x15\x03\x03\x00\x02", "bad record type", SSL_AD_UNEXPECTED_MESSAGE },
        { "\x17\x03\x03\x41\x01", "length too long", SSL_AD_RECORD_OVERFLOW },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        uint8_t wire[64] = { 0 };
        struct talk talk;
        size_t len;

        begin_own(&talk);
        memcpy(wire, rows[i].head, 5);
        give(&talk, wire, 5 + 0x20);
        assert_int_equal(talk.result, TLS_FAILED);
        assert_trouble(&talk, rows[i].why);
        len = tls_drain(talk.session, wire, sizeof(wire));
        assert_int_equal(BIO_write(talk.peer.in, wire, (int)len), len);
        assert_true(SSL_read(talk.peer.ssl, wire, sizeof(wire)) <= 0);
        assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_AD_REASON_OFFSET + rows[i].alert);
        ERR_clear_error();
        teardown(&talk);
    }
}

/* Of a load that opens a connection for each request, nobody asks for secrets any more. */
static void brief_connections_are_left_to_openssl(void **state)
{
    struct talk talk;

    (void)state;
    setup(&talk);
    for (unsigned i = 0; i < 8; i++) {
        shake(&talk);
        rounds(&talk, 1);
        hang_up(&talk);
    }
    shake(&talk);
    rounds(&talk, 5);
    assert_int_equal(stats(&talk)->own, 0);
    teardown(&talk);
}

/* ---- */

static int fresh(void **state)
{
    (void)state;
    peer_setup = (struct tls_peer_setup){ .identity = &identity };
    settings = tls_settings(pki, NAME);
    return 0;
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

#define TEST(name) cmocka_unit_test_setup(name, fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_record_is_the_one_of_the_rfc),
        TEST(a_record_that_is_bent_anywhere_opens_not_and_changes_nothing),
        TEST(the_peer_notices_nothing_whatever_the_cipher_and_the_cuts),
        TEST(records_that_do_not_fit_together_are_opened_one_after_the_other),
        TEST(other_versions_keep_openssls_records),
        TEST(keys_may_be_updated_before_and_after),
        TEST(late_tickets_are_passed_over),
        TEST(ends_are_told_as_ever),
        TEST(nonsense_ends_it_and_the_peer_is_told),
        TEST(brief_connections_are_left_to_openssl),
    };

    return cmocka_run_group_tests_name("agent.tls_own", tests, make_pki, forget_pki);
}

/* TLS as a link over tcp: the other end is OpenSSL on memory, so that the test decides how its
 * bytes are cut, bent and ended. */
#include "tests/support/test.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/load/link.h"
#include "agent/load/tls.h"
#include "common/clock.h"
#include "tests/support/failmalloc.h"
#include "tests/support/tls_peer.h"

#define DEADLINE_NS (20 * LS_NS_PER_S)
#define NAME        "example.test"

static struct tls_pki *pki;
static struct tls_identity identity;
static struct tls_peer_setup peer_setup; /* of the next side */
static struct load_tls settings;
static const char *io; /* of the link below */

/* One link and the other end of its connection. */
struct side {
    struct agent_link_class link;
    struct agent_link_hub *hub;
    void *state;
    struct sockaddr_in address;
    int listener;
    int fd; /* accepted; -1: none */
    SSL_CTX *ctx;
    struct tls_peer peer;
    size_t piece;    /* most that is sent to the link at once; 0: all */
    uint64_t cut_at; /* the server's bytes end here; 0: they do not */
    uint64_t bend;   /* this byte of them is another one; 0: none */
    uint64_t said;   /* bytes of the server */

    unsigned connects;
    bool opened;
    int open_error;
    uint64_t received;
    bool in_order;
    unsigned calls; /* of bytes() */
    unsigned ends;
    enum load_outcome how;
    uint64_t to_send;
    uint64_t pulled;
    bool close_in_opened;
    bool close_in_bytes;
};

static uint8_t pattern(uint64_t i)
{
    return (uint8_t)(i % 251);
}

static void close_link(struct side *side)
{
    side->link.close(side->hub, side->state);
}

static void on_connected(void *ctx)
{
    struct side *side = ctx;

    assert_false(side->opened);
    side->connects++;
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

    (void)wall_ns;
    assert_true(side->opened && side->ends == 0);
    for (size_t i = 0; i < in.len; i++)
        side->in_order = side->in_order && in.data[i] == pattern(side->received + i);
    side->received += in.len;
    side->calls++;
    if (side->close_in_bytes)
        close_link(side);
}

static void on_ended(void *ctx, enum load_outcome how, int error)
{
    struct side *side = ctx;

    (void)error;
    side->ends++;
    side->how = how;
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

static struct agent_link_env make_env(void)
{
    return (struct agent_link_env){ .opened = on_opened,
                                    .bytes = on_bytes,
                                    .ended = on_ended,
                                    .pull = on_pull,
                                    .connected = on_connected,
                                    .carrier = agent_link_find("tcp", io),
                                    .tls = &settings };
}

static void setup(struct side *side)
{
    struct agent_link_env env = make_env();
    struct ls_diag diag = { 0 };
    socklen_t len = sizeof(side->address);

    *side = (struct side){ .fd = -1, .in_order = true };
    agent_link_tls_over(env.carrier, &side->link);
    if (side->link.hub_create(&env, 1, &side->hub, &diag) != LS_OK)
        fail_msg("%s", diag.text);
    side->state = calloc(1, side->link.link_size);
    assert_non_null(side->state);
    side->ctx = tls_peer_context(&peer_setup);
    side->address.sin_family = AF_INET;
    side->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    side->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(side->listener, (struct sockaddr *)&side->address, len), 0);
    assert_int_equal(listen(side->listener, 4), 0);
    assert_int_equal(getsockname(side->listener, (struct sockaddr *)&side->address, &len), 0);
}

static void close_peer(struct side *side)
{
    if (side->fd < 0)
        return;
    tls_peer_fini(&side->peer);
    (void)close(side->fd);
    side->fd = -1;
}

static void teardown(struct side *side)
{
    close_link(side);
    side->link.hub_destroy(side->hub);
    free(side->state);
    close_peer(side);
    if (side->listener >= 0)
        (void)close(side->listener);
    SSL_CTX_free(side->ctx);
}

static void connect_plain(struct side *side)
{
    int yes = 1;

    side->opened = false;
    side->open_error = -1;
    side->ends = 0;
    side->said = 0;
    side->to_send = 0;
    side->link.open(side->hub, side->state, side, (const struct sockaddr *)&side->address,
                    sizeof(side->address));
    side->fd = accept4(side->listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(side->fd >= 0);
    /* What is sent is there at once: or it may wait for an acknowledgement of the tickets (RFC
     * 896). */
    assert_int_equal(setsockopt(side->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)), 0);
    tls_peer_init(&side->peer, side->ctx);
}

static void turn(struct side *side)
{
    side->link.turn(side->hub, 0);
}

/* Hands what OpenSSL has for the link to the socket, in pieces, as far as cut_at. */
static void carry_out(struct side *side)
{
    uint8_t chunk[16384];
    size_t most = side->piece > 0 ? side->piece : sizeof(chunk);
    int n;

    while ((n = BIO_read(side->peer.out, chunk, (int)most)) > 0) {
        size_t len = (size_t)n;

        if (side->bend > side->said && side->bend <= side->said + len)
            chunk[side->bend - side->said - 1] ^= 0x40;
        if (side->cut_at > 0 && side->said + len > side->cut_at)
            len = side->cut_at > side->said ? (size_t)(side->cut_at - side->said) : 0;
        side->said += (size_t)n;
        for (size_t at = 0; at < len;) {
            ssize_t sent = send(side->fd, chunk + at, len - at, MSG_NOSIGNAL | MSG_DONTWAIT);

            if (sent > 0)
                at += (size_t)sent;
            else if (errno != EAGAIN)
                return; /* the link has closed */
            turn(side);
        }
    }
}

/* Hands what the link has sent to OpenSSL. False: it has closed. */
static bool carry_in(struct side *side)
{
    uint8_t chunk[65536];
    ssize_t n = recv(side->fd, chunk, sizeof(chunk), MSG_DONTWAIT);

    if (n > 0)
        assert_int_equal(BIO_write(side->peer.in, chunk, (int)n), n);
    return n > 0 || (n < 0 && errno == EAGAIN);
}

static void step(struct side *side)
{
    turn(side);
    (void)carry_in(side);
    if (!SSL_is_init_finished(side->peer.ssl))
        (void)SSL_do_handshake(side->peer.ssl);
    ERR_clear_error(); /* both ends are on one thread: the link must not meet the peer's errors */
    carry_out(side);
    turn(side);
}

/* Until the link says that it is open, or why it is not. */
static void shake(struct side *side)
{
    int64_t deadline_ns = ls_clock_mono_ns() + DEADLINE_NS;

    while (!side->opened ||
           (side->open_error == 0 && !SSL_is_init_finished(side->peer.ssl) && side->ends == 0)) {
        assert_true(ls_clock_mono_ns() < deadline_ns);
        step(side);
    }
}

static void connect_both(struct side *side)
{
    connect_plain(side);
    shake(side);
    assert_int_equal(side->open_error, 0);
}

static void step_until_ended(struct side *side)
{
    int64_t deadline_ns = ls_clock_mono_ns() + DEADLINE_NS;

    while (side->ends == 0) {
        assert_true(ls_clock_mono_ns() < deadline_ns);
        step(side);
    }
    assert_int_equal(side->ends, 1);
}

/* The peer sends the next bytes of the pattern, in records of that many. */
static void peer_send(struct side *side, uint64_t from, uint64_t len, size_t record)
{
    static uint8_t plain[16384];

    while (len > 0) {
        size_t n = len < record ? (size_t)len : record;

        for (size_t i = 0; i < n; i++)
            plain[i] = pattern(from + i);
        assert_int_equal(SSL_write(side->peer.ssl, plain, (int)n), n);
        carry_out(side);
        from += n;
        len -= n;
    }
}

static void receive_until(struct side *side, uint64_t least)
{
    int64_t deadline_ns = ls_clock_mono_ns() + DEADLINE_NS;

    while (side->received < least) {
        assert_true(ls_clock_mono_ns() < deadline_ns);
        step(side);
    }
    assert_int_equal(side->received, least);
    assert_true(side->in_order);
}

/* The peer reads until it has len bytes of the pattern. */
static void peer_receive(struct side *side, uint64_t len)
{
    static uint8_t plain[16384];
    int64_t deadline_ns = ls_clock_mono_ns() + DEADLINE_NS;

    for (uint64_t got = 0; got < len;) {
        int n = SSL_read(side->peer.ssl, plain, sizeof(plain));

        assert_true(ls_clock_mono_ns() < deadline_ns);
        for (int i = 0; i < n; i++)
            assert_int_equal(plain[i], pattern(got + (uint64_t)i));
        if (n > 0)
            got += (uint64_t)n;
        else
            step(side);
    }
}

static void send_pattern(struct side *side, uint64_t len)
{
    side->pulled = 0;
    side->to_send = len;
    side->link.flush(side->hub, side->state);
}

static const struct tls_stats *stats(const struct side *side)
{
    return tls_context_stats(agent_link_tls_context(side->hub));
}

static void assert_trouble(const struct side *side, const char *part)
{
    char text[200];

    if (strstr(tls_context_trouble(agent_link_tls_context(side->hub), text, sizeof(text)), part) ==
        NULL)
        fail_msg("\"%s\" is not in: %s", part, text);
}

static void use_version(int version)
{
    settings.min_version = settings.max_version = (uint16_t)version;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void bytes_go_both_ways_in_order(void **state)
{
    static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };
    static const char *const names[] = { "TLSv1.2", "TLSv1.3" };

    (void)state;
    for (size_t v = 0; v < LS_ARRAY_LEN(versions); v++) {
        struct side side;

        use_version(versions[v]);
        setup(&side);
        connect_both(&side);
        assert_int_equal(side.connects, 1);
        send_pattern(&side, 100000);
        peer_receive(&side, 100000);
        peer_send(&side, 0, 200000, 16384);
        receive_until(&side, 200000);
        assert_int_equal(side.ends, 0);
        assert_int_equal(stats(&side)->full, 1);
        assert_int_equal(stats(&side)->resumed, 0);
        assert_string_equal(stats(&side)->version, names[v]);
        assert_string_equal(stats(&side)->cipher, SSL_get_cipher_name(side.peer.ssl));
        assert_trouble(&side, "");
        teardown(&side);
    }
}

static void records_may_come_in_pieces_of_any_size(void **state)
{
    static const size_t pieces[] = { 1, 2, 3, 5, 7, 1000 };
    static const size_t records[] = { 1, 2, 500, 16384 };

    (void)state;
    for (size_t p = 0; p < LS_ARRAY_LEN(pieces); p++) {
        struct side side;
        uint64_t total = 0;

        setup(&side);
        side.piece = pieces[p];
        connect_both(&side);
        for (size_t r = 0; r < LS_ARRAY_LEN(records); r++) {
            peer_send(&side, total, records[r] * 3 / 2, records[r]);
            total += records[r] * 3 / 2;
            receive_until(&side, total);
        }
        teardown(&side);
    }
}

static void records_that_arrive_together_are_handed_over_together(void **state)
{
    uint8_t byte = pattern(0);
    struct side side;

    (void)state;
    setup(&side);
    connect_both(&side);
    for (int i = 0; i < 10; i++) {
        byte = pattern((uint64_t)i);
        assert_int_equal(SSL_write(side.peer.ssl, &byte, 1), 1);
    }
    side.calls = 0;
    carry_out(&side);
    receive_until(&side, 10);
    assert_int_equal(side.calls, 1);
    teardown(&side);
}

static void a_full_socket_loses_nothing_and_goes_on_by_itself(void **state)
{
    const uint64_t total = 24u << 20; /* more than two sockets hold */
    struct side side;

    (void)state;
    setup(&side);
    connect_both(&side);
    send_pattern(&side, total);
    assert_true(side.to_send > 0); /* or nothing was full */
    side.link.flush(side.hub, side.state);
    peer_receive(&side, total);
    assert_int_equal(side.to_send, 0);
    teardown(&side);
}

static void key_updates_are_answered_and_lose_nothing(void **state)
{
    struct side side;
    uint64_t total = 0;

    (void)state;
    setup(&side);
    connect_both(&side);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(SSL_key_update(side.peer.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        peer_send(&side, total, 100, 100);
        total += 100;
        receive_until(&side, total);
        send_pattern(&side, 50);
        peer_receive(&side, 50); /* under the new key */
    }
    assert_int_equal(side.ends, 0);
    teardown(&side);
}

static void a_renegotiation_is_refused_and_the_connection_goes_on(void **state)
{
    struct side side;

    (void)state;
    use_version(TLS1_2_VERSION);
    setup(&side);
    connect_both(&side);
    assert_int_equal(SSL_renegotiate(side.peer.ssl), 1);
    (void)SSL_do_handshake(side.peer.ssl); /* says HelloRequest; the answer is a warning */
    carry_out(&side);
    step(&side);
    assert_int_equal(stats(&side)->full, 1);
    assert_int_equal(side.ends, 0);
    teardown(&side);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void peer_fin(struct side *side)
{
    carry_out(side);
    assert_int_equal(shutdown(side->fd, SHUT_WR), 0);
}

static void peer_reset(struct side *side)
{
    struct linger hard = { .l_onoff = 1, .l_linger = 0 };

    assert_int_equal(setsockopt(side->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)), 0);
    close_peer(side);
}

static void turn_until_ended(struct side *side)
{
    int64_t deadline_ns = ls_clock_mono_ns() + DEADLINE_NS;

    while (side->ends == 0) {
        assert_true(ls_clock_mono_ns() < deadline_ns);
        side->link.turn(side->hub, deadline_ns);
    }
}

static void a_farewell_a_bare_fin_and_a_reset_are_told_apart(void **state)
{
    struct side side;

    (void)state;
    setup(&side);
    connect_both(&side);
    peer_send(&side, 0, 1000, 1000);
    (void)SSL_shutdown(side.peer.ssl);
    peer_fin(&side);
    step_until_ended(&side);
    assert_int_equal(side.received, 1000);
    assert_int_equal(side.how, LOAD_CLOSED_EARLY);
    assert_trouble(&side, "");
    teardown(&side);

    setup(&side);
    connect_both(&side);
    peer_send(&side, 0, 1000, 1000);
    peer_fin(&side);
    step_until_ended(&side);
    assert_int_equal(side.received, 1000); /* nothing that came is withheld */
    assert_int_equal(side.how, LOAD_TLS_ERROR);
    assert_trouble(&side, "without close_notify");
    teardown(&side);

    setup(&side);
    connect_both(&side);
    peer_reset(&side);
    turn_until_ended(&side);
    assert_int_equal(side.how, LOAD_RESET);
    teardown(&side);
}

static void a_bent_record_ends_the_connection(void **state)
{
    struct side side;

    (void)state;
    for (uint64_t at = 1; at <= 40; at++) {
        setup(&side);
        connect_both(&side);
        step(&side);
        side.bend = side.said + at;
        peer_send(&side, 0, 1000, 1000);
        peer_fin(&side);
        step_until_ended(&side);
        assert_int_equal(side.received, 0);
        assert_int_equal(side.how, LOAD_TLS_ERROR);
        teardown(&side);
    }
}

static void say(struct side *side, const char *text)
{
    assert_int_equal(send(side->fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void whoever_does_not_speak_tls_is_named(void **state)
{
    struct side side;
    int64_t deadline_ns = ls_clock_mono_ns() + DEADLINE_NS;

    (void)state;
    setup(&side);
    connect_plain(&side);
    say(&side, "HTTP/1.1 400 Bad Request\r\n\r\n");
    while (!side.opened) {
        assert_true(ls_clock_mono_ns() < deadline_ns);
        turn(&side);
    }
    assert_int_equal(side.open_error, EPROTO);
    assert_trouble(&side, "does not speak TLS here: says \"HTTP/1.1 400 ");
    teardown(&side);
}

static void plain_text_after_the_handshake_ends_the_connection(void **state)
{
    struct side side;

    (void)state;
    setup(&side);
    connect_both(&side);
    say(&side, "HTTP/1.1 200 OK\r\n\r\n");
    step_until_ended(&side);
    assert_int_equal(side.how, LOAD_TLS_ERROR);
    assert_int_equal(side.received, 0);
    teardown(&side);
}

/* How many bytes the server says at the least until the link is open: signatures vary by some. */
static uint64_t handshake_bytes(void)
{
    struct side side;
    uint64_t n;

    setup(&side);
    side.piece = 1;
    connect_plain(&side);
    while (!side.opened)
        step(&side);
    n = side.said - 10;
    teardown(&side);
    return n;
}

static void a_handshake_may_be_cut_anywhere(void **state)
{
    static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };

    (void)state;
    for (size_t v = 0; v < LS_ARRAY_LEN(versions); v++) {
        uint64_t total;

        use_version(versions[v]);
        total = handshake_bytes();
        for (uint64_t at = 1; at < total; at += 1 + at / 16) {
            struct side side;
            int64_t deadline_ns = ls_clock_mono_ns() + DEADLINE_NS;

            setup(&side);
            side.cut_at = at;
            connect_plain(&side);
            while (side.said < at)
                step(&side);
            assert_int_equal(shutdown(side.fd, SHUT_WR), 0);
            while (!side.opened) {
                assert_true(ls_clock_mono_ns() < deadline_ns);
                turn(&side);
            }
            if (side.open_error != ECONNABORTED)
                fail_msg("cut after %d bytes: %d", (int)at, side.open_error);
            assert_int_equal(side.ends, 0);
            assert_trouble(&side, "hung up during the TLS handshake");
            teardown(&side);
        }
    }
}

static void a_bent_handshake_fails_and_names_no_innocent(void **state)
{
    uint64_t total;

    (void)state;
    total = handshake_bytes();
    for (uint64_t at = 1; at <= total; at += 1 + at / 12) {
        struct side side;
        int64_t deadline_ns = ls_clock_mono_ns() + DEADLINE_NS;

        setup(&side);
        side.bend = at;
        connect_plain(&side);
        while (!side.opened && side.said < total) {
            assert_true(ls_clock_mono_ns() < deadline_ns);
            step(&side);
        }
        for (int i = 0; i < 3 && !side.opened; i++)
            step(&side);
        if (!side.opened)
            assert_int_equal(shutdown(side.fd, SHUT_WR), 0); /* it waits for more */
        while (!side.opened) {
            assert_true(ls_clock_mono_ns() < deadline_ns);
            turn(&side);
        }
        if (side.open_error == 0 && at != 3) /* the first record's version, which nobody reads */
            fail_msg("byte %d may be anything", (int)at);
        teardown(&side);
    }
}

static void ends_during_the_handshake_are_failed_opens(void **state)
{
    struct side side;
    int64_t deadline_ns = ls_clock_mono_ns() + DEADLINE_NS;

    (void)state;
    setup(&side);
    connect_plain(&side);
    while (!carry_in(&side) || BIO_pending(side.peer.in) == 0) {
        assert_true(ls_clock_mono_ns() < deadline_ns);
        turn(&side);
    }
    peer_reset(&side);
    while (!side.opened)
        side.link.turn(side.hub, deadline_ns);
    assert_int_equal(side.open_error, ECONNRESET);
    assert_int_equal(side.ends, 0);
    close_link(&side);

    assert_int_equal(close(side.listener), 0);
    side.listener = -1;
    side.opened = false;
    side.connects = 0;
    side.link.open(side.hub, side.state, &side, (const struct sockaddr *)&side.address,
                   sizeof(side.address));
    while (!side.opened)
        side.link.turn(side.hub, deadline_ns);
    assert_int_equal(side.open_error, ECONNREFUSED);
    assert_int_equal(side.connects, 0);
    teardown(&side);
}

/* ---- who is there ---------------------------------------------------------------------------- */

struct refusal {
    const char *names;
    enum tls_pki_flaw flaw;
    bool foreign; /* of another CA */
    const char *says;
};

static void certificates_that_do_not_verify_are_refused_with_the_reason(void **state)
{
    static const struct refusal rows[] = {
        { "DNS:" NAME, PKI_EXPIRED, false,
          "has a certificate that does not verify for '" NAME "': certificate has expired: renew" },
        { "DNS:" NAME, PKI_EARLY, false, "certificate is not yet valid: renew it" },
        { "DNS:other.test", PKI_SOUND, false,
          "hostname mismatch: set server_name to a name that it is for" },
        { "DNS:" NAME, PKI_SELF, false, "self-signed certificate: give it as ca_file" },
        { "DNS:" NAME, PKI_SOUND, true,
          "unable to get local issuer certificate: give its issuer as ca_file" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        struct tls_pki *other = tls_pki_create("another CA");
        struct tls_identity bad;
        struct side side;

        tls_pki_issue(rows[i].foreign ? other : pki, rows[i].names, rows[i].flaw, &bad);
        for (int verify = 1; verify >= 0; verify--) {
            peer_setup.identity = &bad;
            settings.verify = verify == 1;
            setup(&side);
            connect_plain(&side);
            shake(&side);
            assert_int_equal(side.open_error, verify ? EKEYREJECTED : 0);
            assert_trouble(&side, verify ? rows[i].says : "");
            teardown(&side);
        }
        tls_identity_fini(&bad);
        tls_pki_destroy(other);
    }
}

static void a_verified_certificate_vouches_for_no_other(void **state)
{
    struct tls_pki *other = tls_pki_create("another CA");
    struct tls_identity foreign;
    struct side side;

    (void)state;
    tls_pki_issue(other, "DNS:" NAME, PKI_SOUND, &foreign);
    settings.resume = false;
    setup(&side);
    for (int i = 0; i < 4; i++) {
        SSL_CTX_free(side.ctx);
        peer_setup.identity = i % 2 == 0 ? &identity : &foreign;
        side.ctx = tls_peer_context(&peer_setup);
        connect_plain(&side);
        shake(&side);
        assert_int_equal(side.open_error, i % 2 == 0 ? 0 : EKEYREJECTED);
        close_link(&side);
        close_peer(&side);
    }
    assert_int_equal(stats(&side)->full, 2);
    teardown(&side);
    tls_identity_fini(&foreign);
    tls_pki_destroy(other);
}

static void names_and_addresses_are_verified_alike_but_only_names_are_sent(void **state)
{
    static const struct {
        const char *name;
        bool sent;
        int error;
    } rows[] = {
        { NAME, true, 0 },
        { "127.0.0.1", false, 0 },
        { "::1", false, 0 },
        { "127.0.0.2", false, EKEYREJECTED },
        { "sub." NAME, true, EKEYREJECTED },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        const char *sent;
        struct side side;

        settings.server_name = rows[i].name;
        setup(&side);
        connect_plain(&side);
        shake(&side);
        assert_int_equal(side.open_error, rows[i].error);
        sent = SSL_get_servername(side.peer.ssl, TLSEXT_NAMETYPE_host_name);
        assert_int_equal(sent != NULL, rows[i].sent);
        if (sent != NULL)
            assert_string_equal(sent, rows[i].name);
        teardown(&side);
    }
}

static void alerts_of_the_server_are_named(void **state)
{
    struct side side;

    (void)state;
    peer_setup.min_version = TLS1_3_VERSION;
    settings.max_version = TLS1_2_VERSION;
    setup(&side);
    connect_plain(&side);
    shake(&side);
    assert_int_equal(side.open_error, EPROTO);
    assert_trouble(&side, "ended TLS with the alert 'protocol version'");
    teardown(&side);
}

static void a_client_that_must_show_a_certificate_can(void **state)
{
    struct tls_pki *other = tls_pki_create("another CA");
    struct tls_identity mine;
    struct tls_identity theirs;
    struct side side;

    (void)state;
    tls_pki_issue(pki, "DNS:client.test", PKI_SOUND, &mine);
    tls_pki_issue(other, "DNS:client.test", PKI_SOUND, &theirs);
    peer_setup.client_ca = tls_pki_ca(pki);

    settings.certificate = tls_identity_bytes(mine.certificate);
    settings.key = tls_identity_bytes(mine.key);
    setup(&side);
    connect_both(&side);
    peer_send(&side, 0, 10, 10);
    receive_until(&side, 10);
    teardown(&side);

    /* In TLS 1.3 the client is through before the server has looked at it. */
    settings.certificate = tls_identity_bytes(theirs.certificate);
    settings.key = tls_identity_bytes(theirs.key);
    setup(&side);
    connect_plain(&side);
    shake(&side);
    step_until_ended(&side);
    assert_int_equal(side.how, LOAD_TLS_ERROR);
    assert_trouble(&side, "ended TLS with the alert 'unknown ca'");
    teardown(&side);

    settings.certificate = settings.key = (struct ls_bytes){ NULL, 0 };
    setup(&side);
    connect_plain(&side);
    shake(&side);
    step_until_ended(&side);
    assert_trouble(&side, "alert 'certificate required'");
    teardown(&side);

    use_version(TLS1_2_VERSION);
    setup(&side);
    connect_plain(&side);
    shake(&side);
    assert_int_equal(side.open_error, EPROTO);
    assert_trouble(&side, "alert 'handshake failure'");
    teardown(&side);
    tls_identity_fini(&mine);
    tls_identity_fini(&theirs);
    tls_pki_destroy(other);
}

static void the_protocol_is_one_that_was_offered(void **state)
{
    static const struct {
        const char *chosen;
        bool refuse;
        int error;
        const char *says;
    } rows[] = {
        { "http/1.1", false, 0, "" },
        { NULL, false, 0, "" }, /* a server that knows no ALPN */
        { "h2", false, EPROTO, "" /* OpenSSL's words differ */ },
        { NULL, true, EPROTO, "the alert 'no application protocol'" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        struct side side;

        peer_setup.alpn = rows[i].chosen;
        peer_setup.alpn_refuse = rows[i].refuse;
        setup(&side);
        connect_plain(&side);
        shake(&side);
        assert_int_equal(side.open_error, rows[i].error);
        assert_trouble(&side, rows[i].says);
        teardown(&side);
    }
}

/* ---- again and again ------------------------------------------------------------------------- */

static void sessions_are_resumed_only_where_asked_for(void **state)
{
    static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };

    (void)state;
    for (int resume = 0; resume < 2; resume++) {
        for (size_t v = 0; v < LS_ARRAY_LEN(versions); v++) {
            struct side side;

            use_version(versions[v]);
            settings.resume = resume == 1;
            setup(&side);
            for (unsigned i = 0; i < 5; i++) {
                side.received = 0;
                connect_both(&side);
                peer_send(&side, 0, 100, 100); /* and before it, in 1.3, the tickets */
                receive_until(&side, 100);
                send_pattern(&side, 5);
                peer_receive(&side, 5);
                assert_int_equal(SSL_session_reused(side.peer.ssl), resume && i > 0);
                assert_string_equal(SSL_get_servername(side.peer.ssl, TLSEXT_NAMETYPE_host_name),
                                    NAME);
                close_link(&side);
                close_peer(&side);
            }
            assert_int_equal(stats(&side)->full, resume ? 1 : 5);
            assert_int_equal(stats(&side)->resumed, resume ? 4 : 0);
            assert_int_equal(side.connects, 5);
            teardown(&side);
        }
    }
}

static void a_link_can_be_opened_again_after_any_end(void **state)
{
    struct side side;

    (void)state;
    setup(&side);
    for (int i = 0; i < 8; i++) {
        side.received = 0;
        connect_both(&side);
        if (i % 4 == 0)
            send_pattern(&side, 32u << 20); /* leaves a partial send behind */
        if (i % 4 == 1)
            peer_send(&side, 0, 20000, 16384);
        if (i % 4 == 2) {
            peer_fin(&side);
            step_until_ended(&side);
        }
        if (i % 4 == 3) { /* in the middle of a record */
            side.cut_at = side.said + 50;
            peer_send(&side, 0, 1000, 1000);
            step(&side);
            side.cut_at = 0;
        }
        close_link(&side);
        close_peer(&side);
    }
    side.received = 0;
    connect_both(&side);
    send_pattern(&side, 5);
    peer_receive(&side, 5);
    peer_send(&side, 0, 5, 5);
    receive_until(&side, 5);
    teardown(&side);
}

static void callbacks_may_close_and_then_there_are_no_more(void **state)
{
    struct side side;

    (void)state;
    setup(&side);
    connect_both(&side);
    side.close_in_bytes = true;
    peer_send(&side, 0, 40000, 16384);
    turn(&side);
    assert_true(side.received > 0 && side.received < 40000);
    assert_int_equal(side.calls, 1);
    assert_int_equal(side.ends, 0);
    side.link.flush(side.hub, side.state); /* of a closed link: nothing */
    close_link(&side);
    teardown(&side);

    setup(&side);
    side.close_in_opened = true;
    connect_plain(&side);
    while (!side.opened)
        step(&side);
    turn(&side);
    assert_int_equal(side.ends, 0);
    teardown(&side);
}

/* ---- the hub --------------------------------------------------------------------------------- */

static void *wake_it(void *arg)
{
    struct side *side = arg;

    side->link.wake(side->hub);
    return NULL;
}

static void a_turn_ends_at_its_instant_or_when_woken(void **state)
{
    struct side side;
    pthread_t thread;

    (void)state;
    setup(&side);
    side.link.turn(side.hub, ls_clock_mono_ns() + LS_NS_PER_MS);
    assert_int_equal(pthread_create(&thread, NULL, wake_it, &side), 0);
    side.link.turn(side.hub, INT64_MAX);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(side.link.io, io);
    teardown(&side);
}

static void settings_that_cannot_be_used_say_which(void **state)
{
    static const char *const no_name[] = { "", NULL };
    struct tls_pki *other = tls_pki_create("another CA");
    struct tls_identity theirs;
    struct load_tls bad[9];
    static const char *const says[] = { "ca_file: certificate 1 cannot be read",
                                        "ca_file: certificate 2 cannot be read",
                                        "certificate_file cannot be used",
                                        "key_file cannot be read",
                                        "key_file is not the key",
                                        "ciphers: 'NONE-SUCH'",
                                        "alpn: ",
                                        "server_name '",
                                        "TLS versions " };
    char two[4096];

    (void)state;
    tls_pki_issue(other, "DNS:client.test", PKI_SOUND, &theirs);
    (void)snprintf(two, sizeof(two), "%s-----BEGIN CERTIFICATE-----\nMIIB\n-----END",
                   (const char *)tls_pki_ca(pki).data);
    for (size_t i = 0; i < LS_ARRAY_LEN(bad); i++)
        bad[i] = settings;
    bad[0].ca = tls_identity_bytes("no PEM at all");
    bad[1].ca = tls_identity_bytes(two);
    bad[2].certificate = tls_identity_bytes(theirs.key);
    bad[3].certificate = tls_identity_bytes(theirs.certificate);
    bad[3].key = tls_identity_bytes("nothing");
    bad[4].certificate = tls_identity_bytes(theirs.certificate);
    bad[4].key = tls_identity_bytes(identity.key);
    bad[5].ciphers = "NONE-SUCH";
    bad[6].alpn = no_name;
    bad[7].server_name = "a\1b..";
    bad[8].min_version = 0x0304;
    bad[8].max_version = 0x0399;
    for (size_t i = 0; i < LS_ARRAY_LEN(bad); i++) {
        struct tls_context *context = NULL;
        struct ls_diag diag = { 0 };
        enum ls_err rc = tls_context_create(&bad[i], &context, &diag);

        if (i == 7 && rc == LS_OK) { /* OpenSSL takes any text for a name */
            tls_context_destroy(context);
            continue;
        }
        assert_int_equal(rc, LS_EINVAL);
        if (strstr(diag.text, says[i]) == NULL)
            fail_msg("%s is not in: %s", says[i], diag.text);
    }
    tls_identity_fini(&theirs);
    tls_pki_destroy(other);
}

static void create_once(void *ctx)
{
    struct agent_link_env env = make_env();
    struct agent_link_class link;
    struct agent_link_hub *hub = NULL;
    struct ls_diag diag = { 0 };
    enum ls_err rc;

    (void)ctx;
    agent_link_tls_over(env.carrier, &link);
    rc = link.hub_create(&env, 3, &hub, &diag);
    assert_true(rc == (failmalloc_hit() ? LS_ENOMEM : LS_OK));
    assert_true((rc == LS_OK) == (diag.text[0] == '\0'));
    link.hub_destroy(hub);
}

static void hubs_survive_each_failing_allocation(void **state)
{
    (void)state;
    assert_true(failmalloc_each(create_once, NULL) >= 6);
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
    tls_pki_issue(pki, "DNS:" NAME ",IP:127.0.0.1,IP:::1", PKI_SOUND, &identity);
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
        TEST(bytes_go_both_ways_in_order),
        TEST(records_may_come_in_pieces_of_any_size),
        TEST(records_that_arrive_together_are_handed_over_together),
        TEST(a_full_socket_loses_nothing_and_goes_on_by_itself),
        TEST(key_updates_are_answered_and_lose_nothing),
        TEST(a_renegotiation_is_refused_and_the_connection_goes_on),
        TEST(a_farewell_a_bare_fin_and_a_reset_are_told_apart),
        TEST(a_bent_record_ends_the_connection),
        TEST(whoever_does_not_speak_tls_is_named),
        TEST(plain_text_after_the_handshake_ends_the_connection),
        TEST(a_handshake_may_be_cut_anywhere),
        TEST(a_bent_handshake_fails_and_names_no_innocent),
        TEST(ends_during_the_handshake_are_failed_opens),
        TEST(certificates_that_do_not_verify_are_refused_with_the_reason),
        TEST(a_verified_certificate_vouches_for_no_other),
        TEST(names_and_addresses_are_verified_alike_but_only_names_are_sent),
        TEST(alerts_of_the_server_are_named),
        TEST(a_client_that_must_show_a_certificate_can),
        TEST(the_protocol_is_one_that_was_offered),
        TEST(sessions_are_resumed_only_where_asked_for),
        TEST(a_link_can_be_opened_again_after_any_end),
        TEST(callbacks_may_close_and_then_there_are_no_more),
        TEST(a_turn_ends_at_its_instant_or_when_woken),
        TEST(settings_that_cannot_be_used_say_which),
        TEST(hubs_survive_each_failing_allocation),
    };
    const struct agent_link_class *uring = agent_link_find("tcp", "io_uring");
    struct ls_diag why = { 0 };
    int failed;

    io = "libev";
    failed = cmocka_run_group_tests_name("agent.tls_link", tests, make_pki, forget_pki);
    if (uring->probe(&why) != LS_OK) {
        print_message("over io_uring: not here: %s\n", why.text);
        return failed;
    }
    io = "io_uring";
    return failed + cmocka_run_group_tests_name("agent.tls_link", tests, make_pki, forget_pki);
}

#include "tests/support/tls_peer.h"

#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/test.h"

enum { CONNECTIONS_MAX = 65536 };

static X509 *read_certificate(struct ls_bytes pem)
{
    BIO *bio = BIO_new_mem_buf(pem.data, (int)pem.len);
    X509 *certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);

    (void)BIO_free(bio);
    assert_non_null(certificate);
    return certificate;
}

static int choose(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                  const unsigned char *in, unsigned in_len, void *arg)
{
    const struct tls_peer_setup *setup = arg;

    (void)ssl;
    (void)in;
    (void)in_len;
    if (setup->alpn_refuse)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    if (setup->alpn == NULL)
        return SSL_TLSEXT_ERR_NOACK;
    *out = (const unsigned char *)setup->alpn;
    *out_len = (unsigned char)strlen(setup->alpn);
    return SSL_TLSEXT_ERR_OK;
}

/* Without it OpenSSL remembers no name for resumed sessions. */
static int take_name(SSL *ssl, int *alert, void *arg)
{
    (void)ssl;
    (void)alert;
    (void)arg;
    return SSL_TLSEXT_ERR_OK;
}

SSL_CTX *tls_peer_context(const struct tls_peer_setup *setup)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    X509 *certificate = read_certificate(tls_identity_bytes(setup->identity->certificate));
    BIO *bio = BIO_new_mem_buf(setup->identity->key, -1);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
    union { /* OpenSSL's callbacks take no const */
        const struct tls_peer_setup *in;
        struct tls_peer_setup *out;
    } arg = { .in = setup };

    assert_int_equal(SSL_CTX_use_certificate(ctx, certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(ctx, key), 1);
    X509_free(certificate);
    EVP_PKEY_free(key);
    (void)BIO_free(bio);
    assert_int_equal(SSL_CTX_set_min_proto_version(ctx, setup->min_version), 1);
    assert_int_equal(SSL_CTX_set_max_proto_version(ctx, setup->max_version), 1);
    if (setup->no_tickets) {
        (void)SSL_CTX_set_num_tickets(ctx, 0);
        (void)SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
    }
    assert_int_equal(SSL_CTX_set_session_id_context(ctx, (const unsigned char *)"test", 4), 1);
    assert_int_equal(SSL_CTX_set_tlsext_servername_callback(ctx, take_name), 1);
    SSL_CTX_set_alpn_select_cb(ctx, choose, arg.out);
    if (setup->client_ca.len > 0) {
        certificate = read_certificate(setup->client_ca);
        assert_int_equal(X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), certificate), 1);
        X509_free(certificate);
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    }
    return ctx;
}

void tls_peer_init(struct tls_peer *peer, SSL_CTX *ctx)
{
    peer->ssl = SSL_new(ctx);
    peer->in = BIO_new(BIO_s_mem());
    peer->out = BIO_new(BIO_s_mem());
    assert_non_null(peer->ssl);
    SSL_set_bio(peer->ssl, peer->in, peer->out);
    SSL_set_accept_state(peer->ssl);
}

void tls_peer_fini(struct tls_peer *peer)
{
    SSL_free(peer->ssl);
}

struct load_tls tls_settings(const struct tls_pki *pki, const char *name)
{
    static const char *const alpn[] = { "http/1.1", NULL };

    return (struct load_tls){ .verify = true,
                              .resume = true,
                              .server_name = name,
                              .ca = tls_pki_ca(pki),
                              .alpn = alpn,
                              .min_version = 0x0303,
                              .max_version = 0x0304 };
}

/* ---- the server ------------------------------------------------------------------------------ */

struct tls_server {
    struct tls_server_setup setup;
    SSL_CTX *ctx;
    int fd;
    struct sockaddr_in address;
    pthread_t thread;
    pthread_t *connections;
    unsigned count;
    pthread_mutex_t lock; /* of seen */
    struct tls_server_seen seen;
};

struct conversation {
    struct tls_server *server;
    int fd;
};

static void note_handshake(struct tls_server *server, SSL *ssl)
{
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    struct tls_server_seen *seen = &server->seen;

    name = name != NULL ? name : "";
    (void)pthread_mutex_lock(&server->lock);
    *(SSL_session_reused(ssl) ? &seen->resumed : &seen->full) += 1;
    if (seen->full + seen->resumed > 1 && strcmp(seen->sni, name) != 0)
        seen->sni_changes++;
    (void)strncpy(seen->sni, name, sizeof(seen->sni) - 1);
    (void)pthread_mutex_unlock(&server->lock);
}

/* Up to and with the next empty line. False: the client closed. */
static bool hear_one(SSL *ssl)
{
    static const char mark[] = "\r\n\r\n";
    size_t matched = 0;

    while (matched < sizeof(mark) - 1) {
        char c;

        if (SSL_read(ssl, &c, 1) != 1)
            return false;
        matched = c == mark[matched] ? matched + 1 : c == '\r';
    }
    return true;
}

static void disturb(const struct tls_server_setup *setup, SSL *ssl, unsigned answer)
{
    if (setup->key_updates > 0 && answer % setup->key_updates == 0)
        (void)SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED);
    if (setup->renegotiate) {
        (void)SSL_renegotiate(ssl);
        (void)SSL_do_handshake(ssl);
    }
}

static void talk(struct tls_server *server, SSL *ssl)
{
    const struct tls_server_setup *setup = &server->setup;

    for (unsigned i = 0; setup->answers == 0 || i < setup->answers; i++) {
        if (!hear_one(ssl))
            return;
        (void)pthread_mutex_lock(&server->lock);
        server->seen.requests++;
        (void)pthread_mutex_unlock(&server->lock);
        disturb(setup, ssl, i + 1);
        if (SSL_write(ssl, setup->answer, (int)strlen(setup->answer)) <= 0)
            return;
    }
}

static void hold(int fd)
{
    char away[4096];

    while (recv(fd, away, sizeof(away), 0) > 0)
        continue;
}

static void *serve(void *arg)
{
    struct conversation *c = arg;
    struct tls_server *server = c->server;
    SSL *ssl = SSL_new(server->ctx);
    struct linger now = { .l_onoff = 1, .l_linger = 0 };

    assert_int_equal(SSL_set_fd(ssl, c->fd), 1);
    if (SSL_accept(ssl) == 1) {
        note_handshake(server, ssl);
        talk(server, ssl);
        if (server->setup.end == PEER_NOTIFY)
            (void)SSL_shutdown(ssl);
        if (server->setup.end == PEER_RESET)
            (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
        if (server->setup.end == PEER_HOLD)
            hold(c->fd);
        if (server->setup.end == PEER_NOTIFY || server->setup.end == PEER_FIN) {
            (void)shutdown(c->fd, SHUT_WR);
            hold(c->fd); /* or what is unread would make it a reset */
        }
    }
    ERR_clear_error();
    (void)close(c->fd);
    SSL_free(ssl);
    free(c);
    return NULL;
}

static void *accept_all(void *arg)
{
    struct tls_server *server = arg;

    while (server->count < CONNECTIONS_MAX) {
        struct conversation *c = calloc(1, sizeof(*c));

        assert_non_null(c);
        c->server = server;
        c->fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC);
        if (c->fd < 0) {
            free(c);
            break;
        }
        (void)pthread_mutex_lock(&server->lock);
        server->seen.accepted++;
        (void)pthread_mutex_unlock(&server->lock);
        assert_int_equal(pthread_create(&server->connections[server->count++], NULL, serve, c), 0);
    }
    return NULL;
}

struct tls_server *tls_server_start(const struct tls_server_setup *setup)
{
    struct tls_server *server = calloc(1, sizeof(*server));
    socklen_t len = sizeof(server->address);

    assert_non_null(server);
    (void)signal(SIGPIPE, SIG_IGN); /* OpenSSL writes to sockets without a flag against it */
    server->setup = *setup;
    server->ctx = tls_peer_context(&server->setup.tls);
    server->connections = calloc(CONNECTIONS_MAX, sizeof(*server->connections));
    assert_non_null(server->connections);
    assert_int_equal(pthread_mutex_init(&server->lock, NULL), 0);
    server->address.sin_family = AF_INET;
    server->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(server->fd >= 0);
    assert_int_equal(bind(server->fd, (struct sockaddr *)&server->address, len), 0);
    assert_int_equal(listen(server->fd, 64), 0);
    assert_int_equal(getsockname(server->fd, (struct sockaddr *)&server->address, &len), 0);
    assert_int_equal(pthread_create(&server->thread, NULL, accept_all, server), 0);
    return server;
}

void tls_server_stop(struct tls_server *server, struct tls_server_seen *out)
{
    (void)shutdown(server->fd, SHUT_RDWR); /* ends accept() */
    (void)pthread_join(server->thread, NULL);
    for (unsigned i = 0; i < server->count; i++)
        (void)pthread_join(server->connections[i], NULL);
    if (out != NULL)
        *out = server->seen;
    (void)close(server->fd);
    SSL_CTX_free(server->ctx);
    (void)pthread_mutex_destroy(&server->lock);
    free(server->connections);
    free(server);
}

void tls_server_address(const struct tls_server *server, struct sockaddr_storage *out,
                        socklen_t *out_len)
{
    (void)memset(out, 0, sizeof(*out));
    (void)memcpy(out, &server->address, sizeof(server->address));
    *out_len = sizeof(server->address);
}

/* tests/support/tls_peer.h - the other end of a TLS connection, by OpenSSL on memory: it has no
 * socket, the test carries the bytes. And a server made of such ends, on a thread. */
#ifndef LS_TESTS_SUPPORT_TLS_PEER_H
#define LS_TESTS_SUPPORT_TLS_PEER_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "agent/load/workload.h"
#include "tests/support/tls_pki.h"

struct tls_peer_setup {
    const struct tls_identity *identity;
    struct ls_bytes client_ca; /* empty: clients need no certificate */
    const char *alpn;          /* what it chooses, offered or not; NULL: ignores the offer */
    bool alpn_refuse;          /* ends the handshake instead */
    int min_version;           /* 0: any */
    int max_version;
    bool no_tickets;
};

SSL_CTX *tls_peer_context(const struct tls_peer_setup *setup);

/* ---- on memory */

struct tls_peer {
    SSL *ssl;
    BIO *in;  /* what the client sent */
    BIO *out; /* what it is to get */
};

void tls_peer_init(struct tls_peer *peer, SSL_CTX *ctx);
void tls_peer_fini(struct tls_peer *peer);

/* ---- a server of its own */

enum tls_peer_end {
    PEER_HOLD,   /* until the client closes */
    PEER_NOTIFY, /* close_notify, then FIN */
    PEER_FIN,    /* without it */
    PEER_RESET
};

struct tls_server_setup {
    struct tls_peer_setup tls;
    const char *answer;   /* to each empty line */
    unsigned answers;     /* per connection, then end; 0: for ever */
    unsigned key_updates; /* one is asked for before every n-th answer; 0: never */
    bool renegotiate;     /* TLS 1.2: asks for it before each answer */
    enum tls_peer_end end;
};

struct tls_server;

struct tls_server_seen {
    uint64_t accepted;
    uint64_t full;
    uint64_t resumed;
    uint64_t requests;
    char sni[64];         /* of the last one; "": none */
    unsigned sni_changes; /* handshakes that had another one than the first */
};

struct tls_server *tls_server_start(const struct tls_server_setup *setup);
/* Waits for the end of its connections: clients have closed them. What it has seen, if out is not
 * NULL. */
void tls_server_stop(struct tls_server *server, struct tls_server_seen *out);
void tls_server_address(const struct tls_server *server, struct sockaddr_storage *out,
                        socklen_t *out_len);

/* Settings that trust pki, for name. */
struct load_tls tls_settings(const struct tls_pki *pki, const char *name);

#endif

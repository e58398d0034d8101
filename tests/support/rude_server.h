/* tests/support/rude_server.h - a TCP server in a thread of this process that speaks the null
 * driver's protocol (echo) until it does something that servers should not do. */
#ifndef LS_TESTS_SUPPORT_RUDE_SERVER_H
#define LS_TESTS_SUPPORT_RUDE_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum rude_end {
    RUDE_GO_ON,
    RUDE_FIN,     /* closes in good order */
    RUDE_RESET,   /* closes with RST */
    RUDE_SILENCE, /* reads on, answers no more */
    RUDE_STALL,   /* reads no more */
    RUDE_BABBLE   /* answers twice from then on */
};

struct rude_script {
    uint64_t answers; /* good ones per connection, then: */
    enum rude_end then;
    int receive_bytes;    /* of the socket's buffer; 0: as the system has it */
    const char *greeting; /* with this the server is another one: it sends this text whenever it has
                           * received an empty line, as an HTTP server would */
};

struct rude_server;

/* Fails the test if it cannot. */
struct rude_server *rude_server_start(const struct rude_script *script);
void rude_server_stop(struct rude_server *server);
void rude_server_address(const struct rude_server *server, struct sockaddr_storage *out,
                         socklen_t *out_len);
uint64_t rude_server_received(struct rude_server *server);    /* bytes */
uint64_t rude_server_connections(struct rude_server *server); /* accepted */

/* The address of a port of loopback that nobody listens on. */
void rude_nobody(struct sockaddr_storage *out, socklen_t *out_len);

#endif

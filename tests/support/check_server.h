/* tests/support/check_server.h - an HTTP/1.1 server on a thread that reads every request strictly,
 * asks the test what to say to it, and counts nothing by itself. */
#ifndef LS_TESTS_SUPPORT_CHECK_SERVER_H
#define LS_TESTS_SUPPORT_CHECK_SERVER_H

#include <sys/socket.h>

#include "common/attr.h"
#include "common/buf.h"

struct check_request {
    const char *method;
    const char *target;
    const char *head; /* all of it, NUL-terminated */
    struct ls_bytes body;
};

struct check_server; /* opaque */

/* answer is called on the server's thread; it appends the whole response to out. A request that is
 * none, or leaves answer without a response, ends the connection. Fails the running test if there
 * is no port. */
struct check_server *check_server_start(
    void (*answer)(void *ctx, const struct check_request *request, struct ls_buf *out), void *ctx);
void check_server_address(const struct check_server *server, struct sockaddr_storage *out,
                          socklen_t *out_len);
void check_server_stop(struct check_server *server); /* its thread has ended afterwards */

#endif

#include "coordinator/web/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "coordinator/web/guard.h"
#include "coordinator/web/stream.h"

#define TOKEN_BYTES      16u
#define TICK_MS          100 /* how soon news goes out, and a stop is seen */
#define NICE             10  /* below the load's, where they share a CPU */
#define BACKLOG          64
#define CONNECTIONS_MAX  128u
#define HEAD_BYTES_MAX   16384u               /* more is answered with 431 */
#define TIMEOUT_S        10u                  /* of silence */
#define LAST_WORDS_NS    (300 * LS_NS_PER_MS) /* for what was published last to go out */
#define LAST_WORDS_TICKS 3

struct coord_web {
    const struct coord_web_route *routes;
    size_t route_count;
    struct MHD_Daemon *daemon;
    struct coord_streams streams;
    pthread_t thread;
    bool running;
    atomic_bool stopping;
    uint16_t port;
    char token[2 * TOKEN_BYTES + 1];
    char url[160];
};

/* ---- answers */

/* What keeps a page to itself, on all of them. */
static void add_headers(struct MHD_Response *response, const char *type, const char *policy)
{
    const char *const rows[][2] = {
        { "Content-Type", type },
        { "Content-Security-Policy",
          policy != NULL ? policy : "default-src 'none'; frame-ancestors 'none'" },
        { "Cache-Control", "no-store" },
        { "Referrer-Policy", "no-referrer" },
        { "X-Content-Type-Options", "nosniff" },
        { "X-Frame-Options", "DENY" },
        { "Cross-Origin-Resource-Policy", "same-origin" },
        { "Cross-Origin-Opener-Policy", "same-origin" },
    };

    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++)
        (void)MHD_add_response_header(response, rows[i][0], rows[i][1]); /* memory: sent without */
}

static void add_stream_headers(struct MHD_Response *response)
{
    add_headers(response, "text/event-stream", NULL);
}

static enum MHD_Result reply_with(struct MHD_Connection *connection, unsigned status,
                                  const char *type, const char *policy, struct ls_bytes body)
{
    union {
        const unsigned char *in;
        void *out;
    } data = { .in = body.data }; /* copied, and not written to */
    struct MHD_Response *response =
        MHD_create_response_from_buffer(body.len, data.out, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result queued;

    if (response == NULL)
        return MHD_NO;
    add_headers(response, type, policy);
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        (void)MHD_add_response_header(response, "Allow", "GET, HEAD, POST");
    queued = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status, const char *why)
{
    struct ls_bytes body = { (const unsigned char *)why, strlen(why) };

    return reply_with(connection, status, "text/plain; charset=utf-8", NULL, body);
}

static enum MHD_Result answer(struct coord_web *web, const struct coord_web_route *route,
                              struct MHD_Connection *connection)
{
    struct coord_web_reply reply = { .status = MHD_HTTP_OK, .type = "text/plain; charset=utf-8" };
    enum MHD_Result queued;

    if (route->feed != NULL)
        return coord_stream_queue(
            &web->streams, route, connection,
            MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Last-Event-ID"),
            add_stream_headers);
    ls_buf_init(&reply.body, COORD_WEB_REPLY_MAX);
    route->answer(route->ctx, &reply);
    queued = reply.body.ok ? reply_with(connection, reply.status, reply.type, reply.policy,
                                        (struct ls_bytes){ reply.body.data, reply.body.len })
                           : refuse(connection, MHD_HTTP_INTERNAL_SERVER_ERROR,
                                    "no memory for the answer, or it is too large\n");
    ls_buf_fini(&reply.body);
    return queued;
}

/* ---- requests */

static const struct coord_web_route *find_route(const struct coord_web *web, const char *path)
{
    const char *behind = coord_guard_token(path, web->token);

    for (size_t i = 0; i < web->route_count; i++) {
        const struct coord_web_route *route = &web->routes[i];
        const char *asked = route->open ? path : behind;

        if (asked != NULL && strcmp(route->path, asked) == 0)
            return route;
    }
    return NULL;
}

static bool takes(const struct coord_web_route *route, const char *method)
{
    return strcmp(route->method, method) == 0 ||
           (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0 &&
            route->feed == NULL);
}

static enum MHD_Result serve(struct coord_web *web, struct MHD_Connection *connection,
                             const char *path, const char *method)
{
    const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
    const char *origin = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Origin");
    const struct coord_web_route *route;

    if (!coord_guard_host(host, web->port))
        return refuse(connection, MHD_HTTP_MISDIRECTED_REQUEST,
                      "this server answers to an IP address or localhost, with its port\n");
    if (!coord_guard_origin(origin, host))
        return refuse(connection, MHD_HTTP_FORBIDDEN, "not for pages of others\n");
    route = find_route(web, path);
    if (route == NULL)
        return refuse(connection, MHD_HTTP_NOT_FOUND,
                      "not found: use the whole address that lockstep printed\n");
    if (!takes(route, method))
        return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "not this method\n");
    return answer(web, route, connection);
}

/* Called once with the head, once for each piece of a body, once at the end. */
static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *body,
                                  size_t *body_bytes, void **state)
{
    static int head_seen;

    (void)version;
    (void)body;
    if (*state == NULL) {
        *state = &head_seen;
        return MHD_YES;
    }
    if (*body_bytes > 0)
        return MHD_NO; /* no request here has a body: the connection is closed */
    return serve(ctx, connection, path, method);
}

/* ---- life */

static void *run(void *ctx)
{
    struct coord_web *web = ctx;
    int64_t end_ns;

    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* it runs without, too */
    while (!atomic_load(&web->stopping)) {
        if (MHD_run_wait(web->daemon, TICK_MS) != MHD_YES)
            break;
        coord_streams_wake(&web->streams, ls_clock_mono_ns());
    }
    end_ns = ls_clock_mono_ns() + LAST_WORDS_NS;
    for (unsigned i = 0;
         !coord_streams_end(&web->streams) && (i < LAST_WORDS_TICKS || ls_clock_mono_ns() < end_ns);
         i++)
        (void)MHD_run_wait(web->daemon, TICK_MS);
    (void)coord_streams_end(&web->streams); /* none may be suspended when the daemon is stopped */
    return NULL;
}

static enum ls_err make_token(struct coord_web *web, struct ls_diag *diag)
{
    unsigned char random[TOKEN_BYTES];

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return ls_fail(diag, LS_EIO, "no random numbers for the live page's token");
    for (size_t i = 0; i < sizeof(random); i++)
        (void)snprintf(web->token + 2 * i, 3, "%02x", random[i]);
    return LS_OK;
}

/* The address as bind(2) wants it; its length, 0: not an address. */
static socklen_t parse_address(const char *text, uint16_t port, struct sockaddr_storage *out)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        (void)memcpy(out, &v4, sizeof(v4));
        return sizeof(v4);
    }
    if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1) {
        (void)memcpy(out, &v6, sizeof(v6));
        return sizeof(v6);
    }
    return 0;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof(address);
    struct sockaddr_in v4;

    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        return 0;
    (void)memcpy(&v4, &address, sizeof(v4)); /* the port is at the same place in both */
    return ntohs(v4.sin_port);
}

/* A socket that listens; the daemon closes it. */
static enum ls_err open_socket(struct coord_web *web, const char *address, uint16_t port,
                               int *out_fd, struct ls_diag *diag)
{
    struct sockaddr_storage at = { 0 };
    socklen_t len = parse_address(address, port, &at);
    int on = 1, fd;

    if (len == 0)
        return ls_fail(diag, LS_EINVAL, "%.60s is not an IP address", address);
    fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return ls_fail(diag, LS_EIO, "no socket for the live page: %s", strerror(errno));
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, (struct sockaddr *)&at, len) != 0 || listen(fd, BACKLOG) != 0) {
        (void)ls_fail(diag, LS_EIO, "cannot listen at %.60s, port %u: %s", address, port,
                      strerror(errno));
        (void)close(fd);
        return LS_EIO;
    }
    web->port = port_of(fd);
    (void)snprintf(web->url, sizeof(web->url),
                   at.ss_family == AF_INET6 ? "http://[%s]:%u/%s/" : "http://%s:%u/%s/", address,
                   web->port, web->token);
    *out_fd = fd;
    return LS_OK;
}

static enum ls_err start_daemon(struct coord_web *web, int fd, struct ls_diag *diag)
{
    web->daemon =
        MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, web,
                         MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES_MAX,
                         MHD_OPTION_CONNECTION_TIMEOUT, TIMEOUT_S, MHD_OPTION_END);
    if (web->daemon == NULL) {
        (void)close(fd);
        return ls_fail(diag, LS_EIO, "libmicrohttpd did not start: %s", strerror(errno));
    }
    return LS_OK;
}

/* Signals are the run's, which waits for them in its own way. */
static enum ls_err start_thread(struct coord_web *web, struct ls_diag *diag)
{
    sigset_t all, before;
    int error;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&web->thread, NULL, run, web);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return ls_fail(diag, LS_EIO, "no thread for the live page: %s", strerror(error));
    web->running = true;
    return LS_OK;
}

enum ls_err coord_web_start(const struct coord_web_options *options, struct coord_web **out_web,
                            struct ls_diag *diag)
{
    struct coord_web *web = calloc(1, sizeof(*web));
    const char *address = options->address != NULL ? options->address : "127.0.0.1";
    enum ls_err rc;
    int fd = -1;

    if (web == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for the live page");
    web->routes = options->routes;
    web->route_count = options->route_count;
    rc = make_token(web, diag);
    if (rc == LS_OK)
        rc = open_socket(web, address, options->port, &fd, diag);
    if (rc == LS_OK)
        rc = start_daemon(web, fd, diag);
    if (rc == LS_OK)
        rc = start_thread(web, diag);
    if (rc != LS_OK) {
        coord_web_stop(web);
        return rc;
    }
    *out_web = web;
    return LS_OK;
}

void coord_web_stop(struct coord_web *web)
{
    if (web == NULL)
        return;
    atomic_store(&web->stopping, true);
    if (web->running)
        (void)pthread_join(web->thread, NULL);
    if (web->daemon != NULL)
        MHD_stop_daemon(web->daemon);
    free(web);
}

const char *coord_web_url(const struct coord_web *web)
{
    return web->url;
}

uint16_t coord_web_port(const struct coord_web *web)
{
    return web->port;
}

#include "tests/support/script_server.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/support/test.h"

/* Up to and with the next empty line. False: the peer closed. */
static bool hear_one(int fd)
{
    static const char mark[] = "\r\n\r\n";
    size_t seen = 0;

    while (seen < sizeof(mark) - 1) {
        char c;

        if (recv(fd, &c, 1, 0) != 1)
            return false;
        seen = c == mark[seen] ? seen + 1 : c == '\r';
    }
    return true;
}

static bool say_all(int fd, struct ls_bytes text)
{
    while (text.len > 0) {
        ssize_t n = send(fd, text.data, text.len, MSG_NOSIGNAL);

        if (n <= 0)
            return false;
        text.data += n;
        text.len -= (size_t)n;
    }
    return true;
}

/* Until the peer closes; what it sends is of no interest. */
static void hold(int fd)
{
    char away[4096];

    while (recv(fd, away, sizeof(away), 0) > 0)
        continue;
}

static void play(struct script_server *server, const struct script *script, int fd)
{
    bool going = script->answers[0].len > 0 || hear_one(fd);

    for (size_t i = 0; going && i < LS_ARRAY_LEN(script->answers); i++) {
        if (script->answers[i].len == 0)
            break;
        going = hear_one(fd) && say_all(fd, script->answers[i]);
    }
    if (script->end == SCRIPT_DEAF) {
        eventfd_t value;

        (void)eventfd_read(server->signal_fd, &value);
    }
    if (script->end == SCRIPT_RESET || script->end == SCRIPT_DEAF) {
        struct linger now = { .l_onoff = 1, .l_linger = 0 };

        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    }
    if (script->end == SCRIPT_SIGNAL)
        (void)eventfd_write(server->signal_fd, 1);
    if (script->end == SCRIPT_HOLD || script->end == SCRIPT_SIGNAL)
        hold(fd);
    (void)close(fd);
    (void)sem_post(&server->ended);
}

static void *serve(void *ctx)
{
    struct script_server *server = ctx;

    for (unsigned i = 0; i < server->script_count; i++) {
        int fd = accept(server->fd, NULL, NULL);

        if (fd < 0)
            break;
        play(server, &server->scripts[i], fd);
    }
    return NULL;
}

void script_server_start(struct script_server *server, const struct script *scripts, unsigned count,
                         int signal_fd)
{
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

    *server =
        (struct script_server){ .scripts = scripts, .script_count = count, .signal_fd = signal_fd };
    assert_int_equal(sem_init(&server->ended, 0, 0), 0);
    server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(server->fd >= 0);
    assert_int_equal(bind(server->fd, (struct sockaddr *)&any, sizeof(any)), 0);
    assert_int_equal(listen(server->fd, 8), 0);
    server->address_len = sizeof(server->address);
    assert_int_equal(
        getsockname(server->fd, (struct sockaddr *)&server->address, &server->address_len), 0);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

void script_server_stop(struct script_server *server)
{
    (void)shutdown(server->fd, SHUT_RDWR); /* ends accept() */
    (void)pthread_join(server->thread, NULL);
    (void)close(server->fd);
    (void)sem_destroy(&server->ended);
}

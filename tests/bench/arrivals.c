/* A server that writes down when requests arrive, and in the end how far that was from an even
 * schedule: the open loop as the other side sees it.
 *
 *     bench_arrivals RATE SKIP-MS
 *
 * Polls without ever sleeping, on 127.0.0.1 and a port that it prints on the first line of stdout;
 * answers every head with 200 and "Hello, World!". On SIGTERM prints one line: arrivals= rate=
 * p50_ns= p90_ns= p99_ns= max_ns= of the error of the i-th arrival to begin + i / RATE, where begin
 * is such that the earliest error is 0, and burst_pct=, arrivals within a fifth of 1 / RATE after
 * the one before. Arrivals in the first SKIP-MS after the first one are left out.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"

#define ARRIVALS_MAX (8u << 20)
#define EVENTS       256

static volatile sig_atomic_t over;
static int64_t *arrivals;
static size_t arrival_count;

static void on_term(int signal_number)
{
    (void)signal_number;
    over = 1;
}

static void die(const char *what)
{
    (void)fprintf(stderr, "bench_arrivals: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void watch(int epoll, int fd)
{
    struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        die("epoll_ctl");
}

static int open_listener(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) != 0 || listen(fd, 4096) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        die("listen");
    (void)printf("%u\n", ntohs(address.sin_port));
    (void)fflush(stdout);
    return fd;
}

static void accept_all(int epoll, int listener)
{
    int one = 1;
    int fd;

    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        watch(epoll, fd);
    }
}

/* Requests are small and not pipelined: what one receive brings is one of them, or several that a
 * client held back. */
static void serve(int fd, int64_t now_ns)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n"
                                 "Content-Type: text/plain\r\n\r\nHello, World!";
    char data[16384];
    const char *at = data;
    const char *hit;
    ssize_t got = recv(fd, data, sizeof(data), 0);

    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0) {
        (void)close(fd);
        return;
    }
    while ((hit = memmem(at, (size_t)(data + got - at), "\r\n\r\n", 4)) != NULL) {
        at = hit + 4;
        if (arrival_count < ARRIVALS_MAX)
            arrivals[arrival_count++] = now_ns;
        (void)!send(fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL);
    }
}

static void run(int listener)
{
    struct epoll_event events[EVENTS];
    int epoll = epoll_create1(EPOLL_CLOEXEC);

    if (epoll < 0)
        die("epoll");
    watch(epoll, listener);
    while (!over) {
        int n = epoll_wait(epoll, events, EVENTS, 0);

        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == listener)
                accept_all(epoll, listener);
            else
                serve(events[i].data.fd, ls_clock_mono_ns());
        }
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static void report(double rate_per_s, int64_t skip_ns)
{
    const double step_ns = 1e9 / rate_per_s;
    size_t first = 0;
    size_t bursts = 0;
    size_t n;
    double earliest = 0;
    double *errors;

    while (first < arrival_count && arrivals[first] < arrivals[0] + skip_ns)
        first++;
    n = arrival_count - first;
    if (n < 100) {
        (void)printf("arrivals=%zu\n", n);
        return;
    }
    errors = malloc(n * sizeof(*errors));
    if (errors == NULL)
        die("memory");
    for (size_t i = 0; i < n; i++) {
        errors[i] = (double)(arrivals[first + i] - arrivals[first]) - (double)i * step_ns;
        earliest = errors[i] < earliest ? errors[i] : earliest;
        if (i > 0 && (double)(arrivals[first + i] - arrivals[first + i - 1]) < step_ns / 5)
            bursts++;
    }
    qsort(errors, n, sizeof(*errors), by_value);
    (void)printf("arrivals=%zu rate=%.0f p50_ns=%.0f p90_ns=%.0f p99_ns=%.0f max_ns=%.0f"
                 " burst_pct=%.1f\n",
                 n, (double)(n - 1) * 1e9 / (double)(arrivals[first + n - 1] - arrivals[first]),
                 errors[n / 2] - earliest, errors[n * 9 / 10] - earliest,
                 errors[n * 99 / 100] - earliest, errors[n - 1] - earliest,
                 100.0 * (double)bursts / (double)n);
    free(errors);
}

int main(int argc, char **argv)
{
    struct sigaction action = { .sa_handler = on_term };
    double rate_per_s = argc == 3 ? strtod(argv[1], NULL) : 0;
    int64_t skip_ms = argc == 3 ? strtoll(argv[2], NULL, 10) : -1;

    if (rate_per_s <= 0 || skip_ms < 0) {
        (void)fprintf(stderr, "usage: bench_arrivals RATE SKIP-MS\n");
        return 2;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)sigaction(SIGTERM, &action, NULL);
    arrivals = malloc(ARRIVALS_MAX * sizeof(*arrivals));
    if (arrivals == NULL)
        die("memory");
    run(open_listener());
    report(rate_per_s, skip_ms * LS_NS_PER_MS);
    free(arrivals);
    return 0;
}

#include "tests/agent/host_play.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/attr.h"
#include "common/clock.h"

extern char **environ;

#define ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!"
#define WRONG  "HTTP/1.1 503 Not Yet\r\nContent-Length: 4\r\n\r\nwait"

struct how {
    long wrong_answers; /* before the first right one; -1: only wrong ones */
    bool mute;
    bool share_port;
    long connections; /* after so many it exits; 0: never */
    long answers;     /* instead of the next one it exits; 0: never */
};

static void nap_ms(int64_t ms)
{
    ls_clock_sleep_until(ls_clock_mono_ns() + ms * LS_NS_PER_MS);
}

static LS_NORETURN void sleep_for_ever(void)
{
    for (;;)
        (void)pause();
}

static int listen_on(const char *port, bool share)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)strtoul(port, NULL, 10)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int on = 1;

    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (share)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 64) < 0) {
        perror("listen");
        exit(4);
    }
    return fd;
}

/* One connection at a time, until it is closed. */
static LS_NORETURN void serve(int listener, struct how how)
{
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        char request[4096];

        while (fd >= 0 && read(fd, request, sizeof(request)) > 0) {
            bool wrong = how.wrong_answers != 0;
            const char *answer = wrong ? WRONG : ANSWER;

            if (how.mute)
                continue;
            if (how.answers > 0 && --how.answers == 0)
                exit(9);
            how.wrong_answers -= how.wrong_answers > 0;
            if (send(fd, answer, strlen(answer), MSG_NOSIGNAL) < 0)
                break;
        }
        (void)close(fd);
        if (how.connections > 0 && --how.connections == 0)
            exit(9);
    }
}

/* "Here I am", once per process that a test waits for. */
static void announce(void)
{
    if (write(1, "+\n", 2) != 2)
        _exit(6);
}

/* Leaves session, group and parent, as daemons do. */
static bool become_daemon(void)
{
    if (fork() != 0)
        return false;
    (void)setsid();
    if (fork() != 0)
        _exit(0);
    return true;
}

static void ignore_stops(void)
{
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
}

static void print_bytes(long bytes)
{
    static char line[1024];

    (void)memset(line, 'x', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\n';
    while (bytes > 0) {
        size_t n = bytes < (long)sizeof(line) ? (size_t)bytes : sizeof(line);
        ssize_t done = write(1, line, n);

        if (done <= 0)
            exit(5);
        bytes -= done;
    }
}

static void print_limits(void)
{
    static const struct {
        const char *name;
        int resource;
    } limits[] = {
        { "core", RLIMIT_CORE },   { "data", RLIMIT_DATA },   { "as", RLIMIT_AS },
        { "fsize", RLIMIT_FSIZE }, { "nproc", RLIMIT_NPROC }, { "nofile", RLIMIT_NOFILE }
    };

    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        struct rlimit limit;

        if (getrlimit((__rlimit_resource_t)limits[i].resource, &limit) == 0)
            (void)printf("limit %s %llu %llu\n", limits[i].name, (unsigned long long)limit.rlim_cur,
                         (unsigned long long)limit.rlim_max);
    }
}

/* What a target starts with, for the test to compare. */
static void print_state(void)
{
    char line[256];
    FILE *status = fopen("/proc/self/status", "re");
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;

    for (char **at = environ; *at != NULL; at++)
        (void)printf("env %s\n", *at);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.' && strtol(entry->d_name, NULL, 10) != dirfd(dir))
            (void)printf("fd %s\n", entry->d_name);
    }
    while (status != NULL && fgets(line, sizeof(line), status) != NULL) {
        if (strncmp(line, "Sig", 3) == 0 || strncmp(line, "Cap", 3) == 0 ||
            strncmp(line, "Uid:", 4) == 0 || strncmp(line, "Gid:", 4) == 0 ||
            strncmp(line, "Groups:", 7) == 0 || strncmp(line, "NoNewPrivs", 10) == 0 ||
            strncmp(line, "Umask", 5) == 0)
            (void)printf("%s", line);
    }
    print_limits();
    (void)printf("leads %d\n", getsid(0) == getpid() && getpgrp() == getpid());
    (void)printf("called %s\n", program_invocation_name);
    (void)printf("cwd %s\n", getcwd(line, sizeof(line)));
    (void)fflush(stdout);
}

/* Each generation lives for as long as it takes to make the next. */
static LS_NORETURN void chain(void)
{
    ignore_stops();
    announce();
    for (;;) {
        if (fork() > 0)
            _exit(0);
        (void)setsid();
    }
}

/* Never stops making children, some of which do the same for a while. */
static LS_NORETURN void breed(void)
{
    ignore_stops();
    announce();
    for (int i = 0;; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            (void)setsid();
            nap_ms(i % 50);
            _exit(0);
        }
        if (i % 8 == 0)
            while (waitpid(-1, NULL, WNOHANG) > 0)
                ;
        nap_ms(1);
    }
}

static volatile sig_atomic_t terms;

static void count_term(int signal)
{
    (void)signal;
    terms++;
}

/* After the first TERM, time for another one. */
static int await_terms(void)
{
    while (terms == 0)
        nap_ms(1);
    for (int i = 0; i < 100; i++)
        nap_ms(1);
    return terms;
}

/* One daemon and the target; each ends by saying how often it was told to. */
static LS_NORETURN void count_terms(const char *port)
{
    int listener = listen_on(port, false);

    (void)signal(SIGTERM, count_term);
    if (become_daemon()) {
        (void)close(listener);
        announce();
        (void)printf("daemon %d terms\n", await_terms());
        exit(0);
    }
    if (fork() == 0) {
        (void)signal(SIGTERM, SIG_DFL);
        announce();
        serve(listener, (struct how){ 0 });
    }
    _exit(await_terms());
}

/* How many processes it can have at once; "forks N". */
static LS_NORETURN void count_forks(void)
{
    int count = 0;

    while (count < 1000) {
        pid_t pid = fork();

        if (pid == 0)
            sleep_for_ever();
        if (pid < 0)
            break;
        count++;
    }
    (void)printf("forks %d\n", count);
    (void)fflush(stdout);
    _exit(0); /* no handlers, which may want to fork, too */
}

static void burn(int64_t cpu_ns)
{
    int64_t end_ns = ls_clock_process_cpu_ns() + cpu_ns;

    while (ls_clock_process_cpu_ns() < end_ns)
        ;
}

/* Touches so much memory, and holds it. */
static void eat(long bytes)
{
    char *memory = malloc((size_t)bytes);

    for (long i = 0; memory != NULL && i < bytes; i += 4096)
        memory[i] = 1;
    if (memory == NULL)
        exit(7);
}

/* A few connections at once and no more, so that the others of the same listener get theirs. */
static LS_NORETURN void serve_few(int listener)
{
    enum { FEW = 4 };
    struct pollfd fds[1 + FEW] = { { .fd = listener, .events = POLLIN } };
    int count = 0;
    char request[4096];

    for (;;) {
        fds[0].fd = count < FEW ? listener : -1;
        (void)poll(fds, (nfds_t)(1 + count), -1);
        for (int i = count; i > 0; i--) {
            if (fds[i].revents == 0)
                continue;
            if (read(fds[i].fd, request, sizeof(request)) > 0 &&
                send(fds[i].fd, ANSWER, strlen(ANSWER), MSG_NOSIGNAL) > 0)
                continue;
            (void)close(fds[i].fd);
            fds[i] = fds[count--];
        }
        if (fds[0].fd >= 0 && fds[0].revents != 0) {
            int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);

            if (fd >= 0)
                fds[++count] = (struct pollfd){ .fd = fd, .events = POLLIN };
        }
    }
}

/* Into its folder, and into its log after that, until there is no room; then it goes on as if
 * nothing were. */
static void fill_disk(long bytes)
{
    static char block[65536];
    int fd = open("junk", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    (void)memset(block, 'x', sizeof(block));
    while (bytes > 0 && write(fd, block, sizeof(block)) > 0)
        bytes -= (long)sizeof(block);
    (void)close(fd);
    print_bytes(1 << 20);
}

/* A primary that listens, and so many workers that accept, each when a file of its own name is
 * there: w0, w1 ... */
static LS_NORETURN void be_cluster(const char *port, long workers)
{
    int listener = listen_on(port, false);

    /* None of them waits in accept(): several may be woken by one connection. */
    (void)fcntl(listener, F_SETFL, O_NONBLOCK);
    for (long i = 0; i < workers; i++) {
        char name[24];

        if (fork() != 0)
            continue;
        (void)snprintf(name, sizeof(name), "w%ld", i);
        announce();
        while (access(name, F_OK) != 0)
            nap_ms(1);
        serve_few(listener);
    }
    sleep_for_ever();
}

static void start_children(const char *role, const char *port, long number)
{
    if (strcmp(role, "daemon") == 0 || strcmp(role, "stubborn-daemon") == 0) {
        if (!become_daemon())
            return;
        if (role[0] == 's')
            ignore_stops();
        announce();
        sleep_for_ever();
    }
    if (strcmp(role, "chain") == 0 && fork() == 0)
        chain();
    if (strcmp(role, "breed") == 0 && fork() == 0)
        breed();
    if (strcmp(role, "busy") == 0 && fork() == 0) {
        burn(number * LS_NS_PER_MS);
        announce();
        sleep_for_ever();
    }
    if (strcmp(role, "workers") == 0) {
        for (int i = 0; i < 3; i++) {
            if (fork() != 0)
                continue;
            announce();
            sleep_for_ever();
        }
    }
    if (strcmp(role, "goes-daemon") == 0) {
        pid_t first = getpid();

        if (!become_daemon())
            _exit(0);
        while (kill(first, 0) == 0) /* else it might be UP before it is gone */
            nap_ms(1);
        serve(listen_on(port, false), (struct how){ 0 });
    }
}

static LS_NORETURN void play(const char *role, int argc, char **argv)
{
    const char *port = argc > 0 ? argv[0] : "0";
    long number = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
    struct how how = { 0 };

    if (strcmp(role, "exit") == 0) {
        (void)fprintf(stderr, "last words\n");
        exit((int)strtol(port, NULL, 10));
    }
    if (strcmp(role, "sleep") == 0)
        sleep_for_ever();
    if (strcmp(role, "burn-exit") == 0) {
        burn(number * LS_NS_PER_MS);
        _exit(0);
    }
    if (strcmp(role, "count-terms") == 0)
        count_terms(port);
    if (strcmp(role, "cluster") == 0)
        be_cluster(port, number);
    if (strcmp(role, "try-forks") == 0)
        count_forks();
    if (strcmp(role, "eat") == 0)
        eat(number << 20);
    start_children(role, port, number);
    if (strcmp(role, "state") == 0)
        print_state();
    if (strcmp(role, "ignore-term") == 0)
        ignore_stops();
    if (strcmp(role, "print") == 0)
        print_bytes(number);
    if (strcmp(role, "title") == 0) {
        (void)prctl(PR_SET_NAME, "x) S 1 1 (y");
        (void)memset(argv[0] - strlen("title") - 1, ' ', strlen("title"));
    }
    if (strcmp(role, "crash") == 0 && fork() == 0) { /* by the child's hand, when told to */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (access("crash", F_OK) != 0)
            nap_ms(1);
        (void)kill(getppid(), SIGUSR1);
        _exit(0);
    }
    how.mute = strcmp(role, "mute") == 0;
    how.share_port = strcmp(role, "share") == 0;
    if (strcmp(role, "wrong") == 0)
        how.wrong_answers = number;
    if (strcmp(role, "leave") == 0)
        how.connections = number;
    if (strcmp(role, "quit") == 0)
        how.answers = number;
    if (strcmp(role, "fill") == 0)
        fill_disk(number << 20);
    serve(listen_on(port, how.share_port), how);
}

void host_play_hook(int argc, char **argv)
{
    if (argc >= 3 && strcmp(argv[1], "--play") == 0)
        play(argv[2], argc - 3, argv + 3);
}

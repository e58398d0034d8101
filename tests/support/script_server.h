/* tests/support/script_server.h - a TCP server on a thread that says exactly what it was told to,
 * whatever it is asked. */
#ifndef LS_TESTS_SUPPORT_SCRIPT_SERVER_H
#define LS_TESTS_SUPPORT_SCRIPT_SERVER_H

#include <pthread.h>
#include <semaphore.h>
#include <sys/socket.h>

#include "common/attr.h"

enum script_end {
    SCRIPT_HOLD,   /* wait until the peer closes */
    SCRIPT_CLOSE,  /* FIN */
    SCRIPT_RESET,  /* RST */
    SCRIPT_SIGNAL, /* make signal_fd readable, then wait until the peer closes */
    SCRIPT_DEAF,   /* read nothing more until signal_fd is readable, then reset */
};

/* What happens on one connection: each answer is sent when one more empty line has come. */
struct script {
    struct ls_bytes answers[4]; /* len 0: say nothing more */
    enum script_end end;
};

struct script_server {
    const struct script *scripts; /* connection i gets the i-th; none past the last */
    unsigned script_count;
    int signal_fd;
    int fd;
    pthread_t thread;
    sem_t ended; /* posted when a script has come to its end */
    struct sockaddr_storage address;
    socklen_t address_len;
};

/* Listens on a free port of 127.0.0.1; fails the running test if that is impossible. */
void script_server_start(struct script_server *server, const struct script *scripts, unsigned count,
                         int signal_fd);
/* The peer has closed its connections before. */
void script_server_stop(struct script_server *server);

#endif

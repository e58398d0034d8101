/* tests/common/transport_raw.h - a peer made of a bare socket, which says whatever a test wants. */
#ifndef LS_TESTS_TRANSPORT_RAW_H
#define LS_TESTS_TRANSPORT_RAW_H

#include <sys/un.h>

#include "tests/common/transport_rig.h"

struct raw {        /* a test with a socket of its own at one end */
    struct rig rig; /* first: conditions get it */
    int listening;
    int fd;
    unsigned char got[4096];
    size_t got_len;
    bool closed;
    void (*answer)(int fd); /* of the false coordinator, to HELLO */
    unsigned accepted;
};

extern char raw_run_1[]; /* of the listener in the rig */
extern char raw_run_2[];

void raw_init(struct raw *raw);
void raw_fini(struct raw *raw);
struct sockaddr_un raw_address(const struct rig *rig);
int raw_connect_ipc(const struct rig *rig);
int raw_connect_tcp(const struct rig *rig);
/* Reads what there is into got; true once the other end has closed. rig is the one in a struct raw.
 */
bool raw_was_closed(struct rig *rig);

/* Sending: without waiting, and without a word if the other end has closed. */
void raw_bytes(int fd, const void *data, size_t len);
Ls__Envelope raw_envelope(char *run_id, uint64_t seq); /* of our version, without a body */
void raw_send(int fd, Ls__Envelope *envelope);
void raw_hello(int fd);
void raw_hello_as(int fd, uint32_t version, uint64_t next_seq, uint64_t commands_done);
void raw_welcome(int fd, char *run_id, uint64_t last_acked);
void raw_ping(int fd, char *run_id, uint64_t seq);
void raw_ack(int fd, uint64_t seq);
void raw_report(int fd, uint64_t seq);
void raw_command(int fd, uint64_t seq);
void raw_clock_reply(int fd, uint64_t id);
void raw_garbage(int fd);
void raw_empty_frame(int fd);
void raw_half_a_frame(int fd);
void raw_nothing(int fd);
void raw_bomb(int fd); /* a report of many empty messages */

#endif

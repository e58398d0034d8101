#include "tests/common/transport_raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

void raw_init(struct raw *raw)
{
    *raw = (struct raw){ .fd = -1, .listening = -1 };
    rig_init(&raw->rig);
}

void raw_fini(struct raw *raw)
{
    if (raw->fd >= 0)
        (void)close(raw->fd);
    if (raw->listening >= 0) {
        (void)close(raw->listening);
        (void)unlink(raw->rig.url + strlen("ipc://"));
    }
    rig_fini(&raw->rig);
}

struct sockaddr_un raw_address(const struct rig *rig)
{
    struct sockaddr_un sun = { .sun_family = AF_UNIX };

    (void)snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", rig->url + strlen("ipc://"));
    return sun;
}

int raw_connect_ipc(const struct rig *rig)
{
    struct sockaddr_un sun = raw_address(rig);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&sun, sizeof(sun)), 0);
    return fd;
}

int raw_connect_tcp(const struct rig *rig)
{
    struct sockaddr_in sin = { .sin_family = AF_INET };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sin.sin_port =
        htons((uint16_t)strtoul(strrchr(ls_listener_url(rig->listener), ':') + 1, NULL, 10));
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&sin, sizeof(sin)), 0);
    return fd;
}

/* The other end may have closed already: what comes of it is the test's matter. */
void raw_bytes(int fd, const void *data, size_t len)
{
    (void)!send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void raw_send(int fd, Ls__Envelope *envelope)
{
    static unsigned char bytes[65536];
    size_t len = ls__envelope__get_packed_size(envelope);

    assert_true(len + LS_FRAME_HEAD <= sizeof(bytes));
    for (unsigned i = 0; i < LS_FRAME_HEAD; i++)
        bytes[i] = (unsigned char)(len >> (8 * i));
    (void)ls__envelope__pack(envelope, bytes + LS_FRAME_HEAD);
    raw_bytes(fd, bytes, LS_FRAME_HEAD + len);
}

char raw_run_1[] = "run-1";
char raw_run_2[] = "run-2";

Ls__Envelope raw_envelope(char *run_id, uint64_t seq)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;

    envelope.version = LS_WIRE_VERSION;
    envelope.run_id = run_id;
    envelope.seq = seq;
    return envelope;
}

void raw_hello_as(int fd, uint32_t version, uint64_t next_seq, uint64_t commands_done)
{
    static char agent[] = "client-1";
    static char boot[] = "boot-a";
    static char none[] = "";
    Ls__Envelope envelope = raw_envelope(none, 0);
    Ls__Hello hello = LS__HELLO__INIT;

    envelope.version = version;
    hello.agent = agent;
    hello.boot_id = boot;
    hello.next_seq = next_seq;
    hello.commands_done = commands_done;
    envelope.body_case = LS__ENVELOPE__BODY_HELLO;
    envelope.hello = &hello;
    raw_send(fd, &envelope);
}

void raw_hello(int fd)
{
    raw_hello_as(fd, LS_WIRE_VERSION, 1, 0);
}

void raw_ping(int fd, char *run_id, uint64_t seq)
{
    Ls__Envelope envelope = raw_envelope(run_id, seq);
    Ls__Ping ping = LS__PING__INIT;

    envelope.body_case = LS__ENVELOPE__BODY_PING;
    envelope.ping = &ping;
    raw_send(fd, &envelope);
}

void raw_ack(int fd, uint64_t seq)
{
    Ls__Envelope envelope = raw_envelope(raw_run_1, 0);
    Ls__Ack ack = LS__ACK__INIT;

    ack.seq = seq;
    envelope.body_case = LS__ENVELOPE__BODY_ACK;
    envelope.ack = &ack;
    raw_send(fd, &envelope);
}

void raw_report(int fd, uint64_t seq)
{
    Ls__Envelope envelope = raw_envelope(raw_run_1, seq);
    Ls__TargetLog log = LS__TARGET_LOG__INIT;

    log.offset = seq;
    envelope.body_case = LS__ENVELOPE__BODY_TARGET_LOG;
    envelope.target_log = &log;
    raw_send(fd, &envelope);
}

void raw_command(int fd, uint64_t seq)
{
    Ls__Envelope envelope = raw_envelope(raw_run_1, seq);
    Ls__PutFile file = LS__PUT_FILE__INIT;

    file.offset = seq;
    envelope.body_case = LS__ENVELOPE__BODY_PUT_FILE;
    envelope.put_file = &file;
    raw_send(fd, &envelope);
}

void raw_welcome(int fd, char *run_id, uint64_t last_acked)
{
    Ls__Envelope envelope = raw_envelope(run_id, 0);
    Ls__Welcome welcome = LS__WELCOME__INIT;

    welcome.last_acked_seq = last_acked;
    envelope.body_case = LS__ENVELOPE__BODY_WELCOME;
    envelope.welcome = &welcome;
    raw_send(fd, &envelope);
}

void raw_clock_reply(int fd, uint64_t id)
{
    Ls__Envelope envelope = raw_envelope(raw_run_1, 0);
    Ls__ClockReply reply = LS__CLOCK_REPLY__INIT;

    reply.id = id;
    envelope.body_case = LS__ENVELOPE__BODY_CLOCK_REPLY;
    envelope.clock_reply = &reply;
    raw_send(fd, &envelope);
}

void raw_bomb(int fd)
{
    enum { MEMBERS = 60000 };
    static unsigned char bytes[2 * MEMBERS + 32] = "\x08\x01\x12\x05run-1\x18\x01\xca\x02";
    size_t at = 13;
    unsigned char head[LS_FRAME_HEAD];

    for (uint32_t left = 2 * MEMBERS; left > 0; left >>= 7) /* the length of IntervalReport */
        bytes[at++] = (unsigned char)((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
    for (unsigned i = 0; i < MEMBERS; i++) { /* so many empty WorkerHealth */
        bytes[at++] = 15 << 3 | 2;
        bytes[at++] = 0;
    }
    for (unsigned i = 0; i < LS_FRAME_HEAD; i++)
        head[i] = (unsigned char)(at >> (8 * i));
    raw_bytes(fd, head, sizeof(head));
    raw_bytes(fd, bytes, at);
}

/* Reads what there is; true once the other end has closed. */
bool raw_was_closed(struct rig *rig)
{
    struct raw *raw = (struct raw *)rig;
    ssize_t n;

    do {
        n = recv(raw->fd, raw->got + raw->got_len, sizeof(raw->got) - raw->got_len, MSG_DONTWAIT);
        if (n > 0)
            raw->got_len += (size_t)n;
    } while (n > 0);
    raw->closed = n == 0 || errno == ECONNRESET;
    return raw->closed;
}

void raw_garbage(int fd)
{
    raw_bytes(fd, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 35);
}

void raw_empty_frame(int fd)
{
    raw_bytes(fd, "\0\0\0\0", 4);
}

void raw_half_a_frame(int fd)
{
    raw_bytes(fd, "\x40\0\0\0half", 8);
}

void raw_nothing(int fd)
{
    (void)fd;
}

/* A server that is faster than any client, so that the client is what is measured:
 *
 *     bench_fast_server BODY-BYTES [CERTIFICATE KEY]       PEM: it speaks TLS 1.3
 *
 * One thread, io_uring with batched sends, on 127.0.0.1 and a port that it prints on the first line
 * of stdout. Every head of a request, whatever it asks for, is answered with 200 and the same body:
 * "Hello, World!" for 13 bytes, 0123456789 over and over otherwise. A client that begins with the
 * preface of HTTP/2, or asks for it by ALPN, is spoken to so. It knows no request bodies and
 * closes nothing by itself. Not a server for anything else: agent/respond is strict, this is not.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <liburing.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "common/attr.h"
#include "tests/bench/fast_h2.h"
#include "tests/bench/fast_records.h"

#define CONNS_MAX   16384u
#define BUFS        2048u /* a power of two */
#define BUF_BYTES   4096u
#define GROUP       0
#define COPIES      64u /* of a small answer, one after the other: a pipelined batch is one send */
#define SMALL_BYTES 1024u
#define OUT_BYTES   65536u /* TLS records of one connection that are not sent yet */

enum op { OP_ACCEPT, OP_RECV, OP_SEND, OP_CLOSE };

struct conn {
    uint16_t generation; /* completions of a slot's former owner are told apart by it */
    bool open;
    unsigned char tail[3]; /* of what came, for ends of heads across two receives */
    uint8_t tail_len;

    struct fast_h2 h2; /* if is_h2 */
    bool is_h2;
    bool judged; /* is_h2 is known */

    SSL *ssl;                     /* owned; with out, TLS and HTTP/2 only */
    struct fast_records *records; /* owned */
    const unsigned char *in;
    size_t in_len;
    unsigned char *out[2]; /* owned: the one that is being sent, the one that is filled */
    size_t out_len[2];
    unsigned filling;
    bool sending;
};

static struct conn conns[CONNS_MAX];
static struct io_uring ring;
static struct io_uring_buf_ring *buf_ring;
static unsigned char *bufs;
static unsigned char *answers; /* copies of the answer */
static size_t answer_len;
static size_t answer_copies;
static SSL_CTX *ssl_ctx; /* NULL: plain */
static BIO_METHOD *bio_method;

static void die(const char *what, int error)
{
    (void)fprintf(stderr, "bench_fast_server: %s: %s\n", what, strerror(error));
    exit(1);
}

/* ---- the ring */

static struct io_uring_sqe *get_sqe(void)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

    if (sqe == NULL) {
        (void)io_uring_submit(&ring);
        sqe = io_uring_get_sqe(&ring);
    }
    if (sqe == NULL)
        die("no room in the ring", ENOSPC);
    return sqe;
}

static uint64_t tag(enum op op, uint32_t slot)
{
    return (uint64_t)conns[slot].generation << 48 | (uint64_t)op << 32 | slot;
}

static void arm_accept(int listener)
{
    struct io_uring_sqe *sqe = get_sqe();

    io_uring_prep_multishot_accept_direct(sqe, listener, NULL, NULL, 0);
    sqe->user_data = (uint64_t)OP_ACCEPT << 32;
}

static void arm_recv(uint32_t slot)
{
    struct io_uring_sqe *sqe = get_sqe();

    io_uring_prep_recv_multishot(sqe, (int)slot, NULL, 0, 0);
    sqe->flags |= IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT;
    sqe->buf_group = GROUP;
    sqe->user_data = tag(OP_RECV, slot);
}

static void send_bytes(uint32_t slot, const unsigned char *data, size_t len, bool quietly)
{
    struct io_uring_sqe *sqe = get_sqe();

    io_uring_prep_send(sqe, (int)slot, data, len, MSG_NOSIGNAL | MSG_WAITALL);
    sqe->flags |= IOSQE_FIXED_FILE | (quietly ? IOSQE_CQE_SKIP_SUCCESS : 0);
    sqe->user_data = tag(OP_SEND, slot);
}

static void close_conn(uint32_t slot)
{
    struct io_uring_sqe *sqe;

    if (!conns[slot].open)
        return;
    conns[slot].open = false;
    SSL_free(conns[slot].ssl);
    conns[slot].ssl = NULL;
    if (conns[slot].records != NULL)
        fast_records_end(conns[slot].records);
    sqe = get_sqe();
    io_uring_prep_close_direct(sqe, slot);
    sqe->user_data = tag(OP_CLOSE, slot);
}

/* ---- heads and answers */

/* How many heads end in data; carries what may be half an end over to the next call. */
static size_t count_heads(struct conn *c, const unsigned char *data, size_t len)
{
    const unsigned char *at = data;
    const unsigned char *const end = data + len;
    const unsigned char *hit;
    unsigned char join[6];
    size_t joined = len < 3 ? len : 3;
    size_t n = 0;
    size_t keep;

    (void)memcpy(join, c->tail, c->tail_len);
    (void)memcpy(join + c->tail_len, data, joined);
    hit = memmem(join, c->tail_len + joined, "\r\n\r\n", 4);
    if (hit != NULL) {
        at += hit + 4 - join - c->tail_len;
        n++;
        c->tail_len = 0;
    }
    while ((hit = memmem(at, (size_t)(end - at), "\r\n\r\n", 4)) != NULL) {
        at = hit + 4;
        n++;
        c->tail_len = 0;
    }
    keep = (size_t)(end - at);
    if (keep >= 3) {
        (void)memcpy(c->tail, end - 3, 3);
        c->tail_len = 3;
    } else { /* the old tail and a few bytes more */
        size_t old = c->tail_len + keep > 3 ? 3 - keep : c->tail_len;

        (void)memmove(c->tail, c->tail + c->tail_len - old, old);
        (void)memcpy(c->tail + old, at, keep);
        c->tail_len = (uint8_t)(old + keep);
    }
    return n;
}

/* Sends of one socket may overtake each other only if one had to wait for room: a client that has
 * more than COPIES requests in flight, or sends before it has read a large answer, is not served.
 */
static void answer(uint32_t slot, size_t n)
{
    while (n > 0) {
        size_t now = n < answer_copies ? n : answer_copies;

        send_bytes(slot, answers, now * answer_len, true);
        n -= now;
    }
}

/* ---- TLS: records are decrypted where the kernel put them, and collected until they are sent */

static int bio_read(BIO *bio, char *out, int len)
{
    struct conn *c = BIO_get_data(bio);
    size_t n = c->in_len < (size_t)len ? c->in_len : (size_t)len;

    BIO_clear_retry_flags(bio);
    if (n == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    (void)memcpy(out, c->in, n);
    c->in += n;
    c->in_len -= n;
    return (int)n;
}

static int bio_write(BIO *bio, const char *data, int len)
{
    struct conn *c = BIO_get_data(bio);
    size_t *used = &c->out_len[c->filling];

    BIO_clear_retry_flags(bio);
    if (*used + (size_t)len > OUT_BYTES)
        return 0; /* an error for OpenSSL: the connection ends */
    (void)memcpy(c->out[c->filling] + *used, data, (size_t)len);
    *used += (size_t)len;
    return len;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static int choose(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                  const unsigned char *in, unsigned in_len, void *arg)
{
    static const unsigned char spoken[] = "\x02h2\x08http/1.1";
    struct conn *c = BIO_get_data(SSL_get_rbio(ssl));
    unsigned char *chosen = NULL;

    (void)arg;
    if (SSL_select_next_proto(&chosen, out_len, spoken, sizeof(spoken) - 1, in, in_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    c->is_h2 = *out_len == 2;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static void open_tls(const char *certificate, const char *key)
{
    bio_method = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "bench");
    ssl_ctx = SSL_CTX_new(TLS_server_method());
    if (bio_method == NULL || ssl_ctx == NULL)
        die("TLS", ENOMEM);
    (void)BIO_meth_set_read(bio_method, bio_read);
    (void)BIO_meth_set_write(bio_method, bio_write);
    (void)BIO_meth_set_ctrl(bio_method, bio_ctrl);
    /* One cipher, so that nobody is faster for having negotiated another. */
    if (SSL_CTX_set_min_proto_version(ssl_ctx, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(ssl_ctx, "TLS_AES_128_GCM_SHA256") != 1 ||
        SSL_CTX_use_certificate_chain_file(ssl_ctx, certificate) != 1 ||
        SSL_CTX_use_PrivateKey_file(ssl_ctx, key, SSL_FILETYPE_PEM) != 1)
        die("certificate or key", EINVAL);
    SSL_CTX_set_alpn_select_cb(ssl_ctx, choose, NULL);
    fast_records_watch(ssl_ctx);
}

static void start_buffers(struct conn *c)
{
    for (unsigned i = 0; i < 2; i++) {
        if (c->out[i] == NULL)
            c->out[i] = malloc(OUT_BYTES);
        if (c->out[i] == NULL)
            die("buffers", ENOMEM);
        c->out_len[i] = 0;
    }
    c->sending = false;
}

static bool start_tls(struct conn *c)
{
    BIO *bio = BIO_new(bio_method);

    start_buffers(c);
    c->in_len = 0;
    c->ssl = SSL_new(ssl_ctx);
    if (c->records == NULL)
        c->records = calloc(1, sizeof(*c->records));
    if (bio == NULL || c->ssl == NULL || c->records == NULL ||
        SSL_set_app_data(c->ssl, c->records) != 1)
        die("TLS", ENOMEM);
    BIO_set_init(bio, 1);
    BIO_set_data(bio, c);
    SSL_set_bio(c->ssl, bio, bio);
    SSL_set_accept_state(c->ssl);
    return true;
}

static void flush_out(uint32_t slot)
{
    struct conn *c = &conns[slot];

    if (c->sending || c->out_len[c->filling] == 0)
        return;
    send_bytes(slot, c->out[c->filling], c->out_len[c->filling], false);
    c->sending = true;
    c->filling ^= 1;
    c->out_len[c->filling] = 0;
}

/* False: no room, the connection has to end. */
static bool say_sealed(struct conn *c, const unsigned char *data, size_t len)
{
    while (len > 0) {
        size_t n = len < TLS_RECORD_BYTES ? len : TLS_RECORD_BYTES;
        size_t *used = &c->out_len[c->filling];

        if (OUT_BYTES - *used < TLS_RECORD_HEAD + n + 1 + TLS_RECORD_TAG)
            return false;
        *used += tls_record_seal(&c->records->out, TLS_RECORD_DATA, (struct ls_bytes){ data, n },
                                 c->out[c->filling] + *used);
        data += n;
        len -= n;
    }
    return true;
}

/* The same. */
static bool answer_sealed(struct conn *c, const unsigned char *plain, size_t len)
{
    static unsigned char said[OUT_BYTES / 2];
    bool ok = true;
    size_t n;

    if (c->is_h2) {
        n = fast_h2_feed(&c->h2, plain, len, said, 0, sizeof(said));
        return n != SIZE_MAX && say_sealed(c, said, n);
    }
    for (n = count_heads(c, plain, len); ok && n > 0; n--)
        ok = say_sealed(c, answers, answer_len);
    return ok;
}

/* Without read-ahead OpenSSL takes nothing that is behind the handshake. False: as above. */
static bool shake(uint32_t slot)
{
    struct conn *c = &conns[slot];
    int rc = SSL_do_handshake(c->ssl);

    flush_out(slot);
    if (rc == 1)
        return fast_records_begin(c->records);
    return SSL_get_error(c->ssl, rc) == SSL_ERROR_WANT_READ;
}

/* The same. */
static bool feed_tls(uint32_t slot, const unsigned char *data, size_t len)
{
    static unsigned char plain[TLS_RECORD_SEALED];
    struct conn *c = &conns[slot];
    struct ls_bytes in = { data, len };

    if (!c->records->ready) {
        c->in = data;
        c->in_len = len;
        if (!shake(slot))
            return false;
        if (!c->records->ready)
            return true;
        in = (struct ls_bytes){ c->in, c->in_len };
    }
    while (in.len > 0) {
        size_t got = fast_records_open(c->records, &in, plain);

        if (got == SIZE_MAX || !answer_sealed(c, plain, got))
            return false;
    }
    flush_out(slot);
    return true;
}

/* ---- what came */

static bool feed_h2(uint32_t slot, const unsigned char *data, size_t len)
{
    struct conn *c = &conns[slot];
    size_t n =
        fast_h2_feed(&c->h2, data, len, c->out[c->filling], c->out_len[c->filling], OUT_BYTES);

    if (n == SIZE_MAX)
        return false;
    c->out_len[c->filling] = n;
    flush_out(slot);
    return true;
}

/* False: the connection has to end. */
static bool feed(uint32_t slot, const unsigned char *data, size_t len)
{
    struct conn *c = &conns[slot];

    if (ssl_ctx != NULL)
        return feed_tls(slot, data, len);
    if (!c->judged) {
        c->judged = true;
        c->is_h2 = len >= 3 && memcmp(data, FAST_H2_PREFACE, 3) == 0;
        if (c->is_h2)
            start_buffers(c);
    }
    if (c->is_h2)
        return feed_h2(slot, data, len);
    answer(slot, count_heads(c, data, len));
    return true;
}

/* ---- completions */

static void accepted(int listener, const struct io_uring_cqe *cqe)
{
    if (cqe->res >= 0) {
        struct conn *c = &conns[cqe->res];

        c->generation++;
        c->open = true;
        c->tail_len = 0;
        c->is_h2 = c->judged = false;
        (void)memset(&c->h2, 0, sizeof(c->h2));
        if (ssl_ctx != NULL)
            (void)start_tls(c);
        arm_recv((uint32_t)cqe->res);
    }
    if ((cqe->flags & IORING_CQE_F_MORE) == 0)
        arm_accept(listener);
}

/* True if a buffer of the ring has been used up. */
static bool received(uint32_t slot, const struct io_uring_cqe *cqe, int mask, int given_back)
{
    unsigned id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
    unsigned char *data = bufs + (size_t)id * BUF_BYTES;
    bool has_buffer = (cqe->flags & IORING_CQE_F_BUFFER) != 0;
    bool current = conns[slot].open && tag(OP_RECV, slot) == cqe->user_data;

    if (current && cqe->res > 0) {
        if (!feed(slot, data, (size_t)cqe->res))
            close_conn(slot);
        if (conns[slot].open && (cqe->flags & IORING_CQE_F_MORE) == 0)
            arm_recv(slot);
    } else if (current && cqe->res == -ENOBUFS) {
        arm_recv(slot);
    } else if (current) {
        close_conn(slot);
    }
    if (has_buffer)
        io_uring_buf_ring_add(buf_ring, data, BUF_BYTES, (unsigned short)id, mask, given_back);
    return has_buffer;
}

static void sent(uint32_t slot, const struct io_uring_cqe *cqe)
{
    if (!conns[slot].open || tag(OP_SEND, slot) != cqe->user_data)
        return;
    if (cqe->res < 0) {
        close_conn(slot);
    } else if (ssl_ctx != NULL || conns[slot].is_h2) {
        conns[slot].sending = false;
        flush_out(slot);
    }
}

static void serve(int listener)
{
    int mask = io_uring_buf_ring_mask(BUFS);

    for (;;) {
        struct io_uring_cqe *cqe;
        unsigned head;
        unsigned seen = 0;
        int given_back = 0;
        int rc = io_uring_submit_and_wait(&ring, 1);

        if (rc < 0 && rc != -EINTR)
            die("io_uring_enter", -rc);
        io_uring_for_each_cqe(&ring, head, cqe)
        {
            enum op op = (enum op)(cqe->user_data >> 32 & 0xffff);
            uint32_t slot = (uint32_t)cqe->user_data;

            seen++;
            if (op == OP_ACCEPT)
                accepted(listener, cqe);
            else if (op == OP_RECV)
                given_back += received(slot, cqe, mask, given_back);
            else if (op == OP_SEND)
                sent(slot, cqe);
        }
        io_uring_cq_advance(&ring, seen);
        io_uring_buf_ring_advance(buf_ring, given_back);
    }
}

/* ---- set-up */

static void open_ring(void)
{
    struct io_uring_params params = { .flags = IORING_SETUP_SINGLE_ISSUER |
                                               IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
                                      .cq_entries = 2 * CONNS_MAX };
    struct io_uring_buf_reg reg = { .ring_entries = BUFS, .bgid = GROUP };
    struct rlimit limit = { .rlim_cur = CONNS_MAX };
    void *memory = NULL;
    int rc = io_uring_queue_init_params(4096, &ring, &params);

    if (rc < 0)
        die("io_uring", -rc);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    rc = io_uring_register_files_sparse(&ring, limit.rlim_cur < CONNS_MAX ? (unsigned)limit.rlim_cur
                                                                          : CONNS_MAX);
    if (rc < 0)
        die("io_uring files", -rc);
    (void)io_uring_register_ring_fd(&ring);
    bufs = malloc((size_t)BUFS * BUF_BYTES);
    if (bufs == NULL || posix_memalign(&memory, 4096, BUFS * sizeof(struct io_uring_buf)) != 0)
        die("buffers", ENOMEM);
    buf_ring = memory;
    reg.ring_addr = (uintptr_t)memory;
    rc = io_uring_register_buf_ring(&ring, &reg, 0);
    if (rc < 0)
        die("io_uring buffers", -rc);
    io_uring_buf_ring_init(buf_ring);
    for (unsigned i = 0; i < BUFS; i++)
        io_uring_buf_ring_add(buf_ring, bufs + (size_t)i * BUF_BYTES, BUF_BYTES, (unsigned short)i,
                              io_uring_buf_ring_mask(BUFS), (int)i);
    io_uring_buf_ring_advance(buf_ring, BUFS);
}

static int open_listener(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;

    if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0 ||
        bind(fd, (struct sockaddr *)&address, len) != 0 || listen(fd, 4096) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        die("listen", errno);
    (void)printf("%u\n", ntohs(address.sin_port));
    (void)fflush(stdout);
    return fd;
}

static void make_answers(size_t body_bytes)
{
    char head[128];
    int head_len = snprintf(
        head, sizeof(head),
        "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nContent-Type: text/plain\r\n\r\n", body_bytes);

    answer_len = (size_t)head_len + body_bytes;
    answer_copies = answer_len <= SMALL_BYTES ? COPIES : 1;
    answers = malloc(answer_len * answer_copies);
    if (answers == NULL)
        die("answers", ENOMEM);
    (void)memcpy(answers, head, (size_t)head_len);
    for (size_t i = 0; i < body_bytes; i++)
        answers[(size_t)head_len + i] =
            (unsigned char)(body_bytes == 13 ? "Hello, World!"[i] : '0' + (char)(i % 10));
    fast_h2_answer(answers + head_len, body_bytes);
    for (size_t i = 1; i < answer_copies; i++)
        (void)memcpy(answers + i * answer_len, answers, answer_len);
}

int main(int argc, char **argv)
{
    char *end = NULL;
    unsigned long body_bytes = argc > 1 ? strtoul(argv[1], &end, 10) : 0;
    int listener;

    if ((argc != 2 && argc != 4) || *end != '\0' || body_bytes > 1u << 24) {
        (void)fprintf(stderr, "usage: bench_fast_server BODY-BYTES [CERTIFICATE KEY]\n");
        return 2;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    make_answers(body_bytes);
    if (argc == 4)
        open_tls(argv[2], argv[3]);
    open_ring();
    listener = open_listener();
    arm_accept(listener);
    serve(listener);
}

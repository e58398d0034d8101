#include "tests/common/tls_rig.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "tests/support/test.h"

void tls_rig_folder(struct tls_rig *t, const char *name, char out[300])
{
    (void)snprintf(out, 300, "%.200s/%.60s", t->dir.path, name);
    assert_int_equal(mkdir(out, 0700), 0);
}

void tls_rig_init(struct tls_rig *t)
{
    *t = (struct tls_rig){ .fd = -1 };
    tmpdir_make(&t->dir);
    rig_init(&t->rig);
    t->keys = keys_create("lab");
    tls_rig_folder(t, "coordinator", t->coordinator_dir);
    tls_rig_folder(t, "agent", t->agent_dir);
    keys_issue_coordinator(t->keys, "main", t->coordinator_dir);
    keys_issue_agent(t->keys, "client-1", t->agent_dir);
    t->log_fd = memfd_create("log", MFD_CLOEXEC);
    assert_true(t->log_fd >= 0);
    ls_log_set_fd(t->log_fd);
}

void tls_rig_fini(struct tls_rig *t)
{
    tls_rig_client_end(t);
    SSL_CTX_free(t->ctx);
    ls_credentials_close(t->rig.coordinator_keys);
    ls_credentials_close(t->rig.agent_keys);
    rig_fini(&t->rig);
    ls_log_set_fd(STDERR_FILENO);
    (void)close(t->log_fd);
    keys_destroy(t->keys);
    tmpdir_remove(&t->dir);
}

void tls_rig_keys(struct tls_rig *t)
{
    struct ls_diag diag = { 0 };

    if (ls_credentials_open(t->coordinator_dir, LS_IDENTITY_COORDINATOR, &t->rig.coordinator_keys,
                            &diag) != LS_OK ||
        ls_credentials_open(t->agent_dir, LS_IDENTITY_AGENT, &t->rig.agent_keys, &diag) != LS_OK)
        fail_msg("%s", diag.text);
}

void tls_rig_listen(struct tls_rig *t)
{
    rig_listen_at(&t->rig, TLS_RIG_URL, "run-1");
}

unsigned tls_rig_port(const struct tls_rig *t)
{
    const char *url = ls_listener_url(t->rig.listener);

    return (unsigned)strtoul(strrchr(url, ':') + 1, NULL, 10);
}

void tls_rig_dial(struct tls_rig *t, const char *host, const char *agent, const char *boot_id)
{
    char url[128];

    (void)snprintf(url, sizeof(url), "tls+tcp://%s:%u", host, tls_rig_port(t));
    if (rig_dialer(&t->rig, url, agent, boot_id, 0, &t->rig.dialer) != LS_OK)
        fail_msg("%s", t->rig.diag.text);
}

const char *tls_rig_log(struct tls_rig *t)
{
    static char text[65536];
    ssize_t len = pread(t->log_fd, text, sizeof(text) - 1, 0);

    assert_true(len >= 0);
    text[len] = '\0';
    return text;
}

void tls_rig_expect_log(struct tls_rig *t, const char *text)
{
    if (strstr(tls_rig_log(t), text) == NULL)
        fail_msg("\"%s\" is not in the log: %s", text, tls_rig_log(t));
}

/* ---- a client of our own ---- */

int tls_rig_connect(const struct tls_rig *t)
{
    struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    sin.sin_port = htons((uint16_t)tls_rig_port(t));
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&sin, sizeof(sin)), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static void on_readable(struct ev_loop *loop, ev_io *w, int events)
{
    (void)loop;
    (void)w;
    (void)events;
}

void tls_rig_client(struct tls_rig *t, const char *dir, int max_version)
{
    tls_rig_client_end(t);
    SSL_CTX_free(t->ctx);
    t->ctx = keys_client(dir);
    if (max_version != 0)
        assert_int_equal(SSL_CTX_set_max_proto_version(t->ctx, max_version), 1);
    t->fd = tls_rig_connect(t);
    t->ssl = SSL_new(t->ctx);
    assert_non_null(t->ssl);
    assert_int_equal(SSL_set_fd(t->ssl, t->fd), 1);
    SSL_set_connect_state(t->ssl);
    ev_io_init(&t->readable, on_readable, t->fd, EV_READ);
    ev_io_start(t->rig.loop, &t->readable);
    t->shook_hands = t->ended = false;
    t->got_len = 0;
}

void tls_rig_client_end(struct tls_rig *t)
{
    SSL_free(t->ssl);
    t->ssl = NULL;
    ev_io_stop(t->rig.loop, &t->readable);
    if (t->fd >= 0)
        (void)close(t->fd);
    t->fd = -1;
}

static void drive(struct tls_rig *t)
{
    int result = 1;

    ERR_clear_error();
    if (!t->shook_hands) {
        result = SSL_do_handshake(t->ssl);
        t->shook_hands = result == 1;
    }
    while (t->shook_hands && t->got_len < sizeof(t->got)) {
        result = SSL_read(t->ssl, t->got + t->got_len, (int)(sizeof(t->got) - t->got_len));
        if (result <= 0)
            break;
        t->got_len += (size_t)result;
    }
    if (result <= 0) {
        int error = SSL_get_error(t->ssl, result);

        t->ended = error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE;
    }
    ERR_clear_error();
}

bool tls_rig_client_shook_hands(struct rig *rig)
{
    struct tls_rig *t = (struct tls_rig *)rig;

    drive(t);
    return t->shook_hands;
}

bool tls_rig_client_ended(struct rig *rig)
{
    struct tls_rig *t = (struct tls_rig *)rig;

    drive(t);
    return t->ended;
}

void tls_rig_client_send(struct tls_rig *t, const void *data, size_t len)
{
    ERR_clear_error();
    assert_int_equal(SSL_write(t->ssl, data, (int)len), (int)len);
}

/* tests/common/tls_rig.h - the rig with keys for both ends, a client of our own, and what was
 * logged. */
#ifndef LS_TESTS_TLS_RIG_H
#define LS_TESTS_TLS_RIG_H

#include "tests/common/transport_rig.h"
#include "tests/support/keys.h"

#define TLS_RIG_URL "tls+tcp://127.0.0.1:0"

struct tls_rig {
    struct rig rig; /* first: conditions get it */
    struct tmpdir dir;
    struct keys *keys;
    char coordinator_dir[300]; /* below dir, and made: a coordinator's and client-1's */
    char agent_dir[300];
    int log_fd; /* instead of stderr */

    /* The client of our own. */
    SSL_CTX *ctx;
    SSL *ssl;
    int fd;
    ev_io readable; /* wakes the loop, so that conditions are looked at */
    bool shook_hands;
    bool ended; /* the other end closed, or TLS failed */
    unsigned char got[4096];
    size_t got_len;
};

void tls_rig_init(struct tls_rig *t);
void tls_rig_fini(struct tls_rig *t);
/* Opens what is in the two folders. */
void tls_rig_keys(struct tls_rig *t);
void tls_rig_listen(struct tls_rig *t); /* on a port of loopback */
/* host: as it is to be in the URL. */
void tls_rig_dial(struct tls_rig *t, const char *host, const char *agent, const char *boot_id);
/* A new folder below dir. */
void tls_rig_folder(struct tls_rig *t, const char *name, char out[300]);

/* What was logged so far; in a buffer that the next call uses again. */
const char *tls_rig_log(struct tls_rig *t);
void tls_rig_expect_log(struct tls_rig *t, const char *text);

unsigned tls_rig_port(const struct tls_rig *t);
int tls_rig_connect(const struct tls_rig *t); /* a bare socket, that does not block */
/* With the keys in dir (NULL: none); max_version: 0 or TLS1_2_VERSION ... */
void tls_rig_client(struct tls_rig *t, const char *dir, int max_version);
void tls_rig_client_end(struct tls_rig *t);
/* Conditions, which drive the client on. */
bool tls_rig_client_shook_hands(struct rig *rig);
bool tls_rig_client_ended(struct rig *rig);
void tls_rig_client_send(struct tls_rig *t, const void *data, size_t len);

#endif

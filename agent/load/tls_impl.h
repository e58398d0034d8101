/* agent/load/tls_impl.h - what tls_context.c (settings, failures) and tls_session.c (records)
 * share. Nobody else includes this. */
#ifndef LS_AGENT_LOAD_TLS_IMPL_H
#define LS_AGENT_LOAD_TLS_IMPL_H

#include <openssl/ssl.h>

#include "agent/load/tls.h"
#include "common/buf.h"

#define TLS_KEPT_MAX (256u << 10) /* handshake output that waits to be drained */

enum tls_trouble {
    TROUBLE_NONE,
    TROUBLE_HUNG_UP,   /* during the handshake */
    TROUBLE_CUT,       /* after it, without close_notify */
    TROUBLE_NOT_TLS,   /* first are the peer's first bytes */
    TROUBLE_UNTRUSTED, /* code: X509_V_ERR_... */
    TROUBLE_ALERT,     /* code: of OpenSSL's error queue, as below */
    TROUBLE_PROTOCOL,  /* first is what the peer has chosen by ALPN; empty: nothing */
    TROUBLE_OTHER      /* code: of OpenSSL's error queue */
};

struct tls_context {
    SSL_CTX *ctx;        /* owned */
    BIO_METHOD *method;  /* owned */
    SSL_SESSION *newest; /* owned; NULL: none yet, or no resumption */
    X509 *verified;      /* owned; the last certificate that was; NULL: none yet */
    bool verify;
    bool resume;
    bool has_ca;
    const char *required;     /* by ALPN, the settings'; NULL: nothing is */
    char *server_name;        /* owned */
    const char *sni;          /* server_name; NULL: it is an address */
    struct tls_session *idle; /* owned; sessions that ended, to be used again */
    struct tls_stats stats;

    /* The first failure, as facts; made a sentence when somebody asks. */
    enum tls_trouble trouble;
    unsigned long code;
    unsigned char first[24];
    size_t first_len;
};

struct tls_session {
    struct tls_context *context;
    SSL *ssl; /* owned */
    BIO *bio; /* ssl's */
    struct tls_session *next;
    struct ls_bytes in; /* what was taken and not used yet */
    uint8_t *out;       /* where records are written now; NULL: they are kept */
    size_t out_cap;
    size_t out_len;
    struct ls_buf kept;
    bool heard; /* anything at all from the peer */
    bool secured;
    bool untrusted;
};

/* tls_context.c */
void tls_note(struct tls_context *context, enum tls_trouble trouble, unsigned long code,
              const void *first, size_t first_len);
/* tls_session.c */
BIO_METHOD *tls_bio_method(void);             /* NULL: no memory */
void tls_session_free(struct tls_session *s); /* NULL is fine */

#endif

/* agent/load/tls_impl.h - what tls_context.c (settings, failures), tls_session.c (one connection)
 * and tls_own.c (its records without OpenSSL) share. Nobody else includes this. */
#ifndef LS_AGENT_LOAD_TLS_IMPL_H
#define LS_AGENT_LOAD_TLS_IMPL_H

#include <openssl/ssl.h>

#include "agent/load/tls.h"
#include "agent/load/tls_records.h"
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
    uint32_t brief; /* connections that ended after a request or none */

    /* The first failure, as facts; made a sentence when somebody asks. */
    enum tls_trouble trouble;
    unsigned long code;
    unsigned char first[24];
    size_t first_len;
};

struct tls_secret {
    uint8_t len; /* 0: unknown */
    uint8_t bytes[TLS_SECRET_MAX];
};

/* What is known of the records that OpenSSL makes and reads. */
struct tls_watch {
    bool off; /* of no use: it keeps the records */
    uint8_t head_len;
    uint8_t head[TLS_RECORD_HEAD]; /* of the one that is being read ... */
    uint32_t left;                 /* ... and what has not come of it */
    uint64_t read;                 /* whole records since the handshake */
    uint64_t sealed;
    struct tls_secret secrets[2]; /* the peer's, ours */
};

struct tls_own {
    struct tls_suite suite;
    struct tls_direction in;
    struct tls_direction out;
    struct ls_buf part;     /* a record that goes on in the next piece */
    struct ls_buf messages; /* of a handshake, up to the next whole one */
    bool closed;            /* close_notify came */
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
    bool fresh; /* what was taken has not been looked at by tls_own_look() */
    bool more;  /* tls_open() stopped for want of room */
    struct tls_watch watch;
    struct tls_own *own; /* owned; NULL: OpenSSL makes and reads the records */
};

/* tls_context.c */
void tls_note(struct tls_context *context, enum tls_trouble trouble, unsigned long code,
              const void *first, size_t first_len);
/* tls_session.c */
BIO_METHOD *tls_bio_method(void);             /* NULL: no memory */
void tls_session_free(struct tls_session *s); /* NULL is fine */
/* tls_own.c */
void tls_own_enable(SSL_CTX *ctx);           /* for the sessions to come */
void tls_own_secured(struct tls_session *s); /* the handshake is over */
void tls_own_end(struct tls_session *s);     /* nothing is known of it any more */
void tls_own_destroy(struct tls_own *own);   /* NULL is fine */
void tls_own_rest(struct tls_own *own);      /* gives back what it can */
/* What was taken is about to be opened: sets s->own if that can be done from here on. out is
 * scratch. */
void tls_own_look(struct tls_session *s, uint8_t *out, size_t cap);
/* As tls_open() and tls_seal(), once s->own is there; *out_len is to be 0. */
enum tls_result tls_own_open(struct tls_session *s, uint8_t *out, size_t cap, size_t *out_len);
enum tls_result tls_own_seal(struct tls_session *s, struct ls_bytes plain, uint8_t *out,
                             size_t *out_len);

#endif

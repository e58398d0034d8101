/* agent/respond/settings.h - what the command line asks of the responder. */
#ifndef LS_AGENT_RESPOND_SETTINGS_H
#define LS_AGENT_RESPOND_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

#include "common/cpuset.h"
#include "common/err.h"

/* What an answer can be. All but the first are faults that a rule asks for. */
enum respond_action {
    RESPOND_NORMAL,
    RESPOND_CLOSE,         /* no answer, the connection ends in good order */
    RESPOND_RESET,         /* no answer, RST */
    RESPOND_NO_ANSWER,     /* nothing, to this request and all later ones of the connection */
    RESPOND_SLOW,          /* the normal answer, duration_ns later */
    RESPOND_DRIP,          /* the normal answer in pieces spread over duration_ns */
    RESPOND_STATUS,        /* the normal answer with another status */
    RESPOND_WRONG_BODY,    /* one byte of the body is different */
    RESPOND_SHORT,         /* the body ends a byte too early, then the connection */
    RESPOND_LONG,          /* a byte follows the body */
    RESPOND_GARBAGE,       /* bytes that are not HTTP, then the end of the connection */
    RESPOND_HALF,          /* half of the answer, then RST */
    RESPOND_CUT_HEAD,      /* half of the head, then the end of the connection */
    RESPOND_TWICE,         /* the answer twice */
    RESPOND_BOTH_FRAMINGS, /* Content-Length and Transfer-Encoding */
    RESPOND_BAD_LENGTH,    /* a Content-Length that is no number */
    RESPOND_ENDLESS_HEAD,  /* a megabyte of header lines, then the end of the connection */
    RESPOND_INTERIM_FLOOD, /* ten thousand 102 responses before the answer */
    RESPOND_BYE,           /* the answer says "Connection: close", then the connection ends */
    RESPOND_UNASKED_408,   /* after the answer a 408 that nobody asked for, then the end */
    /* Of WebSocket. */
    RESPOND_BAD_ACCEPT,    /* an upgrade is answered with another key's accept */
    RESPOND_MASKED,        /* the answer is masked */
    RESPOND_RESERVED_BITS, /* ... has reserved bits set */
    RESPOND_BAD_UTF8,      /* ... is a text that is none */
    RESPOND_GIANT,         /* ... announces 2^62 bytes */
    RESPOND_FRAGMENTS,     /* ... comes in fragments, with a ping between them */
    RESPOND_PING,          /* a ping comes before the answer */
    RESPOND_CLOSE_CODE,    /* a close frame with that code comes instead of the answer */
    RESPOND_SWAP,          /* room: one member gets the message after the next one */
    /* Of HTTP/2. PING, too: a ping comes before the answer. */
    RESPOND_GOAWAY,  /* GOAWAY at once: this is answered, what comes behind it is not looked at */
    RESPOND_RST,     /* RST_STREAM instead of an answer */
    RESPOND_PADDING, /* padded frames */
    RESPOND_CONTINUATION,   /* a header block in frames of one byte */
    RESPOND_PUSH,           /* PUSH_PROMISE before the answer */
    RESPOND_SETTINGS,       /* other windows, streams and table from now on */
    RESPOND_TRAILERS,       /* behind the body */
    RESPOND_PING_FLOOD,     /* twenty thousand pings before the answer */
    RESPOND_SETTINGS_FLOOD, /* the same of SETTINGS */
    RESPOND_BOMB,           /* a header block that says megabytes with few bytes */
    RESPOND_ACTION_COUNT
};

#define RESPOND_RULES_MAX 16

/* Every n-th request, counted over all connections from 1; or each one after the n-th. */
struct respond_rule {
    bool after;
    uint64_t n;
    enum respond_action action;
    int64_t duration_ns; /* SLOW, DRIP */
    uint16_t status;     /* STATUS, CLOSE_CODE */
};

enum respond_latency { RESPOND_AT_ONCE, RESPOND_CONSTANT, RESPOND_UNIFORM, RESPOND_EXPONENTIAL };

struct respond_settings {
    struct sockaddr_storage address;
    socklen_t address_len;
    uint32_t threads;
    struct ls_cpuset cpus; /* empty: not pinned */
    char *body;            /* owned */
    size_t body_len;
    enum respond_latency latency;
    int64_t latency_low_ns;  /* of UNIFORM; the value of CONSTANT; the mean of EXPONENTIAL */
    int64_t latency_high_ns; /* of UNIFORM */
    enum respond_latency
        queue;               /* one server for all connections: CONSTANT or EXPONENTIAL service */
    int64_t queue_ns;        /* that it takes for a request, on average */
    int64_t stall_period_ns; /* 0: never */
    int64_t stall_length_ns;
    int64_t spin_ns; /* poll instead of sleeping for the last part of a wait */
    uint64_t seed;
    uint32_t streams; /* HTTP/2: at once on a connection */
    bool no_window;   /* HTTP/2: windows of requests' bodies are never opened */
    bool chunked;
    bool interim;
    bool close;
    bool die_with_parent;
    bool room;             /* WebSocket: what one says goes to all, instead of back */
    bool plain;            /* ... as it came, without "name: " */
    uint32_t room_clients; /* when so many are in ... */
    const char *ready;     /* ... all are told this, borrowed from argv */
    bool tls_self_signed;
    const char *tls_certificate; /* PEM file, borrowed from argv; NULL: no TLS, or self-signed */
    const char *tls_key;
    const char *count_file; /* borrowed from argv; NULL: none */
    struct respond_rule rules[RESPOND_RULES_MAX];
    size_t rule_count;
};

/* Reads argv[1..]. LS_OK with *out_help true: the caller shows the help and stops. On failure
 * nothing needs to be released. */
enum ls_err respond_settings_parse(int argc, char **argv, struct respond_settings *out,
                                   bool *out_help, struct ls_diag *diag) LS_NODISCARD;
void respond_settings_fini(struct respond_settings *settings);
void respond_settings_help(FILE *file);

/* "wrong-body": as options and counters name it. */
const char *respond_action_name(enum respond_action action);

/* "127.0.0.1:8080" or "[::1]:8080"; out holds at least 64 bytes. Returns out. */
const char *respond_format_address(const struct sockaddr_storage *address, char *out,
                                   size_t out_bytes);

#endif

/* coordinator/url.h - http[s]:// or ws[s]://host[:port][/path] taken apart for one connection. */
#ifndef LS_COORDINATOR_URL_H
#define LS_COORDINATOR_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

struct coord_url {
    char host[256];      /* as written, without brackets */
    char address[64];    /* a literal address: host itself, or what it resolves to first */
    char authority[300]; /* for the Host header: as written, with the port if one was given */
    bool tls;            /* https, wss */
    bool websocket;      /* ws, wss */
    uint32_t port;       /* 80 or 443, unless given */
    char path[8192];     /* "/" at the least, with the query, without the fragment */
};

/* LS_EINVAL: not such a URL; LS_EIO: the name does not resolve. */
enum ls_err coord_url_parse(const char *text, struct coord_url *out,
                            struct ls_diag *diag) LS_NODISCARD;

#endif

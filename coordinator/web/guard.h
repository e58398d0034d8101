/* coordinator/web/guard.h - may this request be answered? Pure. */
#ifndef LS_COORDINATOR_WEB_GUARD_H
#define LS_COORDINATOR_WEB_GUARD_H

#include <stdbool.h>
#include <stdint.h>

/* Host names a server at this port as localhost or by an IP address: what no other site's name can
 * be made to look like (DNS rebinding). NULL: no. */
bool coord_guard_host(const char *host, uint16_t port);
/* Origin is the page that Host serves; NULL, as of who is no browser: yes. */
bool coord_guard_origin(const char *origin, const char *host);
/* What is behind "/TOKEN" of path: "/", "/events"; NULL: another token, or none. */
const char *coord_guard_token(const char *path, const char *token);

#endif

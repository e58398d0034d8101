/* In place of server.c and stream.c, where lockstep is built without libmicrohttpd. */
#include "coordinator/web/server.h"

enum ls_err coord_web_start(const struct coord_web_options *options, struct coord_web **out_web,
                            struct ls_diag *diag)
{
    (void)options;
    (void)out_web;
    return ls_fail(diag, LS_ESTATE,
                   "this lockstep is built without its web server (LS_BUILD_WEB=OFF)");
}

void coord_web_stop(struct coord_web *web)
{
    (void)web; /* there never is one */
}

const char *coord_web_url(const struct coord_web *web)
{
    (void)web;
    return "";
}

uint16_t coord_web_port(const struct coord_web *web)
{
    (void)web;
    return 0;
}

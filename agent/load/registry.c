#include "agent/load/driver.h"

#include <string.h>

#include "agent/load/link.h"

extern const struct agent_driver agent_driver_http1;
extern const struct agent_driver agent_driver_http2;
extern const struct agent_driver agent_driver_null;
extern const struct agent_driver agent_driver_websocket;
extern const struct agent_link_class agent_link_null;
extern const struct agent_link_class agent_link_tcp;
extern const struct agent_link_class agent_link_uring;

static const struct agent_driver *const drivers[] = {
    &agent_driver_http1, &agent_driver_http2, &agent_driver_null, &agent_driver_websocket, NULL,
};
static const struct agent_link_class *const links[] = {
    &agent_link_tcp, /* of those with one name, the one that works everywhere is first */
    &agent_link_uring,
    &agent_link_null,
    NULL,
};

const struct agent_driver *agent_driver_at(unsigned i)
{
    for (unsigned at = 0; drivers[at] != NULL; at++) {
        if (at == i)
            return drivers[at];
    }
    return NULL;
}

const struct agent_driver *agent_driver_find(const char *name)
{
    for (size_t i = 0; drivers[i] != NULL; i++) {
        if (strcmp(drivers[i]->name, name) == 0)
            return drivers[i];
    }
    return NULL;
}

const struct agent_link_class *agent_link_find(const char *name, const char *io)
{
    for (size_t i = 0; links[i] != NULL; i++) {
        if (strcmp(links[i]->name, name) == 0 && (io == NULL || strcmp(links[i]->io, io) == 0))
            return links[i];
    }
    return NULL;
}

static enum ls_err probe(const struct agent_link_class *link, struct ls_diag *diag)
{
    return link->probe != NULL ? link->probe(diag) : LS_OK;
}

enum ls_err agent_link_choose(const char *name, enum load_io io,
                              const struct agent_link_class **out_link, struct ls_diag *out_why,
                              struct ls_diag *diag)
{
    const struct agent_link_class *usual = agent_link_find(name, NULL);
    const struct agent_link_class *uring = agent_link_find(name, "io_uring");
    struct ls_diag why = { 0 };

    if (usual == NULL)
        return ls_fail(diag, LS_EINVAL, "unknown link '%s'", name);
    if (uring == NULL)
        (void)ls_fail(&why, LS_EINVAL, "%s has no form on io_uring", name);
    else
        (void)probe(uring, &why);
    if (io == LOAD_IO_URING && why.code != LS_OK)
        return ls_fail(diag, LS_EINVAL, "io: io_uring cannot be had: %s; use auto or libev",
                       why.text);
    *out_link = io != LOAD_IO_LIBEV && why.code == LS_OK ? uring : usual;
    *out_why = io == LOAD_IO_AUTO ? why : (struct ls_diag){ 0 };
    return LS_OK;
}

#include "agent/load/driver.h"

#include <string.h>

#include "agent/load/link.h"

extern const struct agent_driver agent_driver_http1;
extern const struct agent_driver agent_driver_null;
extern const struct agent_link_class agent_link_null;
extern const struct agent_link_class agent_link_tcp;

static const struct agent_driver *const drivers[] = {
    &agent_driver_http1,
    &agent_driver_null,
    NULL,
};
static const struct agent_link_class *const links[] = {
    &agent_link_tcp,
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

const struct agent_link_class *agent_link_find(const char *name)
{
    for (size_t i = 0; links[i] != NULL; i++) {
        if (strcmp(links[i]->name, name) == 0)
            return links[i];
    }
    return NULL;
}

/* agent/load/links/source.h - where a connection comes from. */
#ifndef LS_AGENT_LOAD_LINKS_SOURCE_H
#define LS_AGENT_LOAD_LINKS_SOURCE_H

#include <stdint.h>

#include "agent/load/link.h"

/* Binds fd to the next of env->sources, by turns; without any, leaves it to the kernel. The port is
 * chosen at connect, so that each one can be had once per destination. 0, or an errno value. */
int source_bind(int fd, const struct agent_link_env *env, uint32_t *turn);

#endif

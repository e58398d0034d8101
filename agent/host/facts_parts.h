/* agent/host/facts_parts.h - the parts of facts.c, for itself. */
#ifndef LS_AGENT_HOST_FACTS_PARTS_H
#define LS_AGENT_HOST_FACTS_PARTS_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/result.pb-c.h"

#define HOST_CPU_FOLDER "/sys/devices/system/cpu"

/* The first line of a file, trimmed; false: absent or empty. */
bool host_facts_line(const char *path, char *out, size_t out_bytes);
/* Replaces an empty field by a copy; false: no memory. */
bool host_facts_set(char **field, const char *value);

/* Each false without memory. */
bool host_facts_caches(Ls__Facts *facts);
bool host_facts_nics(Ls__Facts *facts);
double host_facts_steal(void);

#endif

/* agent/host/cgroup_file.h - the files of a control group, by which it is asked and told. They
 * allocate nothing: the supervisor process uses them, too. */
#ifndef LS_AGENT_HOST_CGROUP_FILE_H
#define LS_AGENT_HOST_CGROUP_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/host/cgroup.h"

#define HOST_CGROUP_FILE (HOST_CGROUP_PATH + 64) /* bytes of a path in a group's folder */

/* "FOLDER/FILE"; false: too long. */
bool host_cgroup_path(char out[HOST_CGROUP_FILE], const char *folder, const char *file);
bool host_cgroup_has(const char *folder, const char *file);

/* 0 or an errno value. */
int host_cgroup_put(const char *folder, const char *file, const char *text);
int host_cgroup_put_number(const char *folder, const char *file, uint64_t value);

/* All of it, or what there is room for; false: it cannot be read. */
bool host_cgroup_get(const char *folder, const char *file, char *out, size_t out_bytes);
/* 0: it cannot be read. */
uint64_t host_cgroup_get_number(const char *folder, const char *file);
/* The number behind a word that begins a line; 0: there is none. */
uint64_t host_cgroup_get_keyed(const char *folder, const char *file, const char *key);

#endif

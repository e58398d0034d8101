#include "agent/host/cgroup_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/host/proc.h"

bool host_cgroup_path(char out[HOST_CGROUP_FILE], const char *folder, const char *file)
{
    int n = snprintf(out, HOST_CGROUP_FILE, "%s/%s", folder, file);

    return n > 0 && n < HOST_CGROUP_FILE;
}

int host_cgroup_put(const char *folder, const char *file, const char *text)
{
    char path[HOST_CGROUP_FILE];
    size_t len = strlen(text);
    int fd, error = 0;

    if (!host_cgroup_path(path, folder, file))
        return ENAMETOOLONG;
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    if (write(fd, text, len) != (ssize_t)len)
        error = errno;
    (void)close(fd);
    return error;
}

int host_cgroup_put_number(const char *folder, const char *file, uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%" PRIu64, value);
    return host_cgroup_put(folder, file, text);
}

bool host_cgroup_get(const char *folder, const char *file, char *out, size_t out_bytes)
{
    char path[HOST_CGROUP_FILE];

    return host_cgroup_path(path, folder, file) && host_proc_slurp(path, out, out_bytes) >= 0;
}

uint64_t host_cgroup_get_number(const char *folder, const char *file)
{
    char text[64];

    return host_cgroup_get(folder, file, text, sizeof(text)) ? strtoull(text, NULL, 10) : 0;
}

uint64_t host_cgroup_get_keyed(const char *folder, const char *file, const char *key)
{
    char text[2048];
    size_t len = strlen(key);

    if (!host_cgroup_get(folder, file, text, sizeof(text)))
        return 0;
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) == 0 && line[len] == ' ')
            return strtoull(line + len, NULL, 10);
    }
    return 0;
}

bool host_cgroup_has(const char *folder, const char *file)
{
    char path[HOST_CGROUP_FILE];

    return host_cgroup_path(path, folder, file) && access(path, F_OK) == 0;
}

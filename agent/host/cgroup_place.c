/* Where the groups of a process are: /proc/PID/mountinfo and /proc/PID/cgroup (proc(5),
 * cgroups(7)). */
#include <stdio.h>
#include <string.h>

#include "agent/host/cgroup.h"

/* Is word one of list's, which has commas between? */
static bool lists(const char *list, size_t len, const char *word)
{
    size_t word_len = strlen(word);

    while (len > 0) {
        const char *comma = memchr(list, ',', len);
        size_t one = comma != NULL ? (size_t)(comma - list) : len;

        if (one == word_len && memcmp(list, word, one) == 0)
            return true;
        if (comma == NULL)
            return false;
        list += one + 1;
        len -= one + 1;
    }
    return false;
}

/* "4:memory:/a/b", "0::/": the path of the hierarchy. False: the process is in none. */
static bool find_path(const char *self, const char *controller, char out[HOST_CGROUP_PATH])
{
    for (const char *line = self; line != NULL && *line != '\0';) {
        size_t len = strcspn(line, "\n");
        const char *first = memchr(line, ':', len);
        const char *second = first != NULL ? strchr(first + 1, ':') : NULL;

        if (second != NULL && second < line + len) {
            size_t names = (size_t)(second - first) - 1;
            size_t path = (size_t)(line + len - second) - 1;
            bool ours = *controller == '\0' ? names == 0 : lists(first + 1, names, controller);

            if (ours && second[1] == '/' && path < HOST_CGROUP_PATH) {
                (void)snprintf(out, HOST_CGROUP_PATH, "%.*s", (int)path, second + 1);
                return true;
            }
        }
        line = line[len] == '\n' ? line + len + 1 : NULL;
    }
    return false;
}

struct mount {
    char root[HOST_CGROUP_PATH]; /* of the hierarchy, that is mounted */
    char at[HOST_CGROUP_PATH];
};

/* "31 23 0:28 ROOT AT rw - cgroup cgroup rw,memory". What is mounted below another root, as in
 * containers, has that. */
static bool read_mount(const char *line, const char *controller, struct mount *out)
{
    const char *dash = strstr(line, " - ");
    char type[16], options[256];

    if (dash == NULL || sscanf(line, "%*s %*s %*s %511s %511s", out->root, out->at) != 2 ||
        sscanf(dash, " - %15s %*s %255s", type, options) != 2)
        return false;
    if (*controller == '\0')
        return strcmp(type, "cgroup2") == 0;
    return strcmp(type, "cgroup") == 0 && lists(options, strlen(options), controller);
}

static bool find_mount(const char *mountinfo, const char *controller, struct mount *out)
{
    for (const char *line = mountinfo; line != NULL && *line != '\0';) {
        size_t len = strcspn(line, "\n");
        char one[4096];

        if (len < sizeof(one)) {
            (void)memcpy(one, line, len);
            one[len] = '\0';
            if (read_mount(one, controller, out))
                return true;
        }
        line = line[len] == '\n' ? line + len + 1 : NULL;
    }
    return false;
}

bool host_cgroup_place(const char *mountinfo, const char *self, const char *controller,
                       char out[HOST_CGROUP_PATH])
{
    char path[HOST_CGROUP_PATH];
    const char *below = path;
    struct mount mount;
    size_t root_len;
    int n;

    if (!find_path(self, controller, path) || !find_mount(mountinfo, controller, &mount) ||
        strstr(path, "/..") != NULL) /* above what this process can see */
        return false;
    root_len = strcmp(mount.root, "/") == 0 ? 0 : strlen(mount.root);
    if (strncmp(path, mount.root, root_len) == 0 &&
        (path[root_len] == '/' || path[root_len] == '\0'))
        below = path + root_len;
    else if (strcmp(path, "/") != 0)
        return false; /* it is in a group that is not mounted here */
    if (strcmp(below, "/") == 0)
        below = "";
    n = snprintf(out, HOST_CGROUP_PATH, "%s%s", mount.at, below);
    return n > 0 && n < HOST_CGROUP_PATH;
}

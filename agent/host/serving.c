#include "agent/host/serving.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/host/port.h"
#include "agent/host/proc.h"

struct sockets {
    struct host_tcp_socket *items; /* by inode; that listen, or are connected to the port */
    size_t count;
    size_t cap;
};

static bool add_socket(struct sockets *s, const struct host_tcp_socket *socket)
{
    if (s->count == s->cap) {
        size_t cap = s->cap == 0 ? 64 : 2 * s->cap;
        struct host_tcp_socket *more = realloc(s->items, cap * sizeof(*more));

        if (more == NULL)
            return false;
        s->items = more;
        s->cap = cap;
    }
    s->items[s->count++] = *socket;
    return true;
}

static bool read_table(const char *path, uint16_t port, struct sockets *out)
{
    FILE *file = fopen(path, "re");
    char line[512];
    bool ok = true;

    while (ok && file != NULL && fgets(line, sizeof(line), file) != NULL) {
        struct host_tcp_socket socket;

        if (host_tcp_parse(line, &socket) && socket.inode != 0 &&
            (socket.state == HOST_TCP_LISTEN ||
             (socket.state == HOST_TCP_ESTABLISHED && socket.port == port)))
            ok = add_socket(out, &socket);
    }
    if (file != NULL)
        (void)fclose(file);
    return ok;
}

static int compare_inodes(const void *a, const void *b)
{
    unsigned long x = ((const struct host_tcp_socket *)a)->inode;
    unsigned long y = ((const struct host_tcp_socket *)b)->inode;

    return (x > y) - (x < y);
}

static void look_at_descriptors(const struct sockets *sockets, uint16_t port,
                                struct host_server_process *process)
{
    char path[64], link[64];
    struct dirent *entry;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)process->pid);
    dir = opendir(path);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        struct host_tcp_socket key = { .inode = 0 };
        const struct host_tcp_socket *found;
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);

        link[n < 0 ? 0 : n] = '\0';
        if (sscanf(link, "socket:[%lu]", &key.inode) != 1)
            continue;
        found = bsearch(&key, sockets->items, sockets->count, sizeof(key), compare_inodes);
        if (found == NULL)
            continue;
        if (found->state != HOST_TCP_LISTEN)
            process->serves = true;
        else if (found->port == port)
            process->listens = true;
        else
            process->elsewhere = found->port;
    }
    if (dir != NULL)
        (void)closedir(dir);
}

/* procs: parents before children. */
static pid_t top_of(const struct host_proc *procs, const struct host_server_process *processes,
                    size_t index, pid_t root)
{
    for (size_t i = 0; i < index && procs[index].ppid != root; i++) {
        if (procs[i].pid == procs[index].ppid)
            return processes[i].top;
    }
    return procs[index].pid;
}

enum ls_err host_serving_read(pid_t root, uint16_t port, struct host_server_process **out_processes,
                              size_t *out_count, struct ls_diag *diag)
{
    struct sockets sockets = { 0 };
    struct host_server_process *processes = NULL;
    struct host_proc *procs = NULL;
    size_t count = 0;
    enum ls_err rc = host_proc_descendants(root, &procs, &count, diag);

    if (rc != LS_OK)
        return rc;
    processes = calloc(count + 1, sizeof(*processes));
    if (processes == NULL || !read_table("/proc/thread-self/net/tcp", port, &sockets) ||
        !read_table("/proc/thread-self/net/tcp6", port, &sockets)) {
        rc = ls_fail(diag, LS_ENOMEM, "no memory to look at %zu processes", count);
        free(processes);
        goto out;
    }
    if (sockets.count > 0)
        qsort(sockets.items, sockets.count, sizeof(*sockets.items), compare_inodes);
    for (size_t i = 0; i < count; i++) {
        processes[i].pid = procs[i].pid;
        processes[i].top = top_of(procs, processes, i, root);
        if (sockets.count > 0)
            look_at_descriptors(&sockets, port, &processes[i]);
    }
    *out_processes = processes;
    *out_count = count;
out:
    free(sockets.items);
    free(procs);
    return rc;
}

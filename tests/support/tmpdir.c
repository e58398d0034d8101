#include "tests/support/tmpdir.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fs.h"

enum { KEPT_FD = 3 };

/* Whatever is sent to the test's group, this one stays until the pipe ends. */
static void watch(const char *path, int read_fd)
{
    sigset_t all;
    char byte;

    (void)setsid();
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, NULL);
    if (dup2(read_fd, KEPT_FD) < 0)
        _exit(1);
    (void)close(STDIN_FILENO); /* nobody is to wait for our end of these */
    (void)close(STDOUT_FILENO);
    (void)close(STDERR_FILENO);
    (void)close_range(KEPT_FD + 1, UINT_MAX, 0);
    while (read(KEPT_FD, &byte, 1) > 0)
        continue;
    _exit(ls_fs_remove_tree(path, NULL) == LS_OK ? 0 : 1);
}

void tmpdir_make(struct tmpdir *tmpdir)
{
    int ends[2];

    if (ls_fs_private_dir("lockstep-test", tmpdir->path, sizeof(tmpdir->path), NULL) != LS_OK ||
        pipe2(ends, O_CLOEXEC) != 0)
        abort();
    tmpdir->watcher = fork();
    if (tmpdir->watcher < 0)
        abort();
    if (tmpdir->watcher == 0) {
        (void)close(ends[1]);
        watch(tmpdir->path, ends[0]);
    }
    (void)close(ends[0]);
    tmpdir->alive_fd = ends[1];
}

void tmpdir_remove(struct tmpdir *tmpdir)
{
    int status = 1;

    (void)close(tmpdir->alive_fd);
    if (waitpid(tmpdir->watcher, &status, 0) < 0 || status != 0) {
        (void)fprintf(stderr, "%s could not be removed\n", tmpdir->path);
        abort();
    }
}

/* Preloaded into lockstep: the n-th fsync() of the process fails with EIO, as on a disk that loses
 * what it was given. LS_FAIL_SYNC=N says which, 1 for the first; LS_SYNC_LOG names a file that gets
 * a byte for each. Other programs that inherit it are left alone. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int fsync(int fd) __attribute__((visibility("default")));

static atomic_long calls;

static void note(void)
{
    const char *path = getenv("LS_SYNC_LOG");
    int log = path != NULL ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;

    if (log < 0)
        return;
    (void)!write(log, ".", 1);
    (void)close(log);
}

int fsync(int fd)
{
    const char *wanted = getenv("LS_FAIL_SYNC");

    if (strcmp(program_invocation_short_name, "lockstep") == 0) {
        note();
        if (wanted != NULL && atomic_fetch_add(&calls, 1) + 1 == strtol(wanted, NULL, 10)) {
            errno = EIO;
            return -1;
        }
    }
    return (int)syscall(SYS_fsync, fd);
}

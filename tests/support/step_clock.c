/* Preloaded into an agent: while the file that LS_CLOCK_STEP names is there, the monotonic clock is
 * 100 ms further, as after a virtual machine was moved; its wall clock is LS_WALL_SHIFT seconds
 * ahead. Timers of the kernel do not know of it. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define STEP_NS    100000000L
#define NS_PER_S   1000000000L
#define LOOK_EVERY 64 /* calls; the load asks for the time all the time */

int clock_gettime(clockid_t id, struct timespec *out) __attribute__((visibility("default")));

int clock_gettime(clockid_t id, struct timespec *out)
{
    static _Atomic unsigned calls;
    static _Atomic int stepped;
    const char *path = getenv("LS_CLOCK_STEP");
    const char *shift = getenv("LS_WALL_SHIFT");
    int rc = (int)syscall(SYS_clock_gettime, id, out);

    if (rc == 0 && id == CLOCK_REALTIME && shift != NULL)
        out->tv_sec += strtol(shift, NULL, 10);
    if (rc != 0 || id != CLOCK_MONOTONIC || path == NULL)
        return rc;
    if (!stepped && calls++ % LOOK_EVERY == 0 && access(path, F_OK) == 0)
        stepped = 1;
    if (!stepped)
        return 0;
    out->tv_nsec += STEP_NS;
    if (out->tv_nsec >= NS_PER_S) {
        out->tv_nsec -= NS_PER_S;
        out->tv_sec++;
    }
    return 0;
}

/* tests/support/tmpdir.h - a private folder that goes when the test goes, however that ends.
 *
 * A small process of its own waits for the end of this one and removes the folder, so that a failed
 * assertion or a kill -9 leaves nothing behind.
 */
#ifndef LS_TESTS_SUPPORT_TMPDIR_H
#define LS_TESTS_SUPPORT_TMPDIR_H

#include <sys/types.h>

struct tmpdir {
    char path[256];
    int alive_fd; /* closed: we are gone */
    pid_t watcher;
};

/* Aborts if it cannot. Call it before there are threads. */
void tmpdir_make(struct tmpdir *tmpdir);
void tmpdir_remove(struct tmpdir *tmpdir);

#endif

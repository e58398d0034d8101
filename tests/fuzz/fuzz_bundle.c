/* tests/fuzz/fuzz_bundle.c - a bundle that somebody else made, unpacked: what the reader takes it
 * has checked, and nothing is ever written outside its folder. A plain tar is read like a
 * compressed one, so the fuzzer need not learn to compress. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/fs.h"
#include "coordinator/bundle/bundle.h"

enum { INPUT_MAX = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char outer[300], dir[320];
    Ls__Bundle *manifest = NULL;
    struct ls_diag diag = { .text = "" };
    int fd = memfd_create("bundle", MFD_CLOEXEC);

    if (size > INPUT_MAX || fd < 0) {
        if (fd >= 0)
            (void)close(fd);
        return 0;
    }
    require(write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
    require(ls_fs_private_dir("fuzz", outer, sizeof(outer), NULL) == LS_OK);
    (void)snprintf(dir, sizeof(dir), "%s/dir", outer);
    require(ls_fs_mkdirs(dir, 0700, NULL) == LS_OK);
    if (coord_bundle_read_fd(fd, "bundle", dir, &manifest, &diag) == LS_OK) {
        require(manifest->version == COORD_BUNDLE_VERSION);
        ls__bundle__free_unpacked(manifest, NULL);
    } else {
        require(diag.text[0] != '\0');
    }
    (void)close(fd);
    require(ls_fs_remove_tree(dir, NULL) == LS_OK);
    require(rmdir(outer) == 0); /* nothing else was written there */
    return 0;
}

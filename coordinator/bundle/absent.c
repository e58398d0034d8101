/* In place of bundle_read.c and bundle_write.c, where lockstep is built without libarchive. */
#include "coordinator/bundle/bundle.h"

static enum ls_err is_absent(struct ls_diag *diag)
{
    return ls_fail(diag, LS_ESTATE,
                   "this lockstep is built without bundles (LS_BUILD_BUNDLES=OFF), and works with "
                   "result folders alone");
}

enum ls_err coord_bundle_write(const char *dir, const char *file,
                               const struct coord_bundle_options *options, struct ls_diag *diag)
{
    (void)dir;
    (void)file;
    (void)options;
    return is_absent(diag);
}

enum ls_err coord_bundle_read(const char *file, const char *dir, Ls__Bundle **out_manifest,
                              struct ls_diag *diag)
{
    (void)file;
    (void)dir;
    *out_manifest = NULL;
    return is_absent(diag);
}

enum ls_err coord_bundle_read_fd(int fd, const char *name, const char *dir,
                                 Ls__Bundle **out_manifest, struct ls_diag *diag)
{
    (void)fd;
    return coord_bundle_read(name, dir, out_manifest, diag);
}

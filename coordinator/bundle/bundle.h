/* coordinator/bundle/bundle.h - a result in one file. README.md has the form. */
#ifndef LS_COORDINATOR_BUNDLE_BUNDLE_H
#define LS_COORDINATOR_BUNDLE_BUNDLE_H

#include <stdbool.h>

#include "common/err.h"
#include "proto/result.pb-c.h"

#define COORD_BUNDLE_VERSION      1u
#define COORD_BUNDLE_MANIFEST     "manifest.json"
#define COORD_BUNDLE_RESULT       "result" /* folders in it */
#define COORD_BUNDLE_FILES        "files"
#define COORD_BUNDLE_MANIFEST_MAX (64u << 20)         /* bytes */
#define COORD_BUNDLE_MAX_BYTES    (UINT64_C(1) << 34) /* of all files, unpacked: 16 GiB */

struct coord_bundle_options {
    bool with_keys; /* private keys that the plan names go along */
};

/* Writes the folder dir and what its plan names to file, whole or not at all. LS_EINVAL,
 * LS_EPROTO: dir is no result, or not what it was; a file that the plan names is another one now.
 * LS_EIO, LS_ERANGE, LS_ENOMEM. */
enum ls_err coord_bundle_write(const char *dir, const char *file,
                               const struct coord_bundle_options *options,
                               struct ls_diag *diag) LS_NODISCARD;

/* Unpacks file into dir, which has to be there and empty, and hands its manifest over (caller frees
 * with ls__bundle__free_unpacked). LS_EPROTO: not a bundle of ours, cut off, changed, or one that
 * asks for what is not allowed; LS_ERANGE: too large; LS_EIO, LS_ENOMEM. What has been written by
 * then stays in dir. */
enum ls_err coord_bundle_read(const char *file, const char *dir, Ls__Bundle **out_manifest,
                              struct ls_diag *diag) LS_NODISCARD;
/* The same from a descriptor, which stays the caller's; name is how sentences call it. */
enum ls_err coord_bundle_read_fd(int fd, const char *name, const char *dir,
                                 Ls__Bundle **out_manifest, struct ls_diag *diag) LS_NODISCARD;

#endif

/* coordinator/bundle/place.h - where a result is: in its folder, or in a bundle that is unpacked
 * for as long as it is looked at. */
#ifndef LS_COORDINATOR_BUNDLE_PLACE_H
#define LS_COORDINATOR_BUNDLE_PLACE_H

#include <limits.h>

#include "common/err.h"
#include "proto/result.pb-c.h"

struct coord_place {
    char dir[PATH_MAX];      /* the result folder */
    char unpacked[PATH_MAX]; /* where the bundle is; "": it is a folder */
    Ls__Bundle *manifest;    /* owned; NULL: it is a folder */
};

/* path: a folder, which is taken as it is, or a bundle's file. Errors as coord_bundle_read. Freed
 * by coord_place_close, also after a failure; what was unpacked is removed then. */
enum ls_err coord_place_open(const char *path, struct coord_place *out,
                             struct ls_diag *diag) LS_NODISCARD;
void coord_place_close(struct coord_place *place);

#endif

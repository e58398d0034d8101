#include "coordinator/bundle/place.h"

#include <stdio.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "coordinator/bundle/bundle.h"

enum ls_err coord_place_open(const char *path, struct coord_place *out, struct ls_diag *diag)
{
    struct stat st;
    enum ls_err rc;

    *out = (struct coord_place){ .manifest = NULL };
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return snprintf(out->dir, sizeof(out->dir), "%s", path) < (int)sizeof(out->dir)
                   ? LS_OK
                   : ls_fail(diag, LS_ERANGE, "the path %.100s... is too long", path);
    rc = ls_fs_private_dir("lockstep", out->unpacked, sizeof(out->unpacked), diag);
    if (rc != LS_OK)
        return rc;
    if (snprintf(out->dir, sizeof(out->dir), "%s/" COORD_BUNDLE_RESULT, out->unpacked) >=
        (int)sizeof(out->dir))
        return ls_fail(diag, LS_ERANGE, "the path %.100s... is too long", out->unpacked);
    return coord_bundle_read(path, out->unpacked, &out->manifest, diag);
}

void coord_place_close(struct coord_place *place)
{
    if (place->manifest != NULL)
        ls__bundle__free_unpacked(place->manifest, NULL);
    if (place->unpacked[0] != '\0' && ls_fs_remove_tree(place->unpacked, NULL) != LS_OK) {
        /* It lies in a folder for what is temporary, under a name that says what it was. */
    }
    *place = (struct coord_place){ .manifest = NULL };
}

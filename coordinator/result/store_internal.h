/* coordinator/result/store_internal.h - shared by store.c and store_trial.c, by nobody else. */
#ifndef LS_COORDINATOR_RESULT_STORE_INTERNAL_H
#define LS_COORDINATOR_RESULT_STORE_INTERNAL_H

#include "coordinator/result/store.h"
#include "coordinator/result/store_paths.h"
#include "coordinator/result/sums.h"

struct coord_store {
    char *dir;   /* owned */
    int lock_fd; /* the folder itself, locked */
    struct coord_sums sums;
    struct coord_signer *signer;     /* borrowed; NULL: nothing is signed */
    struct coord_store_trial *trial; /* the one that is open; owned */
};

/* Adds the checksums of the regular files in dir/folder that are not in the list. */
enum ls_err coord_hash_folder(struct coord_sums *sums, const char *dir, const char *folder,
                              struct ls_diag *diag) LS_NODISCARD;

#endif

/* coordinator/result/store_paths.h - names in a result folder; for store.c and store_read.c. */
#ifndef LS_COORDINATOR_RESULT_STORE_PATHS_H
#define LS_COORDINATOR_RESULT_STORE_PATHS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/attr.h"
#include "common/err.h"

#define COORD_RESULT_FILE "result.json"
#define COORD_PLAN_FILE   "plan.yaml"
#define COORD_HOSTS_FILE  "environment.json"
#define COORD_TRIALS_DIR  "trials"
#define COORD_PART        ".part" /* of a trial folder that is being written */

/* folder/name into out (PATH_MAX bytes). LS_ERANGE. */
enum ls_err coord_path(const char *folder, const char *name, char *out,
                       struct ls_diag *diag) LS_NODISCARD;

/* A name as part of a file name: letters, digits, '.', '_' and '-' stay, all else becomes '_', at
 * most 48 bytes, never hidden, never empty. True if it is still the name that it was. */
bool coord_path_piece(const char *name, char *out, size_t out_bytes);

/* Brings a folder's entries to the disk. LS_EIO. */
enum ls_err coord_sync_folder(const char *path, struct ls_diag *diag) LS_NODISCARD;

#endif

/* coordinator/result/store_paths.h - names in a result folder; for store.c and store_read.c. */
#ifndef LS_COORDINATOR_RESULT_STORE_PATHS_H
#define LS_COORDINATOR_RESULT_STORE_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/attr.h"
#include "common/err.h"

#define COORD_RESULT_FILE "result.json"
#define COORD_PLAN_FILE   "plan.yaml"
#define COORD_REPORT_FILE "report.html"
#define COORD_HOSTS_FILE  "environment.json"
#define COORD_TRIALS_DIR  "trials"
/* Of SHA256SUMS, and the certificate of whose key it is by (which SHA256SUMS lists). */
#define COORD_SIGNATURE_FILE "SHA256SUMS.sig"
#define COORD_SIGNER_FILE    "coordinator.pem"
#define COORD_PART           ".part" /* of a trial folder that is being written */
#define COORD_COARSE_LOG     "coarse.hlog"
#define COORD_COARSE_LINES   240u /* of it; a few more where a trial took longer than planned */

/* folder/name into out (PATH_MAX bytes). LS_ERANGE. */
enum ls_err coord_path(const char *folder, const char *name, char *out,
                       struct ls_diag *diag) LS_NODISCARD;

/* A name as part of a file name: letters, digits, '.', '_' and '-' stay, all else becomes '_', at
 * most 48 bytes, never hidden, never empty. True if it is still the name that it was. */
bool coord_path_piece(const char *name, char *out, size_t out_bytes);

/* "trials/001-node-hello-r1". */
void coord_path_trial(uint32_t index, const char *target, const char *workload, uint32_t repetition,
                      char *out, size_t out_bytes);

/* The name of a client's histogram log; NULL: that of all clients. Agents whose names differ only
 * in what a file name cannot hold are told apart by copy, from 1. */
void coord_path_hlog(const char *client, unsigned copy, char *out, size_t out_bytes);

/* Brings a folder's entries to the disk. LS_EIO. */
enum ls_err coord_sync_folder(const char *path, struct ls_diag *diag) LS_NODISCARD;

#endif

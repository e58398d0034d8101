/* coordinator/bundle/plan_files.h - which files a plan names, and what they were when it was run.
 */
#ifndef LS_COORDINATOR_BUNDLE_PLAN_FILES_H
#define LS_COORDINATOR_BUNDLE_PLAN_FILES_H

#include "common/err.h"
#include "proto/plan.pb-c.h"
#include "proto/result.pb-c.h"

/* Fills result->files: every field of the plan that is called file, files or ..._file, each file
 * once, in the order of the plan; secret is what a key_file names. LS_EIO: one cannot be read;
 * LS_ERANGE: its path is too long; LS_ENOMEM. */
enum ls_err coord_plan_files(const Ls__Plan *plan, const char *base_dir, Ls__Result *result,
                             struct ls_diag *diag) LS_NODISCARD;

/* The same of a part of a plan, behind those that are in result already. */
enum ls_err coord_plan_files_of(const ProtobufCMessage *part, const char *base_dir,
                                Ls__Result *result, struct ls_diag *diag) LS_NODISCARD;

/* name, relative to folder unless it is absolute, into out (PATH_MAX bytes). LS_ERANGE. */
enum ls_err coord_plan_file_path(const char *folder, const char *name, char *out,
                                 struct ls_diag *diag) LS_NODISCARD;

#endif

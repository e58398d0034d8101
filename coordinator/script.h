/* coordinator/script.h - commands whose work is that of other programs (ssh, sbatch): scripts that
 * are installed beside lockstep, or lie in deploy/ of the tree that it was built from. */
#ifndef LS_COORDINATOR_SCRIPT_H
#define LS_COORDINATOR_SCRIPT_H

#include "common/err.h"

/* Finds name ("slurm/submit.sh"). LS_EIO: it is nowhere. */
enum ls_err coord_script_find(const char *name, char *out, size_t out_bytes,
                              struct ls_diag *diag) LS_NODISCARD;

/* This process becomes "sh script words...", with LOCKSTEP and LOCKSTEP_AGENT naming the two
 * programs. Returns only if that fails: LS_EIO, LS_ENOMEM. words: count of them. */
enum ls_err coord_script_become(const char *script, const char *const *words, size_t count,
                                struct ls_diag *diag) LS_NODISCARD;

#endif

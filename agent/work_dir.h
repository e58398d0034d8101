/* agent/work_dir.h - the folder in which an agent keeps trials, from its start to its end. */
#ifndef LS_AGENT_WORK_DIR_H
#define LS_AGENT_WORK_DIR_H

#include <stddef.h>

#include "common/err.h"

/* *out_dir is given (made if need be) or, if that is NULL, a new private folder, which is then in
 * own_dir for the caller to remove, also after a failure. A disk that is full or read-only is said
 * here, while somebody looks, and not in the middle of a run. LS_EIO. */
enum ls_err agent_work_dir_choose(const char *given, char *own_dir, size_t own_dir_bytes,
                                  const char **out_dir, struct ls_diag *diag) LS_NODISCARD;

/* A coordinator that was killed cannot tidy up. Its private folder, in which url's socket lies, is
 * empty once the last of its agents has removed what is its own and the socket, and only then can
 * it be removed. */
void agent_work_dir_tidy(const char *url, const char *work_dir);

#endif

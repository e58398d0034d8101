/* agent/host/program.h - which file a command really runs, and what is known of it. */
#ifndef LS_AGENT_HOST_PROGRAM_H
#define LS_AGENT_HOST_PROGRAM_H

#include <limits.h>

#include "agent/host/confine.h"
#include "common/digest.h"
#include "common/err.h"

struct host_program_file {
    char path[PATH_MAX];        /* as found, links in it untouched */
    char real[PATH_MAX];        /* the file at the end of all links */
    char sha256[LS_SHA256_HEX]; /* of that file; "" until host_program_hash() */
    char interpreter[PATH_MAX]; /* "" for a binary; for a script its "#!" line without "#!" */
};

/* Finds name as execvpe() would with this environment and with dir as the working folder: a name
 * with a slash is taken from dir, any other is looked up in the environment's PATH. LS_EINVAL: not
 * found, not executable, or a script whose interpreter is not there; diag says what to do. */
enum ls_err host_program_find(const char *name, const char *dir, char *const *envp,
                              struct host_program_file *out, struct ls_diag *diag) LS_NODISCARD;

/* Fills sha256. The same file (device, inode, size, times) is hashed once per process. Any thread.
 * LS_EIO. */
enum ls_err host_program_hash(struct host_program_file *program, struct ls_diag *diag) LS_NODISCARD;

/* What to execute under confine: by_real_path, or as found. Points into program. */
const char *host_program_exec_path(const struct host_program_file *program,
                                   const struct host_confine *confine);

/* What a process really is, that started (or whose parent was started) as file: out->real and its
 * hash, "" if that cannot be known. shim: a sentence that says so if file only leads to it, as the
 * scripts of version managers do; "" if it is file, or the interpreter that file, a script, names.
 */
void host_program_look_at(pid_t pid, const struct host_program_file *file,
                          struct host_program_file *out, char *shim, size_t shim_bytes);

/* Why exec failed, in a sentence: error is execve's errno. */
void host_program_explain_exec(const struct host_program_file *program, int error, char *out,
                               size_t out_bytes);

#endif

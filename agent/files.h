/* agent/files.h - files shipped with a plan, by their content's SHA-256; size-capped. */
#ifndef LS_AGENT_FILES_H
#define LS_AGENT_FILES_H

#include "common/err.h"
#include "proto/wire.pb-c.h"

#define AGENT_FILES_MAX_BYTES (64u << 20) /* all of them together */
#define AGENT_FILES_MAX       1024u

struct agent_files;

struct agent_files_limits {
    uint64_t max_bytes; /* all of them together, at most AGENT_FILES_MAX_BYTES */
    uint64_t max_file_bytes;
    uint32_t max_files;
    const char *policy; /* whose they are, for messages; borrowed; NULL: the built-in ones */
};

/* limits NULL: the built-in ones. */
enum ls_err agent_files_create(const struct agent_files_limits *limits,
                               struct agent_files **out_files) LS_NODISCARD;
void agent_files_destroy(struct agent_files *files); /* NULL is fine */

/* Takes the next piece. LS_EPROTO: out of order or the digest is another; LS_ENOMEM; LS_ERANGE,
 * LS_EREFUSED: caps. The file is then forgotten, its further pieces are refused in the same words,
 * and agent_files_get() repeats them. A piece of a file that is complete is ignored. */
enum ls_err agent_files_put(struct agent_files *files, const Ls__PutFile *piece,
                            struct ls_diag *diag) LS_NODISCARD;

/* The content, owned by files; LS_EINVAL if it has not come whole, or why it was refused. */
enum ls_err agent_files_get(const struct agent_files *files, const char *sha256,
                            struct ls_bytes *out, struct ls_diag *diag) LS_NODISCARD;

#endif

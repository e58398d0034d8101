/* agent/files.h - files shipped with a plan, by their content's SHA-256; size-capped. */
#ifndef LS_AGENT_FILES_H
#define LS_AGENT_FILES_H

#include "common/err.h"
#include "proto/wire.pb-c.h"

#define AGENT_FILES_MAX_BYTES (64u << 20) /* all of them together */
#define AGENT_FILES_MAX       1024u

struct agent_files;

enum ls_err agent_files_create(struct agent_files **out_files) LS_NODISCARD;
void agent_files_destroy(struct agent_files *files); /* NULL is fine */

/* Takes the next piece. LS_EPROTO: out of order or the digest is another; LS_ENOMEM, LS_ERANGE:
 * caps. The file is then forgotten. A piece of a file that is complete is ignored. */
enum ls_err agent_files_put(struct agent_files *files, const Ls__PutFile *piece,
                            struct ls_diag *diag) LS_NODISCARD;

/* The content, owned by files; LS_EINVAL if it has not come whole. */
enum ls_err agent_files_get(const struct agent_files *files, const char *sha256,
                            struct ls_bytes *out, struct ls_diag *diag) LS_NODISCARD;

#endif

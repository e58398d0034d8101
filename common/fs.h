/* common/fs.h - files and folders: whole or not at all. Failures carry path and strerror. */
#ifndef LS_COMMON_FS_H
#define LS_COMMON_FS_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/err.h"

/* Opens a regular file for reading, whatever else may be there instead. LS_EIO, LS_EINVAL. */
enum ls_err ls_fs_open(const char *path, int *out_fd, struct ls_diag *diag) LS_NODISCARD;
/* Reads a regular file whole; LS_ERANGE above max_bytes. *out_data is NUL-terminated beyond
 * *out_len; the caller frees. */
enum ls_err ls_fs_read(const char *path, size_t max_bytes, char **out_data, size_t *out_len,
                       struct ls_diag *diag) LS_NODISCARD;
/* Temporary name in the same folder, fsync, rename: the old content or the new one, never half. */
enum ls_err ls_fs_write(const char *path, struct ls_bytes data, mode_t mode,
                        struct ls_diag *diag) LS_NODISCARD;
/* Creates path and its parents; one that is there already is fine. */
enum ls_err ls_fs_mkdirs(const char *path, mode_t mode, struct ls_diag *diag) LS_NODISCARD;
/* Creates a private folder (0700) prefix-XXXXXX below $TMPDIR or /tmp; out holds out_bytes. */
enum ls_err ls_fs_private_dir(const char *prefix, char *out, size_t out_bytes,
                              struct ls_diag *diag) LS_NODISCARD;
/* Can bytes be written below folder now? Writes so many, and removes them. LS_EIO: why not. */
enum ls_err ls_fs_has_room(const char *folder, size_t bytes, struct ls_diag *diag) LS_NODISCARD;
/* Removes path and all below it, without following links; absent is fine. */
enum ls_err ls_fs_remove_tree(const char *path, struct ls_diag *diag) LS_NODISCARD;
/* A name from elsewhere for a file beneath a folder: relative, in plain parts of at most 255 bytes,
 * LS_FS_NAME_MAX together; no "..", ".", empty part, control character or backslash. LS_EINVAL. */
#define LS_FS_NAME_MAX 1024u
enum ls_err ls_fs_name_check(const char *name, struct ls_diag *diag) LS_NODISCARD;
/* Would both be the same file, or one the other's folder, where case does not count (ASCII)? */
bool ls_fs_names_clash(const char *a, const char *b);
/* Creates folder/name for writing, beneath folder whatever lies in it: openat2(2) follows no link
 * and leaves it by no way; where the kernel has no openat2, part by part without following links.
 * Makes the folders between. What is there already is never opened or replaced. LS_EINVAL (the
 * name), LS_EIO. */
enum ls_err ls_fs_create_beneath(const char *folder, const char *name, mode_t mode, int *out_fd,
                                 struct ls_diag *diag) LS_NODISCARD;
/* Changes whose folder/name is, in the same way. LS_EINVAL, LS_EIO. */
enum ls_err ls_fs_give_beneath(const char *folder, const char *name, uid_t uid, gid_t gid,
                               struct ls_diag *diag) LS_NODISCARD;
/* For a test: as on a kernel without openat2. */
void ls_fs_without_openat2(bool without);
/* Makes sure that descriptors 0 to 2 are open before anything else gets these numbers. To a stdout
 * that was closed nothing can be written; what goes to a closed stderr is lost. */
void ls_fs_hold_std(void);
/* Writes all of it; LS_EIO. */
enum ls_err ls_fs_write_all(int fd, struct ls_bytes data, struct ls_diag *diag) LS_NODISCARD;

#endif

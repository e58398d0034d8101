/* coordinator/pki/keys_folder.h - folders of private things: they appear whole, with mode 0700, or
 * not at all. */
#ifndef LS_COORDINATOR_PKI_KEYS_FOLDER_H
#define LS_COORDINATOR_PKI_KEYS_FOLDER_H

#include <limits.h>
#include <stdbool.h>

#include "common/err.h"

/* A new folder beside dir, to be filled; makes dir's parents. LS_ESTATE: dir is there and not
 * empty. out holds PATH_MAX bytes. */
enum ls_err coord_keys_folder_begin(const char *dir, char *out, struct ls_diag *diag) LS_NODISCARD;
/* If filling went well (LS_OK), fresh becomes dir; otherwise it is removed. Returns what is wrong:
 * filled, or why that failed. */
enum ls_err coord_keys_folder_end(const char *fresh, const char *dir, enum ls_err filled,
                                  struct ls_diag *diag) LS_NODISCARD;

struct coord_keys_folder { /* what goes into it, PEM */
    const char *ca;
    const char *certificate;
    const char *key;
    const char *crl;
};

/* LS_ESTATE: there is something in dir, and it is not to be replaced. */
enum ls_err coord_keys_folder_check(const char *dir, bool replace,
                                    struct ls_diag *diag) LS_NODISCARD;
/* A new folder, or with replace the files of one that is there, each whole. */
enum ls_err coord_keys_folder_write(const char *dir, const struct coord_keys_folder *files,
                                    bool replace, struct ls_diag *diag) LS_NODISCARD;

/* Writes a list of revoked certificates into each folder in dir that has a cert.pem. There need not
 * be any. */
enum ls_err coord_keys_folders_set_crl(const char *dir, const char *crl,
                                       struct ls_diag *diag) LS_NODISCARD;

#endif

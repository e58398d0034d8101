/* common/identity.h - who the holder of a certificate is.
 *
 * A certificate says it in one subject alternative name of the type URI, lockstep:agent/NAME or
 * lockstep:coordinator/NAME. Other names in it (host names, addresses, other schemes) are no
 * identity. What a certificate says is true only if a chain of signatures proves it: that is TLS's
 * part, and `proven` is its mark.
 */
#ifndef LS_COMMON_IDENTITY_H
#define LS_COMMON_IDENTITY_H

#include <stdbool.h>

#include "common/digest.h"
#include "common/err.h"

#define LS_IDENTITY_NAME_MAX 64u /* characters */
#define LS_IDENTITY_URI_MAX  96u

enum ls_identity_role {
    LS_IDENTITY_NONE,
    LS_IDENTITY_AGENT,
    LS_IDENTITY_COORDINATOR,
    LS_IDENTITY_ROLE_COUNT
};

struct ls_identity {
    bool proven; /* false: plain loopback or ipc, where the rest is empty */
    enum ls_identity_role role;
    char name[LS_IDENTITY_NAME_MAX + 1];
    char fingerprint[LS_SHA256_HEX]; /* of the whole certificate */
    char uri[LS_IDENTITY_URI_MAX];
};

/* 1 to 64 of the characters A-Z a-z 0-9 . _ -, the first one a letter or digit: names of agents,
 * coordinators and of a pki. They are safe as a file's name and in a log. */
bool ls_identity_name_is_fine(const char *name);

/* "agent", "coordinator"; "nobody". */
const char *ls_identity_role_name(enum ls_identity_role role);
/* LS_IDENTITY_NONE: no such role. */
enum ls_identity_role ls_identity_role_of(const char *name);

/* Reads who a certificate (DER) says its holder is; proves nothing. LS_EREFUSED: not a certificate,
 * no identity or more than one, a name that is none of ours, or a certificate that is not for what
 * its role does (clientAuth for agents, serverAuth for coordinators, no authority). */
enum ls_err ls_identity_read(struct ls_bytes der, struct ls_identity *out,
                             struct ls_diag *diag) LS_NODISCARD;

#endif

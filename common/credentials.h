/* common/credentials.h - this side's keys: a folder with
 *
 *   ca.pem    the authority that both sides trust (one certificate or more)
 *   cert.pem  this side's certificate, and after it what lies between it and the authority
 *   key.pem   its private key
 *   crl.pem   certificates that are revoked; may be missing
 *
 * as `lockstep pki issue` makes it. Both programs take it as --keys DIR:
 *
 *     rc = ls_credentials_open(args.keys, LS_IDENTITY_AGENT, &credentials, &diag);
 *     if (rc != LS_OK) ... LS_EREFUSED is exit status 5
 *     options.credentials = credentials;  ... of ls_dialer_create() or ls_listener_create()
 *     ls_credentials_close(credentials);  ... when those are made, or later
 *
 * Nobody but this user (or root) may be able to change the folder or a file in it, or to read the
 * key. Files that change are read again, so certificates are renewed and revoked without a restart:
 * the next connection is made with them, and a connection whose peer they do not take any more ends
 * within a second. A new set that is not in order is refused as a whole, and the old one
 * stays in use: a key that does not belong to its certificate (yet: the other file may follow), a
 * holder other than before, a list of revoked certificates that is no longer there.
 */
#ifndef LS_COMMON_CREDENTIALS_H
#define LS_COMMON_CREDENTIALS_H

#include <stdint.h>

#include "common/identity.h"

#define LS_CREDENTIALS_FILE_MAX (1u << 20) /* bytes of each file */

struct ls_credentials; /* counted; safe on any thread */

/* wanted: the role that this program plays. LS_EREFUSED: the folder or what is in it is not in
 * order, and diag says what to do; LS_ENOMEM. */
enum ls_err ls_credentials_open(const char *dir, enum ls_identity_role wanted,
                                struct ls_credentials **out, struct ls_diag *diag) LS_NODISCARD;
/* For who keeps them; each hold is ended by a close. */
void ls_credentials_hold(struct ls_credentials *credentials);
void ls_credentials_close(struct ls_credentials *credentials); /* NULL is fine */

/* Whose they are; the fingerprint is of the certificate at opening. */
const struct ls_identity *ls_credentials_identity(const struct ls_credentials *credentials);
const char *ls_credentials_folder(const struct ls_credentials *credentials);
/* When the certificate in use ends, as wall time; and whether less than a tenth of its life is left
 * at now_wall_ns. */
/* Is there a list of revoked certificates? */
bool ls_credentials_has_crl(struct ls_credentials *credentials);
int64_t ls_credentials_expiry_wall_ns(struct ls_credentials *credentials);
bool ls_credentials_end_soon(struct ls_credentials *credentials, int64_t now_wall_ns);

/* Looks at the files, and counts the sets that have been in use: another number than before means
 * that who was taken with an older set has to be looked at again. */
unsigned ls_credentials_generation(struct ls_credentials *credentials);

/* For the log: what came of reading the files again, once each time. False: nothing new. good: the
 * new ones are in use. */
bool ls_credentials_news(struct ls_credentials *credentials, bool *out_good, char *out,
                         size_t out_bytes);

#endif

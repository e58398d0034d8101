/* coordinator/pki/sign.h - detached signatures by a coordinator's key.
 *
 * What is signed is any text; the signature is what EVP_DigestSign makes of it with SHA-256 (of an
 * Ed25519 key: without), so that "openssl dgst -sha256 -verify" reads it, too.
 */
#ifndef LS_COORDINATOR_PKI_SIGN_H
#define LS_COORDINATOR_PKI_SIGN_H

#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/identity.h"

#define COORD_SIGNATURE_MAX   4096u       /* bytes */
#define COORD_CERTIFICATE_MAX (64u << 10) /* bytes: a certificate and what is above it */

struct coord_signer;

/* dir: a coordinator's folder of keys (common/credentials.h). Errors as ls_credentials_open. */
enum ls_err coord_signer_open(const char *dir, struct coord_signer **out,
                              struct ls_diag *diag) LS_NODISCARD;
void coord_signer_close(struct coord_signer *signer); /* NULL is fine */

/* Appends the certificate of the key that would sign now, and what lies between it and the
 * authority, as PEM. LS_ENOMEM. */
enum ls_err coord_signer_certificate(struct coord_signer *signer, struct ls_buf *out,
                                     struct ls_diag *diag) LS_NODISCARD;
/* Appends the signature of data. LS_EREFUSED: the key cannot sign; LS_ENOMEM. */
enum ls_err coord_sign(struct coord_signer *signer, struct ls_bytes data, struct ls_buf *out,
                       struct ls_diag *diag) LS_NODISCARD;

struct coord_signature {
    struct ls_bytes data;
    struct ls_bytes signature;
    struct ls_bytes certificate; /* PEM, as coord_signer_certificate gives it */
    const char *ca;              /* file of the authority's certificates; NULL: not asked */
    int64_t at_s;                /* wall time at which the certificate has to have been good */
};

/* Whose signature it is; proven in *out says that ca vouches for it. LS_EPROTO: it is not one of
 * data by that certificate's key, or that is no coordinator's, or ca does not vouch for it; diag
 * says which. LS_EREFUSED: ca cannot be used. LS_ENOMEM. */
enum ls_err coord_signature_check(const struct coord_signature *what, struct ls_identity *out,
                                  struct ls_diag *diag) LS_NODISCARD;

#endif

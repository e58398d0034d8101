/* coordinator/pki/pki.h - `lockstep pki`: a folder with an authority, and what it has issued.
 *
 *   DIR/ca.pem          the authority's certificate, which agents and coordinators trust
 *   DIR/ca-key.pem      its private key: it stays here
 *   DIR/crl.pem         what is revoked
 *   DIR/issued.json     the record: the Pki message
 *   DIR/issued/NAME/    folders of keys (common/credentials.h), ready to be copied to a host
 *
 * Folders have mode 0700 and private keys 0600 from the instant they exist, whatever the umask is.
 * Files appear whole or not at all, and one process at a time works in a folder. A certificate is
 * in the record before it is anywhere else.
 */
#ifndef LS_COORDINATOR_PKI_PKI_H
#define LS_COORDINATOR_PKI_PKI_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/identity.h"
#include "proto/pki.pb-c.h"

#define COORD_PKI_VERSION       1u
#define COORD_PKI_CA_DAYS       1825u /* five years */
#define COORD_PKI_CA_DAYS_MAX   3650u
#define COORD_PKI_LEAF_DAYS     30u
#define COORD_PKI_LEAF_DAYS_MAX 825u

/* LS_ESTATE: the folder is there and not empty. LS_EINVAL: the name; LS_EIO, LS_ENOMEM. */
enum ls_err coord_pki_init(const char *dir, const char *name, uint32_t days,
                           struct ls_diag *diag) LS_NODISCARD;

struct coord_pki_issue {
    const char *dir;
    enum ls_identity_role role;
    const char *name;
    const char *const *hosts; /* none: with renew, those of the certificate before */
    size_t host_count;
    const char *out; /* the folder to write; NULL: DIR/issued/ROLE-NAME */
    uint32_t days;
    bool renew; /* there may be a certificate and a folder already */
};

/* On LS_OK the caller frees *out_folder and, with coord_message_free, *out_record. LS_ESTATE: there
 * is a certificate of that name, or something in the folder. LS_EINVAL, LS_ERANGE (longer than the
 * authority), LS_EIO, LS_ENOMEM. */
enum ls_err coord_pki_issue(const struct coord_pki_issue *want, char **out_folder,
                            Ls__IssuedCertificate **out_record, struct ls_diag *diag) LS_NODISCARD;

/* who: NAME, agent/NAME, coordinator/NAME or a serial number. Revokes all of that holder that have
 * not ended, and writes the list anew, also into the folders below DIR/issued. LS_EINVAL: nobody of
 * that name, or two; LS_ESTATE: all are revoked or have ended already. */
enum ls_err coord_pki_revoke(const char *dir, const char *who, uint32_t *out_count,
                             struct ls_diag *diag) LS_NODISCARD;

/* path: a pki's folder, a folder of keys, or a certificate; of the latter two the record has one
 * entry and no name. The caller frees with coord_message_free. */
enum ls_err coord_pki_show(const char *path, Ls__Pki **out, struct ls_diag *diag) LS_NODISCARD;

#endif

/* coordinator/pki/authority.h - the authority's key and certificate, and what is made with them.
 * Texts are PEM; files and records are pki.h's matter. */
#ifndef LS_COORDINATOR_PKI_AUTHORITY_H
#define LS_COORDINATOR_PKI_AUTHORITY_H

#include <stdint.h>

#include "common/err.h"
#include "common/identity.h"
#include "proto/pki.pb-c.h"

/* Hosts' clocks differ: certificates are valid from a while ago. */
#define COORD_PKI_BACKDATE_S INT64_C(3600)

struct coord_authority;

/* A new key (P-256) and a certificate for it. now_s, end_s: seconds of wall time. LS_ENOMEM. */
enum ls_err coord_authority_create(const char *name, int64_t now_s, int64_t end_s,
                                   struct coord_authority **out, struct ls_diag *diag) LS_NODISCARD;
/* LS_EINVAL: not the certificate of an authority and its key. */
enum ls_err coord_authority_read(const char *certificate, const char *key,
                                 struct coord_authority **out, struct ls_diag *diag) LS_NODISCARD;
void coord_authority_destroy(struct coord_authority *authority); /* NULL is fine */
int64_t coord_authority_end_s(const struct coord_authority *authority);

/* The caller frees, the key with coord_pki_free_key; NULL: out of memory. */
char *coord_authority_certificate(const struct coord_authority *authority) LS_NODISCARD;
char *coord_authority_key(const struct coord_authority *authority) LS_NODISCARD;
void coord_pki_free_key(char *key); /* wiped first; NULL is fine */

struct coord_pki_want {
    enum ls_identity_role role;
    const char *name;
    const char *const *hosts; /* names and addresses */
    size_t host_count;
    int64_t now_s;
    int64_t end_s;
};

/* A host's name or address as it may be in a certificate; no wildcards. */
bool coord_pki_host_is_fine(const char *host);

/* A new key and a certificate with a random serial number, and its entry in the record. On LS_OK
 * the caller frees all three. LS_EINVAL: a name or host that cannot be; LS_ENOMEM. */
enum ls_err coord_authority_issue(const struct coord_authority *authority,
                                  const struct coord_pki_want *want, char **out_certificate,
                                  char **out_key, Ls__IssuedCertificate **out_record,
                                  struct ls_diag *diag) LS_NODISCARD;

/* The list of those in the record that are revoked and have not ended by now_s, good until next_s.
 * The caller frees. LS_EINVAL: a record that makes no sense; LS_ENOMEM. */
enum ls_err coord_authority_crl(const struct coord_authority *authority, const Ls__Pki *record,
                                int64_t now_s, int64_t next_s, char **out,
                                struct ls_diag *diag) LS_NODISCARD;

/* What is in a certificate (PEM). The caller frees. LS_EINVAL, LS_EREFUSED: not one of ours. */
enum ls_err coord_pki_describe(const char *certificate, Ls__IssuedCertificate **out,
                               struct ls_diag *diag) LS_NODISCARD;

/* "2026-11-30T14:05:09.000Z"; out holds 32 bytes. */
void coord_pki_format_time(int64_t seconds, char *out);
/* -1: not such a text. */
int64_t coord_pki_parse_time(const char *text);

#endif

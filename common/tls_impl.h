/* common/tls_impl.h - what the files around OpenSSL share: identity.c, credentials.c, tls_engine.c
 * and coordinator/pki/sign.c. Nobody else includes it. */
#ifndef LS_COMMON_TLS_IMPL_H
#define LS_COMMON_TLS_IMPL_H

#include <openssl/ssl.h>

#include "common/credentials.h"

/* ls_identity_read for a certificate that is parsed already. */
enum ls_err ls_identity_of(X509 *certificate, struct ls_identity *out,
                           struct ls_diag *diag) LS_NODISCARD;

/* The end of a certificate's life; INT64_MAX if it does not say a time. */
int64_t ls_certificate_expiry_wall_ns(const X509 *certificate);
/* What OpenSSL says of a certificate that it does not take. Two of its reasons are as often the
 * fault of this host's clock, which is then told as well. Returns out. */
const char *ls_tls_verify_text(int error, char *out, size_t out_bytes);

/* A new connection by the files as they are now: read again if they changed; *out_generation counts
 * the sets. NULL: no memory. The caller frees. On any thread. */
SSL *ls_credentials_new_ssl(struct ls_credentials *credentials, unsigned *out_generation);

/* Would the set in use take the certificate that this connection's peer has proven to have? Writes
 * why not. */
bool ls_credentials_still_take(struct ls_credentials *credentials, const SSL *ssl, char *out,
                               size_t out_bytes);

#endif

/* tests/support/tls_pki.h - a certificate authority for the moment, and what it issues. Everything
 * fails the running test if it cannot. */
#ifndef LS_TESTS_SUPPORT_TLS_PKI_H
#define LS_TESTS_SUPPORT_TLS_PKI_H

#include "common/attr.h"

enum tls_pki_flaw {
    PKI_SOUND,
    PKI_EXPIRED,
    PKI_EARLY, /* valid from tomorrow on */
    PKI_SELF   /* signed by itself */
};

struct tls_pki;

/* PEM texts, owned. */
struct tls_identity {
    char *certificate;
    char *key;
};

struct tls_pki *tls_pki_create(const char *name);
void tls_pki_destroy(struct tls_pki *pki);
struct ls_bytes tls_pki_ca(const struct tls_pki *pki); /* PEM */

/* names: "DNS:example.test,IP:127.0.0.1" */
void tls_pki_issue(struct tls_pki *pki, const char *names, enum tls_pki_flaw flaw,
                   struct tls_identity *out);
void tls_identity_fini(struct tls_identity *identity);
struct ls_bytes tls_identity_bytes(const char *pem);

#endif

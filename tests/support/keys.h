/* tests/support/keys.h - folders of keys as common/credentials.h takes them, sound and unsound, by
 * an authority for the moment. Made with OpenSSL alone, so that what `lockstep pki` makes and what
 * the programs take are tested apart. Everything fails the running test if it cannot. */
#ifndef LS_TESTS_SUPPORT_KEYS_H
#define LS_TESTS_SUPPORT_KEYS_H

#include <openssl/ssl.h>
#include <stdbool.h>

#include "common/attr.h"

struct keys;

struct keys *keys_create(const char *name);
void keys_destroy(struct keys *keys);

struct keys_want {
    const char *names;           /* "URI:lockstep:agent/client-1,DNS:example.test,IP:127.0.0.1" */
    const struct ls_bytes *uris; /* instead of names: URIs of any bytes */
    size_t uri_count;
    const char *purpose; /* "clientAuth", "serverAuth"; NULL: no extended key usage */
    long from_days;      /* relative to now; both 0: -1 to 20 */
    long until_days;
    bool authority; /* CA:TRUE */
    bool self_signed;
    bool foreign_key; /* key.pem is not the one in cert.pem */
    bool without_crl;
};

/* The certificate alone; the caller frees. */
X509 *keys_certificate(struct keys *keys, const struct keys_want *want, EVP_PKEY **out_key);
/* Writes ca.pem, cert.pem, key.pem and crl.pem into dir, over those that are there. */
void keys_issue(struct keys *keys, const struct keys_want *want, const char *dir);
/* From now on lists hold the certificate that is in dir. */
void keys_revoke(struct keys *keys, const char *dir);
void keys_write_crl(struct keys *keys, const char *dir);
void keys_write_ca(struct keys *keys, const char *dir);

/* An ordinary agent and coordinator of 127.0.0.1, ::1 and localhost. */
void keys_issue_agent(struct keys *keys, const char *name, const char *dir);
void keys_issue_coordinator(struct keys *keys, const char *name, const char *dir);

/* A client that has what is in dir (NULL: nothing), takes any server, and is not ours. */
SSL_CTX *keys_client(const char *dir);

#endif

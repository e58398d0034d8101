#include "common/identity.h"

#include <assert.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/tls_impl.h"

#define SCHEME "lockstep:"

static const char *const role_names[] = { "nobody", "agent", "coordinator" };
static_assert(LS_ARRAY_LEN(role_names) == LS_IDENTITY_ROLE_COUNT, "a name for each role");

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool name_is_fine(const char *name, size_t len)
{
    if (len == 0 || len > LS_IDENTITY_NAME_MAX || !is_alnum(name[0]))
        return false;
    for (size_t i = 1; i < len; i++) {
        if (!is_alnum(name[i]) && name[i] != '.' && name[i] != '_' && name[i] != '-')
            return false;
    }
    return true;
}

bool ls_identity_name_is_fine(const char *name)
{
    return name_is_fine(name, strlen(name));
}

const char *ls_identity_role_name(enum ls_identity_role role)
{
    return role_names[role];
}

enum ls_identity_role ls_identity_role_of(const char *name)
{
    for (int role = LS_IDENTITY_NONE + 1; role < LS_IDENTITY_ROLE_COUNT; role++) {
        if (strcmp(name, role_names[role]) == 0)
            return (enum ls_identity_role)role;
    }
    return LS_IDENTITY_NONE;
}

/* The bytes of a URI, which may hold NULs. */
static bool parse_uri(const char *uri, size_t len, struct ls_identity *out)
{
    size_t scheme = strlen(SCHEME);

    if (len < scheme || len >= LS_IDENTITY_URI_MAX || memcmp(uri, SCHEME, scheme) != 0)
        return false;
    for (int role = LS_IDENTITY_NONE + 1; role < LS_IDENTITY_ROLE_COUNT; role++) {
        size_t word = strlen(role_names[role]);
        size_t head = scheme + word + 1;

        if (len <= head || memcmp(uri + scheme, role_names[role], word) != 0 ||
            uri[head - 1] != '/' || !name_is_fine(uri + head, len - head))
            continue;
        out->role = (enum ls_identity_role)role;
        (void)snprintf(out->name, sizeof(out->name), "%.*s", (int)(len - head), uri + head);
        (void)snprintf(out->uri, sizeof(out->uri), "%.*s", (int)len, uri);
        return true;
    }
    return false;
}

/* One URI of our scheme, however it is spelt: two would let two readers see different holders. */
static enum ls_err read_names(X509 *certificate, struct ls_identity *out, struct ls_diag *diag)
{
    int several = 0;
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, &several, NULL);
    const ASN1_STRING *found = NULL;
    unsigned count = 0;
    enum ls_err rc = LS_OK;

    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        const ASN1_STRING *text;

        if (name->type != GEN_URI)
            continue;
        text = name->d.uniformResourceIdentifier;
        if (ASN1_STRING_length(text) >= (int)strlen(SCHEME) &&
            strncasecmp((const char *)ASN1_STRING_get0_data(text), SCHEME, strlen(SCHEME)) == 0) {
            found = text;
            count++;
        }
    }
    if (several == -2 || count > 1)
        rc = ls_fail(diag, LS_EREFUSED, "the certificate names more than one holder");
    else if (count == 0)
        rc = ls_fail(diag, LS_EREFUSED,
                     "the certificate names no holder (no URI lockstep:agent/NAME or "
                     "lockstep:coordinator/NAME in it)");
    else if (!parse_uri((const char *)ASN1_STRING_get0_data(found),
                        (size_t)ASN1_STRING_length(found), out))
        rc = ls_fail(diag, LS_EREFUSED,
                     "the certificate's holder is none of ours (want lockstep:agent/NAME or "
                     "lockstep:coordinator/NAME)");
    GENERAL_NAMES_free(names);
    return rc;
}

static enum ls_err check_purpose(X509 *certificate, const struct ls_identity *identity,
                                 struct ls_diag *diag)
{
    bool agent = identity->role == LS_IDENTITY_AGENT;
    uint32_t flags = X509_get_extension_flags(certificate);
    uint32_t purposes =
        (flags & EXFLAG_XKUSAGE) != 0 ? X509_get_extended_key_usage(certificate) : 0;

    if ((flags & EXFLAG_INVALID) != 0)
        return ls_fail(diag, LS_EREFUSED, "the certificate of %s has extensions that make no sense",
                       identity->uri);
    if ((flags & EXFLAG_CA) != 0)
        return ls_fail(diag, LS_EREFUSED, "the certificate of %s is one of an authority",
                       identity->uri);
    if ((purposes & (agent ? XKU_SSL_CLIENT : XKU_SSL_SERVER)) == 0)
        return ls_fail(diag, LS_EREFUSED, "the certificate of %s is not for a TLS %s",
                       identity->uri, agent ? "client (clientAuth)" : "server (serverAuth)");
    return LS_OK;
}

static bool read_fingerprint(const X509 *certificate, char out[LS_SHA256_HEX])
{
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    if (X509_digest(certificate, EVP_sha256(), raw, &len) != 1 || len * 2 + 1 != LS_SHA256_HEX)
        return false;
    for (unsigned i = 0; i < len; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", raw[i]);
    return true;
}

enum ls_err ls_identity_of(X509 *certificate, struct ls_identity *out, struct ls_diag *diag)
{
    struct ls_identity identity = { 0 };
    enum ls_err rc = read_names(certificate, &identity, diag);

    if (rc == LS_OK)
        rc = check_purpose(certificate, &identity, diag);
    if (rc != LS_OK)
        return rc;
    if (!read_fingerprint(certificate, identity.fingerprint))
        return ls_fail(diag, LS_ENOMEM, "no memory for a certificate's fingerprint");
    *out = identity;
    return LS_OK;
}

enum ls_err ls_identity_read(struct ls_bytes der, struct ls_identity *out, struct ls_diag *diag)
{
    const unsigned char *at = der.data;
    X509 *certificate;
    enum ls_err rc;

    if (der.len > LONG_MAX)
        return ls_fail(diag, LS_EREFUSED, "not a certificate");
    certificate = d2i_X509(NULL, &at, (long)der.len);
    if (certificate == NULL || at != der.data + der.len)
        rc = ls_fail(diag, LS_EREFUSED, "not a certificate");
    else
        rc = ls_identity_of(certificate, out, diag);
    X509_free(certificate);
    ERR_clear_error();
    return rc;
}

#include "agent/load/tls_records.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <string.h>

/* ---- keys ------------------------------------------------------------------------------------ */

/* HKDF-Expand-Label(secret, label, "", out_len) (RFC 8446, 7.1). */
static bool expand(const struct tls_suite *suite, const uint8_t *secret, size_t secret_len,
                   char *label, uint8_t *out, size_t out_len)
{
    static char prefix[] = "tls13 ";
    int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
    char digest[32];
    OSSL_PARAM params[6];
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, OSSL_KDF_NAME_TLS1_3_KDF, NULL);
    EVP_KDF_CTX *ctx = kdf != NULL ? EVP_KDF_CTX_new(kdf) : NULL;
    bool ok = ctx != NULL;

    (void)OPENSSL_strlcpy(digest, EVP_MD_get0_name(suite->digest), sizeof(digest));
    params[0] = OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode);
    params[1] = OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0);
    params[2] = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY,
                                                  (void *)(uintptr_t)secret, /* only read */
                                                  secret_len);
    params[3] = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_PREFIX, prefix, strlen(prefix));
    params[4] = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_LABEL, label, strlen(label));
    params[5] = OSSL_PARAM_construct_end();
    ok = ok && EVP_KDF_derive(ctx, out, out_len, params) == 1;
    EVP_KDF_CTX_free(ctx);
    EVP_KDF_free(kdf);
    return ok;
}

/* Key and nonce of the direction's secret. */
static bool set_keys(struct tls_direction *d, const struct tls_suite *suite, bool seals)
{
    uint8_t key[EVP_MAX_KEY_LENGTH];
    char key_label[] = "key";
    char nonce_label[] = "iv";
    size_t key_len = (size_t)EVP_CIPHER_get_key_length(suite->cipher);
    bool ok = expand(suite, d->secret, d->secret_len, key_label, key, key_len) &&
              expand(suite, d->secret, d->secret_len, nonce_label, d->nonce, sizeof(d->nonce)) &&
              EVP_CipherInit_ex(d->cipher, suite->cipher, NULL, key, d->nonce, seals) == 1;

    OPENSSL_cleanse(key, sizeof(key));
    d->sequence = 0;
    return ok;
}

bool tls_direction_init(struct tls_direction *d, const struct tls_suite *suite,
                        const uint8_t *secret, bool seals)
{
    *d = (struct tls_direction){ .cipher = EVP_CIPHER_CTX_new(),
                                 .secret_len = (uint8_t)EVP_MD_get_size(suite->digest) };
    if (d->cipher == NULL || d->secret_len > TLS_SECRET_MAX)
        return false;
    (void)memcpy(d->secret, secret, d->secret_len);
    return set_keys(d, suite, seals);
}

void tls_direction_fini(struct tls_direction *d)
{
    EVP_CIPHER_CTX_free(d->cipher);
    OPENSSL_cleanse(d, sizeof(*d));
}

bool tls_direction_update(struct tls_direction *d, const struct tls_suite *suite, bool seals)
{
    uint8_t next[TLS_SECRET_MAX];
    char label[] = "traffic upd";
    bool ok = expand(suite, d->secret, d->secret_len, label, next, d->secret_len);

    if (ok)
        (void)memcpy(d->secret, next, d->secret_len);
    OPENSSL_cleanse(next, sizeof(next));
    return ok && set_keys(d, suite, seals);
}

/* ---- records --------------------------------------------------------------------------------- */

/* RFC 8446, 5.3. */
static void next_nonce(const struct tls_direction *d, uint8_t out[12])
{
    (void)memcpy(out, d->nonce, 12);
    for (unsigned i = 0; i < 8; i++)
        out[11 - i] ^= (uint8_t)(d->sequence >> (8 * i));
}

size_t tls_record_seal(struct tls_direction *d, enum tls_record_type type, struct ls_bytes plain,
                       uint8_t *out)
{
    size_t sealed = plain.len + 1 + TLS_RECORD_TAG;
    uint8_t *body = out + TLS_RECORD_HEAD;
    uint8_t nonce[12];
    int n;

    next_nonce(d, nonce);
    out[0] = TLS_RECORD_DATA;
    out[1] = out[2] = 3;
    out[3] = (uint8_t)(sealed >> 8);
    out[4] = (uint8_t)sealed;
    if (body != plain.data)
        (void)memcpy(body, plain.data, plain.len);
    body[plain.len] = (uint8_t)type;
    if (EVP_EncryptInit_ex(d->cipher, NULL, NULL, NULL, nonce) != 1 ||
        EVP_EncryptUpdate(d->cipher, NULL, &n, out, TLS_RECORD_HEAD) != 1 ||
        EVP_EncryptUpdate(d->cipher, body, &n, body, (int)plain.len + 1) != 1 ||
        EVP_EncryptFinal_ex(d->cipher, body + n, &n) != 1 ||
        EVP_CIPHER_CTX_ctrl(d->cipher, EVP_CTRL_AEAD_GET_TAG, TLS_RECORD_TAG,
                            body + plain.len + 1) != 1)
        return 0;
    d->sequence++;
    return TLS_RECORD_HEAD + sealed;
}

bool tls_record_open(struct tls_direction *d, struct ls_bytes record, uint8_t *out, size_t *out_len,
                     unsigned *out_type)
{
    size_t len = record.len - TLS_RECORD_HEAD - TLS_RECORD_TAG;
    const uint8_t *body = record.data + TLS_RECORD_HEAD;
    uint8_t tag[TLS_RECORD_TAG];
    uint8_t nonce[12];
    int n;

    if (record.len <= TLS_RECORD_HEAD + TLS_RECORD_TAG)
        return false;
    next_nonce(d, nonce);
    (void)memcpy(tag, body + len, sizeof(tag)); /* the call that takes it takes no const */
    if (EVP_DecryptInit_ex(d->cipher, NULL, NULL, NULL, nonce) != 1 ||
        EVP_CIPHER_CTX_ctrl(d->cipher, EVP_CTRL_AEAD_SET_TAG, sizeof(tag), tag) != 1 ||
        EVP_DecryptUpdate(d->cipher, NULL, &n, record.data, TLS_RECORD_HEAD) != 1 ||
        EVP_DecryptUpdate(d->cipher, out, &n, body, (int)len) != 1 ||
        EVP_DecryptFinal_ex(d->cipher, out + n, &n) != 1)
        return false;
    while (len > 0 && out[len - 1] == 0) /* padding */
        len--;
    if (len == 0)
        return false;
    d->sequence++;
    *out_len = len - 1;
    *out_type = out[len - 1];
    return true;
}

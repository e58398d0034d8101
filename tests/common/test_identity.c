/* Who a certificate says its holder is, also when it would rather be misread. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/identity.h"
#include "tests/support/keys.h"

#define N16 "0123456789abcdef"
#define N64 N16 N16 N16 N16

static struct keys *keys;

static int make_keys(void **state)
{
    (void)state;
    keys = keys_create("lab");
    return 0;
}

static int free_keys(void **state)
{
    (void)state;
    keys_destroy(keys);
    return 0;
}

static enum ls_err read_identity(const struct keys_want *want, struct ls_identity *out,
                                 struct ls_diag *diag)
{
    X509 *certificate = keys_certificate(keys, want, NULL);
    unsigned char *der = NULL;
    int len = i2d_X509(certificate, &der);
    enum ls_err rc;

    assert_true(len > 0);
    rc = ls_identity_read((struct ls_bytes){ der, (size_t)len }, out, diag);
    OPENSSL_free(der);
    X509_free(certificate);
    return rc;
}

static void the_uri_names_role_and_holder(void **state)
{
    static const struct {
        const char *names;
        const char *purpose;
        enum ls_identity_role role;
        const char *name;
    } cases[] = {
        { "URI:lockstep:agent/client-1", "clientAuth", LS_IDENTITY_AGENT, "client-1" },
        { "URI:lockstep:coordinator/main", "serverAuth", LS_IDENTITY_COORDINATOR, "main" },
        { "DNS:a.test,URI:lockstep:agent/a.b_c-9,IP:192.0.2.1", "clientAuth", LS_IDENTITY_AGENT,
          "a.b_c-9" },
        { "URI:spiffe://x/y,URI:lockstep:agent/a", "clientAuth", LS_IDENTITY_AGENT, "a" },
        { "URI:lockstep:agent/" N64, "clientAuth,serverAuth", LS_IDENTITY_AGENT, N64 },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct keys_want want = { .names = cases[i].names, .purpose = cases[i].purpose };
        struct ls_identity identity;
        struct ls_diag diag = { 0 };

        if (read_identity(&want, &identity, &diag) != LS_OK)
            fail_msg("%s: %s", cases[i].names, diag.text);
        assert_false(identity.proven); /* nobody proved anything */
        assert_int_equal(identity.role, cases[i].role);
        assert_string_equal(identity.name, cases[i].name);
        assert_non_null(strstr(cases[i].names, identity.uri));
        assert_int_equal(strlen(identity.fingerprint), 64);
    }
}

static void what_is_no_identity_of_ours_is_refused(void **state)
{
    static const struct {
        const char *uri; /* with len, as bytes */
        size_t len;
        const char *says;
    } cases[] = {
#define CASE(text, says) { text, sizeof(text) - 1, says }
        CASE("lockstep:agent/", "none of ours"),
        CASE("lockstep:agent", "none of ours"),
        CASE("lockstep:", "none of ours"),
        CASE("lockstep:agent/a/b", "none of ours"),
        CASE("lockstep:agent//a", "none of ours"),
        CASE("lockstep:agent/*", "none of ours"),
        CASE("lockstep:agent/client-*", "none of ours"),
        CASE("lockstep:agent/..", "none of ours"),
        CASE("lockstep:agent/.hidden", "none of ours"),
        CASE("lockstep:agent/-rf", "none of ours"),
        CASE("lockstep:agent/a b", "none of ours"),
        CASE("lockstep:agent/a\n", "none of ours"),
        CASE("lockstep:agent/a%00", "none of ours"),
        CASE("lockstep:agent/a\0b", "none of ours"),
        CASE("lockstep:agent/a\0", "none of ours"),
        CASE("lockstep:agent/\xc3\xa4", "none of ours"),
        CASE("lockstep:agent/" N64 "x", "none of ours"),
        CASE("lockstep:coordinator/" N64 N64, "none of ours"),
        CASE("lockstep:admin/a", "none of ours"),
        CASE("lockstep:agent:a", "none of ours"),
        CASE("lockstep:Agent/a", "none of ours"),
        CASE("LOCKSTEP:agent/a", "none of ours"),
        CASE("xlockstep:agent/a", "names no holder"),
        CASE("", "names no holder"),
#undef CASE
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct ls_bytes uri = { (const unsigned char *)cases[i].uri, cases[i].len };
        struct keys_want want = { .uris = &uri, .uri_count = 1, .purpose = "clientAuth" };
        struct ls_identity identity = { .name = "untouched" };
        struct ls_diag diag = { 0 };

        assert_int_equal(read_identity(&want, &identity, &diag), LS_EREFUSED);
        if (strstr(diag.text, cases[i].says) == NULL)
            fail_msg("\"%s\" (%zu) said: %s", cases[i].uri, i, diag.text);
        assert_string_equal(identity.name, "untouched");
    }
}

static void two_identities_are_none(void **state)
{
    static const char *const others[] = { "lockstep:agent/b", "lockstep:agent/a",
                                          "LockStep:agent/b", "lockstep:?" };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(others); i++) {
        struct ls_bytes uris[] = {
            { (const unsigned char *)"lockstep:agent/a", 16 },
            { (const unsigned char *)others[i], strlen(others[i]) },
        };
        struct keys_want want = { .uris = uris, .uri_count = 2, .purpose = "clientAuth" };
        struct ls_identity identity;
        struct ls_diag diag = { 0 };

        assert_int_equal(read_identity(&want, &identity, &diag), LS_EREFUSED);
        assert_non_null(strstr(diag.text, "more than one holder"));
    }
}

static void a_certificate_is_for_what_its_role_does_and_nothing_else(void **state)
{
    static const struct {
        struct keys_want want;
        const char *says;
    } cases[] = {
        { { .names = "URI:lockstep:agent/a" }, "not for a TLS client" },
        { { .names = "URI:lockstep:agent/a", .purpose = "serverAuth" }, "not for a TLS client" },
        { { .names = "URI:lockstep:agent/a", .purpose = "anyExtendedKeyUsage" },
          "not for a TLS client" },
        { { .names = "URI:lockstep:agent/a", .purpose = "codeSigning" }, "not for a TLS client" },
        { { .names = "URI:lockstep:coordinator/a", .purpose = "clientAuth" },
          "not for a TLS server" },
        { { .names = "URI:lockstep:agent/a", .purpose = "clientAuth", .authority = true },
          "one of an authority" },
        { { .names = "DNS:agent.test,email:lockstep@agent.test", .purpose = "clientAuth" },
          "names no holder" },
        { { .purpose = "clientAuth" }, "names no holder" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct ls_identity identity;
        struct ls_diag diag = { 0 };

        assert_int_equal(read_identity(&cases[i].want, &identity, &diag), LS_EREFUSED);
        if (strstr(diag.text, cases[i].says) == NULL)
            fail_msg("case %zu: %s", i, diag.text);
    }
}

static void half_a_certificate_and_one_and_a_half_are_none(void **state)
{
    struct keys_want want = { .names = "URI:lockstep:agent/a", .purpose = "clientAuth" };
    X509 *certificate = keys_certificate(keys, &want, NULL);
    unsigned char *der = NULL;
    int len = i2d_X509(certificate, &der);
    unsigned char *longer = malloc((size_t)len + 1);
    struct ls_identity identity;

    (void)state;
    assert_true(len > 0);
    assert_non_null(longer);
    for (size_t cut = 0; cut < (size_t)len; cut++) {
        unsigned char *piece = malloc(cut + 1); /* of its own, so that a read beyond it is seen */

        assert_non_null(piece);
        memcpy(piece, der, cut);
        assert_int_equal(ls_identity_read((struct ls_bytes){ piece, cut }, &identity, NULL),
                         LS_EREFUSED);
        free(piece);
    }
    memcpy(longer, der, (size_t)len);
    longer[len] = 0;
    assert_int_equal(
        ls_identity_read((struct ls_bytes){ longer, (size_t)len + 1 }, &identity, NULL),
        LS_EREFUSED);
    assert_int_equal(ls_identity_read((struct ls_bytes){ longer, (size_t)len }, &identity, NULL),
                     LS_OK);
    free(longer);
    OPENSSL_free(der);
    X509_free(certificate);
}

static void names_are_safe_anywhere(void **state)
{
    static const char *const good[] = { "a", "7", "client-1", "A.b_C-d", N64 };
    static const char *const bad[] = { "",   ".",    "..",    "-a",   "_a",  ".a",     "a b",
                                       "a/", "a\n",  "a\x7f", "\xe4", "a*",  N64 "x",  "a:b",
                                       "$a", "a\\b", "a\"b",  "a'b",  "a;b", "../etc", "a%2f" };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(good); i++)
        assert_true(ls_identity_name_is_fine(good[i]));
    for (size_t i = 0; i < LS_ARRAY_LEN(bad); i++)
        assert_false(ls_identity_name_is_fine(bad[i]));
    for (int role = LS_IDENTITY_NONE + 1; role < LS_IDENTITY_ROLE_COUNT; role++)
        assert_int_equal(ls_identity_role_of(ls_identity_role_name((enum ls_identity_role)role)),
                         role);
    assert_int_equal(ls_identity_role_of("nobody"), LS_IDENTITY_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_uri_names_role_and_holder),
        cmocka_unit_test(what_is_no_identity_of_ours_is_refused),
        cmocka_unit_test(two_identities_are_none),
        cmocka_unit_test(a_certificate_is_for_what_its_role_does_and_nothing_else),
        cmocka_unit_test(half_a_certificate_and_one_and_a_half_are_none),
        cmocka_unit_test(names_are_safe_anywhere),
    };
    return cmocka_run_group_tests_name("common.identity", tests, make_keys, free_keys);
}

/* Folders of keys: what is taken, what is refused and with which advice, and renewal. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/tls_impl.h"
#include "tests/support/failmalloc.h"
#include "tests/support/keys.h"
#include "tests/support/tmpdir.h"

#define DAY_NS (86400 * LS_NS_PER_S)
#define AGENT  "URI:lockstep:agent/client-1"

struct fixture {
    struct tmpdir tmp;
    struct keys *keys;
    char dir[300];
};

static void set_up(struct fixture *f)
{
    tmpdir_make(&f->tmp);
    f->keys = keys_create("lab");
    (void)snprintf(f->dir, sizeof(f->dir), "%s/agent", f->tmp.path);
    keys_issue_agent(f->keys, "client-1", f->dir);
}

static void tear_down(struct fixture *f)
{
    keys_destroy(f->keys);
    tmpdir_remove(&f->tmp);
}

static void path_in(const struct fixture *f, const char *name, char out[400])
{
    (void)snprintf(out, 400, "%s/%s", f->dir, name);
}

static void put(const struct fixture *f, const char *name, const char *text)
{
    char path[400];

    path_in(f, name, path);
    assert_int_equal(ls_fs_write(path,
                                 (struct ls_bytes){ (const unsigned char *)text, strlen(text) },
                                 0600, NULL),
                     LS_OK);
}

static void expect_refusal(const struct fixture *f, enum ls_identity_role role, const char *says)
{
    struct ls_credentials *credentials = NULL;
    struct ls_diag diag = { 0 };

    assert_int_equal(ls_credentials_open(f->dir, role, &credentials, &diag), LS_EREFUSED);
    assert_null(credentials);
    if (strstr(diag.text, says) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", diag.text, says);
}

static struct ls_credentials *open_agent(const struct fixture *f)
{
    struct ls_credentials *credentials = NULL;
    struct ls_diag diag = { 0 };

    if (ls_credentials_open(f->dir, LS_IDENTITY_AGENT, &credentials, &diag) != LS_OK)
        fail_msg("%s", diag.text);
    return credentials;
}

static void a_folder_in_order_says_whose_it_is_and_until_when(void **state)
{
    struct ls_credentials *credentials;
    const struct ls_identity *own;
    int64_t left_ns;
    struct fixture f;

    (void)state;
    set_up(&f);
    credentials = open_agent(&f);
    own = ls_credentials_identity(credentials);
    assert_string_equal(own->uri, "lockstep:agent/client-1");
    assert_int_equal(own->role, LS_IDENTITY_AGENT);
    left_ns = ls_credentials_expiry_wall_ns(credentials) - ls_clock_wall_ns();
    assert_true(left_ns > 19 * DAY_NS && left_ns <= 20 * DAY_NS);
    assert_false(ls_credentials_end_soon(credentials, ls_clock_wall_ns()));
    assert_false(ls_credentials_end_soon(credentials, ls_clock_wall_ns() + 17 * DAY_NS));
    assert_true(ls_credentials_end_soon(credentials, ls_clock_wall_ns() + 18 * DAY_NS));
    assert_true(ls_credentials_end_soon(credentials, ls_clock_wall_ns() + 30 * DAY_NS));
    assert_string_equal(ls_credentials_folder(credentials), f.dir);
    ls_credentials_hold(credentials);
    ls_credentials_close(credentials);
    assert_string_equal(own->name, "client-1"); /* one holder is left */
    ls_credentials_close(credentials);
    tear_down(&f);
}

static void what_is_missing_is_named(void **state)
{
    static const char *const needed[] = { "ca.pem", "cert.pem", "key.pem" };
    char path[400];
    struct ls_credentials *credentials;
    struct fixture f;

    (void)state;
    set_up(&f);
    for (size_t i = 0; i < LS_ARRAY_LEN(needed); i++) {
        char says[64];

        path_in(&f, needed[i], path);
        assert_int_equal(unlink(path), 0);
        (void)snprintf(says, sizeof(says), "%s is missing", needed[i]);
        expect_refusal(&f, LS_IDENTITY_AGENT, says);
        keys_issue_agent(f.keys, "client-1", f.dir);
    }
    path_in(&f, "crl.pem", path); /* not everybody has one */
    assert_int_equal(unlink(path), 0);
    credentials = open_agent(&f);
    assert_false(ls_credentials_has_crl(credentials));
    ls_credentials_close(credentials);
    keys_write_crl(f.keys, f.dir);
    credentials = open_agent(&f);
    assert_true(ls_credentials_has_crl(credentials));
    ls_credentials_close(credentials);
    (void)snprintf(f.dir, sizeof(f.dir), "%s/nowhere", f.tmp.path);
    expect_refusal(&f, LS_IDENTITY_AGENT, "'lockstep pki issue'");
    tear_down(&f);
}

static void what_others_can_read_or_change_is_refused(void **state)
{
    static const struct {
        const char *file; /* "": the folder */
        mode_t mode;
        const char *says; /* NULL: fine */
    } cases[] = {
        { "key.pem", 0400, NULL },
        { "key.pem", 0640, "so that others can read it: chmod 600" },
        { "key.pem", 0604, "so that others can read it: chmod 600" },
        { "key.pem", 0620, "so that others can read it: chmod 600" },
        { "cert.pem", 0644, NULL },
        { "cert.pem", 0664, "so that others can change it: chmod go-w" },
        { "ca.pem", 0646, "so that others can change it: chmod go-w" },
        { "crl.pem", 0666, "so that others can change it: chmod go-w" },
        { "", 0755, NULL },
        { "", 0770, "so that others can change it: chmod go-w" },
        { "", 0777, "so that others can change it: chmod go-w" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        char path[400];
        struct fixture f;

        set_up(&f);
        path_in(&f, cases[i].file, path);
        assert_int_equal(chmod(path, cases[i].mode), 0);
        if (cases[i].says != NULL)
            expect_refusal(&f, LS_IDENTITY_AGENT, cases[i].says);
        else
            ls_credentials_close(open_agent(&f));
        tear_down(&f);
    }
}

static void what_belongs_to_another_user_is_refused(void **state)
{
    static const char *const files[] = { "", "ca.pem", "cert.pem", "key.pem", "crl.pem" };

    (void)state;
    if (geteuid() != 0)
        skip(); /* only root can give files away */
    for (size_t i = 0; i < LS_ARRAY_LEN(files); i++) {
        char path[400];
        struct fixture f;

        set_up(&f);
        path_in(&f, files[i], path);
        assert_int_equal(chown(path, 4711, (gid_t)-1), 0);
        expect_refusal(&f, LS_IDENTITY_AGENT, "belongs to user 4711");
        tear_down(&f);
    }
}

static void a_certificate_of_no_use_is_refused_with_the_reason(void **state)
{
    static const struct {
        struct keys_want want;
        const char *says;
    } cases[] = {
        { { .names = AGENT, .purpose = "clientAuth", .from_days = -3, .until_days = -1 },
          "Z) (a new one: 'lockstep pki issue agent client-1 --renew')" },
        { { .names = AGENT, .purpose = "clientAuth", .from_days = 1, .until_days = 2 },
          "not yet valid (this host's clock says 20" },
        { { .names = AGENT, .purpose = "clientAuth", .self_signed = true }, "self-signed" },
        { { .names = AGENT, .purpose = "clientAuth", .foreign_key = true },
          "key.pem: no private key for the certificate beside it" },
        { { .names = AGENT, .purpose = "serverAuth" }, "not for a TLS client" },
        { { .names = "URI:lockstep:coordinator/main", .purpose = "serverAuth" },
          "holds the keys of lockstep:coordinator/main, and this is an agent" },
        { { .names = "DNS:client-1", .purpose = "clientAuth" }, "names no holder" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct fixture f;

        set_up(&f);
        keys_issue(f.keys, &cases[i].want, f.dir);
        expect_refusal(&f, LS_IDENTITY_AGENT, cases[i].says);
        tear_down(&f);
    }
}

static void a_revoked_certificate_and_a_foreign_authority_are_refused(void **state)
{
    struct keys *other = keys_create("lab");
    struct fixture f;

    (void)state;
    set_up(&f);
    keys_revoke(f.keys, f.dir);
    keys_write_crl(f.keys, f.dir);
    expect_refusal(&f, LS_IDENTITY_AGENT, "certificate revoked");
    keys_issue_agent(f.keys, "client-1", f.dir);
    keys_write_ca(other, f.dir);
    expect_refusal(&f, LS_IDENTITY_AGENT, "is of no use");
    keys_issue_agent(f.keys, "client-1", f.dir);
    keys_write_crl(other, f.dir); /* a list that is not about ours says nothing */
    expect_refusal(&f, LS_IDENTITY_AGENT, "is of no use");
    keys_destroy(other);
    tear_down(&f);
}

static void rubbish_is_refused_without_waiting_for_it(void **state)
{
    static const char *const files[] = { "ca.pem", "cert.pem", "key.pem", "crl.pem" };
    char *large = malloc(LS_CREDENTIALS_FILE_MAX + 2);
    char path[400];
    struct fixture f;

    (void)state;
    assert_non_null(large);
    memset(large, 'x', LS_CREDENTIALS_FILE_MAX + 1);
    large[LS_CREDENTIALS_FILE_MAX + 1] = '\0';
    set_up(&f);
    for (size_t i = 0; i < LS_ARRAY_LEN(files); i++) {
        put(&f, files[i], "");
        expect_refusal(&f, LS_IDENTITY_AGENT, "that can be used in it");
        put(&f, files[i], "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
        expect_refusal(&f, LS_IDENTITY_AGENT, "that can be used in it");
        put(&f, files[i], large);
        expect_refusal(&f, LS_IDENTITY_AGENT, "is not a file of at most");
        path_in(&f, files[i], path);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkfifo(path, 0600), 0);
        expect_refusal(&f, LS_IDENTITY_AGENT, "is not a file of at most");
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkdir(path, 0700), 0);
        expect_refusal(&f, LS_IDENTITY_AGENT, "is not a file of at most");
        assert_int_equal(rmdir(path), 0);
        keys_issue_agent(f.keys, "client-1", f.dir);
    }
    ls_credentials_close(open_agent(&f));
    free(large);
    tear_down(&f);
}

/* Nobody is there to type it: the program must not stand and wait. */
static void a_key_with_a_passphrase_is_refused(void **state)
{
    char path[400];
    char phrase[] = "secret";
    EVP_PKEY *key = EVP_EC_gen("P-256");
    struct fixture f;
    FILE *file;

    (void)state;
    set_up(&f);
    path_in(&f, "key.pem", path);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(PEM_write_PKCS8PrivateKey(file, key, EVP_aes_256_cbc(), phrase,
                                               (int)strlen(phrase), NULL, NULL),
                     1);
    assert_int_equal(fclose(file), 0);
    expect_refusal(&f, LS_IDENTITY_AGENT, "key.pem: no private key");
    EVP_PKEY_free(key);
    tear_down(&f);
}

/* ---- renewal ---- */

static void certificate_in_use(struct ls_credentials *credentials, char out[64])
{
    unsigned generation = 0;
    SSL *ssl = ls_credentials_new_ssl(credentials, &generation);
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    assert_non_null(ssl);
    assert_int_equal(X509_digest(SSL_get_certificate(ssl), EVP_sha256(), md, &len), 1);
    for (unsigned i = 0; i < 16; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", md[i]);
    SSL_free(ssl);
}

static void expect_news(struct ls_credentials *credentials, bool good, const char *says)
{
    char text[512] = "";
    bool was_good = !good;

    assert_true(ls_credentials_news(credentials, &was_good, text, sizeof(text)));
    if (was_good != good || strstr(text, says) == NULL)
        fail_msg("good %d: \"%s\" instead of \"%s\"", was_good, text, says);
    assert_false(ls_credentials_news(credentials, &was_good, text, sizeof(text))); /* told once */
}

static void files_that_changed_are_in_use_for_the_next_connection(void **state)
{
    struct ls_credentials *credentials;
    char first[64];
    char second[64];
    char again[64];
    unsigned generation = 0;
    struct fixture f;
    SSL *old;

    (void)state;
    set_up(&f);
    credentials = open_agent(&f);
    certificate_in_use(credentials, first);
    certificate_in_use(credentials, again);
    assert_string_equal(first, again);
    old = ls_credentials_new_ssl(credentials, &generation); /* a connection that lives on */
    keys_issue_agent(f.keys, "client-1", f.dir);
    certificate_in_use(credentials, second);
    assert_string_not_equal(first, second);
    expect_news(credentials, true, "the certificate of lockstep:agent/client-1 until");
    assert_non_null(SSL_get_certificate(old));
    assert_int_equal(generation, 1);
    assert_int_equal(ls_credentials_generation(credentials), 2);
    SSL_free(old);
    ls_credentials_close(credentials);
    tear_down(&f);
}

static void a_set_that_is_not_in_order_does_not_replace_the_one_in_use(void **state)
{
    static const struct {
        struct keys_want want;
        const char *says;
    } cases[] = {
        { { .names = AGENT, .purpose = "clientAuth", .foreign_key = true }, "no private key for" },
        { { .names = "URI:lockstep:agent/client-2", .purpose = "clientAuth" },
          "one of lockstep:agent/client-2, not of lockstep:agent/client-1" },
        { { .names = "URI:lockstep:coordinator/client-1", .purpose = "serverAuth" },
          "one of lockstep:coordinator/client-1" },
        { { .names = AGENT, .purpose = "clientAuth", .from_days = -2, .until_days = -1 },
          "expired" },
        { { .names = AGENT, .purpose = "clientAuth", .self_signed = true }, "self-signed" },
    };
    struct ls_credentials *credentials;
    char before[64];
    char after[64];
    struct fixture f;

    (void)state;
    set_up(&f);
    credentials = open_agent(&f);
    certificate_in_use(credentials, before);
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        keys_issue(f.keys, &cases[i].want, f.dir);
        certificate_in_use(credentials, after);
        assert_string_equal(before, after);
        expect_news(credentials, false, cases[i].says);
    }
    keys_issue_agent(f.keys, "client-1", f.dir); /* in order again */
    certificate_in_use(credentials, after);
    assert_string_not_equal(before, after);
    expect_news(credentials, true, "until");
    ls_credentials_close(credentials);
    tear_down(&f);
}

static void a_list_of_revoked_certificates_that_vanishes_still_holds(void **state)
{
    struct ls_credentials *credentials;
    char path[400];
    char before[64];
    char after[64];
    struct fixture f;

    (void)state;
    set_up(&f);
    credentials = open_agent(&f);
    certificate_in_use(credentials, before);
    path_in(&f, "crl.pem", path);
    assert_int_equal(unlink(path), 0);
    certificate_in_use(credentials, after);
    assert_string_equal(before, after);
    expect_news(credentials, false, "crl.pem is gone: nothing is un-revoked by that");
    ls_credentials_close(credentials);
    tear_down(&f);
}

static void a_key_that_others_can_read_now_is_not_taken_over(void **state)
{
    struct ls_credentials *credentials;
    char path[400];
    char before[64];
    char after[64];
    struct fixture f;

    (void)state;
    set_up(&f);
    credentials = open_agent(&f);
    certificate_in_use(credentials, before);
    keys_issue_agent(f.keys, "client-1", f.dir);
    path_in(&f, "key.pem", path);
    assert_int_equal(chmod(path, 0644), 0);
    certificate_in_use(credentials, after);
    assert_string_equal(before, after);
    expect_news(credentials, false, "others can read it");
    assert_int_equal(chmod(path, 0600), 0);
    certificate_in_use(credentials, after);
    assert_string_not_equal(before, after);
    ls_credentials_close(credentials);
    tear_down(&f);
}

static void open_once(void *ctx)
{
    const struct fixture *f = ctx;
    struct ls_credentials *credentials = NULL;
    struct ls_diag diag = { 0 };
    enum ls_err rc = ls_credentials_open(f->dir, LS_IDENTITY_AGENT, &credentials, &diag);

    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    ls_credentials_close(credentials);
}

static void memory_may_end_at_any_point(void **state)
{
    struct fixture f;

    (void)state;
    set_up(&f);
    assert_true(failmalloc_each(open_once, &f) >= 2);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_in_order_says_whose_it_is_and_until_when),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(what_others_can_read_or_change_is_refused),
        cmocka_unit_test(what_belongs_to_another_user_is_refused),
        cmocka_unit_test(a_certificate_of_no_use_is_refused_with_the_reason),
        cmocka_unit_test(a_revoked_certificate_and_a_foreign_authority_are_refused),
        cmocka_unit_test(rubbish_is_refused_without_waiting_for_it),
        cmocka_unit_test(a_key_with_a_passphrase_is_refused),
        cmocka_unit_test(files_that_changed_are_in_use_for_the_next_connection),
        cmocka_unit_test(a_set_that_is_not_in_order_does_not_replace_the_one_in_use),
        cmocka_unit_test(a_list_of_revoked_certificates_that_vanishes_still_holds),
        cmocka_unit_test(a_key_that_others_can_read_now_is_not_taken_over),
        cmocka_unit_test(memory_may_end_at_any_point),
    };
    return cmocka_run_group_tests_name("common.credentials", tests, NULL, NULL);
}

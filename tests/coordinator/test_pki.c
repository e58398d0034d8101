/* lockstep pki: what it makes is what the programs take, and nothing else in the folder changes. */
#include "tests/support/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/credentials.h"
#include "common/fs.h"
#include "coordinator/pki/authority.h"
#include "coordinator/pki/pki.h"
#include "coordinator/result/message.h"
#include "tests/support/failmalloc.h"
#include "tests/support/tmpdir.h"

static const char *const hosts[] = { "127.0.0.1", "::1", "lab.example.test" };

struct fixture {
    struct tmpdir tmp;
    char dir[280];
};

static void set_up(struct fixture *f)
{
    struct ls_diag diag = { 0 };

    tmpdir_make(&f->tmp);
    (void)snprintf(f->dir, sizeof(f->dir), "%s/pki", f->tmp.path);
    if (coord_pki_init(f->dir, "lab", COORD_PKI_CA_DAYS, &diag) != LS_OK)
        fail_msg("%s", diag.text);
}

static void tear_down(struct fixture *f)
{
    tmpdir_remove(&f->tmp);
}

static struct coord_pki_issue want_of(const struct fixture *f, enum ls_identity_role role,
                                      const char *name)
{
    return (struct coord_pki_issue){ .dir = f->dir,
                                     .role = role,
                                     .name = name,
                                     .hosts = hosts,
                                     .host_count =
                                         role == LS_IDENTITY_COORDINATOR ? LS_ARRAY_LEN(hosts) : 0,
                                     .days = COORD_PKI_LEAF_DAYS };
}

/* The folder; valid until the next call. */
static const char *issue(const struct coord_pki_issue *want)
{
    static char folder[400];
    Ls__IssuedCertificate *record = NULL;
    struct ls_diag diag = { 0 };
    char *path = NULL;

    if (coord_pki_issue(want, &path, &record, &diag) != LS_OK)
        fail_msg("%s", diag.text);
    (void)snprintf(folder, sizeof(folder), "%s", path);
    free(path);
    coord_message_free(record);
    return folder;
}

static void expect_refusal(const struct coord_pki_issue *want, enum ls_err rc, const char *says)
{
    Ls__IssuedCertificate *record = NULL;
    struct ls_diag diag = { 0 };
    char *path = NULL;

    assert_int_equal(coord_pki_issue(want, &path, &record, &diag), rc);
    assert_true(path == NULL && record == NULL);
    if (strstr(diag.text, says) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", diag.text, says);
}

static Ls__Pki *show(const char *path)
{
    struct ls_diag diag = { 0 };
    Ls__Pki *record = NULL;

    if (coord_pki_show(path, &record, &diag) != LS_OK)
        fail_msg("%s", diag.text);
    return record;
}

static enum ls_err open_keys(const char *folder, enum ls_identity_role role, char *out_fingerprint,
                             struct ls_diag *diag)
{
    struct ls_credentials *credentials = NULL;
    enum ls_err rc = ls_credentials_open(folder, role, &credentials, diag);

    if (rc == LS_OK && out_fingerprint != NULL)
        memcpy(out_fingerprint, ls_credentials_identity(credentials)->fingerprint, LS_SHA256_HEX);
    ls_credentials_close(credentials);
    return rc;
}

static void what_is_issued_is_what_the_programs_take(void **state)
{
    static const enum ls_identity_role roles[] = { LS_IDENTITY_AGENT, LS_IDENTITY_COORDINATOR };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(roles); i++) {
        struct coord_pki_issue want;
        struct ls_credentials *credentials = NULL;
        const struct ls_identity *own;
        struct ls_diag diag = { 0 };
        const char *folder;
        struct fixture f;
        int64_t left_ns;
        Ls__Pki *record;

        set_up(&f);
        want = want_of(&f, roles[i], "one.1");
        folder = issue(&want);
        if (ls_credentials_open(folder, roles[i], &credentials, &diag) != LS_OK)
            fail_msg("%s", diag.text);
        own = ls_credentials_identity(credentials);
        assert_string_equal(own->name, "one.1");
        assert_int_equal(own->role, roles[i]);
        left_ns = ls_credentials_expiry_wall_ns(credentials) - ls_clock_wall_ns();
        assert_true(left_ns > 29 * 86400 * LS_NS_PER_S && left_ns <= 30 * 86400 * LS_NS_PER_S);
        record = show(f.dir);
        assert_string_equal(record->name, "lab");
        assert_int_equal(record->n_issued, 1);
        assert_string_equal(record->issued[0]->uri, own->uri);
        assert_string_equal(record->issued[0]->fingerprint, own->fingerprint);
        assert_int_equal(record->issued[0]->n_hosts, want.host_count);
        for (size_t h = 0; h < want.host_count; h++)
            assert_string_equal(record->issued[0]->hosts[h], hosts[h]);
        assert_string_equal(record->issued[0]->revoked_at, "");
        coord_message_free(record);
        record = show(folder); /* the same, from the certificate itself */
        assert_string_equal(record->issued[0]->fingerprint, own->fingerprint);
        coord_message_free(record);
        ls_credentials_close(credentials);
        tear_down(&f);
    }
}

static mode_t mode_of(const char *dir, const char *name)
{
    char path[800];
    struct stat st;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

static void private_things_are_private_whatever_the_umask_is(void **state)
{
    static const mode_t masks[] = { 0, 022, 077, 0277 };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(masks); i++) {
        struct coord_pki_issue want;
        const char *folder;
        struct fixture f;
        mode_t before;
        char out[300];

        tmpdir_make(&f.tmp);
        (void)snprintf(f.dir, sizeof(f.dir), "%s/pki", f.tmp.path);
        (void)snprintf(out, sizeof(out), "%s/keys", f.tmp.path);
        before = umask(masks[i]);
        assert_int_equal(coord_pki_init(f.dir, "lab", 100, NULL), LS_OK);
        want = want_of(&f, LS_IDENTITY_AGENT, "a");
        want.out = out;
        folder = issue(&want);
        (void)umask(before);
        assert_int_equal(mode_of(f.dir, "."), 0700);
        assert_int_equal(mode_of(f.dir, "ca-key.pem"), 0600);
        assert_int_equal(mode_of(f.dir, "issued.json"), 0600);
        assert_int_equal(mode_of(f.dir, "ca.pem"), 0644);
        assert_int_equal(mode_of(folder, "."), 0700);
        assert_int_equal(mode_of(folder, "key.pem"), 0600);
        assert_int_equal(mode_of(folder, "cert.pem"), 0644);
        assert_int_equal(mode_of(folder, "crl.pem"), 0644);
        assert_int_equal(open_keys(folder, LS_IDENTITY_AGENT, NULL, NULL), LS_OK);
        tear_down(&f);
    }
}

static unsigned entries_in(const char *dir)
{
    DIR *open_dir = opendir(dir);
    const struct dirent *entry;
    unsigned count = 0;

    assert_non_null(open_dir);
    while ((entry = readdir(open_dir)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            count++;
    }
    (void)closedir(open_dir);
    return count;
}

static void an_authority_is_never_made_over_another_one(void **state)
{
    char first[LS_SHA256_HEX];
    char second[LS_SHA256_HEX];
    char path[300];
    struct ls_diag diag = { 0 };
    struct fixture f;

    (void)state;
    set_up(&f);
    (void)snprintf(path, sizeof(path), "%s/ca-key.pem", f.dir);
    assert_int_equal(ls_sha256_file(path, first, NULL), LS_OK);
    assert_int_equal(coord_pki_init(f.dir, "lab", 100, &diag), LS_ESTATE);
    assert_non_null(strstr(diag.text, "nothing was changed"));
    assert_int_equal(ls_sha256_file(path, second, NULL), LS_OK);
    assert_string_equal(first, second);
    assert_int_equal(entries_in(f.tmp.path), 1); /* nothing half made beside it */
    assert_int_equal(coord_pki_init("/proc/no/pki", "lab", 100, &diag), LS_EIO);
    assert_int_equal(coord_pki_init("x", "no good", 100, &diag), LS_EINVAL);
    assert_int_equal(coord_pki_init("x", "lab", 0, &diag), LS_ERANGE);
    assert_int_equal(coord_pki_init("x", "lab", COORD_PKI_CA_DAYS_MAX + 1, &diag), LS_ERANGE);
    tear_down(&f);
}

static void a_name_has_one_certificate_until_it_is_renewed(void **state)
{
    struct coord_pki_issue want;
    char first[LS_SHA256_HEX];
    char second[LS_SHA256_HEX];
    char elsewhere[300];
    const char *folder;
    struct fixture f;
    Ls__Pki *record;

    (void)state;
    set_up(&f);
    want = want_of(&f, LS_IDENTITY_COORDINATOR, "main");
    folder = issue(&want);
    assert_int_equal(open_keys(folder, LS_IDENTITY_COORDINATOR, first, NULL), LS_OK);
    expect_refusal(&want, LS_ESTATE, "--renew replaces keys");
    (void)snprintf(elsewhere, sizeof(elsewhere), "%s/other/place", f.tmp.path);
    want.out = elsewhere;
    expect_refusal(&want, LS_ESTATE, "has a certificate until");
    want.out = NULL;
    want.renew = true;
    want.host_count = 0; /* as before */
    folder = issue(&want);
    assert_int_equal(open_keys(folder, LS_IDENTITY_COORDINATOR, second, NULL), LS_OK);
    assert_string_not_equal(first, second);
    record = show(f.dir);
    assert_int_equal(record->n_issued, 2);
    assert_string_not_equal(record->issued[0]->serial, record->issued[1]->serial);
    assert_int_equal(record->issued[1]->n_hosts, LS_ARRAY_LEN(hosts));
    assert_string_equal(record->issued[1]->hosts[2], hosts[2]);
    coord_message_free(record);
    tear_down(&f);
}

static void what_cannot_be_issued_says_why_and_leaves_no_trace(void **state)
{
    static const char *const bad_names[] = { "", "..", "../x", "a/b", "a b", "-a", "*", "a\n" };
    static const char *const bad_hosts[] = {
        "",     "*",   "*.example.test", "a b",     "1.2.3", "999.1.1.1", "-x", "x.",
        "a..b", "a/b", "[::1]",          "host:80", "x\ny",  "\xc3\xa4"
    };
    struct coord_pki_issue want;
    struct fixture f;
    Ls__Pki *record;

    (void)state;
    set_up(&f);
    for (size_t i = 0; i < LS_ARRAY_LEN(bad_names); i++) {
        char out[300];

        (void)snprintf(out, sizeof(out), "%s/out", f.tmp.path);
        want = want_of(&f, LS_IDENTITY_AGENT, bad_names[i]);
        want.out = out;
        expect_refusal(&want, LS_EINVAL, "is no name");
        assert_int_not_equal(access(out, F_OK), 0);
    }
    for (size_t i = 0; i < LS_ARRAY_LEN(bad_hosts); i++) {
        want = want_of(&f, LS_IDENTITY_COORDINATOR, "main");
        want.hosts = &bad_hosts[i];
        want.host_count = 1;
        expect_refusal(&want, LS_EINVAL, "neither a host's name nor an address");
    }
    want = want_of(&f, LS_IDENTITY_COORDINATOR, "main");
    want.host_count = 0;
    expect_refusal(&want, LS_EINVAL, "needs --host");
    want = want_of(&f, LS_IDENTITY_AGENT, "a");
    want.days = 0;
    expect_refusal(&want, LS_ERANGE, "lasts 1 to 825 days");
    want.days = COORD_PKI_LEAF_DAYS_MAX + 1;
    expect_refusal(&want, LS_ERANGE, "lasts 1 to 825 days");
    want.days = 1;
    want.dir = "/nowhere/at/all";
    expect_refusal(&want, LS_EINVAL, "lockstep pki init");
    record = show(f.dir);
    assert_int_equal(record->n_issued, 0);
    coord_message_free(record);
    tear_down(&f);
}

static void nothing_outlives_the_authority(void **state)
{
    struct coord_pki_issue want;
    struct fixture f;

    (void)state;
    tmpdir_make(&f.tmp);
    (void)snprintf(f.dir, sizeof(f.dir), "%s/pki", f.tmp.path);
    assert_int_equal(coord_pki_init(f.dir, "lab", 10, NULL), LS_OK);
    want = want_of(&f, LS_IDENTITY_AGENT, "a");
    want.days = 30;
    expect_refusal(&want, LS_ERANGE, "the authority itself ends in");
    want.days = 9;
    assert_int_equal(open_keys(issue(&want), LS_IDENTITY_AGENT, NULL, NULL), LS_OK);
    tear_down(&f);
}

static void a_revoked_certificate_is_of_no_use_any_more(void **state)
{
    struct coord_pki_issue want;
    struct ls_diag diag = { 0 };
    char folder[400];
    char serial[64];
    uint32_t count = 0;
    struct fixture f;
    Ls__Pki *record;

    (void)state;
    set_up(&f);
    want = want_of(&f, LS_IDENTITY_AGENT, "a");
    (void)snprintf(folder, sizeof(folder), "%s", issue(&want));
    want.renew = true;
    (void)issue(&want);
    assert_int_equal(open_keys(folder, LS_IDENTITY_AGENT, NULL, NULL), LS_OK);
    assert_int_equal(coord_pki_revoke(f.dir, "nobody", &count, &diag), LS_EINVAL);
    assert_int_equal(coord_pki_revoke(f.dir, "a", &count, &diag), LS_OK);
    assert_int_equal(count, 2); /* the one before it had not ended */
    assert_int_equal(open_keys(folder, LS_IDENTITY_AGENT, NULL, &diag), LS_EREFUSED);
    assert_non_null(strstr(diag.text, "certificate revoked"));
    assert_int_equal(coord_pki_revoke(f.dir, "a", &count, &diag), LS_ESTATE);
    (void)issue(&want); /* another chance */
    assert_int_equal(open_keys(folder, LS_IDENTITY_AGENT, NULL, NULL), LS_OK);
    record = show(f.dir);
    assert_int_equal(record->n_issued, 3);
    assert_string_not_equal(record->issued[0]->revoked_at, "");
    assert_string_equal(record->issued[2]->revoked_at, "");
    (void)snprintf(serial, sizeof(serial), "%s", record->issued[2]->serial);
    coord_message_free(record);
    assert_int_equal(coord_pki_revoke(f.dir, serial, &count, &diag), LS_OK);
    assert_int_equal(count, 1);
    assert_int_equal(open_keys(folder, LS_IDENTITY_AGENT, NULL, NULL), LS_EREFUSED);
    tear_down(&f);
}

static void a_name_of_two_holders_has_to_be_said_in_full(void **state)
{
    struct coord_pki_issue agent;
    struct coord_pki_issue coordinator;
    struct ls_diag diag = { 0 };
    uint32_t count = 0;
    struct fixture f;
    char folder[400];

    (void)state;
    set_up(&f);
    agent = want_of(&f, LS_IDENTITY_AGENT, "main");
    coordinator = want_of(&f, LS_IDENTITY_COORDINATOR, "main");
    (void)issue(&agent);
    (void)snprintf(folder, sizeof(folder), "%s", issue(&coordinator));
    assert_int_equal(coord_pki_revoke(f.dir, "main", &count, &diag), LS_EINVAL);
    assert_non_null(strstr(diag.text, "say agent/main or coordinator/main"));
    assert_int_equal(coord_pki_revoke(f.dir, "agent/main", &count, &diag), LS_OK);
    assert_int_equal(open_keys(folder, LS_IDENTITY_COORDINATOR, NULL, NULL), LS_OK);
    tear_down(&f);
}

/* A record that says a certificate was issued is there before the certificate is. */
static void processes_take_turns(void **state)
{
    enum { CHILDREN = 6 };
    struct fixture f;
    pid_t children[CHILDREN];
    Ls__Pki *record;

    (void)state;
    set_up(&f);
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            char name[8];
            struct coord_pki_issue want;
            Ls__IssuedCertificate *entry = NULL;
            char *path = NULL;

            (void)snprintf(name, sizeof(name), "a%d", i);
            want = want_of(&f, LS_IDENTITY_AGENT, name);
            _exit(coord_pki_issue(&want, &path, &entry, NULL) == LS_OK ? 0 : 1);
        }
    }
    for (int i = 0; i < CHILDREN; i++) {
        int status = 1;

        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    record = show(f.dir);
    assert_int_equal(record->n_issued, CHILDREN);
    assert_int_equal(record->crl_number, CHILDREN + 1);
    coord_message_free(record);
    tear_down(&f);
}

static void a_key_that_others_could_read_is_not_used(void **state)
{
    struct coord_pki_issue want;
    char path[300];
    struct fixture f;

    (void)state;
    set_up(&f);
    (void)snprintf(path, sizeof(path), "%s/ca-key.pem", f.dir);
    assert_int_equal(chmod(path, 0644), 0);
    want = want_of(&f, LS_IDENTITY_AGENT, "a");
    expect_refusal(&want, LS_ESTATE, "whoever can read it can make agents and coordinators");
    tear_down(&f);
}

static void put(const char *dir, const char *name, const char *text)
{
    char path[400];

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    assert_int_equal(ls_fs_write(path,
                                 (struct ls_bytes){ (const unsigned char *)text, strlen(text) },
                                 0600, NULL),
                     LS_OK);
}

static void a_pki_that_is_not_in_order_is_not_worked_in(void **state)
{
    static const struct {
        const char *file;
        const char *text;
    } cases[] = {
        { "issued.json", "" },
        { "issued.json", "{\"version\": 7}" },
        { "issued.json", "{\"version\": 1, \"isued\": []}" },
        { "ca.pem", "nothing" },
        { "ca-key.pem", "nothing" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct coord_pki_issue want;
        struct fixture f;

        set_up(&f);
        put(f.dir, cases[i].file, cases[i].text);
        want = want_of(&f, LS_IDENTITY_AGENT, "a");
        expect_refusal(&want, LS_EINVAL, f.dir);
        tear_down(&f);
    }
}

static void what_is_nothing_of_ours_is_not_shown(void **state)
{
    Ls__Pki *record = NULL;
    struct ls_diag diag = { 0 };
    char path[300];
    struct fixture f;

    (void)state;
    set_up(&f);
    assert_int_equal(coord_pki_show(f.tmp.path, &record, &diag), LS_EINVAL);
    assert_non_null(strstr(diag.text, "neither a pki"));
    (void)snprintf(path, sizeof(path), "%s/ca.pem", f.dir); /* a certificate, but nobody's */
    assert_int_equal(coord_pki_show(path, &record, &diag), LS_EREFUSED);
    (void)snprintf(path, sizeof(path), "%s/issued.json", f.dir);
    assert_int_equal(coord_pki_show(path, &record, &diag), LS_EINVAL);
    assert_int_equal(coord_pki_show("/nowhere", &record, &diag), LS_EINVAL);
    tear_down(&f);
}

static void times_are_read_as_they_are_written(void **state)
{
    static const char *const bad[] = { "", "2026", "2026-11-30T14:05:09Z", "soon",
                                       "2026-11-30T14:05:09.000Z " };
    char text[32];

    (void)state;
    coord_pki_format_time(INT64_C(1796047509), text);
    assert_int_equal(coord_pki_parse_time(text), INT64_C(1796047509));
    for (size_t i = 0; i < LS_ARRAY_LEN(bad); i++)
        assert_int_equal(coord_pki_parse_time(bad[i]), -1);
}

static char record_before[4096];
static size_t record_len;

/* Every attempt finds the same record; without an allocation, for those are counted. */
static void put_record_back(const struct fixture *f)
{
    char path[300];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/issued.json", f->dir);
    fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, record_before, record_len), (ssize_t)record_len);
    assert_int_equal(close(fd), 0);
}

static void issue_once(void *ctx)
{
    const struct fixture *f = ctx;
    struct coord_pki_issue want = want_of(f, LS_IDENTITY_COORDINATOR, "main");
    Ls__IssuedCertificate *record = NULL;
    struct ls_diag diag = { 0 };
    char *path = NULL;
    enum ls_err rc;

    put_record_back(f);
    want.renew = true;
    rc = coord_pki_issue(&want, &path, &record, &diag);
    if (failmalloc_hit()) {
        assert_int_not_equal(rc, LS_OK);
        assert_true(path == NULL && record == NULL);
    } else {
        assert_int_equal(rc, LS_OK);
    }
    free(path);
    coord_message_free(record);
}

static void memory_may_end_at_any_point(void **state)
{
    struct fixture f;
    char path[300];
    ssize_t got;
    int fd;

    (void)state;
    set_up(&f);
    (void)snprintf(path, sizeof(path), "%s/issued.json", f.dir);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    got = read(fd, record_before, sizeof(record_before));
    assert_true(got > 0 && (size_t)got < sizeof(record_before));
    record_len = (size_t)got;
    assert_int_equal(close(fd), 0);
    assert_true(failmalloc_each(issue_once, &f) >= 10);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_issued_is_what_the_programs_take),
        cmocka_unit_test(private_things_are_private_whatever_the_umask_is),
        cmocka_unit_test(an_authority_is_never_made_over_another_one),
        cmocka_unit_test(a_name_has_one_certificate_until_it_is_renewed),
        cmocka_unit_test(what_cannot_be_issued_says_why_and_leaves_no_trace),
        cmocka_unit_test(nothing_outlives_the_authority),
        cmocka_unit_test(a_revoked_certificate_is_of_no_use_any_more),
        cmocka_unit_test(a_name_of_two_holders_has_to_be_said_in_full),
        cmocka_unit_test(processes_take_turns),
        cmocka_unit_test(a_key_that_others_could_read_is_not_used),
        cmocka_unit_test(a_pki_that_is_not_in_order_is_not_worked_in),
        cmocka_unit_test(what_is_nothing_of_ours_is_not_shown),
        cmocka_unit_test(times_are_read_as_they_are_written),
        cmocka_unit_test(memory_may_end_at_any_point),
    };
    return cmocka_run_group_tests_name("coordinator.pki", tests, NULL, NULL);
}

#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/host/program.h"
#include "common/fs.h"

static char dir[256];

static int begin(void **state)
{
    (void)state;
    return ls_fs_private_dir("lockstep-test", dir, sizeof(dir), NULL) == LS_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    return ls_fs_remove_tree(dir, NULL) == LS_OK ? 0 : -1;
}

static const char *in_dir(const char *name)
{
    static char path[400];

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static void put(const char *name, const char *text, mode_t mode)
{
    struct ls_bytes data = { (const unsigned char *)text, strlen(text) };

    assert_int_equal(ls_fs_write(in_dir(name), data, mode, NULL), LS_OK);
}

static enum ls_err find(const char *name, const char *path, struct host_program_file *out,
                        struct ls_diag *diag)
{
    char entry[640];
    char *envp[] = { (char[]){ "XPATH=/wrong" }, entry, NULL };

    (void)snprintf(entry, sizeof(entry), "PATH=%s", path);
    return host_program_find(name, dir, envp, out, diag);
}

static void the_first_executable_in_path_is_taken(void **state)
{
    struct host_program_file file;
    char path[600], real[PATH_MAX];

    (void)state;
    assert_int_equal(mkdir(in_dir("a"), 0700), 0);
    assert_int_equal(mkdir(in_dir("b"), 0700), 0);
    assert_int_equal(mkdir(in_dir("a/tool2"), 0700), 0); /* a folder of that name is none */
    put("a/tool", "", 0644);
    put("b/tool", "#!/bin/sh\n", 0755);
    put("b/tool2", "#!/bin/sh\n", 0755);
    (void)snprintf(path, sizeof(path), "/no/such:%s/a:%s/b", dir, dir);
    assert_int_equal(find("tool", path, &file, NULL), LS_OK);
    assert_string_equal(file.path, in_dir("b/tool"));
    assert_int_equal(find("tool2", path, &file, NULL), LS_OK);
    assert_string_equal(file.path, in_dir("b/tool2"));
    assert_int_equal(find("tool", "b", &file, NULL), LS_OK); /* relative ones count from dir */
    assert_string_equal(file.path, in_dir("b/tool"));
    assert_int_equal(find("sh", "/bin", &file, NULL), LS_OK);
    assert_string_equal(file.path, "/bin/sh"); /* argv[0]'s idea of itself is kept */
    assert_non_null(realpath("/bin/sh", real));
    assert_string_equal(file.real, real);
    assert_string_equal(file.interpreter, "");
}

static void what_cannot_be_run_is_explained(void **state)
{
    static const struct {
        const char *name, *path, *saying;
    } cases[] = {
        { "nothing-of-the-kind", "/usr/bin:/bin", "not in PATH=/usr/bin:/bin" },
        { "sh", "", "not in PATH=" },
        { "plain", ".", "chmod +x" },
        { "./plain", "", "chmod +x" },
        { "./missing", "", "No such file" },
        { "lost", ".", "/no/such/python, which does not exist" },
        { "dull", ".", "/etc/passwd, which is not executable" },
        { "loop", ".", "not in PATH" },
        { "./loop", ".", "Too many levels" },
    };

    (void)state;
    put("plain", "", 0644);
    put("lost", "#! /no/such/python -u\nprint(1)\n", 0755);
    put("dull", "#!/etc/passwd\n", 0755);
    assert_int_equal(symlink("loop", in_dir("loop")), 0);
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct host_program_file file;
        struct ls_diag diag = { 0 };

        assert_int_equal(find(cases[i].name, cases[i].path, &file, &diag), LS_EINVAL);
        if (strstr(diag.text, cases[i].saying) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", diag.text, cases[i].saying);
    }
}

static void interpreters_are_named_with_their_argument(void **state)
{
    static const char *const cases[][2] = {
        { "#!/bin/sh\n", "/bin/sh" },
        { "#! \t/bin/sh -e\nx", "/bin/sh -e" },
        { "#!/bin/sh", "/bin/sh" },
        { "#!/bin/sh\r\n", "/bin/sh" },
        { "", "" },
        { "#", "" },
        { "# comment", "" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct host_program_file file;

        put("script", cases[i][0], 0755);
        assert_int_equal(find("./script", "", &file, NULL), LS_OK);
        assert_string_equal(file.interpreter, cases[i][1]);
    }
}

static void a_changed_file_has_another_hash(void **state)
{
    struct host_program_file file;
    char first[LS_SHA256_HEX], want[LS_SHA256_HEX];

    (void)state;
    put("prog", "one", 0755);
    assert_int_equal(find("./prog", "", &file, NULL), LS_OK);
    for (int i = 0; i < 2; i++) { /* the second time from memory */
        assert_int_equal(host_program_hash(&file, NULL), LS_OK);
        ls_sha256_hex((struct ls_bytes){ (const unsigned char *)"one", 3 }, want);
        assert_string_equal(file.sha256, want);
    }
    (void)memcpy(first, file.sha256, sizeof(first));
    put("prog", "two", 0755); /* of the same size */
    assert_int_equal(host_program_hash(&file, NULL), LS_OK);
    assert_string_not_equal(file.sha256, first);
    assert_int_equal(unlink(in_dir("prog")), 0);
    assert_int_equal(host_program_hash(&file, NULL), LS_EIO);
}

static void exec_errors_have_a_hint(void **state)
{
    static const int errors[] = { ENOEXEC, ENOENT, EACCES, E2BIG, ETXTBSY, ENOMEM };
    struct host_program_file file = { .path = "/x/prog" };
    char text[300];

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(errors); i++) {
        host_program_explain_exec(&file, errors[i], text, sizeof(text));
        assert_non_null(strstr(text, "/x/prog"));
        assert_non_null(strstr(text, strerror(errors[i])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_first_executable_in_path_is_taken, begin, end),
        cmocka_unit_test_setup_teardown(what_cannot_be_run_is_explained, begin, end),
        cmocka_unit_test_setup_teardown(interpreters_are_named_with_their_argument, begin, end),
        cmocka_unit_test_setup_teardown(a_changed_file_has_another_hash, begin, end),
        cmocka_unit_test(exec_errors_have_a_hint),
    };

    return cmocka_run_group_tests_name("agent.host_program", tests, NULL, NULL);
}

#include "tests/support/test.h"

#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fs.h"
#include "tests/support/failmalloc.h"
#include "tests/support/tmpdir.h"

/* Each test has a folder of its own, and is in it. */
static struct tmpdir own;
static const char *const folder = own.path;
static int home = -1;

static int enter(void **state)
{
    (void)state;
    home = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tmpdir_make(&own);
    return home < 0 ? -1 : chdir(folder);
}

static int leave(void **state)
{
    (void)state;
    if (fchdir(home) != 0 || close(home) != 0)
        return -1;
    tmpdir_remove(&own);
    return 0;
}

static struct ls_bytes bytes_of(const char *text)
{
    return (struct ls_bytes){ (const unsigned char *)text, strlen(text) };
}

static void put(const char *path, const char *text)
{
    assert_int_equal(ls_fs_write(path, bytes_of(text), 0644, NULL), LS_OK);
}

static void assert_content(const char *path, const char *expected)
{
    char *data = NULL;
    size_t len = 0;

    assert_int_equal(ls_fs_read(path, 1000, &data, &len, NULL), LS_OK);
    assert_string_equal(data, expected);
    assert_int_equal(len, strlen(expected));
    free(data);
}

static bool exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

static mode_t mode_of(const char *path)
{
    struct stat st;

    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

static void what_was_written_is_read_whole(void **state)
{
    (void)state;
    put("file", "");
    assert_content("file", "");
    put("file", "some text\n");
    assert_content("file", "some text\n");
}

static void reading_stops_at_the_limit(void **state)
{
    char *data = NULL;
    size_t len = 7;
    struct ls_diag diag = { 0 };

    (void)state;
    put("file", "0123456789");
    assert_int_equal(ls_fs_read("file", 10, &data, &len, NULL), LS_OK);
    free(data);
    data = NULL;
    len = 7;
    assert_int_equal(ls_fs_read("file", 9, &data, &len, &diag), LS_ERANGE);
    assert_non_null(strstr(diag.text, "file is larger than 9 bytes"));
    assert_null(data);
    assert_int_equal(len, 7);
    /* A size of 0 says nothing in /proc. */
    assert_int_equal(ls_fs_read("/proc/self/status", 100000, &data, &len, NULL), LS_OK);
    assert_true(len > 100);
    free(data);
}

static void what_cannot_be_read_has_path_and_reason(void **state)
{
    char *data = NULL;
    size_t len = 0;
    struct ls_diag diag = { 0 };

    (void)state;
    assert_int_equal(ls_fs_read("absent", 10, &data, &len, &diag), LS_EIO);
    assert_string_equal(diag.text, "cannot open absent: No such file or directory");
    assert_int_equal(ls_fs_read(".", 10, &data, &len, &diag), LS_EINVAL);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_int_equal(ls_fs_read("fifo", 10, &data, &len, &diag), LS_EINVAL); /* and does not wait */
    assert_int_equal(ls_fs_read("/dev/zero", 10, &data, &len, &diag), LS_EINVAL);
}

static void writing_replaces_whole_with_the_mode_and_leaves_nothing_else(void **state)
{
    (void)state;
    put("file", "old and longer");
    assert_int_equal(ls_fs_write("file", bytes_of("new"), 0751, NULL), LS_OK);
    assert_content("file", "new");
    assert_int_equal(mode_of("file"), 0751);
    assert_int_equal(unlink("file"), 0);
    assert_int_equal(rmdir(folder), 0); /* nothing beside it */
    assert_int_equal(mkdir(folder, 0700), 0);
}

static void a_failed_write_keeps_the_old_content(void **state)
{
    struct ls_diag diag = { 0 };
    char path[PATH_MAX + 10];

    (void)state;
    assert_int_equal(mkdir("target", 0700), 0);
    assert_int_equal(ls_fs_write("target", bytes_of("x"), 0644, &diag), LS_EIO);
    assert_non_null(strstr(diag.text, "target"));
    assert_int_equal(rmdir("target"), 0);
    assert_int_equal(ls_fs_write("absent/file", bytes_of("x"), 0644, &diag), LS_EIO);
    (void)memset(path, 'x', sizeof(path));
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(ls_fs_write(path, bytes_of("x"), 0644, &diag), LS_ERANGE);
    assert_int_equal(rmdir(folder), 0); /* no temporary file is left */
    assert_int_equal(mkdir(folder, 0700), 0);
}

static void folders_are_made_with_their_parents(void **state)
{
    struct ls_diag diag = { 0 };

    (void)state;
    assert_int_equal(ls_fs_mkdirs("a/b//c/", 0750, NULL), LS_OK);
    assert_int_equal(mode_of("a/b/c"), 0750);
    assert_int_equal(ls_fs_mkdirs("a/b/c", 0700, NULL), LS_OK);
    assert_int_equal(ls_fs_mkdirs("/", 0700, NULL), LS_OK);
    assert_int_equal(ls_fs_mkdirs(folder, 0700, NULL), LS_OK);
    put("file", "");
    assert_int_equal(ls_fs_mkdirs("file/below", 0700, &diag), LS_EIO);
    assert_non_null(strstr(diag.text, "Not a directory"));
    assert_int_equal(ls_fs_mkdirs("file", 0700, &diag), LS_EIO);
    assert_int_equal(ls_fs_mkdirs("", 0700, &diag), LS_ERANGE);
}

static void a_private_folder_is_private_and_new_each_time(void **state)
{
    char one[PATH_MAX];
    char two[PATH_MAX];
    char small[12];
    char old[PATH_MAX] = "";
    const char *before = getenv("TMPDIR");

    (void)state;
    if (before != NULL)
        (void)snprintf(old, sizeof(old), "%s", before);
    assert_int_equal(setenv("TMPDIR", folder, 1), 0);
    assert_int_equal(ls_fs_private_dir("x", one, sizeof(one), NULL), LS_OK);
    assert_int_equal(ls_fs_private_dir("x", two, sizeof(two), NULL), LS_OK);
    assert_string_not_equal(one, two);
    assert_int_equal(mode_of(one), 0700);
    assert_int_equal(strncmp(one, folder, strlen(folder)), 0);
    assert_int_equal(ls_fs_private_dir("x", small, sizeof(small), NULL), LS_ERANGE);
    assert_int_equal(setenv("TMPDIR", "/nonexistent", 1), 0);
    assert_int_equal(ls_fs_private_dir("x", one, sizeof(one), NULL), LS_EIO);
    assert_int_equal(before != NULL ? setenv("TMPDIR", old, 1) : unsetenv("TMPDIR"), 0);
}

static void removing_takes_all_but_follows_no_link(void **state)
{
    (void)state;
    assert_int_equal(ls_fs_mkdirs("kept", 0700, NULL), LS_OK);
    put("kept/file", "kept");
    assert_int_equal(ls_fs_mkdirs("gone/a/b", 0700, NULL), LS_OK);
    put("gone/file", "");
    put("gone/a/b/file", "");
    assert_int_equal(symlink("../../kept", "gone/a/link"), 0);
    assert_int_equal(symlink("nowhere", "gone/dangling"), 0);
    assert_int_equal(mkfifo("gone/fifo", 0600), 0);
    assert_int_equal(ls_fs_remove_tree("gone", NULL), LS_OK);
    assert_false(exists("gone"));
    assert_content("kept/file", "kept");
    assert_int_equal(symlink("kept", "link"), 0);
    assert_int_equal(ls_fs_remove_tree("link", NULL), LS_OK); /* the link alone */
    assert_false(exists("link"));
    assert_content("kept/file", "kept");
    assert_int_equal(ls_fs_remove_tree("kept/file", NULL), LS_OK);
    assert_int_equal(ls_fs_remove_tree("absent", NULL), LS_OK);
    assert_int_equal(ls_fs_remove_tree("absent/below", NULL), LS_OK);
}

/* As a user whom permissions concern: root would not notice. */
static int remove_what_is_shut(void)
{
    if (geteuid() == 0 && chown(".", 65534, 65534) == 0 && /* fails where there is only root */
        (setgroups(0, NULL) != 0 || setresgid(65534, 65534, 65534) != 0 ||
         setresuid(65534, 65534, 65534) != 0))
        return 2;
    if (ls_fs_mkdirs("gone/shut/in", 0700, NULL) != LS_OK ||
        ls_fs_write("gone/shut/in/file", bytes_of(""), 0644, NULL) != LS_OK ||
        chmod("gone/shut/in", 0500) != 0 || chmod("gone/shut", 0) != 0 || chmod("gone", 0) != 0)
        return 3;
    return ls_fs_remove_tree("gone", NULL) == LS_OK && !exists("gone") ? 0 : 1;
}

static void removing_copes_with_folders_that_forbid_it(void **state)
{
    int status = 0;
    pid_t child = fork();

    (void)state;
    assert_true(child >= 0);
    if (child == 0)
        _exit(remove_what_is_shut());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Deeper than descriptors and PATH_MAX go, with names at each level that get in the way. */
static void removing_copes_with_any_depth(void **state)
{
    enum { DEPTH = 2000 };
    struct rlimit few = { .rlim_cur = 100 };
    struct rlimit before;
    int at;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_int_equal(mkdir("gone", 0700), 0);
    assert_int_equal(mkdir("gone/.ls-remove-0", 0700), 0);
    put("gone/.ls-remove-0/file", "");
    put("gone/.ls-remove-1", "");
    at = open("gone", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (unsigned i = 0; i < DEPTH; i++) {
        int below;

        assert_true(at >= 0);
        assert_int_equal(mkdirat(at, "folder", 0700), 0);
        assert_int_equal(symlinkat("/", at, "link"), 0);
        below = openat(at, "folder", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(close(at), 0);
        at = below;
    }
    assert_int_equal(close(at), 0);
    assert_int_equal(ls_fs_remove_tree("gone", NULL), LS_OK);
    assert_false(exists("gone"));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void removing_says_what_it_could_not_remove(void **state)
{
    struct ls_diag diag = { 0 };

    (void)state;
    assert_int_equal(ls_fs_remove_tree("/proc/self", &diag), LS_EIO);
    assert_non_null(strstr(diag.text, "/proc/self"));
    put("file", "");
    assert_int_equal(ls_fs_remove_tree("file/below", &diag), LS_EIO);
}

static int create(const char *name)
{
    int fd = -1;

    return ls_fs_create_beneath("base", name, 0644, &fd, NULL) == LS_OK ? fd : -1;
}

static void files_beneath_are_made_with_their_folders(void **state)
{
    int fd = -1;

    (void)state;
    assert_int_equal(mkdir("base", 0700), 0);
    assert_int_equal(ls_fs_create_beneath("base", "a/b/..c/.d", 0755, &fd, NULL), LS_OK);
    assert_int_equal(ls_fs_write_all(fd, bytes_of("text"), NULL), LS_OK);
    assert_int_equal(close(fd), 0);
    assert_content("base/a/b/..c/.d", "text");
    assert_int_equal(mode_of("base/a/b/..c/.d") & 0700, 0700);
    assert_int_equal(create("a/b/..c/.d"), -1); /* never again: what is there stays */
    assert_content("base/a/b/..c/.d", "text");
    assert_int_equal(create("a/b"), -1);
}

static void no_name_leads_out(void **state)
{
    static const char *const names[] = {
        "",        "/",   "/etc/passwd", ".",        "..",        "../x", "a/../x", "a/..",
        "a/./x",   "./x", "a//x",        "a/",       "a/../../x", "//x",  "out/x",  "file/x",
        "inner/x", "out", "hard/",       "dangling", "a/out",     "fifo",
    };

    (void)state;
    assert_int_equal(ls_fs_mkdirs("base/a", 0700, NULL), LS_OK);
    assert_int_equal(mkdir("outside", 0700), 0);
    assert_int_equal(symlink("../outside", "base/out"), 0);
    assert_int_equal(symlink("../../outside/x", "base/a/out"), 0);
    assert_int_equal(symlink("a", "base/inner"), 0); /* even a link that stays within */
    assert_int_equal(symlink("../outside/new", "base/dangling"), 0);
    assert_int_equal(mkfifo("base/fifo", 0600), 0);
    put("base/file", "");
    for (size_t i = 0; i < LS_ARRAY_LEN(names); i++) {
        struct ls_diag diag = { 0 };
        int fd = -7;
        enum ls_err rc = ls_fs_create_beneath("base", names[i], 0644, &fd, &diag);

        if (rc != LS_EINVAL && rc != LS_EIO)
            fail_msg("created: %s", names[i]);
        assert_int_equal(diag.code, rc);
        assert_int_equal(fd, -7);
    }
    assert_int_equal(rmdir("outside"), 0); /* empty */
    assert_int_equal(ls_fs_create_beneath("absent", "x", 0644, &(int){ 0 }, NULL), LS_EIO);
}

static void a_hard_link_is_not_written_through(void **state)
{
    (void)state;
    assert_int_equal(mkdir("base", 0700), 0);
    put("outside", "kept");
    assert_int_equal(link("outside", "base/hard"), 0);
    assert_int_equal(create("hard"), -1);
    assert_content("outside", "kept");
}

static void names_are_plain_and_of_bounded_length(void **state)
{
    char part[257], whole[LS_FS_NAME_MAX + 2];
    struct ls_diag diag = { 0 };

    (void)state;
    (void)memset(part, 'x', 256);
    part[256] = '\0';
    assert_int_equal(ls_fs_name_check(part, &diag), LS_EINVAL);
    part[255] = '\0';
    assert_int_equal(ls_fs_name_check(part, &diag), LS_OK);
    for (size_t i = 0; i <= LS_FS_NAME_MAX; i++)
        whole[i] = i % 2 == 0 ? 'x' : '/';
    whole[LS_FS_NAME_MAX + 1] = '\0';
    assert_int_equal(ls_fs_name_check(whole, &diag), LS_EINVAL);
    assert_non_null(strstr(diag.text, "is longer than 1024 bytes"));
    whole[LS_FS_NAME_MAX - 1] = '\0';
    assert_int_equal(ls_fs_name_check(whole, &diag), LS_OK);
    assert_int_equal(ls_fs_name_check("a\nb", &diag), LS_EINVAL);
    assert_int_equal(ls_fs_name_check("a\\b", &diag), LS_EINVAL); /* a way out elsewhere */
    assert_int_equal(ls_fs_name_check("gr\xc3\xbc\xc3\x9f/.x", &diag), LS_OK);
}

static void names_that_only_case_tells_apart_clash(void **state)
{
    (void)state;
    assert_true(ls_fs_names_clash("a", "a"));
    assert_true(ls_fs_names_clash("Makefile", "makefile"));
    assert_true(ls_fs_names_clash("a", "A/b")); /* a file where the other has a folder */
    assert_true(ls_fs_names_clash("a/B", "A"));
    assert_false(ls_fs_names_clash("a/b", "a/c"));
    assert_false(ls_fs_names_clash("ab", "a"));
    assert_false(ls_fs_names_clash("a/b", "ab"));
}

static void a_full_device_is_an_error(void **state)
{
    struct ls_diag diag = { 0 };
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(ls_fs_write_all(fd, bytes_of(""), &diag), LS_OK);
    assert_int_equal(ls_fs_write_all(fd, bytes_of("x"), &diag), LS_EIO);
    assert_non_null(strstr(diag.text, "No space left"));
    assert_int_equal(close(fd), 0);
}

static void read_once(void *ctx)
{
    char *data = NULL;
    size_t len = 0;
    enum ls_err rc = ls_fs_read("file", 100000, &data, &len, NULL);

    (void)ctx;
    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    assert_true((rc == LS_OK) == (data != NULL));
    free(data);
}

static void a_failing_allocation_is_reported(void **state)
{
    char text[60001];

    (void)state;
    (void)memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    put("file", text);
    assert_true(failmalloc_each(read_once, NULL) >= 2);
    put("file", "");
    assert_int_equal(failmalloc_each(read_once, NULL), 1);
}

static int enter_old_kernel(void **state)
{
    ls_fs_without_openat2(true);
    return enter(state);
}

static int leave_old_kernel(void **state)
{
    ls_fs_without_openat2(false);
    return leave(state);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter, leave)
#define OLD_KERNEL(test)                                                      \
    {                                                                         \
#test " (no openat2)", test, enter_old_kernel, leave_old_kernel, NULL \
    }

static void room_is_looked_for_and_nothing_of_it_stays(void **state)
{
    struct ls_diag diag = { 0 };
    char path[300];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/room", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(ls_fs_has_room(path, 100000, &diag), LS_OK);
    assert_int_equal(rmdir(path), 0); /* it is empty */
    assert_int_equal(ls_fs_has_room(path, 1, &diag), LS_EIO);
    assert_non_null(strstr(diag.text, path));
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(ls_fs_has_room(path, 0, &diag), LS_OK);
}

/* A limit of the file's size stands for a disk that is full. */
static void a_lack_of_room_is_named(void **state)
{
    struct rlimit before, none = { 0 };
    struct ls_diag diag = { 0 };
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none.rlim_cur = 4096;
    none.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    assert_int_equal(ls_fs_has_room(folder, 100000, &diag), LS_EIO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    assert_non_null(strstr(diag.text, "File too large"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(what_was_written_is_read_whole),
        IN_FOLDER(reading_stops_at_the_limit),
        IN_FOLDER(what_cannot_be_read_has_path_and_reason),
        IN_FOLDER(writing_replaces_whole_with_the_mode_and_leaves_nothing_else),
        IN_FOLDER(a_failed_write_keeps_the_old_content),
        IN_FOLDER(folders_are_made_with_their_parents),
        IN_FOLDER(a_private_folder_is_private_and_new_each_time),
        IN_FOLDER(room_is_looked_for_and_nothing_of_it_stays),
        IN_FOLDER(a_lack_of_room_is_named),
        IN_FOLDER(removing_takes_all_but_follows_no_link),
        IN_FOLDER(removing_copes_with_folders_that_forbid_it),
        IN_FOLDER(removing_copes_with_any_depth),
        IN_FOLDER(removing_says_what_it_could_not_remove),
        IN_FOLDER(files_beneath_are_made_with_their_folders),
        IN_FOLDER(no_name_leads_out),
        IN_FOLDER(a_hard_link_is_not_written_through),
        OLD_KERNEL(files_beneath_are_made_with_their_folders),
        OLD_KERNEL(no_name_leads_out),
        OLD_KERNEL(a_hard_link_is_not_written_through),
        cmocka_unit_test(names_are_plain_and_of_bounded_length),
        cmocka_unit_test(names_that_only_case_tells_apart_clash),
        IN_FOLDER(a_full_device_is_an_error),
        IN_FOLDER(a_failing_allocation_is_reported),
    };

    (void)umask(022);
    return cmocka_run_group_tests_name("common.fs", tests, NULL, NULL);
}

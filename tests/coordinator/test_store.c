/* coordinator/result/store*.c: whole trials or none, whatever happens to the folder. */
#include "tests/support/test.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/msg_json.h"
#include "coordinator/result/message.h"
#include "coordinator/result/store.h"
#include "coordinator/result/sums.h"
#include "tests/coordinator/sample_result.h"
#include "tests/support/failmalloc.h"
#include "tests/support/tmpdir.h"

static const struct sample_trial two[] = {
    { "nginx", "hello", 1, 50000, 1.2, 9, 0, LS__VERDICT__VERDICT_VALID },
    { "node", "hello", 1, 30000, 2.1, 20, 0, LS__VERDICT__VERDICT_VALID },
};

struct rig {
    struct tmpdir tmp;
    char dir[300];
    Ls__Result *result; /* of two trials */
};

static int setup(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));

    assert_non_null(rig);
    tmpdir_make(&rig->tmp);
    (void)snprintf(rig->dir, sizeof(rig->dir), "%s/deep/out", rig->tmp.path);
    rig->result = sample_result(two, 2);
    *state = rig;
    return 0;
}

/* For hundreds of whole runs, each of which waits for the disk. */
static int setup_in_memory(void **state)
{
    if (access("/dev/shm", W_OK) == 0)
        assert_int_equal(setenv("TMPDIR", "/dev/shm", 0), 0);
    return setup(state);
}

static int teardown(void **state)
{
    struct rig *rig = *state;

    ls__result__free_unpacked(rig->result, NULL);
    tmpdir_remove(&rig->tmp);
    free(rig);
    return 0;
}

static struct ls_bytes bytes(const char *text)
{
    return (struct ls_bytes){ .data = (const unsigned char *)text, .len = strlen(text) };
}

static char *path_of(const struct rig *rig, const char *name)
{
    static char path[600];

    (void)snprintf(path, sizeof(path), "%s/%s", rig->dir, name);
    return path;
}

static bool exists(const struct rig *rig, const char *name)
{
    struct stat st;

    return lstat(path_of(rig, name), &st) == 0;
}

static void overwrite(const struct rig *rig, const char *name, const char *text)
{
    FILE *file = fopen(path_of(rig, name), "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static char *content(const struct rig *rig, const char *name)
{
    char *data = NULL;
    size_t len = 0;

    assert_int_equal(ls_fs_read(path_of(rig, name), 1 << 20, &data, &len, NULL), LS_OK);
    return data;
}

/* One of the result's trials, with everything that a trial may have. */
static enum ls_err write_trial(struct coord_store *store, const Ls__Trial *message,
                               struct ls_diag *diag)
{
    struct coord_store_trial *trial = NULL;
    struct coord_store_hlog *log = NULL;
    struct ls_hist *hist = NULL;
    enum ls_err rc = ls_hist_create(&hist);

    if (rc == LS_OK)
        rc = coord_store_trial_begin(store, message->index, message->target, message->workload,
                                     message->repetition, &trial, diag);
    if (rc == LS_OK)
        rc = coord_store_append(trial, 1, bytes("envelope"), diag);
    if (rc == LS_OK)
        rc = coord_store_log(trial, 0, bytes("listening\n"), diag);
    if (rc == LS_OK)
        rc = coord_store_hlog_begin(trial, NULL, 0, &log, diag);
    if (rc == LS_OK) {
        ls_hist_record(hist, 1234);
        rc = coord_store_hlog_write(log, "service_time", 0, 1000, hist, diag);
    }
    ls_hist_destroy(hist);
    if (rc != LS_OK) {
        coord_store_trial_discard(trial);
        return rc;
    }
    return coord_store_trial_finish(trial, message, diag);
}

static void write_all(struct rig *rig)
{
    struct coord_store *store = NULL;

    assert_int_equal(coord_store_create(rig->dir, &store, NULL), LS_OK);
    assert_int_equal(coord_store_plan(store, bytes("name: sample\n"), NULL), LS_OK);
    for (size_t i = 0; i < rig->result->n_trials; i++)
        assert_int_equal(write_trial(store, rig->result->trials[i], NULL), LS_OK);
    assert_int_equal(coord_store_result(store, rig->result, NULL), LS_OK);
    coord_store_close(store);
}

struct problems {
    uint32_t count;
    char text[1024];
};

static void problem(void *ctx, const char *path, const char *what)
{
    struct problems *problems = ctx;
    size_t len = strlen(problems->text);

    problems->count++;
    (void)snprintf(problems->text + len, sizeof(problems->text) - len, "%s %s;", path, what);
}

static uint32_t verify(const struct rig *rig, struct problems *problems)
{
    uint32_t files = 0, told = 0;
    struct ls_diag diag;

    *problems = (struct problems){ 0 };
    assert_int_equal(coord_store_verify(rig->dir, problem, problems, &files, &told, &diag), LS_OK);
    assert_int_equal(told, problems->count);
    return files;
}

static void assert_loads(const struct rig *rig, size_t trials)
{
    Ls__Result *loaded = NULL;
    struct ls_diag diag = { .text = "" };
    enum ls_err rc = coord_store_load(rig->dir, &loaded, &diag);

    assert_string_equal(diag.text, "");
    assert_int_equal(rc, LS_OK);
    assert_int_equal(loaded->n_trials, trials);
    ls__result__free_unpacked(loaded, NULL);
}

/* ---- the good way */

static void a_result_reads_back_as_it_was_written(void **state)
{
    struct rig *rig = *state;
    Ls__Result *loaded = NULL;
    struct problems problems;
    char *before, *after, *text;

    write_all(rig);
    assert_int_equal(coord_store_load(rig->dir, &loaded, NULL), LS_OK);
    before = ls_msg_to_json(&rig->result->base, 0);
    after = ls_msg_to_json(&loaded->base, 0);
    assert_string_equal(before, after);
    free(before);
    free(after);
    ls__result__free_unpacked(loaded, NULL);

    /* plan, environment, result; merged.hlog, target.log, trial.json of two trials */
    assert_int_equal(verify(rig, &problems), 3 + 2 * 3);
    assert_string_equal(problems.text, "");
    assert_false(exists(rig, "trials/001-nginx-hello-r1/journal"));
    assert_false(exists(rig, "trials/001-nginx-hello-r1.part"));
    text = content(rig, "trials/002-node-hello-r1/target.log");
    assert_string_equal(text, "listening\n");
    free(text);
    text = content(rig, "plan.yaml");
    assert_string_equal(text, "name: sample\n");
    free(text);
}

static void checksums_are_in_the_form_of_sha256sum(void **state)
{
    struct rig *rig = *state;
    int status = -1;
    pid_t pid;

    write_all(rig);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (chdir(rig->dir) == 0)
            (void)execlp("sha256sum", "sha256sum", "--quiet", "--strict", "-c", "SHA256SUMS",
                         (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void a_log_is_written_where_it_belongs_and_not_without_end(void **state)
{
    struct rig *rig = *state;
    struct coord_store *store = NULL;
    struct coord_store_trial *trial = NULL;
    char *text;

    assert_int_equal(coord_store_create(rig->dir, &store, NULL), LS_OK);
    assert_int_equal(coord_store_trial_begin(store, 1, "nginx", "hello", 1, &trial, NULL), LS_OK);
    assert_int_equal(coord_store_log(trial, 0, bytes("one "), NULL), LS_OK);
    assert_int_equal(coord_store_log(trial, 4, bytes("two"), NULL), LS_OK);
    assert_int_equal(coord_store_log(trial, UINT64_MAX, bytes("far"), NULL), LS_OK);
    assert_int_equal(coord_store_log(trial, COORD_LOG_MAX_BYTES - 1, bytes("far"), NULL), LS_OK);
    assert_int_equal(coord_store_trial_finish(trial, rig->result->trials[0], NULL), LS_OK);
    text = content(rig, "trials/001-nginx-hello-r1/target.log");
    assert_string_equal(text, "one two");
    free(text);
    coord_store_close(store);
}

static void reports_are_on_file_before_the_trial_ends(void **state)
{
    static const char expected[] = "\x07\0\0\0\x05\0\0\0first\x01\0\0\0\x00\0\0\0";
    struct rig *rig = *state;
    struct coord_store *store = NULL;
    struct coord_store_trial *trial = NULL;
    char *data = NULL;
    size_t len = 0;

    assert_int_equal(coord_store_create(rig->dir, &store, NULL), LS_OK);
    assert_int_equal(coord_store_trial_begin(store, 1, "nginx", "hello", 1, &trial, NULL), LS_OK);
    assert_int_equal(coord_store_append(trial, 7, bytes("first"), NULL), LS_OK);
    assert_int_equal(coord_store_append(trial, 1, bytes(""), NULL), LS_OK);
    assert_int_equal(coord_store_settle(trial, NULL), LS_OK);
    assert_int_equal(
        ls_fs_read(path_of(rig, "trials/001-nginx-hello-r1.part/journal"), 1000, &data, &len, NULL),
        LS_OK);
    assert_int_equal(len, sizeof(expected) - 1);
    assert_memory_equal(data, expected, len);
    free(data);
    coord_store_close(store);
}

static void names_of_agents_and_targets_cannot_leave_the_folder(void **state)
{
    struct rig *rig = *state;
    struct coord_store *store = NULL;
    struct coord_store_trial *trial = NULL;
    struct coord_store_hlog *one = NULL, *other = NULL, *again = NULL;

    assert_int_equal(coord_store_create(rig->dir, &store, NULL), LS_OK);
    assert_int_equal(
        coord_store_trial_begin(store, 1, "../../etc", "a b\n\033[31m", 1, &trial, NULL), LS_OK);
    assert_string_equal(coord_store_trial_folder(trial), "trials/001-_._.._etc-a_b___31m-r1");
    assert_int_equal(coord_store_hlog_begin(trial, "a/b", 0, &one, NULL), LS_OK);
    assert_int_equal(coord_store_hlog_begin(trial, "a b", 0, &other, NULL), LS_OK);
    assert_int_equal(coord_store_hlog_begin(trial, "a/b", 0, &again, NULL), LS_OK);
    assert_ptr_not_equal(one, other);
    assert_ptr_equal(one, again);
    assert_int_equal(coord_store_trial_finish(trial, rig->result->trials[0], NULL), LS_OK);
    assert_true(exists(rig, "trials/001-_._.._etc-a_b___31m-r1/client-a_b.hlog"));
    assert_true(exists(rig, "trials/001-_._.._etc-a_b___31m-r1/client-a_b.2.hlog"));
    coord_store_close(store);
}

static void the_default_folder_says_what_and_when(void **state)
{
    char dir[160];

    (void)state;
    assert_string_equal(
        coord_store_default_dir("quick start", INT64_C(1767323045) * 1000000000, dir, sizeof(dir)),
        "results/quick_start-20260102-030405");
    assert_string_equal(coord_store_default_dir("", 0, dir, sizeof(dir)),
                        "results/_-19700101-000000");
}

/* ---- what stands in the way */

static void a_folder_with_something_in_it_is_refused(void **state)
{
    struct rig *rig = *state;
    struct coord_store *store = NULL;
    struct ls_diag diag;

    assert_int_equal(ls_fs_mkdirs(rig->dir, 0755, NULL), LS_OK);
    assert_int_equal(coord_store_create(rig->dir, &store, NULL), LS_OK); /* empty is fine */
    coord_store_close(store);
    store = NULL;
    assert_int_equal(coord_store_create(rig->dir, &store, &diag), LS_ESTATE);
    assert_non_null(strstr(diag.text, "is not empty"));
    assert_null(store);
}

static void two_runs_do_not_write_to_one_folder(void **state)
{
    struct rig *rig = *state;
    struct coord_store *store = NULL, *other = NULL;
    Ls__Result *result = NULL;
    struct ls_diag diag;

    assert_int_equal(coord_store_create(rig->dir, &store, NULL), LS_OK);
    assert_int_equal(coord_store_result(store, rig->result, NULL), LS_OK);
    assert_int_equal(coord_store_resume(rig->dir, &other, &result, &diag), LS_ESTATE);
    assert_non_null(strstr(diag.text, "another run is writing"));
    coord_store_close(store);
}

static void a_place_that_cannot_be_written_is_named_with_the_reason(void **state)
{
    struct coord_store *store = NULL;
    struct ls_diag diag;

    (void)state;
    assert_int_equal(coord_store_create("/proc/lockstep/out", &store, &diag), LS_EIO);
    assert_non_null(strstr(diag.text, "/proc/lockstep"));
    assert_int_equal(coord_store_create("/dev/null/out", &store, &diag), LS_EIO);
    assert_non_null(strstr(diag.text, "Not a directory"));
}

static void a_folder_that_vanishes_is_an_error_and_does_not_come_back(void **state)
{
    struct rig *rig = *state;
    struct coord_store *store = NULL;
    struct coord_store_trial *trial = NULL;
    struct ls_diag diag;

    assert_int_equal(coord_store_create(rig->dir, &store, NULL), LS_OK);
    assert_int_equal(coord_store_trial_begin(store, 1, "nginx", "hello", 1, &trial, NULL), LS_OK);
    assert_int_equal(ls_fs_remove_tree(rig->dir, NULL), LS_OK);
    assert_int_equal(coord_store_log(trial, 0, bytes("x"), &diag), LS_EIO);
    assert_int_equal(coord_store_trial_finish(trial, rig->result->trials[0], &diag), LS_EIO);
    assert_non_null(strstr(diag.text, "No such file or directory"));
    assert_int_equal(coord_store_result(store, rig->result, &diag), LS_EIO);
    assert_int_equal(coord_store_trial_begin(store, 2, "nginx", "hello", 1, &trial, &diag), LS_EIO);
    assert_false(exists(rig, "."));
    coord_store_close(store);
}

/* A limit on the size of files stands for the full disk: it fails in the same places, and needs no
 * mount that a killed test would leave behind. */
static void a_full_disk_is_reported_and_leaves_what_was_there(void **state)
{
    struct rig *rig = *state;
    struct coord_store *store = NULL;
    struct coord_store_trial *trial = NULL;
    struct rlimit before, small;
    struct problems problems;
    struct ls_diag diag;
    char *big = calloc(1, 100000);
    enum ls_err rc;

    assert_non_null(big);
    (void)memset(big, 'x', 99999);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(coord_store_create(rig->dir, &store, NULL), LS_OK);
    assert_int_equal(write_trial(store, rig->result->trials[0], NULL), LS_OK);
    rig->result->n_trials = 1;
    assert_int_equal(coord_store_result(store, rig->result, NULL), LS_OK);
    rig->result->n_trials = 2;
    assert_int_equal(coord_store_trial_begin(store, 2, "node", "hello", 1, &trial, NULL), LS_OK);

    small = before;
    small.rlim_cur = 2000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(coord_store_append(trial, 0, bytes(big), &diag), LS_EIO); /* a large one */
    assert_int_equal(coord_store_append(trial, 0, bytes(big + 95000), &diag), LS_OK);
    rc = coord_store_settle(trial, &diag);
    assert_int_equal(rc, LS_EIO);
    assert_non_null(strstr(diag.text, "File too large"));
    assert_int_equal(coord_store_log(trial, 0, bytes(big), &diag), LS_EIO);
    rc = coord_store_trial_finish(trial, rig->result->trials[1], &diag);
    assert_int_equal(rc, LS_EIO);
    assert_int_equal(coord_store_result(store, rig->result, &diag), LS_EIO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    free(big);

    assert_false(exists(rig, "trials/002-node-hello-r1.part"));
    assert_false(exists(rig, "trials/002-node-hello-r1"));
    assert_loads(rig, 1);
    (void)verify(rig, &problems);
    assert_string_equal(problems.text, "");

    /* And when there is room again, it goes on. */
    assert_int_equal(write_trial(store, rig->result->trials[1], NULL), LS_OK);
    assert_int_equal(coord_store_result(store, rig->result, NULL), LS_OK);
    coord_store_close(store);
    assert_loads(rig, 2);
    (void)verify(rig, &problems);
    assert_string_equal(problems.text, "");
}

/* ---- interruption */

static void a_run_that_is_killed_in_a_trial_keeps_the_finished_ones(void **state)
{
    struct rig *rig = *state;
    struct coord_store *store = NULL;
    Ls__Result *result = NULL;
    struct problems problems;
    int ready[2], status;
    char byte;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct coord_store_trial *trial = NULL;
        bool ok = coord_store_create(rig->dir, &store, NULL) == LS_OK &&
                  write_trial(store, rig->result->trials[0], NULL) == LS_OK;

        rig->result->n_trials = 1;
        ok = ok && coord_store_result(store, rig->result, NULL) == LS_OK &&
             coord_store_trial_begin(store, 2, "node", "hello", 1, &trial, NULL) == LS_OK &&
             coord_store_log(trial, 0, bytes("half"), NULL) == LS_OK;
        ok = write(ready[1], ok ? "y" : "n", 1) == 1 && ok;
        for (;;)
            (void)pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    (void)close(ready[0]);
    (void)close(ready[1]);

    assert_true(exists(rig, "trials/002-node-hello-r1.part/target.log"));
    assert_loads(rig, 1);

    assert_int_equal(coord_store_resume(rig->dir, &store, &result, NULL), LS_OK);
    assert_int_equal(result->n_trials, 1);
    ls__result__free_unpacked(result, NULL);
    assert_false(exists(rig, "trials/002-node-hello-r1.part"));
    assert_int_equal(write_trial(store, rig->result->trials[1], NULL), LS_OK);
    assert_int_equal(coord_store_result(store, rig->result, NULL), LS_OK);
    coord_store_close(store);
    assert_loads(rig, 2);
    (void)verify(rig, &problems);
    assert_string_equal(problems.text, "");
}

static void resuming_removes_trials_that_the_result_does_not_know_and_nothing_else(void **state)
{
    struct rig *rig = *state;
    struct coord_store *store = NULL;
    Ls__Result *result = NULL;

    write_all(rig);
    assert_int_equal(ls_fs_mkdirs(path_of(rig, "trials/003-node-hello-r2"), 0755, NULL), LS_OK);
    assert_int_equal(ls_fs_mkdirs(path_of(rig, "trials/my notes"), 0755, NULL), LS_OK);
    overwrite(rig, "notes.txt", "mine");
    assert_int_equal(coord_store_resume(rig->dir, &store, &result, NULL), LS_OK);
    ls__result__free_unpacked(result, NULL);
    coord_store_close(store);
    assert_false(exists(rig, "trials/003-node-hello-r2"));
    assert_true(exists(rig, "trials/my notes"));
    assert_true(exists(rig, "notes.txt"));
    assert_true(exists(rig, "trials/001-nginx-hello-r1/trial.json"));
    assert_true(exists(rig, "trials/002-node-hello-r1/trial.json"));
}

/* As after a crash between the trial's rename and the result that names it. */
static void a_trial_that_is_run_again_replaces_its_folder(void **state)
{
    struct rig *rig = *state;
    struct coord_store *store = NULL;
    struct problems problems;
    char *text;

    assert_int_equal(coord_store_create(rig->dir, &store, NULL), LS_OK);
    assert_int_equal(write_trial(store, rig->result->trials[0], NULL), LS_OK);
    rig->result->trials[0]->bytes_in = 4711;
    assert_int_equal(write_trial(store, rig->result->trials[0], NULL), LS_OK);
    rig->result->n_trials = 1;
    assert_int_equal(coord_store_result(store, rig->result, NULL), LS_OK);
    rig->result->n_trials = 2;
    coord_store_close(store);
    (void)verify(rig, &problems);
    assert_string_equal(problems.text, "");
    text = content(rig, "trials/001-nginx-hello-r1/trial.json");
    assert_non_null(strstr(text, "4711"));
    free(text);
}

/* A run that ends its last trial just before its folder is taken over. */
static struct {
    struct rig *rig; /* NULL: there is none */
    struct coord_store *store;
} ending;

/* The library's, for this program. */
int flock(int fd, int operation)
{
    struct rig *rig = ending.rig;

    ending.rig = NULL;
    if (rig != NULL) {
        assert_int_equal(write_trial(ending.store, rig->result->trials[1], NULL), LS_OK);
        assert_int_equal(coord_store_result(ending.store, rig->result, NULL), LS_OK);
        coord_store_close(ending.store);
    }
    return (int)syscall(SYS_flock, fd, operation);
}

static void resuming_keeps_what_a_run_has_written_until_the_last_moment(void **state)
{
    struct rig *rig = *state;
    struct coord_store *store = NULL;
    Ls__Result *result = NULL;

    assert_int_equal(coord_store_create(rig->dir, &ending.store, NULL), LS_OK);
    assert_int_equal(write_trial(ending.store, rig->result->trials[0], NULL), LS_OK);
    rig->result->n_trials = 1;
    assert_int_equal(coord_store_result(ending.store, rig->result, NULL), LS_OK);
    rig->result->n_trials = 2;
    ending.rig = rig;
    assert_int_equal(coord_store_resume(rig->dir, &store, &result, NULL), LS_OK);
    assert_int_equal(result->n_trials, 2);
    assert_true(exists(rig, "trials/002-node-hello-r1/trial.json"));
    ls__result__free_unpacked(result, NULL);
    coord_store_close(store);
}

static void resuming_does_not_bless_a_file_that_was_changed(void **state)
{
    struct rig *rig = *state;
    struct coord_store *store = NULL;
    Ls__Result *result = NULL;
    struct problems problems;

    write_all(rig);
    overwrite(rig, "trials/001-nginx-hello-r1/trial.json", "{}");
    assert_int_equal(coord_store_resume(rig->dir, &store, &result, NULL), LS_OK);
    assert_int_equal(coord_store_result(store, result, NULL), LS_OK);
    ls__result__free_unpacked(result, NULL);
    coord_store_close(store);
    (void)verify(rig, &problems);
    assert_string_equal(problems.text, "trials/001-nginx-hello-r1/trial.json was changed;");
}

/* ---- reading what somebody else has touched */

static void assert_load_says(const struct rig *rig, enum ls_err expected, const char *text)
{
    Ls__Result *loaded = NULL;
    struct ls_diag diag = { .text = "" };

    assert_int_equal(coord_store_load(rig->dir, &loaded, &diag), expected);
    assert_null(loaded);
    if (strstr(diag.text, text) == NULL)
        fail_msg("expected \"%s\" in \"%s\"", text, diag.text);
}

static void what_is_not_a_result_is_said_to_be_none(void **state)
{
    struct rig *rig = *state;

    assert_load_says(rig, LS_EIO, "No such file or directory");
    assert_int_equal(ls_fs_mkdirs(rig->dir, 0755, NULL), LS_OK);
    assert_load_says(rig, LS_EINVAL, "it has no result.json");
    overwrite(rig, "result.json", "");
    assert_load_says(rig, LS_EPROTO, "cannot be read as a result");
    overwrite(rig, "result.json", "{\"name\": \"package\", \"dependencies\": {}}");
    assert_load_says(rig, LS_EPROTO, "dependencies");
    overwrite(rig, "result.json", "{}");
    assert_load_says(rig, LS_EINVAL, "is not a lockstep result");
    overwrite(rig, "result.json", "{\"run_id\": \"x\", \"trials\": [{\"index\": \"one\"}]}");
    assert_load_says(rig, LS_EPROTO, "trials[0].index");
    (void)snprintf(rig->dir + strlen(rig->dir), 20, "/result.json");
    assert_load_says(rig, LS_EINVAL, "is not a folder");
}

static void a_cut_off_or_edited_result_is_recognised(void **state)
{
    struct rig *rig = *state;
    char *text;

    write_all(rig);
    text = content(rig, "result.json");
    text[strlen(text) / 2] = '\0';
    overwrite(rig, "result.json", text);
    free(text);
    assert_load_says(rig, LS_EPROTO, "was cut off or changed");
    assert_int_equal(unlink(path_of(rig, "SHA256SUMS")), 0);
    assert_load_says(rig, LS_EPROTO, "result.json");
}

static void verifying_names_every_file_that_is_not_as_it_was(void **state)
{
    struct rig *rig = *state;
    struct problems problems;

    write_all(rig);
    overwrite(rig, "trials/001-nginx-hello-r1/merged.hlog", "#\n");
    assert_int_equal(unlink(path_of(rig, "trials/001-nginx-hello-r1/target.log")), 0);
    assert_int_equal(unlink(path_of(rig, "plan.yaml")), 0);
    assert_int_equal(symlink("/etc/passwd", path_of(rig, "plan.yaml")), 0);
    overwrite(rig, "trials/002-node-hello-r1/extra", "?");
    (void)verify(rig, &problems);
    assert_int_equal(problems.count, 4);
    assert_non_null(strstr(problems.text, "trials/001-nginx-hello-r1/merged.hlog was changed;"));
    assert_non_null(strstr(problems.text, "trials/001-nginx-hello-r1/target.log is missing;"));
    assert_non_null(strstr(problems.text, "plan.yaml is not a regular file;"));
    assert_non_null(strstr(problems.text, "trials/002-node-hello-r1/extra is not in SHA256SUMS;"));
}

static void a_list_of_checksums_cannot_point_outside_the_folder(void **state)
{
    static const char hex[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    static const char *const bad[] = { "/etc/passwd", "../x", "a/../../x", "a/..", "",
                                       "a\\n",        "a\x01" };
    struct coord_sums sums = { 0 };
    char line[200];

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(bad); i++) {
        (void)snprintf(line, sizeof(line), "%s  %s\n", hex, bad[i]);
        assert_int_equal(coord_sums_parse(&sums, bytes(line), NULL), LS_EPROTO);
        assert_int_equal(sums.n, 0);
    }
    (void)snprintf(line, sizeof(line), "%s  ok\n%s  a/..b/c\n", hex, hex);
    assert_int_equal(coord_sums_parse(&sums, bytes(line), NULL), LS_OK);
    assert_int_equal(sums.n, 2);
    coord_sums_fini(&sums);
    assert_int_equal(coord_sums_parse(&sums, bytes("zz  x\n"), NULL), LS_EPROTO);
    (void)snprintf(line, sizeof(line), "%s  no newline", hex);
    assert_int_equal(coord_sums_parse(&sums, bytes(line), NULL), LS_EPROTO);
}

/* ---- memory */

static void whole_run(void *ctx)
{
    struct rig *rig = ctx;
    struct coord_store *store = NULL;
    Ls__Result *loaded = NULL;
    enum ls_err rc;

    assert_int_equal(ls_fs_remove_tree(rig->dir, NULL), LS_OK);
    rc = coord_store_create(rig->dir, &store, NULL);
    if (rc == LS_OK)
        rc = write_trial(store, rig->result->trials[0], NULL);
    if (rc == LS_OK)
        rc = coord_store_result(store, rig->result, NULL);
    coord_store_close(store);
    if (rc == LS_OK)
        rc = coord_store_load(rig->dir, &loaded, NULL);
    ls__result__free_unpacked(loaded, NULL);
    assert_true((rc == LS_OK) == !failmalloc_hit());
}

static void every_failed_allocation_is_reported_and_nothing_leaks(void **state)
{
    assert_true(failmalloc_each(whole_run, *state) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_result_reads_back_as_it_was_written, setup, teardown),
        cmocka_unit_test_setup_teardown(checksums_are_in_the_form_of_sha256sum, setup, teardown),
        cmocka_unit_test_setup_teardown(a_log_is_written_where_it_belongs_and_not_without_end,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(reports_are_on_file_before_the_trial_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(names_of_agents_and_targets_cannot_leave_the_folder, setup,
                                        teardown),
        cmocka_unit_test(the_default_folder_says_what_and_when),
        cmocka_unit_test_setup_teardown(a_folder_with_something_in_it_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(two_runs_do_not_write_to_one_folder, setup, teardown),
        cmocka_unit_test(a_place_that_cannot_be_written_is_named_with_the_reason),
        cmocka_unit_test_setup_teardown(a_folder_that_vanishes_is_an_error_and_does_not_come_back,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_disk_is_reported_and_leaves_what_was_there, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_run_that_is_killed_in_a_trial_keeps_the_finished_ones,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            resuming_removes_trials_that_the_result_does_not_know_and_nothing_else, setup,
            teardown),
        cmocka_unit_test_setup_teardown(a_trial_that_is_run_again_replaces_its_folder, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(resuming_keeps_what_a_run_has_written_until_the_last_moment,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(resuming_does_not_bless_a_file_that_was_changed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_is_not_a_result_is_said_to_be_none, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cut_off_or_edited_result_is_recognised, setup, teardown),
        cmocka_unit_test_setup_teardown(verifying_names_every_file_that_is_not_as_it_was, setup,
                                        teardown),
        cmocka_unit_test(a_list_of_checksums_cannot_point_outside_the_folder),
        cmocka_unit_test_setup_teardown(every_failed_allocation_is_reported_and_nothing_leaks,
                                        setup_in_memory, teardown),
    };
    return cmocka_run_group_tests_name("coordinator.store", tests, NULL, NULL);
}

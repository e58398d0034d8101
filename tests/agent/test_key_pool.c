#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/key_pool.h"
#include "common/fs.h"

static char root[256];

static int set_up(void **state)
{
    (void)state;
    return ls_fs_private_dir("lockstep-test", root, sizeof(root), NULL) == LS_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return ls_fs_remove_tree(root, NULL) == LS_OK ? 0 : -1;
}

static void add_keys(const char *name)
{
    char path[400];

    (void)snprintf(path, sizeof(path), "%s/%s", root, name);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/%s/cert.pem", root, name);
    assert_int_equal(ls_fs_write(path, (struct ls_bytes){ 0 }, 0600, NULL), LS_OK);
}

static const char *name_of(const struct agent_key_pool *pool)
{
    return strrchr(pool->dir, '/') + 1;
}

static void a_folder_of_keys_is_for_one_agent_who_is_named_to_the_second(void **state)
{
    struct agent_key_pool pool, second;
    struct ls_diag diag = { 0 };
    char path[400], holder[64];

    (void)state;
    add_keys("agent-1");
    (void)snprintf(path, sizeof(path), "%s/agent-1", root);
    assert_int_equal(agent_key_pool_init(&pool, path, NULL), LS_OK);
    assert_string_equal(pool.dir, path);
    assert_int_equal(agent_key_pool_init(&second, path, &diag), LS_ESTATE);
    (void)snprintf(holder, sizeof(holder), "process %d of this host", (int)getpid());
    assert_non_null(strstr(diag.text, path));
    assert_non_null(strstr(diag.text, holder));
    assert_non_null(strstr(diag.text, "lockstep pki issue agent"));
    agent_key_pool_fini(&pool);
    assert_int_equal(agent_key_pool_init(&second, path, NULL), LS_OK);
    agent_key_pool_fini(&second);
}

/* As secrets are mounted, and whoever else may only read. */
static void a_folder_that_may_only_be_read_is_locked_as_well(void **state)
{
    struct agent_key_pool pool, second;
    char path[400];

    (void)state;
    add_keys("agent-1");
    (void)snprintf(path, sizeof(path), "%s/agent-1", root);
    assert_int_equal(chmod(path, 0500), 0);
    assert_int_equal(agent_key_pool_init(&pool, path, NULL), LS_OK);
    assert_int_equal(agent_key_pool_init(&second, path, NULL), LS_ESTATE);
    agent_key_pool_fini(&pool);
    assert_int_equal(chmod(path, 0700), 0);
}

/* What renewal does to the files in it, and to who has the folder: nothing. */
static void a_lock_outlives_new_files_in_the_folder(void **state)
{
    struct agent_key_pool pool, second;
    char path[400], file[420];

    (void)state;
    add_keys("agent-1");
    (void)snprintf(path, sizeof(path), "%s/agent-1", root);
    (void)snprintf(file, sizeof(file), "%s/cert.pem", path);
    assert_int_equal(agent_key_pool_init(&pool, path, NULL), LS_OK);
    assert_int_equal(ls_fs_write(file, (struct ls_bytes){ 0 }, 0600, NULL), LS_OK);
    assert_int_equal(agent_key_pool_init(&second, path, NULL), LS_ESTATE);
    agent_key_pool_fini(&pool);
}

static void each_agent_gets_one_of_its_own_in_order(void **state)
{
    struct agent_key_pool pools[3];
    struct agent_key_pool late;
    struct ls_diag diag = { 0 };

    (void)state;
    add_keys("agent-10");
    add_keys("agent-2");
    add_keys("agent-1");
    for (size_t i = 0; i < LS_ARRAY_LEN(pools); i++)
        assert_int_equal(agent_key_pool_init(&pools[i], root, &diag), LS_OK);
    assert_string_equal(name_of(&pools[0]), "agent-1");
    assert_string_equal(name_of(&pools[1]), "agent-2");
    assert_string_equal(name_of(&pools[2]), "agent-10");
    assert_int_equal(agent_key_pool_init(&late, root, &diag), LS_ESTATE);
    assert_non_null(strstr(diag.text, "all of its 3 folders"));
    agent_key_pool_fini(&pools[1]);
    assert_int_equal(agent_key_pool_init(&late, root, &diag), LS_OK);
    assert_string_equal(name_of(&late), "agent-2");
    agent_key_pool_fini(&late);
    agent_key_pool_fini(&pools[0]);
    agent_key_pool_fini(&pools[2]);
}

/* Whatever ends it, its keys are free again. */
static void what_a_process_has_taken_is_free_when_it_has_gone(void **state)
{
    struct agent_key_pool pool;
    pid_t child;
    int status = 0;

    (void)state;
    add_keys("agent-1");
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(agent_key_pool_init(&pool, root, NULL) == LS_OK && pool.fd >= 0 ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(agent_key_pool_init(&pool, root, NULL), LS_OK);
    assert_string_equal(name_of(&pool), "agent-1");
    agent_key_pool_fini(&pool);
}

static void a_folder_without_keys_is_left_to_who_opens_it(void **state)
{
    struct agent_key_pool pool;

    (void)state;
    assert_int_equal(agent_key_pool_init(&pool, root, NULL), LS_OK);
    assert_string_equal(pool.dir, root);
    assert_int_equal(agent_key_pool_init(&pool, "/nowhere", NULL), LS_OK);
    assert_string_equal(pool.dir, "/nowhere");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_folder_of_keys_is_for_one_agent_who_is_named_to_the_second, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_folder_that_may_only_be_read_is_locked_as_well, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_lock_outlives_new_files_in_the_folder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_agent_gets_one_of_its_own_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_a_process_has_taken_is_free_when_it_has_gone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_folder_without_keys_is_left_to_who_opens_it, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests_name("agent.key_pool", tests, NULL, NULL);
}

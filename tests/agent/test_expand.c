#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "agent/expand.h"

static const struct agent_expand values = {
    .dir = "/tmp/t{port}", .host = "::1", .port = 8080, .cpus = "0-3,8"
};

static void placeholders_are_put_in_and_other_braces_stay(void **state)
{
    static const char *const cases[][2] = {
        { "", "" },
        { "plain", "plain" },
        { "{port}", "8080" },
        { "-p{dir}/x", "-p/tmp/t{port}/x" }, /* what was put in is not looked at again */
        { "http://[{host}]:{port}/", "http://[::1]:8080/" },
        { "{cpus}{cpus}", "0-3,80-3,8" },
        { "i{instance}", "i0" },
        { "{}", "{}" },
        { "${HOME}", "${HOME}" },
        { "{\"port\": {port}}", "{\"port\": 8080}" },
        { "{{port}}", "{8080}" },
        { "{port", "{port" },
        { "port}", "port}" },
        { "{Port}", "{Port}" },
        { "{ port }", "{ port }" },
        { "{", "{" },
        { "{p{port}", "{p8080" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        char *text = NULL;

        assert_int_equal(agent_expand_text(&values, cases[i][0], &text, NULL), LS_OK);
        assert_string_equal(text, cases[i][1]);
        free(text);
    }
}

static void unknown_placeholders_are_refused_by_name(void **state)
{
    static const char *const cases[] = { "{prot}", "a{x}b", "{dir_}", "{ports}", "{_}" };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        char *text = NULL;
        struct ls_diag diag;

        assert_int_equal(agent_expand_text(&values, cases[i], &text, &diag), LS_EINVAL);
        assert_null(text);
        assert_non_null(strstr(diag.text, "{dir}, {host}, {port}, {cpus}, {instance}"));
    }
}

static void values_of_variables_that_may_be_secrets_are_not_published(void **state)
{
    char *envp[] = { (char[]){ "PATH=/bin" },    (char[]){ "API_KEY=hush" },
                     (char[]){ "LC_ALL=C" },     (char[]){ "PATHX=hush" },
                     (char[]){ "NODE_ENV=a=b" }, (char[]){ "DATABASE_URL=u:hush@h" },
                     (char[]){ "LC=hush" },      NULL };
    static const char *const shown[] = { "PATH=/bin", "LC_ALL=C", "NODE_ENV=a=b", NULL };
    static const char *const hidden[] = { "API_KEY", "PATHX", "DATABASE_URL", "LC", NULL };
    char **got_shown = NULL, **got_hidden = NULL;

    (void)state;
    assert_int_equal(agent_expand_publish(envp, &got_shown, &got_hidden, NULL), LS_OK);
    for (size_t i = 0; i < LS_ARRAY_LEN(shown) - 1; i++)
        assert_string_equal(got_shown[i], shown[i]);
    assert_null(got_shown[LS_ARRAY_LEN(shown) - 1]);
    for (size_t i = 0; i < LS_ARRAY_LEN(hidden) - 1; i++)
        assert_string_equal(got_hidden[i], hidden[i]);
    assert_null(got_hidden[LS_ARRAY_LEN(hidden) - 1]);
    agent_expand_free(got_shown);
    agent_expand_free(got_hidden);
}

static void what_grows_without_bound_is_refused(void **state)
{
    char *words = malloc(100001), *text = NULL;
    struct agent_expand long_dir = values;

    (void)state;
    (void)memset(words, 'x', 100000);
    words[100000] = '\0';
    long_dir.dir = words;
    assert_int_equal(agent_expand_text(&long_dir, "{dir}{dir}", &text, NULL), LS_ERANGE);
    assert_null(text);
    free(words);
}

static void argv_ends_in_null(void **state)
{
    char *words[] = { (char[]){ "nginx" }, (char[]){ "-p" }, (char[]){ "{dir}" } };
    char **argv = NULL;

    (void)state;
    assert_int_equal(agent_expand_argv(&values, words, 3, &argv, NULL), LS_OK);
    assert_string_equal(argv[0], "nginx");
    assert_string_equal(argv[2], "/tmp/t{port}");
    assert_null(argv[3]);
    agent_expand_free(argv);
    assert_int_equal(agent_expand_argv(&values, words, 0, &argv, NULL), LS_OK);
    assert_null(argv[0]);
    agent_expand_free(argv);
    agent_expand_free(NULL);
}

static Ls__Target__EnvEntry entry(char *key, char *value)
{
    Ls__Target__EnvEntry e = LS__TARGET__ENV_ENTRY__INIT;

    e.key = key;
    e.value = value;
    return e;
}

static void an_environment_holds_what_was_asked_for_and_three_names(void **state)
{
    Ls__Target__EnvEntry entries[] = {
        entry((char[]){ "PORT" }, (char[]){ "{port}" }),
        entry((char[]){ "PATH" }, (char[]){ "{dir}/bin" }),
        entry((char[]){ "PORT" }, (char[]){ "1" }),
    };
    Ls__Target__EnvEntry *list[] = { &entries[0], &entries[1], &entries[2] };
    char **envp = NULL;

    (void)state;
    assert_int_equal(setenv("PATH", "/usr/bin", 1), 0);
    assert_int_equal(setenv("HOME", "/nowhere", 1), 0);
    assert_int_equal(unsetenv("LANG"), 0);
    assert_int_equal(setenv("NODE_OPTIONS", "--inspect", 1), 0);
    assert_int_equal(agent_expand_env(&values, list, 3, &envp, NULL), LS_OK);
    assert_string_equal(envp[0], "PATH=/tmp/t{port}/bin");
    assert_string_equal(envp[1], "HOME=/nowhere");
    assert_string_equal(envp[2], "PORT=1"); /* the later one */
    assert_null(envp[3]);
    agent_expand_free(envp);
}

/* What a stranger's target would read there is not the agent's. */
static void home_is_the_folder_where_it_is_not_to_be_the_agents(void **state)
{
    struct agent_expand elsewhere = values;
    char **envp = NULL;

    (void)state;
    elsewhere.home_is_dir = true;
    assert_int_equal(setenv("PATH", "/usr/bin", 1), 0);
    assert_int_equal(setenv("HOME", "/nowhere", 1), 0);
    assert_int_equal(unsetenv("LANG"), 0);
    assert_int_equal(agent_expand_env(&elsewhere, NULL, 0, &envp, NULL), LS_OK);
    assert_string_equal(envp[1], "HOME=/tmp/t{port}");
    assert_null(envp[2]);
    agent_expand_free(envp);
    assert_int_equal(unsetenv("HOME"), 0);
    assert_int_equal(agent_expand_env(&elsewhere, NULL, 0, &envp, NULL), LS_OK);
    assert_string_equal(envp[1], "HOME=/tmp/t{port}");
    agent_expand_free(envp);
}

static void names_that_are_none_are_refused(void **state)
{
    Ls__Target__EnvEntry bad[] = { entry((char[]){ "" }, (char[]){ "x" }),
                                   entry((char[]){ "A=B" }, (char[]){ "x" }),
                                   entry((char[]){ "A" }, (char[]){ "{nope}" }) };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(bad); i++) {
        Ls__Target__EnvEntry *list[] = { &bad[i] };
        char **envp = NULL;

        assert_int_equal(agent_expand_env(&values, list, 1, &envp, NULL), LS_EINVAL);
        assert_null(envp);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placeholders_are_put_in_and_other_braces_stay),
        cmocka_unit_test(unknown_placeholders_are_refused_by_name),
        cmocka_unit_test(values_of_variables_that_may_be_secrets_are_not_published),
        cmocka_unit_test(what_grows_without_bound_is_refused),
        cmocka_unit_test(argv_ends_in_null),
        cmocka_unit_test(an_environment_holds_what_was_asked_for_and_three_names),
        cmocka_unit_test(home_is_the_folder_where_it_is_not_to_be_the_agents),
        cmocka_unit_test(names_that_are_none_are_refused),
    };

    return cmocka_run_group_tests_name("agent.expand", tests, NULL, NULL);
}

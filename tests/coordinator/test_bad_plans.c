#include "tests/support/test.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "coordinator/plan/plan_file.h"

/* bad_plans/NAME.yaml and, in NAME.txt, every message that it has to get. */

#define PLANS_MIN 40

static int is_plan(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');

    return dot != NULL && strcmp(dot, ".yaml") == 0;
}

/* The messages for a plan; the caller frees. */
static char *messages_of(const char *file)
{
    const struct coord_plan_source source = { .file = file };
    struct coord_plan plan = { 0 };
    struct ls_issues issues;
    char *text;

    ls_issues_init(&issues, file);
    if (coord_plan_open(&source, &issues, &plan) == LS_OK)
        print_error("%s is accepted\n", file);
    text = ls_issues_format(&issues);
    ls_issues_fini(&issues);
    coord_plan_close(&plan);
    assert_non_null(text);
    return text;
}

static bool is_as_expected(const char *file)
{
    size_t stem = strlen(file) - strlen(".yaml");
    char expected_file[300];
    char *expected = NULL;
    char *got = messages_of(file);
    size_t len = 0;
    bool same;

    (void)snprintf(expected_file, sizeof(expected_file), "%.*s.txt", (int)stem, file);
    same = ls_fs_read(expected_file, 1u << 20, &expected, &len, NULL) == LS_OK &&
           strcmp(expected, got) == 0;
    if (!same)
        print_error("%s: expected\n%sgot\n%s", file, expected == NULL ? "(no file)\n" : expected,
                    got);
    free(expected);
    free(got);
    return same;
}

static void every_mistake_of_a_bad_plan_is_answered_with_its_place(void **state)
{
    struct dirent **plans = NULL;
    int count;
    int bad = 0;

    (void)state;
    assert_int_equal(chdir(LS_SOURCE "/tests/coordinator/bad_plans"), 0);
    count = scandir(".", &plans, is_plan, alphasort);
    assert_true(count >= PLANS_MIN);
    for (int i = 0; i < count; i++) {
        bad += !is_as_expected(plans[i]->d_name);
        free(plans[i]);
    }
    free(plans);
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mistake_of_a_bad_plan_is_answered_with_its_place),
    };

    return cmocka_run_group_tests_name("coordinator.bad_plans", tests, NULL, NULL);
}

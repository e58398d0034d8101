#include "tests/support/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/plan/plan_file.h"
#include "coordinator/plan/trials.h"
#include "tests/support/failmalloc.h"

static const char text[] = "targets:\n"
                           "- {name: a, command: [x], port: 1}\n"
                           "- {name: b, command: [x], port: 1, ready: {timeout: 1s}}\n"
                           "- {name: c, command: [x], port: 1}\n"
                           "workloads:\n"
                           "- {name: v, http: {requests: [{}], pipeline: 4}, connections: 10}\n"
                           "- {name: w, http: {requests: [{}]}, targets: [c, a], connections: 9,\n"
                           "   load: {constant: {rate: 5/s, queue: 77}}, timeout: 1m}\n";

struct fixture {
    struct ls_issues issues;
    struct coord_plan plan;
};

static int begin(void **state)
{
    static struct fixture f;
    const struct coord_plan_source source = { .file = "p.yaml",
                                              .text = text,
                                              .text_bytes = strlen(text) };

    ls_issues_init(&f.issues, "p.yaml");
    *state = &f;
    return coord_plan_open(&source, &f.issues, &f.plan) == LS_OK ? 0 : -1;
}

static int end(void **state)
{
    struct fixture *f = *state;

    coord_plan_close(&f->plan);
    ls_issues_fini(&f->issues);
    return 0;
}

static struct coord_trials expand(const struct fixture *f, uint64_t seed, const char *only)
{
    struct coord_trials trials = { .items = NULL };
    struct ls_diag diag = { .text = "" };

    if (coord_trials_expand(f->plan.plan, seed, only, &trials, &diag) != LS_OK)
        fail_msg("%s", diag.text);
    return trials;
}

/* "av1 bv1 ...": target, workload, repetition. */
static const char *as_text(const struct coord_trials *trials, char *out, size_t out_bytes)
{
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < trials->count; i++) {
        const struct coord_trial *t = &trials->items[i];

        assert_int_equal(t->index, i + 1);
        used += (size_t)snprintf(out + used, out_bytes - used, "%s%s%s%u", i == 0 ? "" : " ",
                                 t->target->name, t->workload->name, t->repetition);
        assert_true(used < out_bytes);
    }
    return out;
}

static void set_order(const struct fixture *f, Ls__Order order, uint32_t repetitions)
{
    f->plan.plan->schedule->order = order;
    f->plan.plan->schedule->repetitions = repetitions;
}

static void interleaved_is_round_by_round_and_sequential_pair_by_pair(void **state)
{
    struct fixture *f = *state;
    struct coord_trials trials;
    char got[1024];

    set_order(f, LS__ORDER__ORDER_INTERLEAVED, 2);
    trials = expand(f, 1, NULL);
    assert_string_equal(as_text(&trials, got, sizeof(got)),
                        "av1 bv1 cv1 aw1 cw1 av2 bv2 cv2 aw2 cw2");
    coord_trials_fini(&trials);
    set_order(f, LS__ORDER__ORDER_SEQUENTIAL, 2);
    trials = expand(f, 1, NULL);
    assert_string_equal(as_text(&trials, got, sizeof(got)),
                        "av1 av2 bv1 bv2 cv1 cv2 aw1 aw2 cw1 cw2");
    coord_trials_fini(&trials);
}

/* Is every pair in each round exactly once? */
static void assert_rounds(const struct coord_trials *trials, uint32_t repetitions)
{
    size_t pairs = trials->count / repetitions;

    assert_int_equal(trials->count, 5 * repetitions);
    for (size_t i = 0; i < trials->count; i++) {
        assert_int_equal(trials->items[i].repetition, i / pairs + 1);
        for (size_t k = i / pairs * pairs; k < i; k++)
            assert_false(trials->items[i].target == trials->items[k].target &&
                         trials->items[i].workload == trials->items[k].workload);
    }
}

static void shuffled_rounds_hold_each_pair_once_whatever_the_seed(void **state)
{
    struct fixture *f = *state;

    set_order(f, LS__ORDER__ORDER_SHUFFLED, 7);
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct coord_trials trials = expand(f, seed, NULL);

        assert_rounds(&trials, 7);
        coord_trials_fini(&trials);
    }
}

static void the_seed_decides_the_order_and_nothing_else_does(void **state)
{
    struct fixture *f = *state;
    struct coord_trials trials;
    char first[1024];
    char again[1024];
    char longer[1024];
    char other[1024];

    set_order(f, LS__ORDER__ORDER_SHUFFLED, 4);
    trials = expand(f, 42, NULL);
    (void)as_text(&trials, first, sizeof(first));
    assert_int_equal(trials.seed, 42);
    coord_trials_fini(&trials);
    trials = expand(f, 42, NULL);
    assert_string_equal(as_text(&trials, again, sizeof(again)), first);
    coord_trials_fini(&trials);
    trials = expand(f, 43, NULL);
    assert_string_not_equal(as_text(&trials, other, sizeof(other)), first);
    coord_trials_fini(&trials);
    set_order(f, LS__ORDER__ORDER_SHUFFLED, 6); /* more rounds leave the first as they were */
    trials = expand(f, 42, NULL);
    assert_memory_equal(as_text(&trials, longer, sizeof(longer)), first, strlen(first));
    coord_trials_fini(&trials);
}

static void every_pair_comes_first_about_as_often(void **state)
{
    struct fixture *f = *state;
    unsigned first[5] = { 0 };
    const unsigned rounds = 1000;
    struct coord_trials trials;

    set_order(f, LS__ORDER__ORDER_SHUFFLED, rounds);
    trials = expand(f, 5, NULL);
    for (size_t i = 0; i < trials.count; i += 5) {
        const struct coord_trial *t = &trials.items[i];

        first[(t->target->name[0] - 'a') +
              (t->workload->name[0] == 'w' ? (t->target->name[0] == 'a' ? 3 : 2) : 0)]++;
    }
    for (size_t i = 0; i < 5; i++) /* 200 expected, standard deviation 12.6; the seed is fixed */
        assert_in_range(first[i], 140, 260);
    coord_trials_fini(&trials);
}

static void a_filter_leaves_the_order_of_the_rest(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *only;
        const char *trials;
    } rows[] = {
        { "a", "av1 aw1 av2 aw2" },
        { "*/w", "aw1 cw1 aw2 cw2" },
        { "[ab]", "av1 bv1 aw1 av2 bv2 aw2" },
        { "c/v", "cv1 cv2" },
        { "*/*", "av1 bv1 cv1 aw1 cw1 av2 bv2 cv2 aw2 cw2" },
    };
    char got[1024];

    set_order(f, LS__ORDER__ORDER_INTERLEAVED, 2);
    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        struct coord_trials trials = expand(f, 1, rows[i].only);

        assert_string_equal(as_text(&trials, got, sizeof(got)), rows[i].trials);
        coord_trials_fini(&trials);
    }
}

static void a_shuffle_is_the_same_with_and_without_a_filter(void **state)
{
    struct fixture *f = *state;

    set_order(f, LS__ORDER__ORDER_SHUFFLED, 5);
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct coord_trials all = expand(f, seed, NULL);
        struct coord_trials some = expand(f, seed, "a");
        size_t at = 0;

        for (size_t i = 0; i < all.count; i++) {
            if (strcmp(all.items[i].target->name, "a") != 0)
                continue;
            assert_ptr_equal(all.items[i].workload, some.items[at].workload);
            assert_int_equal(all.items[i].repetition, some.items[at].repetition);
            at++;
        }
        assert_int_equal(at, some.count);
        coord_trials_fini(&all);
        coord_trials_fini(&some);
    }
}

static void a_filter_that_leaves_nothing_lists_what_there_is(void **state)
{
    struct fixture *f = *state;
    struct coord_trials trials = { .count = 99 };
    struct ls_diag diag;

    assert_int_equal(coord_trials_expand(f->plan.plan, 1, "d/*", &trials, &diag), LS_ESTATE);
    assert_string_equal(diag.text, "no trial matches 'd/*'; there are: a/v, b/v, c/v, a/w, c/w");
    assert_int_equal(trials.count, 99);
}

static void folders_are_named_by_number_target_workload_and_repetition(void **state)
{
    struct fixture *f = *state;
    struct coord_trial trial = { .index = 1,
                                 .target = f->plan.plan->targets[0],
                                 .workload = f->plan.plan->workloads[1],
                                 .repetition = 1 };
    char name[COORD_TRIAL_FOLDER_MAX];

    assert_string_equal(coord_trial_folder(&trial, name, sizeof(name)), "001-a-w-r1");
    trial.index = 10000;
    trial.repetition = 1000;
    assert_string_equal(coord_trial_folder(&trial, name, sizeof(name)), "10000-a-w-r1000");
}

static void the_longest_names_fit_into_a_folder(void **state)
{
    char longest[65];
    Ls__Target target = LS__TARGET__INIT;
    Ls__Workload workload = LS__WORKLOAD__INIT;
    const struct coord_trial trial = {
        .index = COORD_TRIALS_MAX, .target = &target, .workload = &workload, .repetition = 1000
    };
    char name[COORD_TRIAL_FOLDER_MAX];

    (void)state;
    (void)memset(longest, 'x', 64);
    longest[64] = '\0';
    target.name = longest;
    workload.name = longest;
    (void)coord_trial_folder(&trial, name, sizeof(name));
    assert_string_equal(name + strlen(name) - 6, "-r1000");
}

static void the_budget_is_that_of_the_largest_trial(void **state)
{
    struct fixture *f = *state;
    struct coord_trials trials;
    struct coord_budget budget;

    set_order(f, LS__ORDER__ORDER_INTERLEAVED, 2);
    f->plan.plan->fleet->clients = 4;
    trials = expand(f, 1, NULL);
    coord_trials_budget(f->plan.plan, &trials, &budget);
    assert_int_equal(budget.connections, 10);
    assert_int_equal(budget.connections_per_client, 3);
    assert_int_equal(budget.in_flight, 40);
    assert_int_equal(budget.queued, 77);
    assert_int_equal(budget.files_target, 10);
    assert_true(budget.files_per_client > 3);
    /* 10 trials of 3 s + 10 s; and what each may wait: ready 10 s (b: 1 s), stop 6 s, timeout */
    assert_int_equal(budget.expected_ns, 10 * (COORD_TRIAL_OVERHEAD_NS + 13000000000));
    assert_int_equal(budget.longest_ns - budget.expected_ns,
                     (6 * 5 + 4 * 60 + 8 * 10 + 2 * 1 + 10 * 6) * INT64_C(1000000000));
    coord_trials_fini(&trials);
}

static void long_lists_are_cut_and_limits_are_noted(void **state)
{
    struct fixture *f = *state;
    struct coord_trials trials;
    char *shown;

    set_order(f, LS__ORDER__ORDER_INTERLEAVED, 100);
    f->plan.plan->workloads[0]->connections = 30000;
    trials = expand(f, 1, NULL);
    shown = coord_check_render(f->plan.plan, &trials,
                               &(struct coord_host_limits){ .files = 1024, .files_raised = 1024 });
    assert_non_null(strstr(shown, "\n... and 300 more\n"));
    assert_non_null(strstr(shown, "closed, 30000 connections x 4"));
    assert_non_null(strstr(shown, "5/s, 9 connections"));
    assert_non_null(strstr(shown, "note: that is more than this host allows"));
    assert_non_null(
        strstr(shown, "note: 30000 connections from one address are more than its 28232 "));
    free(shown);
    coord_trials_fini(&trials);
}

static void expand_once(void *ctx)
{
    struct fixture *f = ctx;
    struct coord_trials trials = { .items = NULL };
    enum ls_err rc = coord_trials_expand(f->plan.plan, 1, NULL, &trials, NULL);
    char *shown = NULL;

    if (rc == LS_OK)
        shown = coord_check_render(f->plan.plan, &trials,
                                   &(struct coord_host_limits){ .files = 0, .files_raised = 0 });
    assert_true((rc == LS_OK && shown != NULL) || failmalloc_hit());
    free(shown);
    coord_trials_fini(&trials);
}

/* Like the others, before them, and told from them by their number. */
static void discarded_rounds_come_first_and_are_number_0(void **state)
{
    struct fixture *f = *state;
    struct coord_trials trials;
    char got[1024];

    set_order(f, LS__ORDER__ORDER_INTERLEAVED, 1);
    f->plan.plan->schedule->discard = 1;
    trials = expand(f, 1, NULL);
    assert_string_equal(as_text(&trials, got, sizeof(got)),
                        "av0 bv0 cv0 aw0 cw0 av1 bv1 cv1 aw1 cw1");
    coord_trials_fini(&trials);
    set_order(f, LS__ORDER__ORDER_SEQUENTIAL, 1);
    trials = expand(f, 1, NULL);
    assert_string_equal(as_text(&trials, got, sizeof(got)),
                        "av0 av1 bv0 bv1 cv0 cv1 aw0 aw1 cw0 cw1");
    coord_trials_fini(&trials);
}

static void every_failed_allocation_is_survived(void **state)
{
    assert_true(failmalloc_each(expand_once, *state) >= 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(interleaved_is_round_by_round_and_sequential_pair_by_pair),
        TEST(discarded_rounds_come_first_and_are_number_0),
        TEST(shuffled_rounds_hold_each_pair_once_whatever_the_seed),
        TEST(the_seed_decides_the_order_and_nothing_else_does),
        TEST(every_pair_comes_first_about_as_often),
        TEST(a_filter_leaves_the_order_of_the_rest),
        TEST(a_shuffle_is_the_same_with_and_without_a_filter),
        TEST(a_filter_that_leaves_nothing_lists_what_there_is),
        TEST(folders_are_named_by_number_target_workload_and_repetition),
        cmocka_unit_test(the_longest_names_fit_into_a_folder),
        TEST(the_budget_is_that_of_the_largest_trial),
        TEST(long_lists_are_cut_and_limits_are_noted),
        TEST(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests_name("coordinator.trials", tests, NULL, NULL);
}

#include "tests/support/test.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/host/proc.h"
#include "agent/host/sampler.h"
#include "common/clock.h"

#define BURN_NS (200 * LS_NS_PER_MS)
#define TICK_NS (10 * LS_NS_PER_MS)

static void burn(int64_t cpu_ns)
{
    int64_t end_ns = ls_clock_thread_cpu_ns() + cpu_ns;

    while (ls_clock_thread_cpu_ns() < end_ns)
        ;
}

/* A child that does one thing per byte it is sent, and answers each with one. */
struct puppet {
    pid_t pid;
    int to;
    int from;
};

static void *burner(void *arg)
{
    (void)arg;
    burn(BURN_NS);
    return NULL;
}

static void touch(size_t bytes)
{
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        _exit(1);
    (void)memset(memory, 1, bytes);
    (void)munmap(memory, bytes);
}

static void obey(char order)
{
    pthread_t thread;
    pid_t pid;

    switch (order) {
    case 'b': /* burn */
        burn(BURN_NS);
        break;
    case 't': /* burn in a thread that has ended */
        if (pthread_create(&thread, NULL, burner, NULL) != 0)
            _exit(1);
        (void)pthread_join(thread, NULL);
        break;
    case 'c': /* burn in a child that was waited for */
    case 'i': /* ... whose end nobody asked for */
        if (order == 'i')
            (void)signal(SIGCHLD, SIG_IGN);
        pid = fork();
        if (pid == 0) {
            burn(BURN_NS);
            _exit(0);
        }
        (void)waitpid(pid, NULL, 0); /* with SIGCHLD ignored: ECHILD, once it has gone */
        break;
    case 'm': /* 32 MiB for a moment */
        touch(32u << 20);
        break;
    case 's': /* thirty waits, most of which begin in time */
        for (int i = 0; i < 30; i++)
            ls_clock_sleep_until(ls_clock_mono_ns() + 2 * LS_NS_PER_MS);
        break;
    default:
        _exit(0);
    }
}

static void start_puppet(struct puppet *p)
{
    int to[2], from[2];

    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0) {
        char order;

        (void)close(to[1]);
        (void)close(from[0]);
        while (read(to[0], &order, 1) == 1) {
            obey(order);
            if (write(from[1], &order, 1) != 1)
                break;
        }
        _exit(0);
    }
    (void)close(to[0]);
    (void)close(from[1]);
    p->to = to[1];
    p->from = from[0];
}

static void order(const struct puppet *p, char what)
{
    char answer;

    assert_int_equal(write(p->to, &what, 1), 1);
    assert_int_equal(read(p->from, &answer, 1), 1);
}

/* By a word, as later puppets hold the pipe's end too. */
static void end_puppet(const struct puppet *p)
{
    assert_int_equal(write(p->to, "q", 1), 1);
    (void)close(p->to);
    (void)close(p->from);
    assert_int_equal(waitpid(p->pid, NULL, 0), p->pid);
}

static struct host_usage look(struct host_sampler *s)
{
    struct host_usage usage = { 0 };
    struct ls_diag diag = { 0 };
    enum ls_err rc = host_sampler_read(s, ls_clock_mono_ns(), &usage, &diag);

    if (rc != LS_OK && rc != LS_ESTATE)
        fail_msg("%s", diag.text);
    return usage;
}

/* What was burnt, and a little for the work around it; ticks: what may be hidden in them. */
static void check_burnt(int64_t cpu_ns, int64_t burnt_ns, unsigned ticks)
{
    int64_t slack_ns = 20 * LS_NS_PER_MS + (int64_t)ticks * TICK_NS;

    if (cpu_ns < burnt_ns - (int64_t)ticks * TICK_NS || cpu_ns > burnt_ns + slack_ns)
        fail_msg("%lld ns instead of %lld", (long long)cpu_ns, (long long)burnt_ns);
}

static void cpu_time_is_that_of_the_tree_whoever_burnt_it(void **state)
{
    static const struct {
        char order;
        unsigned ticks;
    } cases[] = { { 'b', 0 }, { 't', 0 }, { 'c', 2 } };
    struct host_sampler *s = NULL;
    struct puppet p;

    (void)state;
    assert_int_equal(host_sampler_create(getpid(), &s, NULL), LS_OK);
    start_puppet(&p);
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        int64_t before_ns = look(s).cpu_ns;

        order(&p, cases[i].order);
        check_burnt(look(s).cpu_ns - before_ns, BURN_NS, cases[i].ticks);
    }
    end_puppet(&p);
    host_sampler_destroy(s);
}

static void what_has_ended_stays_counted_once(void **state)
{
    struct host_sampler *s = NULL;
    struct host_usage before, after;
    struct puppet p[3];

    (void)state;
    assert_int_equal(host_sampler_create(getpid(), &s, NULL), LS_OK);
    for (int i = 0; i < 3; i++)
        start_puppet(&p[i]);
    for (int i = 0; i < 3; i++)
        order(&p[i], 'b');
    before = look(s);
    assert_int_equal(before.processes, 3);
    check_burnt(before.cpu_ns, 3 * BURN_NS, 0);
    for (int i = 0; i < 3; i++) {
        end_puppet(&p[i]);
        after = look(s);
        assert_int_equal(after.processes, 2 - i);
        assert_true(after.cpu_ns >= before.cpu_ns);
        check_burnt(after.cpu_ns, 3 * BURN_NS, 2);
    }
    host_sampler_destroy(s);
}

/* The time of a child that nobody waits for is seen as long as it lives. */
static void time_that_was_counted_is_never_taken_back(void **state)
{
    struct host_sampler *s = NULL;
    struct host_usage before, after;
    struct puppet p;
    char answer, what = 'i';

    (void)state;
    assert_int_equal(host_sampler_create(getpid(), &s, NULL), LS_OK);
    start_puppet(&p);
    assert_int_equal(write(p.to, &what, 1), 1);
    do
        before = look(s);
    while (before.cpu_ns < BURN_NS / 2);
    assert_int_equal(read(p.from, &answer, 1), 1);
    after = look(s);
    assert_int_equal(after.processes, 1);
    assert_true(after.cpu_ns >= before.cpu_ns);
    check_burnt(look(s).cpu_ns, after.cpu_ns, 0);
    end_puppet(&p);
    host_sampler_destroy(s);
}

static void many_short_lives_are_counted(void **state)
{
    struct host_sampler *s = NULL;
    struct rusage start, end;
    int64_t spent_ns;

    (void)state;
    assert_int_equal(getrusage(RUSAGE_CHILDREN, &start), 0);
    assert_int_equal(host_sampler_create(getpid(), &s, NULL), LS_OK);
    for (int i = 0; i < 60; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            burn(5 * LS_NS_PER_MS);
            _exit(0);
        }
        if (i % 3 == 0)
            (void)look(s); /* in the midst of it */
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        if (i % 3 == 1)
            (void)look(s);
    }
    assert_int_equal(getrusage(RUSAGE_CHILDREN, &end), 0);
    spent_ns = (end.ru_utime.tv_sec - start.ru_utime.tv_sec) * LS_NS_PER_S +
               (end.ru_utime.tv_usec - start.ru_utime.tv_usec) * LS_NS_PER_US +
               (end.ru_stime.tv_sec - start.ru_stime.tv_sec) * LS_NS_PER_S +
               (end.ru_stime.tv_usec - start.ru_stime.tv_usec) * LS_NS_PER_US;
    check_burnt(look(s).cpu_ns, spent_ns, 4);
    host_sampler_destroy(s);
}

static void a_peak_counts_from_its_reset_on(void **state)
{
    const uint64_t large = 32u << 20, small = 8u << 20;
    struct host_sampler *s = NULL;
    struct host_usage usage;
    struct puppet p;

    (void)state;
    assert_int_equal(host_sampler_create(getpid(), &s, NULL), LS_OK);
    start_puppet(&p);
    order(&p, 'm');
    usage = look(s);
    assert_true(usage.rss_peak_bytes >= usage.rss_bytes + large - small);
    host_sampler_reset_peak(s);
    usage = look(s);
    assert_true(usage.rss_peak_bytes < usage.rss_bytes + small);
    order(&p, 'm');
    usage = look(s);
    assert_true(usage.rss_peak_bytes >= usage.rss_bytes + large - small);
    end_puppet(&p);
    assert_true(look(s).rss_peak_bytes >= large); /* the one who had it has gone */
    host_sampler_destroy(s);
}

static void waits_are_voluntary_switches(void **state)
{
    struct host_sampler *s = NULL;
    struct host_usage before, after;
    struct puppet p;

    (void)state;
    assert_int_equal(host_sampler_create(getpid(), &s, NULL), LS_OK);
    start_puppet(&p);
    before = look(s);
    order(&p, 's');
    after = look(s);
    assert_true(after.voluntary_switches >= before.voluntary_switches + 15);
    assert_true(after.involuntary_switches >= before.involuntary_switches);
    end_puppet(&p);
    host_sampler_destroy(s);
}

/* Not a timed assertion: the figure is for people. */
static void ten_processes_are_read(void **state)
{
    struct host_sampler *s = NULL;
    struct host_usage usage = { 0 };
    struct puppet p[10];
    int64_t begin_ns;

    (void)state;
    assert_int_equal(host_sampler_create(getpid(), &s, NULL), LS_OK);
    for (int i = 0; i < 10; i++)
        start_puppet(&p[i]);
    (void)look(s);
    begin_ns = ls_clock_thread_cpu_ns();
    for (int i = 0; i < 20; i++)
        usage = look(s);
    print_message("a reading of ten processes takes %lld us\n",
                  (long long)((ls_clock_thread_cpu_ns() - begin_ns) / 20 / LS_NS_PER_US));
    assert_int_equal(usage.processes, 10);
    assert_true(usage.threads >= 10); /* sanitizers have threads of their own */
    for (int i = 0; i < 10; i++)
        end_puppet(&p[i]);
    host_sampler_destroy(s);
}

static void a_root_that_is_not_there_is_refused(void **state)
{
    struct host_sampler *s = NULL;
    struct ls_diag diag;

    (void)state;
    assert_int_equal(host_sampler_create(-1, &s, &diag), LS_ESTATE);
    assert_null(s);
}

/* ---- /proc/PID/stat */

static void a_name_may_hold_anything(void **state)
{
    static const char tail[] = " S 7 8 9 0 -1 4194560 1 2 3 4 11 12 5 6 20 0 3 0 777 1000 25";
    static const char *const names[] = { "sh", "a b", "x) S 1 1 (y", ")", "(", "" };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(names); i++) {
        struct host_proc proc;
        char text[256];

        (void)snprintf(text, sizeof(text), "42 (%s)%s", names[i], tail);
        assert_true(host_proc_parse(text, &proc));
        assert_int_equal(proc.pid, 42);
        assert_string_equal(proc.name, names[i]);
        assert_int_equal(proc.state, 'S');
        assert_int_equal(proc.ppid, 7);
        assert_int_equal(proc.group, 8);
        assert_int_equal(proc.session, 9);
        assert_int_equal(proc.children_cpu_ns, 11 * TICK_NS);
        assert_int_equal(proc.threads, 3);
        assert_int_equal(proc.start_ticks, 777);
        assert_int_equal(proc.rss_bytes, 25 * sysconf(_SC_PAGESIZE));
    }
}

static void what_is_no_stat_line_is_refused(void **state)
{
    static const char *const texts[] = { "",
                                         "42",
                                         "42 (sh",
                                         "42 sh) S 1",
                                         "42 (sh) S",
                                         ")(",
                                         "42 (sh) S 7 8 9 0 -1 4194560 1 2 3 4 11 12 5 x" };
    struct host_proc proc;

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(texts); i++)
        assert_false(host_proc_parse(texts[i], &proc));
}

static void a_number_that_changed_hands_is_not_signalled(void **state)
{
    struct host_proc proc;
    struct puppet p;

    (void)state;
    start_puppet(&p);
    assert_true(host_proc_read(p.pid, &proc));
    proc.start_ticks++; /* as if the process that was read had been another one */
    assert_false(host_proc_kill(&proc, SIGKILL));
    order(&p, 's'); /* lives */
    end_puppet(&p);
    assert_false(host_proc_kill(&proc, SIGKILL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpu_time_is_that_of_the_tree_whoever_burnt_it),
        cmocka_unit_test(what_has_ended_stays_counted_once),
        cmocka_unit_test(time_that_was_counted_is_never_taken_back),
        cmocka_unit_test(many_short_lives_are_counted),
        cmocka_unit_test(a_peak_counts_from_its_reset_on),
        cmocka_unit_test(waits_are_voluntary_switches),
        cmocka_unit_test(ten_processes_are_read),
        cmocka_unit_test(a_root_that_is_not_there_is_refused),
        cmocka_unit_test(a_name_may_hold_anything),
        cmocka_unit_test(what_is_no_stat_line_is_refused),
        cmocka_unit_test(a_number_that_changed_hands_is_not_signalled),
    };

    return cmocka_run_group_tests_name("agent.host_sampler", tests, NULL, NULL);
}

#include "tests/support/load_run.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/support/test.h"

#define DEADLINE_NS (30 * LS_NS_PER_S)

static void wake(void *ctx)
{
    struct load_run *run = ctx;
    uint64_t one = 1;

    (void)!write(run->wake_fd, &one, sizeof(one));
}

struct load_workload load_run_null_workload(void)
{
    static const struct load_request request = { .label = "a byte" };

    return (struct load_workload){ .driver = "null",
                                   .link = "null",
                                   .requests = &request,
                                   .request_count = 1,
                                   .pipeline = 1,
                                   .law = LOAD_LAW_CLOSED,
                                   .connections = 4,
                                   .queue_max = 100000,
                                   .timeout_ns = 5 * LS_NS_PER_S,
                                   .workers = 1,
                                   .workers_total = 1 };
}

struct load_window load_run_window(int64_t lead_ns, int64_t warmup_ns, int64_t measure_ns)
{
    return (struct load_window){ .start_ns = ls_clock_mono_ns() + lead_ns,
                                 .warmup_ns = warmup_ns,
                                 .measure_ns = measure_ns,
                                 .drain_ns = 5 * LS_NS_PER_S,
                                 .interval_ns = 20 * LS_NS_PER_MS };
}

void load_run_init(struct load_run *run, const struct load_workload *workload)
{
    struct load_env env = { .wake = wake, .ctx = run };
    struct ls_diag diag = { 0 };

    *run = (struct load_run){ 0 };
    run->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert_true(run->wake_fd >= 0);
    for (unsigned s = 0; s < LS_SERIES_COUNT; s++)
        assert_int_equal(ls_hist_create(&run->series[s]), LS_OK);
    if (agent_load_create(workload, &env, &run->load, &diag) != LS_OK)
        fail_msg("%s", diag.text);
}

void load_run_fini(struct load_run *run)
{
    agent_load_destroy(run->load);
    for (unsigned s = 0; s < LS_SERIES_COUNT; s++)
        ls_hist_destroy(run->series[s]);
    (void)close(run->wake_fd);
}

void load_run_arm(struct load_run *run, const struct load_window *window)
{
    struct ls_diag diag = { 0 };

    run->window = *window;
    if (agent_load_arm(run->load, window, &diag) != LS_OK)
        fail_msg("%s", diag.text);
}

static void add_interval(struct load_run *run, const struct load_interval *interval)
{
    assert_int_equal(interval->index, run->next_index);
    assert_int_equal(interval->start_ns,
                     run->window.start_ns + interval->index * run->window.interval_ns);
    assert_true(interval->length_ns >= 0);
    assert_true(interval->worker_count <= LOAD_RUN_WORKERS);
    run->next_index += interval->merged + 1;
    run->merged += interval->merged;
    load_counts_add(&run->warmup, &interval->warmup);
    load_counts_add(&run->measure, &interval->measure);
    run->ok_in_window += interval->ok_in_window;
    run->bytes_in += interval->bytes_in;
    run->bytes_out += interval->bytes_out;
    run->in_flight_ns += interval->in_flight_ns;
    for (uint32_t i = 0; i < interval->worker_count; i++) {
        const struct load_health *health = &interval->workers[i];

        run->health[i].cpu_ns += health->cpu_ns;
        run->health[i].window_ns += health->window_ns;
        run->health[i].spin_ns += health->spin_ns;
        run->health[i].voluntary_switches += health->voluntary_switches;
    }
    for (unsigned s = 0; s < LS_SERIES_COUNT; s++)
        ls_hist_merge(run->series[s], interval->series[s]);
}

enum load_event_kind load_run_next(struct load_run *run)
{
    int64_t deadline_ns = ls_clock_mono_ns() + DEADLINE_NS;
    struct load_event event;

    while (!agent_load_poll(run->load, &event)) {
        struct pollfd wakes = { .fd = run->wake_fd, .events = POLLIN };
        int64_t left_ns = deadline_ns - ls_clock_mono_ns();
        uint64_t times;

        if (left_ns <= 0)
            fail_msg("nothing happened for 30 s");
        (void)poll(&wakes, 1, (int)(left_ns / LS_NS_PER_MS) + 1);
        (void)!read(run->wake_fd, &times, sizeof(times));
    }
    run->seen[event.kind]++;
    if (event.kind == LOAD_EVENT_INTERVAL)
        add_interval(run, &event.interval);
    else
        run->last = event;
    if (event.kind == LOAD_EVENT_DONE)
        run->totals = event.totals;
    return event.kind;
}

void load_run_until(struct load_run *run, enum load_event_kind kind)
{
    while (load_run_next(run) != kind)
        assert_int_equal(run->seen[LOAD_EVENT_DONE], 0);
}

static void assert_counts_equal(const struct load_counts *a, const struct load_counts *b)
{
    assert_memory_equal(a, b, sizeof(*a));
}

void load_run_check_totals(const struct load_run *run)
{
    const struct load_totals *totals = &run->totals;

    assert_counts_equal(&totals->warmup, &run->warmup);
    assert_counts_equal(&totals->measure, &run->measure);
    assert_true(load_counts_balance(&totals->preflight));
    assert_true(load_counts_balance(&totals->warmup));
    assert_true(load_counts_balance(&totals->measure));
    assert_int_equal(totals->ok_in_window, run->ok_in_window);
    assert_int_equal(totals->bytes_in, run->bytes_in);
    assert_int_equal(totals->bytes_out, run->bytes_out);
    assert_int_equal(totals->in_flight_ns, run->in_flight_ns);
    assert_int_equal(totals->intervals, run->seen[LOAD_EVENT_INTERVAL]);
    for (uint32_t i = 0; i < totals->worker_count; i++) {
        assert_int_equal(totals->workers[i].cpu_ns, run->health[i].cpu_ns);
        assert_int_equal(totals->workers[i].window_ns, run->health[i].window_ns);
    }
    assert_int_equal(ls_hist_count(run->series[LS_SERIES_SEND_LAG]), totals->measure.sent);
    assert_int_equal(ls_hist_count(run->series[LS_SERIES_RESPONSE_TIME]),
                     totals->measure.outcome[LOAD_OK] + totals->measure.outcome[LOAD_TIMEOUT]);
    assert_int_equal(ls_hist_count(run->series[LS_SERIES_SERVICE_TIME]),
                     ls_hist_count(run->series[LS_SERIES_RESPONSE_TIME]));
    assert_true(totals->ok_in_window <= totals->measure.outcome[LOAD_OK]);
}

void load_run_to_start(struct load_run *run, const struct load_window *window)
{
    struct load_window later = *window;

    load_run_arm(run, window);
    for (;;) {
        enum load_event_kind kind = load_run_next(run);

        if (kind == LOAD_EVENT_STARTED)
            break;
        if (kind != LOAD_EVENT_LATE)
            continue;
        /* A busy machine: as a coordinator would, with more time. */
        assert_true(run->seen[LOAD_EVENT_LATE] < 6);
        later.start_ns = ls_clock_mono_ns() + (LS_NS_PER_S << run->seen[LOAD_EVENT_LATE]);
        load_run_arm(run, &later);
    }
    assert_int_equal(run->seen[LOAD_EVENT_ARMED], 1);
}

void load_run_all(struct load_run *run, const struct load_window *window)
{
    load_run_to_start(run, window);
    load_run_until(run, LOAD_EVENT_DONE);
    assert_int_equal(run->seen[LOAD_EVENT_STARTED], 1);
    load_run_check_totals(run);
}

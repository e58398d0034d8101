/* coordinator/run/verdict.c: one clean trial, and what each single flaw makes of it. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/attr.h"
#include "coordinator/result/message.h"
#include "coordinator/run/verdict.h"
#include "tests/coordinator/sample_result.h"
#include "tests/support/failmalloc.h"

#define VALID   LS__VERDICT__VERDICT_VALID
#define SUSPECT LS__VERDICT__VERDICT_SUSPECT
#define INVALID LS__VERDICT__VERDICT_INVALID
#define MS      INT64_C(1000000)

/* 50,000/s x 9 us = 0.45 of the server's one CPU. */
static const struct sample_trial closed = { "nginx", "hello", 1, 50000, 1.2, 9, 0, VALID };
static const struct sample_trial open = { "nginx", "hello", 1, 20000, 0.8, 9, 20000, VALID };

struct rig {
    Ls__Trial *trial;
    struct coord_books books;
    struct coord_verdict_input in;
};

static void rig_init(struct rig *rig, const struct sample_trial *from)
{
    *rig = (struct rig){ .trial = sample_trial(from) };
    rig->in = (struct coord_verdict_input){ .books = &rig->books, .server_cpus = 1 };
}

static const Ls__Reason *find(const Ls__Trial *trial, const char *code)
{
    for (size_t i = 0; i < trial->n_reasons; i++) {
        if (strcmp(trial->reasons[i]->code, code) == 0)
            return trial->reasons[i];
    }
    return NULL;
}

/* Exactly this one reason, with these words in it; and frees the rig. */
static void assert_one_reason(struct rig *rig, const char *code, Ls__Verdict verdict,
                              const char *words)
{
    const Ls__Reason *reason;

    coord_verdict_judge(rig->trial, &rig->in);
    reason = find(rig->trial, code);
    if (reason == NULL || rig->trial->n_reasons != 1)
        fail_msg("expected %s alone, got %zu: %s %s", code, rig->trial->n_reasons,
                 rig->trial->n_reasons > 0 ? rig->trial->reasons[0]->code : "none",
                 rig->trial->n_reasons > 1 ? rig->trial->reasons[1]->code : "");
    assert_int_equal(reason->verdict, verdict);
    assert_int_equal(rig->trial->verdict, verdict);
    if (strstr(reason->text, words) == NULL)
        fail_msg("expected \"%s\" in \"%s\"", words, reason->text);
    coord_message_free(rig->trial);
}

static void assert_no_reason(struct rig *rig)
{
    coord_verdict_judge(rig->trial, &rig->in);
    if (rig->trial->n_reasons > 0)
        fail_msg("%s: %s", rig->trial->reasons[0]->code, rig->trial->reasons[0]->text);
    assert_int_equal(rig->trial->verdict, VALID);
    coord_message_free(rig->trial);
}

static void a_trial_with_nothing_wrong_is_valid(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig, &closed);
    assert_no_reason(&rig);
    rig_init(&rig, &open);
    assert_no_reason(&rig);
}

/* ---- counted right? */

static void bad_books_are_invalid(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig, &closed);
    (void)snprintf(rig.books.unbalanced, sizeof(rig.books.unbalanced), "client-1: 5 sent");
    assert_one_reason(&rig, "books", INVALID, "do not balance: client-1: 5 sent");
    rig_init(&rig, &closed);
    (void)snprintf(rig.books.sums, sizeof(rig.books.sums), "client-1: bytes in");
    assert_one_reason(&rig, "interval_sums", INVALID, "client-1: bytes in");
    rig_init(&rig, &closed);
    (void)snprintf(rig.books.refused, sizeof(rig.books.refused), "client-1: twice");
    assert_one_reason(&rig, "bad_report", INVALID, "client-1: twice");
}

static void wrong_responses_are_invalid_and_in_the_warm_up_suspect(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig, &closed);
    rig.trial->requests->ok -= 3;
    rig.trial->requests->bad_status = 2;
    rig.trial->requests->timeout = 1;
    assert_one_reason(&rig, "wrong_responses", INVALID,
                      "of 250000 requests: 2 bad_status, 1 timeout");
    rig_init(&rig, &closed);
    rig.trial->warmup->requests->ok -= 1;
    rig.trial->warmup->requests->reset = 1;
    assert_one_reason(&rig, "warmup_errors", SUSPECT, "125000 requests in the warm-up: 1 reset");
    for (unsigned i = 0; i < 2; i++) { /* aborted and tls_error count like the others */
        rig_init(&rig, &closed);
        rig.trial->requests->ok--;
        *(i == 0 ? &rig.trial->requests->aborted : &rig.trial->requests->tls_error) = 1;
        assert_one_reason(&rig, "wrong_responses", INVALID, i == 0 ? "1 aborted" : "1 tls_error");
    }
}

static void nothing_answered_is_invalid(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig, &closed);
    *rig.trial->requests = (Ls__Requests)LS__REQUESTS__INIT;
    rig.trial->throughput_per_s = 0;
    rig.trial->in_flight_mean = 0;
    rig.trial->service_time->count = 0;
    assert_one_reason(&rig, "no_requests", INVALID, "0 sent");
}

/* SUITES.md, section 1: 245 of 400 connections, and nobody noticed. */
static void connections_that_were_not_opened_are_counted(void **state)
{
    struct rig rig;
    Ls__ErrnoCount *failure;

    (void)state;
    rig_init(&rig, &closed);
    rig.in.connections = 400;
    rig.trial->connections->asked = 400;
    rig.trial->connections->opened = 300; /* 55 of them after the server had closed */
    rig.trial->connections->reopened = 55;
    rig.trial->connections->failed = 155;
    rig.trial->in_flight_mean = 245;
    rig.trial->service_time->mean_ns = 245.0 / 50000 * 1e9;
    failure = coord_message_append(&rig.trial->connections->n_failures,
                                   &rig.trial->connections->failures, &ls__errno_count__descriptor);
    assert_non_null(failure);
    assert_true(coord_message_string(&failure->name, "EMFILE"));
    failure->count = 155;
    coord_verdict_judge(rig.trial, &rig.in);
    assert_int_equal(rig.trial->verdict, INVALID);
    assert_string_equal(find(rig.trial, "connections_short")->text,
                        "245 of 400 connections were opened: 155 EMFILE: an agent ran out of "
                        "file descriptors (ulimit -n, or more clients)");
    coord_message_free(rig.trial);

    rig_init(&rig, &closed);
    rig.trial->connections->failed = 2; /* tried again, with success */
    assert_one_reason(&rig, "connect_errors", SUSPECT, "2 attempts");
}

static void agents_and_targets_that_went_away_are_invalid(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig, &closed);
    rig.trial->clients[1]->lost = true;
    assert_one_reason(&rig, "agent_lost", INVALID, "1 of 2 clients");
    rig_init(&rig, &closed);
    rig.trial->clients[1]->lost = true;
    coord_verdict_add(rig.trial, "agent_lost", INVALID, "client-2 closed its connection");
    assert_one_reason(&rig, "agent_lost", INVALID, "client-2 closed");
    rig_init(&rig, &closed);
    rig.trial->server->stopped_by_us = false;
    assert_true(coord_message_string(&rig.trial->server->exit, "signal SEGV"));
    assert_one_reason(&rig, "target_died", INVALID, "signal SEGV");
}

static void a_target_of_which_something_was_killed_for_memory_is_invalid(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig, &closed);
    rig.trial->server->oom_kills = 2;
    assert_one_reason(&rig, "out_of_memory", INVALID, "2 processes of the target were killed");
}

static void two_accounts_of_cpu_time_that_differ_are_suspect(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig, &closed);
    rig.trial->server->cpu_ns = 1000 * MS;
    rig.trial->server->cpu_cgroup_ns = 1030 * MS; /* 3 % of the larger are 30.9 ms */
    assert_no_reason(&rig);
    rig_init(&rig, &closed);
    rig.trial->server->cpu_ns = 1000 * MS;
    rig.trial->server->cpu_cgroup_ns = 1032 * MS;
    assert_one_reason(&rig, "cpu_accounts", SUSPECT, "1000 ms of CPU time");
    rig_init(&rig, &closed);
    rig.trial->server->cpu_ns = 100 * MS;
    rig.trial->server->cpu_cgroup_ns = 80 * MS; /* ticks */
    assert_no_reason(&rig);
}

static void start_skew_counts_with_its_error(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig, &closed);
    rig.trial->window->start_skew_ns = 3 * MS;
    rig.trial->window->start_skew_error_ns = 2 * MS; /* exactly the limit */
    assert_no_reason(&rig);
    rig_init(&rig, &closed);
    rig.trial->window->start_skew_ns = 3 * MS;
    rig.trial->window->start_skew_error_ns = 2 * MS + 1;
    assert_one_reason(&rig, "start_skew", INVALID, "3.00 ms apart, +- 2.00 ms");
    rig_init(&rig, &closed);
    rig.in.max_start_skew_ns = 20000;
    assert_one_reason(&rig, "start_skew", INVALID, "at most 20.0 us");
}

/* SUITES.md, section 6: 245 / 135,983 per s = 1.80 ms against the 1.81 ms that were printed: 245
 * connections did run. 400 did not. */
static void little_s_law_tells_245_connections_from_400(void **state)
{
    static const struct sample_trial c1 = { "elysia", "hello", 1, 135983, 1.8, 5, 0, VALID };
    struct rig rig;

    (void)state;
    rig_init(&rig, &c1);
    rig.trial->connections->asked = rig.trial->connections->opened = 245;
    rig.trial->in_flight_mean = 245;
    rig.trial->service_time->mean_ns = 1.81e6;
    assert_no_reason(&rig);
    rig_init(&rig, &c1);
    rig.trial->connections->asked = rig.trial->connections->opened = 400;
    rig.trial->in_flight_mean = 400;
    rig.trial->service_time->mean_ns = 1.81e6;
    assert_one_reason(&rig, "littles_law", INVALID, "400.00 requests were in flight");
}

/* SUITES.md, section 6 (A3): 256 connections; rates and the mean latencies that follow. */
static void little_s_law_holds_for_honest_figures(void **state)
{
    static const double rates[] = { 635236, 163474, 156959, 123493 };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(rates); i++) {
        struct sample_trial from = closed;
        struct rig rig;

        from.throughput_per_s = rates[i];
        from.cpu_us = 1;
        rig_init(&rig, &from);
        rig.trial->connections->asked = rig.trial->connections->opened = 256;
        rig.trial->in_flight_mean = 256;
        rig.trial->service_time->mean_ns = 256 / rates[i] * 1e9;
        assert_no_reason(&rig);
    }
}

static void little_s_law_says_nothing_of_a_few_requests_or_of_slow_ones(void **state)
{
    struct sample_trial few = closed, slow = closed;
    struct rig rig;

    (void)state;
    few.throughput_per_s = 100; /* 500 in the window */
    rig_init(&rig, &few);
    rig.trial->in_flight_mean = 30;
    assert_no_reason(&rig);
    slow.throughput_per_s = 400; /* 64 connections x 0.16 s of a 5 s window: 3 % at its edges */
    rig_init(&rig, &slow);
    rig.trial->in_flight_mean = 64 * 0.93;
    assert_no_reason(&rig);
    rig_init(&rig, &slow);
    rig.trial->in_flight_mean = 64 * 0.905;
    assert_one_reason(&rig, "littles_law", INVALID, "(10 % off)");
}

static void clipped_latencies_are_suspect(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig, &closed);
    rig.trial->service_time->clipped = 2;
    assert_one_reason(&rig, "clipped", SUSPECT, "2 latencies");
}

/* ---- the generator */

static void a_busy_generator_is_invalid_while_the_server_had_room(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig, &closed);
    rig.trial->clients[1]->cpu->busiest = 0.949;
    assert_no_reason(&rig);
    rig_init(&rig, &closed);
    rig.trial->clients[1]->cpu->busiest = 0.95;
    assert_one_reason(&rig, "generator_limited", INVALID,
                      "a worker of client-2 was busy 95 % of the time and the server's CPUs were "
                      "45 % in use");
    rig_init(&rig, &closed);
    rig.trial->clients[1]->cpu->busiest = 0.99;
    rig.trial->server->cpu_cores_used = 0.97;
    assert_one_reason(&rig, "generator_busy", SUSPECT, "the throughput is the server's");
}

static void a_busy_generator_is_invalid_when_nobody_watched_the_server(void **state)
{
    struct sample_trial external = closed;
    struct rig rig;

    (void)state;
    external.cpu_us = 0;
    rig_init(&rig, &external);
    assert_no_reason(&rig);
    rig_init(&rig, &external);
    rig.trial->clients[0]->cpu->busiest = 0.97;
    assert_one_reason(&rig, "generator_limited", INVALID, "is not known");
}

/* Room is what nobody used: on shared CPUs the generator itself fills them. */
static void cpus_that_others_fill_leave_the_server_no_room(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig, &closed);
    rig.trial->clients[0]->cpu->busiest = 1;
    rig.trial->server->foreign_cpu_cores = 0.52;
    rig.in.shared_cores = true;
    rig.in.shared_why = "1 CPU for 3 agents";
    coord_verdict_judge(rig.trial, &rig.in);
    assert_int_equal(rig.trial->verdict, SUSPECT);
    assert_int_equal(rig.trial->n_reasons, 2);
    assert_non_null(find(rig.trial, "generator_busy"));
    assert_string_equal(find(rig.trial, "shared_cores")->text,
                        "CPUs are shared: 1 CPU for 3 agents");
    coord_message_free(rig.trial);
}

static void the_generator_s_own_lag_counts_and_waiting_for_a_connection_does_not(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig, &open); /* p99 of the response time: 1.6 ms */
    rig.trial->loop_lag->p99_ns = 150000;
    assert_no_reason(&rig);
    rig_init(&rig, &open);
    rig.trial->loop_lag->p99_ns = 300000;
    assert_one_reason(&rig, "send_lag", SUSPECT, "came to 1 % of the requests 300 us late");
    rig_init(&rig, &open);
    rig.trial->loop_lag->p99_ns = 1200000;
    assert_one_reason(&rig, "send_lag", INVALID, "p99 of the response time is 1.60 ms");
    rig_init(&rig, &open);
    rig.trial->loop_lag->p99_ns = 1200000;
    rig.trial->response_time->p99_ns = 50 * MS; /* 1.2 ms is nothing beside that */
    assert_no_reason(&rig);
    rig_init(&rig, &open);
    rig.trial->send_lag->p99_ns = 1200000; /* a server that stood still: its connections waited */
    assert_no_reason(&rig);
}

static void a_rate_that_was_not_achieved_is_the_server_s_limit_or_void(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig, &open);
    rig.trial->throughput_per_s = 19900; /* 99.5 %, and 0.03 % are on their way at the end */
    assert_no_reason(&rig);
    rig_init(&rig, &open);
    rig.trial->throughput_per_s = 15000;
    assert_one_reason(&rig, "not_achieved", INVALID, "20.0 k/s were offered, 15.0 k/s achieved");
    rig_init(&rig, &open);
    rig.trial->throughput_per_s = 15000;
    rig.trial->server->cpu_cores_used = 0.99;
    assert_one_reason(&rig, "server_saturated", SUSPECT, "the server's CPUs were 99 % in use");
}

static void answers_under_way_at_the_end_are_not_missing(void **state)
{
    struct sample_trial slow = open;
    struct rig rig;

    (void)state;
    slow.offered_per_s = slow.throughput_per_s = 100;
    rig_init(&rig, &slow);
    rig.trial->service_time->mean_ns = 250.0 * MS; /* 5 % of the window */
    rig.trial->throughput_per_s = 95;
    assert_no_reason(&rig);
}

static void shed_requests_are_named(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig, &open);
    rig.trial->requests->scheduled += 7;
    rig.trial->requests->shed = 7;
    assert_one_reason(&rig, "shed", SUSPECT, "7 of 100007 requests");
}

static void pipelines_that_run_dry_are_suspect(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig, &closed);
    rig.trial->in_flight_mean = 50;
    rig.trial->service_time->mean_ns = 50 / 50000.0 * 1e9;
    assert_one_reason(&rig, "pipelines_not_full", SUSPECT, "50.0 of 64 possible requests");
    rig_init(&rig, &closed); /* a server that closes after each answer leaves gaps */
    rig.trial->in_flight_mean = 50;
    rig.trial->service_time->mean_ns = 50 / 50000.0 * 1e9;
    rig.trial->connections->reopened = 100000;
    rig.trial->connections->opened += 100000;
    assert_no_reason(&rig);
    rig_init(&rig, &closed); /* so does the end of a fixed count */
    rig.in.fixed_count = true;
    rig.trial->in_flight_mean = 50;
    rig.trial->service_time->mean_ns = 50 / 50000.0 * 1e9;
    assert_no_reason(&rig);
}

/* ---- quiet? */

/* Waves, think times and lifetimes leave gaps that are meant; Poisson offers what it drew; a ramp
 * is a trend. */
static void what_the_load_itself_does_is_no_flaw(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig, &closed);
    rig.trial->in_flight_mean = 50;
    rig.trial->service_time->mean_ns = 50 / 50000.0 * 1e9;
    rig.in.has_gaps = true;
    assert_no_reason(&rig);
    rig_init(&rig, &closed);
    rig.trial->connections->opened += 1000;
    rig.trial->connections->renewed = rig.trial->connections->retired = 1000;
    assert_no_reason(&rig);
    rig_init(&rig, &closed);
    rig.trial->connections->renewed = rig.trial->connections->retired = 1;
    assert_one_reason(&rig, "connections_short", INVALID, "63 of 64 connections");
    rig_init(&rig, &open);
    rig.trial->requests->scheduled = rig.trial->requests->sent = rig.trial->requests->ok = 98000;
    rig.trial->throughput_per_s = 19600; /* of 98000 in 5 s */
    rig.in.is_random = true;
    assert_no_reason(&rig);
    rig_init(&rig, &open);
    for (int64_t i = 0; i < 5; i++)
        rig.trial->intervals[i]->p50_ns = (10 - i) * 100000;
    rig.in.changes = true;
    assert_no_reason(&rig);
}

static void disturbances_are_suspect(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig, &closed);
    rig.trial->server->foreign_cpu_cores = 0.06;
    assert_one_reason(&rig, "foreign_cpu", SUSPECT, "6.0 % of the server's 1 CPU");
    rig_init(&rig, &closed);
    rig.trial->server->foreign_cpu_cores = 0.06;
    rig.in.server_cpus = 2;
    assert_no_reason(&rig);
    rig_init(&rig, &closed);
    rig.trial->server->foreign_cpu_cores = 0.06;
    rig.in.shared_cores = true; /* but not the server's: clients are on CPU 1 */
    assert_true(coord_message_string(&rig.trial->clients[0]->cpus, "1"));
    assert_true(coord_message_string(&rig.trial->clients[1]->cpus, "1"));
    coord_verdict_judge(rig.trial, &rig.in);
    assert_int_equal(rig.trial->n_reasons, 2);
    assert_non_null(find(rig.trial, "foreign_cpu"));
    coord_message_free(rig.trial);
    rig_init(&rig, &closed);
    rig.trial->server->foreign_cpu_cores = 0.06;
    rig.in.shared_cores = true;
    assert_true(coord_message_string(&rig.trial->clients[0]->cpus, "1"));
    assert_true(coord_message_string(&rig.trial->clients[1]->cpus, "0-1"));
    assert_one_reason(&rig, "shared_cores", SUSPECT, "CPUs are shared");
    rig_init(&rig, &closed);
    rig.trial->server->steal_cores = 0.03;
    assert_one_reason(&rig, "cpu_steal", SUSPECT, "3.0 %");
    rig_init(&rig, &closed);
    rig.trial->server->listen_overflows = 1;
    assert_one_reason(&rig, "listen_overflows", SUSPECT, "dropped 1 connections");
    rig_init(&rig, &closed);
    rig.trial->server->tcp_retransmits = 4; /* of 250,000 requests */
    assert_no_reason(&rig);
    rig_init(&rig, &closed);
    rig.trial->server->tcp_retransmits = 6;
    assert_one_reason(&rig, "tcp_retransmits", SUSPECT, "6 segments");
    rig_init(&rig, &closed);
    rig.in.governor_before = "performance";
    rig.in.governor_after = "powersave";
    assert_one_reason(&rig, "governor_changed", SUSPECT, "performance before and powersave after");
    rig_init(&rig, &closed);
    rig.in.governor_before = "performance";
    rig.in.governor_after = "";
    assert_no_reason(&rig);
    rig_init(&rig, &closed);
    rig.trial->clients[0]->intervals_merged = 2;
    assert_one_reason(&rig, "merged_intervals", SUSPECT, "2 intervals");
    rig_init(&rig, &closed);
    rig.trial->server->window_error_ns = 200 * MS;
    assert_one_reason(&rig, "server_edges", SUSPECT, "200 ms beside the edges");
}

static void disturbances_of_a_client_s_host_are_suspect(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig, &closed); /* 5 s, one worker: 6 % of it */
    assert_true(coord_message_string(&rig.trial->clients[1]->cpus, "3"));
    rig.trial->clients[1]->cpu->runqueue_wait_ns = 300 * MS;
    rig.trial->clients[1]->foreign_cpu_cores = 0.5;
    assert_one_reason(&rig, "client_foreign_cpu", SUSPECT, "client-2 waited 6.0 % of the time");
    rig_init(&rig, &closed);
    assert_true(coord_message_string(&rig.trial->clients[1]->cpus, "3"));
    rig.trial->clients[1]->cpu->runqueue_wait_ns = 240 * MS;
    assert_no_reason(&rig);
    rig_init(&rig, &closed);
    assert_true(coord_message_string(&rig.trial->clients[1]->cpus, "3"));
    rig.trial->clients[1]->cpu->runqueue_wait_ns = 1500 * MS;
    assert_one_reason(&rig, "client_foreign_cpu", SUSPECT, "waited 30.0 % of the time");
    rig_init(&rig, &closed); /* as a CPU quota makes it */
    assert_true(coord_message_string(&rig.trial->clients[1]->cpus, "3"));
    rig.trial->clients[1]->cpu->runqueue_wait_ns = 1510 * MS;
    assert_one_reason(&rig, "client_foreign_cpu", INVALID, "waited 30.2 % of the time");
    rig_init(&rig, &closed);
    assert_true(coord_message_string(&rig.trial->clients[1]->cpus, "3"));
    rig.trial->clients[1]->cpu->runqueue_wait_ns = 4000 * MS;
    rig.trial->server->cpu_cores_used = 0.97;
    assert_one_reason(&rig, "client_foreign_cpu", SUSPECT, "waited 80.0 % of the time");
    rig_init(&rig, &closed); /* two workers on one CPU wait for each other */
    assert_true(coord_message_string(&rig.trial->clients[1]->cpus, "3"));
    rig.trial->clients[1]->workers = 2;
    rig.trial->clients[1]->cpu->runqueue_wait_ns = 3000 * MS;
    assert_no_reason(&rig);
    rig_init(&rig, &closed); /* and so do agents that share one */
    assert_true(coord_message_string(&rig.trial->clients[0]->cpus, "3"));
    assert_true(coord_message_string(&rig.trial->clients[1]->cpus, "3"));
    rig.trial->clients[1]->cpu->runqueue_wait_ns = 3000 * MS;
    rig.in.shared_cores = true;
    assert_one_reason(&rig, "shared_cores", SUSPECT, "CPUs are shared");
    rig_init(&rig, &closed);
    assert_true(coord_message_string(&rig.trial->clients[0]->cpus, "1-2"));
    rig.trial->clients[0]->steal_cores = 0.05;
    assert_one_reason(&rig, "client_cpu_steal", SUSPECT, "2.5 % of client-1's 2 CPUs");
    rig_init(&rig, &closed);
    rig.trial->clients[0]->tcp_retransmits = 6;
    assert_one_reason(&rig, "client_retransmits", SUSPECT, "client-1's host sent 6 segments");
}

static void a_generator_that_stood_still_is_invalid_while_the_server_had_room(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig, &closed);
    rig.trial->clients[0]->cpu->stalled = 0.21;
    rig.trial->clients[0]->cpu->loop_lag_ns = 90 * MS;
    assert_one_reason(&rig, "generator_stalled", INVALID, "21 % of the window, up to 90.0 ms");
    rig_init(&rig, &closed);
    rig.trial->clients[0]->cpu->stalled = 0.2;
    assert_one_reason(&rig, "generator_stalled", SUSPECT, "20 % of the window");
    rig_init(&rig, &closed);
    rig.trial->clients[0]->cpu->stalled = 0.05;
    assert_no_reason(&rig);
    rig_init(&rig, &closed);
    rig.trial->clients[0]->cpu->stalled = 0.5;
    rig.trial->server->cpu_cores_used = 0.97;
    assert_one_reason(&rig, "generator_stalled", SUSPECT, "50 %");
}

static void set_unread(struct rig *rig, double unread_ns, double service_ns)
{
    rig_init(rig, &closed);
    rig->trial->read_delay = malloc(sizeof(*rig->trial->read_delay));
    assert_non_null(rig->trial->read_delay);
    ls__latency__init(rig->trial->read_delay);
    rig->trial->read_delay->count = rig->trial->service_time->count;
    rig->trial->read_delay->mean_ns = unread_ns;
    rig->trial->service_time->mean_ns = service_ns;
    rig->trial->in_flight_mean = rig->trial->throughput_per_s * service_ns / 1e9;
    rig->in.has_gaps = true; /* how full pipelines were is no matter here */
}

static void answers_that_lie_unread_are_the_generator_s_own_queue(void **state)
{
    struct rig rig;

    (void)state;
    set_unread(&rig, 0.8e6, 4e6);
    assert_no_reason(&rig);
    set_unread(&rig, 0.81e6, 4e6);
    assert_one_reason(&rig, "read_delay", SUSPECT, "810 us on average, 20 % of the service time");
    set_unread(&rig, 2e6, 4e6);
    assert_one_reason(&rig, "read_delay", SUSPECT, "50 % of the service time");
    set_unread(&rig, 2.01e6, 4e6);
    assert_one_reason(&rig, "read_delay", INVALID, "2.01 ms on average");
    set_unread(&rig, 2.01e6, 4e6); /* the server had none to spare */
    rig.trial->server->cpu_cores_used = 0.97;
    assert_one_reason(&rig, "read_delay", SUSPECT, "50 %");
    set_unread(&rig, 2.01e6, 4e6); /* it was asked for */
    assert_true(coord_message_string(&rig.trial->min_wait, "5ms"));
    assert_one_reason(&rig, "read_delay", SUSPECT, "50 %");
    set_unread(&rig, 0.9e6, 1e6); /* a millisecond is too little for more than suspicion */
    assert_one_reason(&rig, "read_delay", SUSPECT, "90 %");
    set_unread(&rig, 0.2e6, 0.21e6); /* and 200 us for that */
    assert_no_reason(&rig);
    set_unread(&rig, 2.01e6, 4e6); /* no stamps */
    rig.trial->read_delay->count = 0;
    assert_no_reason(&rig);
}

static void set_headroom(struct rig *rig, double used, const char *limited_by)
{
    Ls__Client *client;

    rig_init(rig, &closed);
    client = rig->trial->clients[0];
    client->headroom = coord_message_new(&ls__headroom__descriptor);
    assert_non_null(client->headroom);
    client->headroom->used = used;
    client->headroom->ceiling_per_s = 50000;
    assert_true(coord_message_string(&client->headroom->limited_by, limited_by));
}

static void a_generator_near_its_calibrated_ceiling_is_suspect_and_at_it_invalid(void **state)
{
    struct rig rig;

    (void)state;
    set_headroom(&rig, 0.70, "generator");
    assert_no_reason(&rig);
    set_headroom(&rig, 0.71, "generator");
    assert_one_reason(&rig, "near_ceiling", SUSPECT, "client-1 was at 71 % of the 50.0 k");
    set_headroom(&rig, 0.94, "generator");
    assert_one_reason(&rig, "near_ceiling", SUSPECT, "94 %");
    set_headroom(&rig, 0.95, "generator");
    assert_one_reason(&rig, "generator_limited", INVALID, "95 %");
    set_headroom(&rig, 0.95, "generator"); /* so was the server: the throughput is its */
    rig.trial->server->cpu_cores_used = 0.97;
    assert_one_reason(&rig, "near_ceiling", SUSPECT, "95 %");
    set_headroom(&rig, 0.99, "responder"); /* no more than a lower bound */
    assert_no_reason(&rig);
}

static void a_window_of_less_than_a_second_is_suspect(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig, &closed);
    rig.trial->window->duration_ns = 500 * MS;
    rig.trial->n_intervals = 0;
    rig.trial->requests->ok /= 10;
    rig.trial->requests->sent = rig.trial->requests->scheduled = rig.trial->requests->ok;
    rig.trial->service_time->count /= 10;
    coord_verdict_judge(rig.trial, &rig.in);
    rig.trial->n_intervals = 5;
    assert_string_equal(find(rig.trial, "short_window")->text,
                        "the measure window was only 500 ms long");
    assert_int_equal(rig.trial->n_reasons, 1);
    coord_message_free(rig.trial);
}

static void set_series(struct rig *rig, const uint64_t *completed)
{
    for (size_t i = 0; i < rig->trial->n_intervals; i++)
        rig->trial->intervals[i]->completed = completed[i];
}

static void a_trend_is_suspect_and_noise_is_not(void **state)
{
    static const uint64_t rising[] = { 40000, 46000, 50000, 52000, 53000 };
    static const uint64_t slight[] = { 50000, 50100, 50200, 50300, 50400 };
    static const uint64_t noise[] = { 40000, 55000, 45000, 52000, 50000 };
    struct rig rig;

    (void)state;
    rig_init(&rig, &closed);
    set_series(&rig, rising);
    assert_one_reason(&rig, "trend", SUSPECT, "throughput rose by 32 %");
    rig_init(&rig, &closed);
    set_series(&rig, slight);
    assert_no_reason(&rig);
    rig_init(&rig, &closed);
    set_series(&rig, noise);
    assert_no_reason(&rig);
    rig_init(&rig, &open); /* the rate is given: it is the latency that drifts */
    for (int64_t i = 0; i < 5; i++)
        rig.trial->intervals[i]->p50_ns = (10 - i) * 100000;
    assert_one_reason(&rig, "trend", SUSPECT, "p50 fell by 40 %");
}

static void the_first_interval_does_not_count_when_answers_take_long(void **state)
{
    static const uint64_t late[] = { 200, 400, 401, 402, 403 };
    struct sample_trial slow = closed;
    struct rig rig;

    (void)state;
    slow.throughput_per_s = 400;
    slow.p50_ms = 160;
    rig_init(&rig, &slow);
    set_series(&rig, late);
    assert_no_reason(&rig);
}

/* ---- the rules of reasons */

static void the_worst_reason_decides_and_none_makes_it_better(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig, &closed);
    rig.trial->clients[0]->intervals_merged = 1; /* suspect */
    rig.trial->clients[0]->lost = true;          /* invalid */
    coord_verdict_judge(rig.trial, &rig.in);
    assert_int_equal(rig.trial->n_reasons, 2);
    assert_int_equal(rig.trial->verdict, INVALID);
    coord_message_free(rig.trial);

    rig_init(&rig, &closed);
    coord_verdict_add(rig.trial, "custom", INVALID, "because of %d", 7);
    coord_verdict_add(rig.trial, "other", SUSPECT, "and that");
    assert_int_equal(rig.trial->verdict, INVALID);
    coord_verdict_judge(rig.trial, &rig.in);
    assert_int_equal(rig.trial->verdict, INVALID);
    assert_string_equal(find(rig.trial, "custom")->text, "because of 7");
    coord_message_free(rig.trial);
}

static void a_trial_that_was_not_finished_is_invalid_by_its_own_reason(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig, &closed);
    assert_true(coord_message_string(&rig.trial->status, "failed"));
    coord_verdict_add(rig.trial, "not_ready", INVALID, "the target did not answer in 10s");
    assert_one_reason(&rig, "not_ready", INVALID, "10s");
    rig_init(&rig, &closed);
    assert_true(coord_message_string(&rig.trial->status, "interrupted"));
    assert_one_reason(&rig, "not_measured", INVALID, "was not measured");
}

static void an_empty_trial_is_judged_without_a_fault(void **state)
{
    Ls__Trial *trial = coord_message_new(&ls__trial__descriptor);
    struct coord_verdict_input in = { 0 };

    (void)state;
    assert_non_null(trial);
    coord_verdict_judge(trial, &in);
    assert_int_equal(trial->verdict, INVALID);
    assert_true(coord_message_string(&trial->status, "done"));
    trial->window = coord_message_new(&ls__window__descriptor);
    coord_verdict_judge(trial, &in);
    assert_int_equal(trial->verdict, INVALID);
    coord_message_free(trial);
}

static void judge_short_of_memory(void *ctx)
{
    Ls__Trial *trial = ctx;
    struct coord_verdict_input in = { 0 };

    coord_message_clear(&trial->n_reasons, &trial->reasons);
    trial->verdict = VALID;
    coord_verdict_judge(trial, &in);
    assert_int_equal(trial->verdict, INVALID);
}

static void a_verdict_survives_the_loss_of_its_words(void **state)
{
    Ls__Trial *trial = sample_trial(&closed);

    (void)state;
    trial->clients[0]->lost = true;
    assert_true(failmalloc_each(judge_short_of_memory, trial) >= 3);
    coord_message_free(trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trial_with_nothing_wrong_is_valid),
        cmocka_unit_test(bad_books_are_invalid),
        cmocka_unit_test(wrong_responses_are_invalid_and_in_the_warm_up_suspect),
        cmocka_unit_test(nothing_answered_is_invalid),
        cmocka_unit_test(connections_that_were_not_opened_are_counted),
        cmocka_unit_test(agents_and_targets_that_went_away_are_invalid),
        cmocka_unit_test(a_target_of_which_something_was_killed_for_memory_is_invalid),
        cmocka_unit_test(two_accounts_of_cpu_time_that_differ_are_suspect),
        cmocka_unit_test(start_skew_counts_with_its_error),
        cmocka_unit_test(little_s_law_tells_245_connections_from_400),
        cmocka_unit_test(little_s_law_holds_for_honest_figures),
        cmocka_unit_test(little_s_law_says_nothing_of_a_few_requests_or_of_slow_ones),
        cmocka_unit_test(clipped_latencies_are_suspect),
        cmocka_unit_test(a_busy_generator_is_invalid_while_the_server_had_room),
        cmocka_unit_test(a_busy_generator_is_invalid_when_nobody_watched_the_server),
        cmocka_unit_test(cpus_that_others_fill_leave_the_server_no_room),
        cmocka_unit_test(the_generator_s_own_lag_counts_and_waiting_for_a_connection_does_not),
        cmocka_unit_test(a_rate_that_was_not_achieved_is_the_server_s_limit_or_void),
        cmocka_unit_test(answers_under_way_at_the_end_are_not_missing),
        cmocka_unit_test(shed_requests_are_named),
        cmocka_unit_test(pipelines_that_run_dry_are_suspect),
        cmocka_unit_test(what_the_load_itself_does_is_no_flaw),
        cmocka_unit_test(disturbances_are_suspect),
        cmocka_unit_test(disturbances_of_a_client_s_host_are_suspect),
        cmocka_unit_test(a_generator_near_its_calibrated_ceiling_is_suspect_and_at_it_invalid),
        cmocka_unit_test(a_generator_that_stood_still_is_invalid_while_the_server_had_room),
        cmocka_unit_test(answers_that_lie_unread_are_the_generator_s_own_queue),
        cmocka_unit_test(a_window_of_less_than_a_second_is_suspect),
        cmocka_unit_test(a_trend_is_suspect_and_noise_is_not),
        cmocka_unit_test(the_first_interval_does_not_count_when_answers_take_long),
        cmocka_unit_test(the_worst_reason_decides_and_none_makes_it_better),
        cmocka_unit_test(a_trial_that_was_not_finished_is_invalid_by_its_own_reason),
        cmocka_unit_test(an_empty_trial_is_judged_without_a_fault),
        cmocka_unit_test(a_verdict_survives_the_loss_of_its_words),
    };
    return cmocka_run_group_tests_name("coordinator.verdict", tests, NULL, NULL);
}

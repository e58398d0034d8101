/* coordinator/run/capacity.c: whole searches against servers whose capacity is known by formula,
 * simulated request by request. */
#include "tests/support/test.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/attr.h"
#include "common/rng.h"
#include "coordinator/run/capacity.h"

#define MS       INT64_C(1000000)
#define S        INT64_C(1000000000)
#define SETTLE   1.0 /* seconds of load before a probe's window */
#define OVERHEAD (INT64_C(2) * S)

enum law { LAW_CONSTANT, LAW_EXPONENTIAL };

/* One server with a queue. */
struct server {
    enum law arrivals;
    enum law service;
    double per_s;        /* that it can serve */
    double median;       /* of per_s, if it differs */
    double limit_s;      /* of the response time */
    double client_max;   /* that the clients can offer; 0: anything */
    double slower;       /* of per_s, from one probe to the next */
    double dies_at;      /* a rate; 0: never */
    double warms_s;      /* from half of per_s to all of it, over this time since it was started */
    double load_s;       /* that it has been under load for; of a fresh server: in this probe */
    bool settled;        /* one server for all probes */
    double pauses_per_s; /* in which it does nothing, at random */
    double pause_s;      /* their mean length; exponential */
    double differs;      /* standard deviation of per_s from one probe to the next, as a share */
    double next_pause;   /* in the time of the probe under way */
    struct ls_rng rng;
};

static double draw(struct server *server, enum law law, double mean)
{
    return law == LAW_CONSTANT ? mean : -mean * log(1 - ls_rng_unit(&server->rng));
}

static double speed_at(const struct server *server, double now)
{
    double age = server->load_s + now + SETTLE;

    return server->warms_s > 0 ? server->per_s * (0.5 + 0.5 * fmin(1, age / server->warms_s))
                               : server->per_s;
}

/* When a service that begins at start and takes so long is done, with the pauses that come across
 * it, and those that began before and last until then. */
static double done_at(struct server *server, double start, double service)
{
    double done = start + service;

    while (server->pauses_per_s > 0 && server->next_pause <= done) {
        double end = server->next_pause + draw(server, LAW_EXPONENTIAL, server->pause_s);

        done += fmax(0, end - fmax(start, server->next_pause));
        server->next_pause = end + draw(server, LAW_EXPONENTIAL, 1 / server->pauses_per_s);
    }
    return done;
}

/* Lindley's recursion: who waits is who came before the last one left. */
static void load(struct server *server, const struct coord_capacity_probe *probe,
                 struct coord_capacity_batch *batches)
{
    double window = (double)probe->window_ns / 1e9, now = -SETTLE, free_at = -SETTLE;

    (void)memset(batches, 0, COORD_CAPACITY_BATCHES * sizeof(*batches));
    server->next_pause = -SETTLE;
    if (server->differs > 0) {
        double sum = -6; /* of twelve: as good as normal */

        for (unsigned i = 0; i < 12; i++)
            sum += ls_rng_unit(&server->rng);
        server->per_s = server->median * (1 + server->differs * sum);
    }
    for (;;) {
        double done;

        now += draw(server, server->arrivals, 1 / probe->rate_per_s);
        if (now >= window)
            break;
        done = done_at(server, fmax(now, free_at),
                       draw(server, server->service, 1 / speed_at(server, now)));
        free_at = done;
        if (now >= 0) {
            struct coord_capacity_batch *batch =
                &batches[(size_t)(now / window * COORD_CAPACITY_BATCHES)];

            batch->requests++;
            batch->breaking[0] += done - now > server->limit_s;
        }
    }
    server->per_s *= 1 - server->slower;
    if (server->settled)
        server->load_s += SETTLE + window;
}

static const struct coord_capacity_limit p99[] = {
    { .name = "p99", .allowed_share = 0.01, .limit_ns = 10000000 }
};

static struct coord_capacity_settings settings_for(const struct server *server, uint64_t seed)
{
    return (struct coord_capacity_settings){ .limits = p99,
                                             .limit_count = 1,
                                             .first_per_s = server->per_s / 3,
                                             .least_per_s = 1,
                                             .most_per_s = 1e6,
                                             .precision = 0.02,
                                             .budget_ns = 180 * S,
                                             .probe_ns = 2 * S,
                                             .probe_most_ns = 15 * S,
                                             .confirm_ns = 15 * S,
                                             .overhead_ns = OVERHEAD,
                                             .above = 0.1,
                                             .seed = seed };
}

static bool verbose(void)
{
    return getenv("LS_CAPACITY_SHOW") != NULL;
}

/* Plays a search to its end. Returns the time that it took, by its own account. */
static int64_t search(struct coord_capacity *capacity, struct server *server)
{
    struct coord_capacity_batch batches[COORD_CAPACITY_BATCHES];
    struct coord_capacity_probe probe;
    int64_t used = 0;

    while (coord_capacity_next(capacity, &probe)) {
        struct coord_capacity_seen seen = { .batches = batches,
                                            .batch_count = COORD_CAPACITY_BATCHES,
                                            .limited_by = COORD_LIMITED_BY_SERVER,
                                            .took_ns = probe.window_ns + OVERHEAD };
        const struct coord_capacity_point *points;
        size_t n;

        load(server, &probe, batches);
        if (server->client_max > 0 && probe.rate_per_s > server->client_max)
            seen.limited_by = COORD_LIMITED_BY_CLIENT;
        seen.died = server->dies_at > 0 && probe.rate_per_s >= server->dies_at;
        seen.why = "its last words";
        assert_int_equal(coord_capacity_report(capacity, &seen, NULL), LS_OK);
        used += seen.took_ns;
        n = coord_capacity_points(capacity, &points);
        if (verbose())
            (void)printf("  %-8s %9.2f/s %5.1f s: %.5f +- %.5f, verdict %d\n",
                         coord_capacity_kind_name(probe.kind), probe.rate_per_s,
                         (double)probe.window_ns / 1e9, points[n - 1].share,
                         points[n - 1].share_error, (int)points[n - 1].verdict);
        assert_true(n < COORD_CAPACITY_PROBES_MAX);
    }
    return used;
}

static struct coord_capacity_answer answer_of(struct server server, uint64_t seed,
                                              int64_t *out_used_ns)
{
    struct coord_capacity_settings settings = settings_for(&server, seed);
    struct coord_capacity_answer answer;
    struct coord_capacity *capacity;
    struct ls_diag diag = { 0 };
    int64_t used;

    ls_rng_init(&server.rng, seed, 77);
    if (coord_capacity_create(&settings, &capacity, &diag) != LS_OK)
        fail_msg("%s", diag.text);
    used = search(capacity, &server);
    coord_capacity_answer(capacity, &answer);
    if (verbose())
        (void)printf("%g/s (%g to %g), %s: %s; %.0f s\n", answer.rate_per_s, answer.low_per_s,
                     answer.high_per_s, answer.settled ? "settled" : "not settled", answer.why,
                     (double)used / 1e9);
    if (out_used_ns != NULL)
        *out_used_ns = used;
    coord_capacity_destroy(capacity);
    return answer;
}

/* M/M/1: P(T > t) = exp(-(mu - lambda) t) (Kleinrock I, 3.2). */
static double truth_mm1(const struct server *server)
{
    return server->per_s - log(100) / server->limit_s;
}

/* M/D/1: P(W <= t) by the sum over the queue's length at an arrival (Franx, "A simple solution for
 * the M/D/c waiting time distribution", 2001), which has no alternating terms; T = W + D. */
static double md1_share_within(double lambda, double d, double t)
{
    enum { MOST = 400 };
    double rho = lambda * d, wait = t - d, sum = 0, within = 0, term;
    long double p[MOST] = { 1 - rho }, a[MOST] = { expl(-rho) };
    double queue[MOST];
    int k = (int)floor(wait / d) + 1;

    for (int n = 1; n < MOST; n++)
        a[n] = a[n - 1] * rho / n;
    for (int n = 0; n + 1 < MOST; n++) {
        long double rest = p[n] - p[0] * a[n];

        for (int i = 1; i <= n; i++)
            rest -= p[i] * a[n - i + 1];
        p[n + 1] = rest / a[0];
    }
    within = (double)p[0];
    for (int m = 0; m + 1 < MOST; m++) {
        within += (double)p[m + 1];
        queue[m] = within; /* at most m wait */
    }
    term = exp(-lambda * (k * d - wait));
    for (int j = 0; j < k; j++) {
        sum += queue[k - 1 - j] * term;
        term *= lambda * (k * d - wait) / (j + 1);
    }
    return sum;
}

static double truth_md1(const struct server *server)
{
    double low = 0, high = server->per_s;

    for (int i = 0; i < 60; i++) {
        double mid = (low + high) / 2;

        if (md1_share_within(mid, 1 / server->per_s, server->limit_s) >= 0.99)
            low = mid;
        else
            high = mid;
    }
    return low;
}

/* 20 seeds: how often it is within 3 %, and how often the interval holds the truth. */
static void twenty_searches(const struct server *server, double truth)
{
    unsigned near = 0, covered = 0, settled = 0;

    for (uint64_t seed = 1; seed <= 20; seed++) {
        int64_t used;
        struct coord_capacity_answer answer = answer_of(*server, seed, &used);

        near += fabs(answer.rate_per_s / truth - 1) <= 0.03;
        covered += answer.low_per_s <= truth && truth <= answer.high_per_s;
        settled += answer.settled;
        assert_true(used <= 180 * S);
    }
    if (verbose())
        (void)printf("truth %g: near %u, covered %u, settled %u\n", truth, near, covered, settled);
    assert_in_range(near, 19, 20);
    assert_in_range(covered, 18, 20);
    assert_in_range(settled, 8, 20);
}

static void the_capacity_of_mm1_is_found(void **state)
{
    const struct server server = {
        .arrivals = LAW_EXPONENTIAL, .service = LAW_EXPONENTIAL, .per_s = 5000, .limit_s = 0.010
    };

    (void)state;
    twenty_searches(&server, truth_mm1(&server));
}

static void the_capacity_of_md1_is_found(void **state)
{
    const struct server server = {
        .arrivals = LAW_EXPONENTIAL, .service = LAW_CONSTANT, .per_s = 5000, .limit_s = 0.010
    };

    (void)state;
    twenty_searches(&server, truth_md1(&server));
}

static void a_hard_ceiling_is_found(void **state)
{
    const struct server server = {
        .arrivals = LAW_CONSTANT, .service = LAW_CONSTANT, .per_s = 5000, .limit_s = 0.010
    };

    (void)state;
    twenty_searches(&server, 5000);
}

/* The share of a long run that breaks the limit. */
static double share_at(struct server server, double rate_per_s)
{
    struct coord_capacity_batch batches[COORD_CAPACITY_BATCHES];
    struct coord_capacity_probe probe = { .rate_per_s = rate_per_s, .window_ns = 2000 * S };
    double requests = 0, breaking = 0;

    ls_rng_init(&server.rng, 1, 78);
    load(&server, &probe, batches);
    for (size_t i = 0; i < COORD_CAPACITY_BATCHES; i++) {
        requests += (double)batches[i].requests;
        breaking += (double)batches[i].breaking[0];
    }
    return breaking / requests;
}

/* A server that stands still now and then, as on a machine with other work: a probe sees a few of
 * the pauses, and what it says is mostly luck. No answer is precise then; it may not be absurd. */
static void pauses_of_the_server_leave_an_interval_that_holds_the_truth(void **state)
{
    const struct server server = { .arrivals = LAW_EXPONENTIAL,
                                   .service = LAW_CONSTANT,
                                   .per_s = 5000,
                                   .limit_s = 0.010,
                                   .pauses_per_s = 0.2,
                                   .pause_s = 0.020 };
    double low = 0, high = server.per_s;
    unsigned covered = 0, near = 0;

    (void)state;
    for (int i = 0; i < 7; i++) {
        double mid = (low + high) / 2;

        *(share_at(server, mid) <= 0.01 ? &low : &high) = mid;
    }
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct coord_capacity_answer answer = answer_of(server, seed, NULL);

        covered += answer.low_per_s <= high && low <= answer.high_per_s;
        near += fabs(answer.rate_per_s / low - 1) < 0.25;
        assert_true(answer.low_per_s <= answer.rate_per_s);
        assert_true(answer.rate_per_s <= answer.high_per_s);
    }
    if (verbose())
        (void)printf("truth %g: near %u, covered %u\n", low, near, covered);
    assert_in_range(covered, 16, 20);
    assert_in_range(near, 12, 20);
}

/* ---- what cannot be had */

static const struct server fast = {
    .arrivals = LAW_CONSTANT, .service = LAW_CONSTANT, .per_s = 5000, .limit_s = 0.010
};

/* Started anew for each probe it is a little faster or slower each time, by 2 %: the interval is of
 * what it is on the whole, not of what it was once. Of 20 searches that asked at each rate once, 11
 * had it. */
static void a_server_that_differs_from_probe_to_probe_gets_an_interval_that_knows_it(void **state)
{
    unsigned near = 0, covered = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const struct server server = { .arrivals = LAW_CONSTANT,
                                       .service = LAW_CONSTANT,
                                       .per_s = 20000,
                                       .median = 20000,
                                       .differs = 0.02,
                                       .limit_s = 0.010 };
        struct coord_capacity_answer answer = answer_of(server, seed, NULL);

        near += fabs(answer.rate_per_s / server.median - 1) <= 0.05;
        covered += answer.low_per_s <= server.median && server.median <= answer.high_per_s;
    }
    if (verbose())
        (void)printf("differs: near %u, covered %u\n", near, covered);
    assert_in_range(near, 18, 20);
    assert_in_range(covered, 17, 20);
}

static void the_same_seed_asks_for_the_same_probes(void **state)
{
    struct server server = {
        .arrivals = LAW_EXPONENTIAL, .service = LAW_EXPONENTIAL, .per_s = 5000, .limit_s = 0.010
    };
    struct coord_capacity_answer first = answer_of(server, 4, NULL);
    struct coord_capacity_answer again = answer_of(server, 4, NULL);

    (void)state;
    assert_memory_equal(&first.rate_per_s, &again.rate_per_s, sizeof(double));
    assert_memory_equal(&first.low_per_s, &again.low_per_s, sizeof(double));
    assert_string_equal(first.why, again.why);
}

static void limits_that_nothing_holds_are_said_to_be_broken_at_every_rate(void **state)
{
    struct server server = fast;
    struct coord_capacity_answer answer;

    (void)state;
    server.limit_s = 0.0001; /* serving one takes twice as long */
    server.per_s = 5;        /* begins near the least rate */
    answer = answer_of(server, 1, NULL);
    assert_false(answer.settled);
    assert_false(answer.found);
    assert_true(answer.rate_per_s <= 0);
    assert_non_null(strstr(answer.why, "at every rate down to 1/s"));
    assert_non_null(strstr(answer.why, "p99 by 100 %"));
    server.per_s = 5000;
    answer = answer_of(server, 1, NULL);
    assert_false(answer.found);
    assert_non_null(strstr(answer.why, "100 % of the requests broke p99"));
}

static void limits_that_hold_at_every_allowed_rate_leave_the_capacity_open(void **state)
{
    struct coord_capacity_settings settings = settings_for(&fast, 1);
    struct server server = fast;
    struct coord_capacity_answer answer;
    struct coord_capacity *capacity;

    (void)state;
    settings.first_per_s = 300;
    settings.most_per_s = 1000;
    ls_rng_init(&server.rng, 1, 77);
    assert_int_equal(coord_capacity_create(&settings, &capacity, NULL), LS_OK);
    (void)search(capacity, &server);
    coord_capacity_answer(capacity, &answer);
    assert_false(answer.settled);
    assert_true(isinf(answer.high_per_s));
    assert_true(answer.rate_per_s <= 1000);
    assert_string_equal(answer.why,
                        "the limits hold at every rate up to 1000/s, the most that was allowed");
    coord_capacity_destroy(capacity);
}

static void a_client_that_cannot_offer_more_makes_it_a_lower_bound(void **state)
{
    struct server server = fast;
    struct coord_capacity_answer answer;

    (void)state;
    server.client_max = 3000;
    answer = answer_of(server, 1, NULL);
    assert_false(answer.settled);
    assert_true(answer.found);
    assert_int_equal(answer.limited_by, COORD_LIMITED_BY_CLIENT);
    assert_true(answer.rate_per_s > 2400 && answer.rate_per_s <= 3000);
    assert_true(answer.low_per_s <= answer.rate_per_s && !(answer.high_per_s < 3000));
    assert_non_null(strstr(answer.why, "clients"));
}

static void a_server_that_dies_ends_the_search(void **state)
{
    struct server server = fast;
    struct coord_capacity_answer answer;

    (void)state;
    server.dies_at = 3000;
    answer = answer_of(server, 1, NULL);
    assert_false(answer.settled);
    assert_non_null(strstr(answer.why, "3 probes ended early, the last at 3333.33/s"));
    assert_non_null(strstr(answer.why, "its last words"));
    assert_true(answer.rate_per_s < 3000);
}

/* What the clients can offer does not depend on luck: one bad probe is no limit. */
static void a_client_that_stumbles_once_is_not_the_limit(void **state)
{
    struct coord_capacity_settings settings = settings_for(&fast, 1);
    struct server server = fast;
    struct coord_capacity *capacity;
    struct coord_capacity_probe probe, again;
    struct coord_capacity_answer answer;
    const struct coord_capacity_batch none = { 0 };
    const struct coord_capacity_seen stumble = {
        .batches = &none, .batch_count = 1, .limited_by = COORD_LIMITED_BY_CLIENT, .took_ns = S
    };

    (void)state;
    ls_rng_init(&server.rng, 1, 77);
    assert_int_equal(coord_capacity_create(&settings, &capacity, NULL), LS_OK);
    assert_true(coord_capacity_next(capacity, &probe));
    assert_int_equal(coord_capacity_report(capacity, &stumble, NULL), LS_OK);
    assert_true(coord_capacity_next(capacity, &again));
    assert_memory_equal(&probe.rate_per_s, &again.rate_per_s, sizeof(double));
    (void)search(capacity, &server);
    coord_capacity_answer(capacity, &answer);
    assert_true(answer.rate_per_s > 4800 && answer.rate_per_s < 5050);
    assert_int_equal(answer.limited_by, COORD_LIMITED_BY_SERVER);
    coord_capacity_destroy(capacity);
}

/* Started for each probe, it is as cold in each; its confirmation shows that it warms up. */
static void a_server_that_warms_up_for_a_minute_is_not_called_settled(void **state)
{
    struct server server = { .arrivals = LAW_EXPONENTIAL,
                             .service = LAW_EXPONENTIAL,
                             .per_s = 5000,
                             .limit_s = 0.010,
                             .warms_s = 60 };

    unsigned told = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct coord_capacity_answer answer = answer_of(server, seed, NULL);

        assert_false(answer.settled);
        assert_true(answer.rate_per_s < 4600); /* warm, it could do 4539 */
        told += strstr(answer.why, "of their first thirds") != NULL &&
                strstr(answer.why, "give it a longer warm-up") != NULL;
    }
    assert_in_range(told, 1, 5); /* where there was a confirmation */
}

/* One server for all probes: the first see another one than the last. */
static void a_settled_server_that_warms_up_is_found_as_it_is_in_the_end(void **state)
{
    struct server server = { .arrivals = LAW_EXPONENTIAL,
                             .service = LAW_EXPONENTIAL,
                             .per_s = 5000,
                             .limit_s = 0.010,
                             .warms_s = 60,
                             .settled = true };

    unsigned told = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct coord_capacity_answer answer = answer_of(server, seed, NULL);

        assert_true(!answer.settled || fabs(answer.rate_per_s / 4539 - 1) < 0.03);
        assert_true(answer.high_per_s > 4539); /* what broke when it was cold is no bound */
        told += strstr(answer.why, "; the server got better: the limits were broken at ") != NULL;
    }
    assert_in_range(told, 3, 5);
}

static void a_percentile_that_no_probe_can_see_is_refused_with_the_length_it_takes(void **state)
{
    static const struct coord_capacity_limit p999[] = { { .name = "p99.9",
                                                          .allowed_share = 0.001 } };
    struct server server = fast;
    struct coord_capacity_settings settings;
    struct coord_capacity_answer answer;
    struct coord_capacity *capacity;

    (void)state;
    server.per_s = 50;
    server.limit_s = 0.1;
    settings = settings_for(&server, 1);
    settings.limits = p999;
    ls_rng_init(&server.rng, 1, 77);
    assert_int_equal(coord_capacity_create(&settings, &capacity, NULL), LS_OK);
    (void)search(capacity, &server);
    coord_capacity_answer(capacity, &answer);
    assert_false(answer.settled);
    assert_false(answer.found);
    assert_true(answer.rate_per_s <= 0); /* no made-up number */
    assert_non_null(strstr(answer.why, "p99.9 cannot be judged at about"));
    assert_non_null(strstr(answer.why, "(longest_probe) and the budget"));
    coord_capacity_destroy(capacity);
}

static void a_server_that_degrades_is_not_called_settled(void **state)
{
    const struct server server = { .arrivals = LAW_EXPONENTIAL,
                                   .service = LAW_EXPONENTIAL,
                                   .per_s = 5000,
                                   .limit_s = 0.010,
                                   .slower = 0.03 };
    unsigned told = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct coord_capacity_answer answer = answer_of(server, seed, NULL);

        assert_false(answer.settled);
        assert_true(strpbrk(answer.why, "0123456789") != NULL);
        told += strstr(answer.why, "; the server got worse: the limits held at ") != NULL ||
                strstr(answer.why, "the limits did not hold in a confirmation at ") != NULL ||
                strstr(answer.why, "the server changes over time") != NULL;
    }
    assert_int_equal(told, 5);
}

static struct coord_capacity_settings good(void)
{
    return settings_for(&fast, 1);
}

static void refused(const struct coord_capacity_settings *settings, enum ls_err code,
                    const char *words)
{
    struct coord_capacity *capacity = NULL;
    struct ls_diag diag = { 0 };

    assert_int_equal(coord_capacity_create(settings, &capacity, &diag), code);
    assert_null(capacity);
    if (strstr(diag.text, words) == NULL)
        fail_msg("'%s' lacks '%s'", diag.text, words);
}

static void settings_that_cannot_work_are_refused(void **state)
{
    static const struct coord_capacity_limit rare[] = { { .name = "p99.999",
                                                          .allowed_share = 0.00001 } };
    static const struct coord_capacity_limit none[] = { { .name = "all", .allowed_share = 1 } };
    struct coord_capacity_settings s = good();

    (void)state;
    s.budget_ns = 40 * S;
    refused(&s, LS_ERANGE, "a budget of 40 s is less than");
    s = good();
    s.first_per_s = 100; /* which takes long to tell anything */
    s.budget_ns = 50 * S;
    refused(&s, LS_ERANGE, "begin at a higher rate");
    s = good();
    s.limits = rare;
    s.most_per_s = 1000;
    s.first_per_s = 100;
    refused(&s, LS_ERANGE, "probes of 2000 s");
    s = good();
    s.limits = none;
    refused(&s, LS_ERANGE, "limit all");
    s = good();
    s.limit_count = 0;
    refused(&s, LS_ERANGE, "0 limits");
    s = good();
    s.first_per_s = 2 * s.most_per_s;
    refused(&s, LS_ERANGE, "have to grow");
    s = good();
    s.precision = 0;
    refused(&s, LS_ERANGE, "precision");
}

static void a_report_that_makes_no_sense_is_refused(void **state)
{
    const struct coord_capacity_batch batch = { .requests = 5, .breaking = { 6 } };
    const struct coord_capacity_seen seen = { .batches = &batch, .batch_count = 1, .took_ns = S };
    struct coord_capacity_settings s = good();
    struct coord_capacity_probe probe, same;
    struct coord_capacity *capacity = NULL;
    struct ls_diag diag = { 0 };

    (void)state;
    assert_int_equal(coord_capacity_create(&s, &capacity, &diag), LS_OK);
    assert_true(coord_capacity_next(capacity, &probe));
    assert_int_equal(coord_capacity_report(capacity, &seen, &diag), LS_EINVAL);
    assert_non_null(strstr(diag.text, "6 of 5 requests"));
    assert_true(coord_capacity_next(capacity, &same));
    assert_memory_equal(&probe.rate_per_s, &same.rate_per_s, sizeof(double));
    coord_capacity_destroy(capacity);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_capacity_of_mm1_is_found),
        cmocka_unit_test(the_capacity_of_md1_is_found),
        cmocka_unit_test(a_hard_ceiling_is_found),
        cmocka_unit_test(pauses_of_the_server_leave_an_interval_that_holds_the_truth),
        cmocka_unit_test(a_server_that_differs_from_probe_to_probe_gets_an_interval_that_knows_it),
        cmocka_unit_test(the_same_seed_asks_for_the_same_probes),
        cmocka_unit_test(limits_that_nothing_holds_are_said_to_be_broken_at_every_rate),
        cmocka_unit_test(limits_that_hold_at_every_allowed_rate_leave_the_capacity_open),
        cmocka_unit_test(a_client_that_cannot_offer_more_makes_it_a_lower_bound),
        cmocka_unit_test(a_server_that_dies_ends_the_search),
        cmocka_unit_test(a_client_that_stumbles_once_is_not_the_limit),
        cmocka_unit_test(a_server_that_warms_up_for_a_minute_is_not_called_settled),
        cmocka_unit_test(a_settled_server_that_warms_up_is_found_as_it_is_in_the_end),
        cmocka_unit_test(a_percentile_that_no_probe_can_see_is_refused_with_the_length_it_takes),
        cmocka_unit_test(a_server_that_degrades_is_not_called_settled),
        cmocka_unit_test(settings_that_cannot_work_are_refused),
        cmocka_unit_test(a_report_that_makes_no_sense_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

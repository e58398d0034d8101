#include "tests/support/fake_link.h"

#include <string.h>

#include "common/clock.h"
#include "tests/support/test.h"

int64_t fake_now_ns;
int64_t fake_wall_ahead_ns;
int64_t fake_send_ns;

static const uint8_t zeros[4096];

static struct fake_run *run_of(struct agent_link_hub *hub)
{
    return (struct fake_run *)(void *)hub;
}

static int64_t read_clock(void)
{
    return fake_now_ns;
}

static int64_t read_wall_clock(void)
{
    return fake_now_ns + fake_wall_ahead_ns;
}

static void on_handed(void *ctx)
{
    ((struct fake_run *)ctx)->handed++;
}

static void open_link(struct agent_link_hub *hub, void *state, void *ctx,
                      const struct sockaddr *address, socklen_t address_len)
{
    struct fake_run *run = run_of(hub);
    struct fake_link *link = state;
    unsigned connecting = 0;

    (void)address;
    (void)address_len;
    assert_false(link->is_open);
    if (!link->known) {
        assert_true(run->link_count < FAKE_LINKS);
        link->number = run->link_count;
        run->links[run->link_count++] = link;
        link->known = true;
    }
    link->ctx = ctx;
    link->opens++;
    link->answered = 0;
    link->got_before = link->got;
    link->is_open = link->connecting = true;
    run->open_now++;
    for (unsigned i = 0; i < run->link_count; i++)
        connecting += run->links[i]->connecting;
    if (connecting > run->most_connecting)
        run->most_connecting = connecting;
    if (!run->hold_opens)
        fake_opened(run, link->number, run->open_error);
}

static void close_link(struct agent_link_hub *hub, void *state)
{
    struct fake_link *link = state;

    run_of(hub)->open_now -= link->is_open;
    link->is_open = link->connecting = false;
}

static void flush(struct agent_link_hub *hub, void *state)
{
    struct fake_run *run = run_of(hub);
    struct fake_link *link = state;
    uint8_t out[256];
    size_t len;

    assert_true(link->is_open);
    while (!run->full && (len = run->env.pull(link->ctx, out, sizeof(out))) > 0) {
        link->got += len;
        fake_now_ns += fake_send_ns;
    }
}

static const struct agent_link_class fake_link_class = {
    .name = "fake",
    .io = "none",
    .link_size = sizeof(struct fake_link),
    .open = open_link,
    .flush = flush,
    .close = close_link,
};

void fake_init(struct fake_run *run)
{
    static const struct load_request request = { .label = "a byte" };

    *run = (struct fake_run){ .driver = *agent_driver_find("null"), .env = agent_engine_link_env };
    run->workload = (struct load_workload){ .requests = &request,
                                            .request_count = 1,
                                            .pipeline = 1,
                                            .connections = 4,
                                            .queue_max = 100,
                                            .timeout_ns = 10 * LS_NS_PER_S,
                                            .workers = 1,
                                            .workers_total = 1 };
    run->window = (struct load_window){ .start_ns = LS_NS_PER_S,
                                        .measure_ns = LS_NS_PER_S,
                                        .drain_ns = LS_NS_PER_S,
                                        .interval_ns = LS_NS_PER_S };
    fake_now_ns = 1;
    fake_send_ns = 0;
    fake_wall_ahead_ns = 0;
    assert_int_equal(agent_slice_init(&run->sum), LS_OK);
}

void fake_create(struct fake_run *run)
{
    struct agent_engine_setup setup = { .workload = &run->workload,
                                        .window = &run->window,
                                        .driver = &run->driver,
                                        .link = &fake_link_class,
                                        .hub = (struct agent_link_hub *)(void *)run,
                                        .clock = read_clock,
                                        .wall_clock = read_wall_clock,
                                        .handed = on_handed,
                                        .ctx = run };
    struct ls_diag diag = { 0 };

    assert_int_equal(
        agent_recorder_create(run->window.start_ns, run->window.interval_ns, &run->recorder),
        LS_OK);
    setup.recorder = run->recorder;
    if (agent_engine_create(&setup, &run->engine, &diag) != LS_OK)
        fail_msg("%s", diag.text);
}

void fake_fini(struct fake_run *run)
{
    agent_engine_destroy(run->engine);
    assert_int_equal(run->open_now, 0);
    agent_recorder_destroy(run->recorder);
    agent_slice_fini(&run->sum);
}

void fake_collect(struct fake_run *run)
{
    const struct agent_slice *slice;

    while ((slice = agent_recorder_peek(run->recorder)) != NULL) {
        agent_slice_add(&run->sum, slice);
        run->slices += slice->merged + 1;
        agent_recorder_release(run->recorder);
    }
}

void fake_tick(struct fake_run *run, int64_t now_ns)
{
    if (now_ns > fake_now_ns)
        fake_now_ns = now_ns;
    agent_engine_tick(run->engine, fake_now_ns);
    fake_collect(run);
}

void fake_walk(struct fake_run *run, int64_t until_ns)
{
    while (!agent_engine_is_finished(run->engine)) {
        int64_t due_ns = agent_engine_due_ns(run->engine);
        int64_t coarse_ns = agent_engine_coarse_ns(run->engine);
        int64_t next_ns = due_ns < coarse_ns ? due_ns : coarse_ns;

        if (next_ns > until_ns)
            break;
        fake_tick(run, next_ns);
    }
    fake_tick(run, until_ns);
}

void fake_start(struct fake_run *run)
{
    fake_tick(run, fake_now_ns);
    assert_int_equal(agent_engine_unsettled(run->engine), 0);
    fake_now_ns = run->window.start_ns;
    agent_engine_start(run->engine, fake_now_ns);
}

void fake_opened(struct fake_run *run, unsigned link, int error)
{
    run->links[link]->connecting = false;
    if (error != 0) {
        run->links[link]->is_open = false;
        run->open_now--;
    }
    run->env.opened(run->links[link]->ctx, error);
}

void fake_answer(struct fake_run *run, unsigned link, size_t n)
{
    run->links[link]->answered += n;
    run->env.bytes(run->links[link]->ctx, (struct ls_bytes){ .data = zeros, .len = n },
                   run->stamp_ns);
}

void fake_feed(struct fake_run *run, unsigned link, const char *text)
{
    run->env.bytes(run->links[link]->ctx,
                   (struct ls_bytes){ .data = (const unsigned char *)text, .len = strlen(text) },
                   0);
}

uint64_t fake_unanswered(const struct fake_run *run, unsigned link)
{
    const struct fake_link *l = run->links[link];

    return l->is_open ? l->got - l->got_before - l->answered : 0;
}

void fake_end(struct fake_run *run, unsigned link, enum load_outcome how)
{
    run->env.ended(run->links[link]->ctx, how, 0);
}

void fake_drain(struct fake_run *run, unsigned link)
{
    struct fake_link *l = run->links[link];
    uint8_t out[256];
    size_t len;

    while ((len = run->env.pull(l->ctx, out, sizeof(out))) > 0)
        l->got += len;
}

void fake_constant(struct fake_run *run, double rate_per_s)
{
    run->workload.law = LOAD_LAW_CONSTANT;
    run->workload.rate_per_s = rate_per_s;
    run->pieces[0] = (struct ls_rate_piece){ .from_per_s = rate_per_s, .to_per_s = rate_per_s };
    assert_int_equal(ls_rate_pieces_init(run->pieces, 1, NULL), LS_OK);
    run->workload.pieces = run->pieces;
    run->workload.piece_count = 1;
}

struct load_counts *fake_warmup(struct fake_run *run)
{
    return &run->sum.counts[AGENT_WARMUP];
}

struct load_counts *fake_measure(struct fake_run *run)
{
    return &run->sum.counts[AGENT_MEASURE];
}

const struct load_connections *fake_connections(const struct fake_run *run)
{
    return &agent_engine_summarise(run->engine)->connections;
}

void fake_check_over(struct fake_run *run)
{
    fake_collect(run);
    assert_true(agent_engine_is_finished(run->engine));
    assert_true(agent_recorder_is_drained(run->recorder));
    assert_true(load_counts_balance(fake_warmup(run)));
    assert_true(load_counts_balance(fake_measure(run)));
}

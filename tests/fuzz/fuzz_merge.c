/* tests/fuzz/fuzz_merge.c - reports of three agents that say what they like: pairs of a head (agent
 * in the first byte, length in the next two, little endian) and an envelope. Whatever is accepted,
 * the trial's histogram is the sum of the clients'. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/transport.h"
#include "coordinator/result/message.h"
#include "coordinator/run/merge.h"
#include "coordinator/run/verdict.h"

enum { HEAD = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static struct coord_merge *make(bool fixed_count)
{
    static const struct coord_merge_agent agents[] = {
        { "server", LS__ROLE__ROLE_SERVER, 1 },
        { "client-1", LS__ROLE__ROLE_CLIENT, 1 },
        { "client-2", LS__ROLE__ROLE_CLIENT, 1 },
    };
    struct coord_merge_options options = {
        .agents = agents,
        .agent_count = 3,
        .warmup_ns = 1000000000,
        .measure_ns = 20000000000,
        .drain_ns = 1000000000,
        .interval_ns = 1000000000,
        .fixed_count = fixed_count,
    };
    struct coord_merge *merge = NULL;

    require(coord_merge_create(&options, &merge, NULL) == LS_OK);
    require(coord_merge_arm(merge, 1000000, 0, NULL) == LS_OK);
    return merge;
}

static void feed(struct coord_merge *merge, const uint8_t *data, size_t size)
{
    const struct coord_merge_clock clock = { .offset_ns = 12345, .error_ns = 100 };

    while (size >= HEAD) {
        size_t len = (size_t)data[1] | (size_t)data[2] << 8;
        Ls__Envelope *envelope = NULL;
        uint32_t agent = data[0];

        data += HEAD;
        size -= HEAD;
        len = len < size ? len : size;
        if (ls_envelope_unpack((struct ls_bytes){ data, len }, &envelope, NULL) == LS_OK) {
            enum ls_err rc = coord_merge_report(merge, agent, &clock, envelope, NULL);

            require(rc == LS_OK || rc == LS_EPROTO || rc == LS_EINVAL);
        } else if (agent == 0xff) {
            require(coord_merge_lost(merge, 1, NULL) == LS_OK);
        }
        ls_envelope_free(envelope);
        data += len;
        size -= len;
    }
}

static void check(struct coord_merge *merge, const Ls__Trial *trial)
{
    for (unsigned kind = 0; kind < 3; kind++) {
        struct ls_hist *sum = NULL, *all = NULL;

        require(ls_hist_create(&sum) == LS_OK && ls_hist_create(&all) == LS_OK);
        for (uint32_t client = 1; client <= 2; client++)
            (void)coord_merge_hist(merge, client, kind, sum);
        require(coord_merge_hist(merge, UINT32_MAX, kind, all));
        require(ls_hist_equal(sum, all));
        ls_hist_destroy(sum);
        ls_hist_destroy(all);
    }
    require(trial->n_clients == 2);
    require(trial->window->start_skew_ns >= 0 && trial->window->start_skew_error_ns >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct coord_merge *merge = make(size % 2 == 1);
    Ls__Trial *trial = coord_message_new(&ls__trial__descriptor);
    struct coord_merge_progress progress;
    struct coord_verdict_input input = { .server_cpus = 1 };
    struct coord_books books;

    require(trial != NULL && coord_message_string(&trial->status, "done"));
    feed(merge, data, size);
    (void)coord_merge_latest(merge, &progress);
    require(coord_merge_finish(merge, trial, &books, NULL) == LS_OK);
    check(merge, trial);
    input.books = &books;
    coord_verdict_judge(trial, &input);
    coord_message_free(trial);
    coord_merge_destroy(merge);
    return 0;
}

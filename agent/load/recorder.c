#include "agent/load/recorder.h"

#include <stdlib.h>

#include "agent/load/health.h"

enum ls_err agent_slice_init(struct agent_slice *slice)
{
    *slice = (struct agent_slice){ 0 };
    for (unsigned s = 0; s < LS_SERIES_COUNT; s++) {
        if (ls_hist_create(&slice->series[s]) != LS_OK) {
            agent_slice_fini(slice);
            return LS_ENOMEM;
        }
    }
    return LS_OK;
}

void agent_slice_fini(struct agent_slice *slice)
{
    for (unsigned s = 0; s < LS_SERIES_COUNT; s++)
        ls_hist_destroy(slice->series[s]);
    *slice = (struct agent_slice){ 0 };
}

void agent_slice_reset(struct agent_slice *slice)
{
    struct agent_slice empty = { 0 };

    for (unsigned s = 0; s < LS_SERIES_COUNT; s++) {
        empty.series[s] = slice->series[s];
        ls_hist_reset(empty.series[s]);
    }
    *slice = empty;
}

void agent_slice_add(struct agent_slice *dst, const struct agent_slice *src)
{
    for (unsigned i = 0; i < AGENT_PART_COUNT; i++) {
        load_counts_add(&dst->counts[i], &src->counts[i]);
        load_messages_add(&dst->messages[i], &src->messages[i]);
    }
    dst->ok_in_window += src->ok_in_window;
    dst->bytes_in += src->bytes_in;
    dst->bytes_out += src->bytes_out;
    dst->in_flight_ns += src->in_flight_ns;
    load_health_add(&dst->health, &src->health);
    for (unsigned s = 0; s < LS_SERIES_COUNT; s++)
        ls_hist_merge(dst->series[s], src->series[s]);
}

enum ls_err agent_recorder_create(int64_t start_ns, int64_t interval_ns,
                                  struct agent_recorder **out_recorder)
{
    struct agent_recorder *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return LS_ENOMEM;
    if (agent_slice_init(&r->slices[0]) != LS_OK || agent_slice_init(&r->slices[1]) != LS_OK) {
        agent_recorder_destroy(r);
        return LS_ENOMEM;
    }
    atomic_init(&r->handed, NULL);
    atomic_init(&r->finished, false);
    r->current = &r->slices[0];
    r->start_ns = start_ns;
    r->interval_ns = interval_ns;
    r->next_ns = start_ns + interval_ns;
    *out_recorder = r;
    return LS_OK;
}

void agent_recorder_destroy(struct agent_recorder *recorder)
{
    if (recorder == NULL)
        return;
    agent_slice_fini(&recorder->slices[0]);
    agent_slice_fini(&recorder->slices[1]);
    free(recorder);
}

bool agent_recorder_roll(struct agent_recorder *r, int64_t now_ns)
{
    struct agent_slice *full = r->current;
    uint32_t now_index = (uint32_t)((now_ns - r->start_ns) / r->interval_ns);
    uint32_t next_index;

    r->next_ns = r->start_ns + ((int64_t)now_index + 1) * r->interval_ns;
    if (atomic_load_explicit(&r->handed, memory_order_acquire) != NULL) {
        full->merged = now_index - full->index;
        return false;
    }
    next_index = full->index + full->merged + 1;
    full->end_ns = r->start_ns + (int64_t)next_index * r->interval_ns;
    r->current = full == &r->slices[0] ? &r->slices[1] : &r->slices[0];
    r->current->index = next_index;
    /* A worker that was away for several slices has nothing for those between. */
    r->current->merged = now_index - next_index;
    atomic_store_explicit(&r->handed, full, memory_order_release);
    return true;
}

void agent_recorder_finish(struct agent_recorder *r, int64_t now_ns)
{
    if (now_ns >= r->next_ns)
        (void)agent_recorder_roll(r, now_ns);
    r->current->end_ns = now_ns;
    atomic_store_explicit(&r->finished, true, memory_order_release);
}

const struct agent_slice *agent_recorder_peek(struct agent_recorder *r)
{
    /* In this order: what is handed over before the end is seen once the end is. */
    bool finished = atomic_load_explicit(&r->finished, memory_order_acquire);
    struct agent_slice *handed = atomic_load_explicit(&r->handed, memory_order_acquire);

    if (handed != NULL)
        return handed;
    return finished && !r->last_taken ? r->current : NULL;
}

void agent_recorder_release(struct agent_recorder *r)
{
    struct agent_slice *handed = atomic_load_explicit(&r->handed, memory_order_acquire);

    if (handed == NULL) {
        r->last_taken = true;
        return;
    }
    agent_slice_reset(handed);
    atomic_store_explicit(&r->handed, NULL, memory_order_release);
}

bool agent_recorder_is_drained(struct agent_recorder *r)
{
    return atomic_load_explicit(&r->finished, memory_order_acquire) && r->last_taken;
}

/* tests/fuzz/fuzz_hist_codec.c - a histogram from a peer. What is accepted adds up, and encodes to
 * something that decodes to the same. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/hist_codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_sums(const struct ls_hist *hist)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < LS_HIST_LEN; i++)
        sum += ls_hist_count_at(hist, i);
    require(sum == ls_hist_count(hist));
    require(ls_hist_clipped(hist) <= sum);
    require(ls_hist_min(hist) <= ls_hist_quantile(hist, 0.5));
    require(ls_hist_quantile(hist, 1) <= ls_hist_max(hist));
}

static enum ls_err decode_add(struct ls_hist *dst, struct ls_bytes in, struct ls_diag *diag)
{
    static struct ls_hist_sparse sparse; /* one for all inputs, as for all reports */
    enum ls_err rc;

    if (sparse.low == NULL)
        require(ls_hist_sparse_init(&sparse) == LS_OK);
    rc = ls_hist_decode(in, &sparse, diag);
    ls_hist_sparse_add_to(&sparse, dst); /* after a failure it is empty */
    return rc;
}

static void check_round_trip(const struct ls_hist *hist)
{
    struct ls_hist *again = NULL;
    unsigned char *data;
    size_t len;

    require(ls_hist_encode(hist, &data, &len) == LS_OK && len <= LS_HIST_WIRE_MAX);
    require(ls_hist_create(&again) == LS_OK);
    require(decode_add(again, (struct ls_bytes){ data, len }, NULL) == LS_OK);
    require(ls_hist_equal(hist, again));
    free(data);
    ls_hist_destroy(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ls_hist *hist; /* one for all inputs: none may leave anything behind */
    static struct ls_hist *empty;
    struct ls_diag diag = { 0 };
    enum ls_err rc;

    if (hist == NULL)
        require(ls_hist_create(&hist) == LS_OK && ls_hist_create(&empty) == LS_OK);
    rc = decode_add(hist, (struct ls_bytes){ data, size }, &diag);
    if (rc == LS_OK) {
        check_sums(hist);
        check_round_trip(hist);
        ls_hist_reset(hist);
    } else {
        require(rc == LS_EPROTO && diag.code == rc && diag.text[0] != '\0');
    }
    require(ls_hist_equal(hist, empty));
    return 0;
}

/* tests/fuzz/fuzz_hist_log.c - a histogram log from somebody's disk. What is accepted can be
 * written, and reads back equal. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/hist_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_round_trip(const struct ls_hist *hist, int64_t start_ns, int64_t length_ns)
{
    struct ls_hist *again = NULL;
    char *text = NULL;
    size_t len = 0;
    int64_t got_start_ns;
    int64_t got_length_ns;
    FILE *file = open_memstream(&text, &len);

    require(file != NULL && ls_hist_create(&again) == LS_OK);
    require(ls_hist_log_write(file, "t", start_ns, length_ns, hist, NULL) == LS_OK);
    require(fclose(file) == 0);
    file = fmemopen(text, len, "r");
    require(file != NULL);
    require(ls_hist_log_read(file, "t", again, &got_start_ns, &got_length_ns, NULL) == LS_OK);
    require(got_start_ns == start_ns && got_length_ns == length_ns);
    require(ls_hist_equal(hist, again));
    require(fclose(file) == 0);
    free(text);
    ls_hist_destroy(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ls_hist *hist;
    int64_t start_ns;
    int64_t length_ns;
    FILE *file;

    if (hist == NULL)
        require(ls_hist_create(&hist) == LS_OK);
    if (size == 0)
        return 0;
    file = fmemopen((void *)(uintptr_t)data, size, "r"); /* only reads */
    require(file != NULL);
    while (ls_hist_log_read(file, NULL, hist, &start_ns, &length_ns, NULL) == LS_OK)
        check_round_trip(hist, start_ns, length_ns);
    require(ls_hist_count(hist) == 0);
    require(fclose(file) == 0);
    return 0;
}

/* coordinator/result/raw.c: the raw tables read back as they were written, and nothing else reads.
 */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "coordinator/result/raw.h"
#include "tests/support/failmalloc.h"
#include "tests/support/tmpdir.h"

struct rig {
    struct tmpdir tmp;
    char path[300];
};

static int setup(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));

    assert_non_null(rig);
    tmpdir_make(&rig->tmp);
    (void)snprintf(rig->path, sizeof(rig->path), "%s/table.csv", rig->tmp.path);
    *state = rig;
    return 0;
}

static int teardown(void **state)
{
    struct rig *rig = *state;

    tmpdir_remove(&rig->tmp);
    free(rig);
    return 0;
}

static void write_file(const struct rig *rig, const char *text, size_t len)
{
    FILE *file = fopen(rig->path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void write_buf(const struct rig *rig, const struct ls_buf *buf)
{
    assert_true(buf->ok);
    write_file(rig, (const char *)buf->data, buf->len);
}

struct seen {
    unsigned rows;
    struct coord_raw_interval interval;
    struct coord_raw_sample sample;
};

static bool take_interval(void *ctx, const struct coord_raw_interval *row)
{
    struct seen *seen = ctx;

    seen->rows++;
    seen->interval = *row;
    return true;
}

static bool take_sample(void *ctx, const struct coord_raw_sample *row)
{
    struct seen *seen = ctx;

    seen->rows++;
    seen->sample = *row;
    return true;
}

static bool take_nothing(void *ctx, const struct coord_raw_interval *row)
{
    (void)ctx;
    (void)row;
    return false;
}

static struct coord_raw_interval an_interval(void)
{
    struct coord_raw_interval row;

    coord_raw_interval_init(&row);
    row.client = 3;
    row.index = 4000000;
    row.late = 1;
    row.at_ns = -300000000;
    row.start_ns = INT64_MIN;
    row.length_ns = INT64_MAX;
    row.bytes_in = UINT64_MAX;
    row.warmup.sent = 7;
    row.measure.aborted = 9;
    return row;
}

static void an_interval_reads_back(void **state)
{
    const struct rig *rig = *state;
    struct coord_raw_interval row = an_interval();
    struct seen seen = { 0 };
    struct ls_buf buf;

    ls_buf_init(&buf, 1 << 16);
    coord_raw_put_interval_head(&buf);
    coord_raw_put_interval(&buf, &row);
    coord_raw_put_interval(&buf, &row);
    write_buf(rig, &buf);
    assert_int_equal(coord_raw_read_intervals(rig->path, take_interval, &seen, NULL), LS_OK);
    assert_int_equal(seen.rows, 2);
    assert_memory_equal(&seen.interval, &row, sizeof(row));
    assert_int_equal(coord_raw_read_intervals(rig->path, take_nothing, NULL, NULL), LS_ENOMEM);
    ls_buf_fini(&buf);
}

static void a_sample_reads_back(void **state)
{
    const struct rig *rig = *state;
    struct coord_raw_sample row;
    struct seen seen = { 0 };
    struct ls_buf buf;

    coord_raw_sample_init(&row);
    row.usage.at_ns = -1;
    row.usage.rss_bytes = 123456;
    row.usage.threads = UINT32_MAX;
    row.edge = 2;
    row.cpus_steal_ns = 5;
    ls_buf_init(&buf, 1 << 16);
    coord_raw_put_sample_head(&buf);
    coord_raw_put_sample(&buf, &row);
    write_buf(rig, &buf);
    assert_int_equal(coord_raw_read_samples(rig->path, take_sample, &seen, NULL), LS_OK);
    assert_int_equal(seen.rows, 1);
    assert_memory_equal(&seen.sample, &row, sizeof(row));
    ls_buf_fini(&buf);
}

/* A later version may have more of them, in another order. */
static void columns_are_known_by_their_names(void **state)
{
    const struct rig *rig = *state;
    struct coord_raw_sample row;
    struct seen seen = { 0 };
    struct ls_buf head, buf;

    coord_raw_sample_init(&row);
    row.edge = 1;
    ls_buf_init(&head, 1 << 16);
    ls_buf_init(&buf, 1 << 16);
    coord_raw_put_sample_head(&head);
    ls_buf_addf(&buf, "mood,%.*s,weather\nfine,", (int)head.len - 1, (const char *)head.data);
    coord_raw_put_sample(&buf, &row);
    buf.len--;
    ls_buf_adds(&buf, ",sunny\n");
    write_buf(rig, &buf);
    assert_int_equal(coord_raw_read_samples(rig->path, take_sample, &seen, NULL), LS_OK);
    assert_memory_equal(&seen.sample, &row, sizeof(row));
    ls_buf_fini(&head);
    ls_buf_fini(&buf);
}

/* Whatever is cut off, at whichever byte, is refused or is whole rows. */
static void what_is_cut_off_is_refused(void **state)
{
    const struct rig *rig = *state;
    struct coord_raw_interval row = an_interval();
    struct ls_buf buf;
    size_t head;

    ls_buf_init(&buf, 1 << 16);
    coord_raw_put_interval_head(&buf);
    head = buf.len;
    coord_raw_put_interval(&buf, &row);
    for (size_t len = 0; len < buf.len; len++) {
        struct seen seen = { 0 };
        struct ls_diag diag = { .text = "" };

        write_file(rig, (const char *)buf.data, len);
        assert_int_equal(coord_raw_read_intervals(rig->path, take_interval, &seen, &diag),
                         len == head ? LS_OK : LS_EPROTO);
        assert_int_equal(seen.rows, 0);
        assert_true(len == head || strstr(diag.text, "table.csv, line ") != NULL);
    }
    ls_buf_fini(&buf);
}

static void what_is_no_such_table_is_refused(void **state)
{
    const struct rig *rig = *state;
    static const char *const rows[] = {
        "x", "-1", "+1", "", " 1", "1 ", "99999999999999999999", "4294967296", "1.5"
    };
    struct ls_diag diag;
    struct seen seen = { 0 };

    for (size_t i = 0; i < LS_ARRAY_LEN(rows); i++) {
        struct coord_raw_interval row = an_interval();
        struct ls_buf buf;
        char *comma;

        ls_buf_init(&buf, 1 << 16);
        coord_raw_put_interval_head(&buf);
        ls_buf_addf(&buf, "%s", rows[i]); /* in place of the client's number */
        {
            struct ls_buf rest;

            ls_buf_init(&rest, 1 << 16);
            coord_raw_put_interval(&rest, &row);
            comma = strchr((const char *)rest.data, ',');
            ls_buf_adds(&buf, comma);
            ls_buf_fini(&rest);
        }
        write_buf(rig, &buf);
        assert_int_equal(coord_raw_read_intervals(rig->path, take_interval, &seen, &diag),
                         LS_EPROTO);
        assert_non_null(strstr(diag.text, "line 2"));
        ls_buf_fini(&buf);
    }
    write_file(rig, "edge,edge\n", 10);
    assert_int_equal(coord_raw_read_samples(rig->path, take_sample, &seen, &diag), LS_EPROTO);
    write_file(rig, "at_ns\n1\n", 8);
    assert_int_equal(coord_raw_read_samples(rig->path, take_sample, &seen, &diag), LS_EPROTO);
    assert_non_null(strstr(diag.text, "a column is missing"));
    assert_int_equal(remove(rig->path), 0);
    assert_int_equal(coord_raw_read_samples(rig->path, take_sample, &seen, &diag), LS_EIO);
    assert_int_equal(mkfifo(rig->path, 0600), 0); /* nobody will ever write to it */
    assert_int_equal(coord_raw_read_samples(rig->path, take_sample, &seen, &diag), LS_EINVAL);
    assert_int_equal(seen.rows, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_interval_reads_back),
        cmocka_unit_test(a_sample_reads_back),
        cmocka_unit_test(columns_are_known_by_their_names),
        cmocka_unit_test(what_is_cut_off_is_refused),
        cmocka_unit_test(what_is_no_such_table_is_refused),
    };

    return cmocka_run_group_tests_name("coordinator.raw", tests, setup, teardown);
}

#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/transport_impl.h"
#include "tests/support/failmalloc.h"

#define MAX 1000u

static struct ls_bytes view(const struct ls_buf *buf)
{
    return (struct ls_bytes){ buf->data, buf->len };
}

static enum ls_err unpack(struct ls_bytes in, Ls__Envelope **out, struct ls_diag *diag)
{
    unsigned char *copy = malloc(in.len + 1); /* so that a sanitizer sees a read beyond the end */
    enum ls_err rc;

    assert_non_null(copy);
    if (in.len > 0)
        memcpy(copy + 1, in.data, in.len);
    rc = ls_envelope_unpack((struct ls_bytes){ copy + 1, in.len }, out, diag);
    free(copy);
    return rc;
}

static void add(struct ls_buf *buf, const char *bytes, size_t len)
{
    ls_buf_add(buf, bytes, len);
    assert_true(buf->ok);
}

static void add_varint(struct ls_buf *buf, uint64_t value)
{
    do {
        char byte = (char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));

        add(buf, &byte, 1);
        value >>= 7;
    } while (value > 0);
}

/* Version 1, a run id, sequence 3 and then a field of the given number and bytes. */
static void start(struct ls_buf *buf, unsigned id, const char *body, size_t len)
{
    ls_buf_init(buf, 8u << 20);
    add(buf, "\x08\x01\x12\x01r", 5);
    if (id >= 20)
        add(buf, "\x18\x03", 2);
    add_varint(buf, id << 3 | 2);
    add_varint(buf, len);
    add(buf, body, len);
}

/* ---- the stream ---- */

static void frames_come_out_as_they_went_in_however_they_are_cut(void **state)
{
    static const unsigned char stream[] = "\x03\0\0\0abc\x01\0\0\0x\x05\0\0\0hello";
    struct ls_bytes envelope;
    size_t bytes = 0;

    (void)state;
    for (size_t len = 0; len < 7; len++) {
        assert_int_equal(
            ls_frame_next((struct ls_bytes){ stream, len }, MAX, &envelope, &bytes, NULL),
            LS_EAGAIN);
        assert_int_equal(bytes, len < LS_FRAME_HEAD ? LS_FRAME_HEAD : 7);
    }
    for (size_t len = 7; len < sizeof(stream); len++) {
        assert_int_equal(
            ls_frame_next((struct ls_bytes){ stream, len }, MAX, &envelope, &bytes, NULL), LS_OK);
        assert_int_equal(bytes, 7);
        assert_int_equal(envelope.len, 3);
        assert_memory_equal(envelope.data, "abc", 3);
    }
}

static void lengths_outside_the_limit_are_refused_at_sight(void **state)
{
    static const struct {
        unsigned char head[LS_FRAME_HEAD];
        enum ls_err rc;
    } cases[] = {
        { { 0, 0, 0, 0 }, LS_EPROTO },
        { { MAX & 0xff, MAX >> 8, 0, 0 }, LS_EAGAIN },
        { { (MAX + 1) & 0xff, (MAX + 1) >> 8, 0, 0 }, LS_EPROTO },
        { { 0, 0, 0, 1 }, LS_EPROTO },
        { { 0xff, 0xff, 0xff, 0xff }, LS_EPROTO },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct ls_bytes envelope;
        size_t bytes = 0;

        assert_int_equal(ls_frame_next((struct ls_bytes){ cases[i].head, LS_FRAME_HEAD }, MAX,
                                       &envelope, &bytes, NULL),
                         cases[i].rc);
    }
}

/* ---- one envelope ---- */

static void what_is_packed_unpacks_to_the_same(void **state)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__Abort abort_body = LS__ABORT__INIT;
    Ls__Envelope *back = NULL;
    char why[] = "gr\xc3\xbc\xc3\x9f";
    char run[] = "run-1";
    unsigned char bytes[128];
    size_t len;

    (void)state;
    abort_body.trial = 7;
    abort_body.why = why;
    envelope.version = LS_WIRE_VERSION;
    envelope.run_id = run;
    envelope.seq = 3;
    envelope.body_case = LS__ENVELOPE__BODY_ABORT;
    envelope.abort = &abort_body;
    len = ls__envelope__pack(&envelope, bytes);
    assert_int_equal(unpack((struct ls_bytes){ bytes, len }, &back, NULL), LS_OK);
    assert_string_equal(back->run_id, run);
    assert_int_equal(back->seq, 3);
    assert_int_equal(back->abort->trial, 7);
    assert_string_equal(back->abort->why, why);
    ls_envelope_free(back);
}

static void every_cut_and_every_flipped_bit_is_survived(void **state)
{
    struct ls_buf buf;

    (void)state;
    start(&buf, 21,
          "\x08\x05\x12\x03"
          "0-3\x3a\x04\x12\x02xy",
          13); /* some of a Prepare */
    for (size_t len = 0; len <= buf.len; len++) {
        Ls__Envelope *out = NULL;

        (void)unpack((struct ls_bytes){ buf.data, len }, &out, NULL);
        ls_envelope_free(out);
    }
    for (size_t bit = 0; bit < buf.len * 8; bit++) {
        Ls__Envelope *out = NULL;

        buf.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
        (void)unpack(view(&buf), &out, NULL);
        ls_envelope_free(out);
        buf.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    ls_buf_fini(&buf);
}

static void what_is_not_right_is_refused_with_its_reason(void **state)
{
#define BYTES(text) text, sizeof(text) - 1
    static const struct {
        const char *bytes;
        size_t len;
        const char *says;
    } cases[] = {
        { BYTES(""), "version 0" },
        { BYTES("\xff\xff\xff"), "version 0" },
        { BYTES("\x72\x00"), "version 0" },                  /* a ping without a version */
        { BYTES("\x08\x02\x72\x00"), "protocol version 2" }, /* a newer one */
        { BYTES("\x08\x01"), "without a body" },
        { BYTES("\x08\x01\xfa\x01\x00"), "without a body" }, /* field 31 */
        { BYTES("\x08\x01\x18\x01\x72\x00"), "ping with a seq" },
        { BYTES("\x08\x01\xb2\x01\x00"), "arm without a seq" },
        { BYTES("\x08\x01\x08\x01\x72\x00"), "Envelope.version is there twice" },
        { BYTES("\x08\x01\x72\x00\x72\x00"), "Envelope.ping is there twice" },
        { BYTES("\x08\x01\x72\x00\x6a\x00"), "both ping and ack" },
        { BYTES("\x08\x01\x72\x05"), "cut short" },
        { BYTES("\x08\x01\x73\x74"), "malformed" }, /* a group */
        { BYTES("\x08\x01\x00\x00"), "malformed" }, /* field 0 */
        { BYTES("\x08\x01\x72\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), "malformed" },
        { BYTES("\x08\x01\x12\x02\xc3(\x72\x00"), "Envelope.run_id is not UTF-8" },
        { BYTES("\x08\x01\x12\x03"
                "a\0b\x72\x00"),
          "Envelope.run_id is not UTF-8" },
        { BYTES("\x08\x01\x52\x03\x0a\x01\xff"), "Hello.agent is not UTF-8" },
        { BYTES("\x08\x01\x52\x02\x10\x09"), "Hello.role has the unknown value 9" },
        { BYTES("\x08\x01\x10\x05\x72\x00"), "does not decode" }, /* run_id as a number */
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct ls_diag diag = { 0 };
        Ls__Envelope *out = NULL;

        assert_int_equal(
            unpack((struct ls_bytes){ (const unsigned char *)cases[i].bytes, cases[i].len }, &out,
                   &diag),
            LS_EPROTO);
        assert_null(out);
        if (strstr(diag.text, cases[i].says) == NULL)
            fail_msg("case %zu: \"%s\" instead of \"%s\"", i, diag.text, cases[i].says);
    }
}

/* ---- little input, much memory ---- */

/* n empty submessages of a repeated field: two bytes each on the wire, eighty or so in memory. */
static void expect_bomb_is_refused(unsigned body, unsigned field, size_t n)
{
    struct ls_buf inner;
    struct ls_buf buf;
    struct ls_diag diag = { 0 };
    Ls__Envelope *out = NULL;

    ls_buf_init(&inner, 8u << 20);
    for (size_t i = 0; i < n; i++) {
        add_varint(&inner, field << 3 | 2);
        add_varint(&inner, 0);
    }
    start(&buf, body, (const char *)inner.data, inner.len);
    assert_int_equal(unpack(view(&buf), &out, &diag), LS_ENOMEM);
    assert_null(out);
    ls_buf_fini(&inner);
    ls_buf_fini(&buf);
}

static void small_input_cannot_become_much_memory(void **state)
{
    (void)state;
    expect_bomb_is_refused(41, 15, 500000); /* IntervalReport.workers */
    expect_bomb_is_refused(42, 11, 400000); /* ClientReport.workers */
    expect_bomb_is_refused(21, 5, 500000);  /* Prepare.files */
}

static void unknown_fields_count_against_the_budget(void **state)
{
    struct ls_buf buf;
    struct ls_diag diag = { 0 };
    Ls__Envelope *out = NULL;

    (void)state;
    start(&buf, 14, "", 0);
    for (unsigned i = 0; i < 200000; i++)
        add(&buf, "\x98\x06\x00", 3); /* field 99 */
    assert_int_equal(unpack(view(&buf), &out, &diag), LS_ENOMEM);
    ls_buf_fini(&buf);
}

static void honest_large_messages_fit_the_budget(void **state)
{
    struct ls_buf buf;
    Ls__Envelope *out = NULL;
    size_t len = LS_FRAME_MAX_FROM_COORD - 64;
    char *content = calloc(1, len + 8);
    struct ls_buf inner;

    (void)state;
    assert_non_null(content);
    ls_buf_init(&inner, 8u << 20);
    add_varint(&inner, 3 << 3 | 2); /* PutFile.data */
    add_varint(&inner, len);
    add(&inner, content, len);
    start(&buf, 20, (const char *)inner.data, inner.len);
    assert_int_equal(unpack(view(&buf), &out, NULL), LS_OK);
    assert_int_equal(out->put_file->data.len, len);
    ls_envelope_free(out);
    ls_buf_fini(&inner);
    ls_buf_fini(&buf);
    free(content);
}

static void unpack_once(void *ctx)
{
    const struct ls_buf *buf = ctx;
    Ls__Envelope *out = NULL;
    enum ls_err rc = ls_envelope_unpack(view(buf), &out, NULL);

    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    ls_envelope_free(out);
}

static void unpacking_survives_each_failed_allocation(void **state)
{
    struct ls_buf buf;

    (void)state;
    start(&buf, 21,
          "\x08\x05\x12\x03"
          "0-3\x2a\x04\x0a\x02xy\x2a\x00",
          15);
    assert_true(failmalloc_each(unpack_once, &buf) >= 5);
    ls_buf_fini(&buf);
}

/* ---- what is sent ---- */

static void what_the_other_end_would_refuse_is_not_packed(void **state)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__Failure failure = LS__FAILURE__INIT;
    Ls__ServerReport server = LS__SERVER_REPORT__INIT;
    struct ls_packed packed = { 0 };
    struct ls_diag diag = { 0 };
    char log[] = "listening on \xff";

    (void)state;
    assert_int_equal(ls_packed_make(&envelope, LS_BODY_REPORT, MAX, &packed, &diag), LS_EINVAL);
    failure.log_tail = log;
    server.failure = &failure;
    envelope.body_case = LS__ENVELOPE__BODY_SERVER;
    envelope.server = &server;
    assert_int_equal(ls_packed_make(&envelope, LS_BODY_COMMAND, MAX, &packed, &diag), LS_EINVAL);
    assert_non_null(strstr(diag.text, "server is not a command"));
    assert_int_equal(ls_packed_make(&envelope, LS_BODY_REPORT, MAX, &packed, &diag), LS_EINVAL);
    assert_non_null(strstr(diag.text, "Failure.log_tail is not UTF-8"));
    log[sizeof(log) - 2] = '.';
    assert_int_equal(ls_packed_make(&envelope, LS_BODY_REPORT, 64, &packed, &diag), LS_ERANGE);
    assert_int_equal(ls_packed_make(&envelope, LS_BODY_REPORT, MAX, &packed, &diag), LS_OK);
    free(packed.data);
}

static void pack_once(void *ctx)
{
    struct ls_packed packed = { 0 };
    enum ls_err rc = ls_packed_make(ctx, LS_BODY_COMMAND, MAX, &packed, NULL);

    assert_int_equal(rc, failmalloc_hit() ? LS_ENOMEM : LS_OK);
    free(packed.data);
}

static void packing_survives_each_failed_allocation(void **state)
{
    Ls__Envelope envelope = LS__ENVELOPE__INIT;
    Ls__Collect collect = LS__COLLECT__INIT;

    (void)state;
    envelope.body_case = LS__ENVELOPE__BODY_COLLECT;
    envelope.collect = &collect;
    assert_true(failmalloc_each(pack_once, &envelope) >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_out_as_they_went_in_however_they_are_cut),
        cmocka_unit_test(lengths_outside_the_limit_are_refused_at_sight),
        cmocka_unit_test(what_is_packed_unpacks_to_the_same),
        cmocka_unit_test(every_cut_and_every_flipped_bit_is_survived),
        cmocka_unit_test(what_is_not_right_is_refused_with_its_reason),
        cmocka_unit_test(small_input_cannot_become_much_memory),
        cmocka_unit_test(unknown_fields_count_against_the_budget),
        cmocka_unit_test(honest_large_messages_fit_the_budget),
        cmocka_unit_test(unpacking_survives_each_failed_allocation),
        cmocka_unit_test(what_the_other_end_would_refuse_is_not_packed),
        cmocka_unit_test(packing_survives_each_failed_allocation),
    };
    return cmocka_run_group_tests_name("common.frame", tests, NULL, NULL);
}

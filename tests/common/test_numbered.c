#include "tests/support/test.h"

#include <stdlib.h>

#include "common/rng.h"
#include "common/transport_impl.h"
#include "tests/support/failmalloc.h"

static struct ls_packed message(size_t len)
{
    struct ls_packed packed = { .data = malloc(len), .len = len };

    assert_non_null(packed.data);
    return packed;
}

static void push(struct ls_numbered *n)
{
    assert_int_equal(ls_numbered_push(n, message(8), NULL), LS_OK);
}

static void the_ring_holds_what_it_says_and_no_more(void **state)
{
    struct ls_numbered n;
    struct ls_packed extra = message(8);

    (void)state;
    ls_numbered_init(&n, 20, 1000);
    for (unsigned i = 0; i < 20; i++)
        push(&n);
    assert_int_equal(ls_numbered_push(&n, extra, NULL), LS_EAGAIN);
    n.sent = n.last;
    assert_int_equal(ls_numbered_ack(&n, 1, NULL), LS_OK);
    assert_int_equal(ls_numbered_push(&n, extra, NULL), LS_OK);
    assert_int_equal(n.last, 21);
    ls_numbered_fini(&n);
}

static void the_bytes_are_bounded_but_one_message_always_goes(void **state)
{
    struct ls_numbered n;
    struct ls_packed large = message(2000);

    (void)state;
    ls_numbered_init(&n, 20, 1000);
    assert_int_equal(ls_numbered_push(&n, large, NULL), LS_OK);
    large = message(1);
    assert_int_equal(ls_numbered_push(&n, large, NULL), LS_EAGAIN);
    n.sent = 1;
    assert_int_equal(ls_numbered_ack(&n, 1, NULL), LS_OK);
    assert_int_equal(n.bytes, 0);
    assert_int_equal(ls_numbered_push(&n, large, NULL), LS_OK);
    ls_numbered_fini(&n);
}

static void impossible_acknowledgements_are_refused(void **state)
{
    struct ls_numbered n;

    (void)state;
    ls_numbered_init(&n, 20, 1000);
    for (unsigned i = 0; i < 5; i++)
        push(&n);
    n.sent = 3;
    assert_int_equal(ls_numbered_ack(&n, 4, NULL), LS_EPROTO); /* not sent */
    assert_int_equal(ls_numbered_ack(&n, UINT64_MAX, NULL), LS_EPROTO);
    assert_int_equal(ls_numbered_ack(&n, 2, NULL), LS_OK);
    assert_int_equal(ls_numbered_ack(&n, 1, NULL), LS_OK); /* an old one says nothing new */
    assert_int_equal(n.acked, 2);
    assert_int_equal(ls_numbered_resume(&n, 1, NULL), LS_EPROTO); /* it had acknowledged 2 */
    assert_int_equal(ls_numbered_resume(&n, 6, NULL), LS_EPROTO); /* never made */
    assert_int_equal(ls_numbered_resume(&n, 4, NULL), LS_OK);
    assert_int_equal(n.acked, 4);
    assert_int_equal(n.sent, 4);
    ls_numbered_fini(&n);
}

static void each_number_is_taken_once_and_none_is_left_out(void **state)
{
    struct ls_numbered n;

    (void)state;
    ls_numbered_init(&n, 20, 1000);
    assert_int_equal(ls_numbered_check(&n, 2, NULL), LS_EPROTO);
    assert_int_equal(ls_numbered_check(&n, 1, NULL), LS_OK);
    n.taken = 1;
    assert_int_equal(ls_numbered_check(&n, 1, NULL), LS_EAGAIN);
    assert_int_equal(ls_numbered_check(&n, 3, NULL), LS_EPROTO);
    assert_int_equal(ls_numbered_check(&n, 2, NULL), LS_OK);
    ls_numbered_fini(&n);
}

/* Whatever is pushed and acknowledged, a slot holds the message of its number. */
static void messages_keep_their_numbers_while_the_ring_grows_and_shrinks(void **state)
{
    struct ls_numbered n;
    struct ls_rng rng;

    (void)state;
    ls_rng_init(&rng, 1, 1);
    ls_numbered_init(&n, 500, 1u << 30);
    for (unsigned round = 0; round < 20000; round++) {
        uint64_t kept = n.last - n.acked;

        if (ls_rng_below(&rng, 100) < (round / 2000 % 2 != 0 ? 40 : 60) && kept < n.max) {
            struct ls_packed packed = message((size_t)((n.last + 1) % 50 + 1));

            assert_int_equal(ls_numbered_push(&n, packed, NULL), LS_OK);
        } else if (kept > 0) {
            n.sent = n.last;
            assert_int_equal(
                ls_numbered_ack(&n, n.acked + 1 + ls_rng_below(&rng, kept < 3 ? kept : 3), NULL),
                LS_OK);
        }
        for (uint64_t seq = n.acked + 1; seq <= n.last; seq += 1 + n.cap / 4)
            assert_int_equal(n.slots[seq % n.cap].len, seq % 50 + 1);
    }
    ls_numbered_fini(&n);
}

static void push_many(void *ctx)
{
    struct ls_numbered n;
    bool failed = false;

    (void)ctx;
    ls_numbered_init(&n, 100, 1000);
    for (unsigned i = 0; i < 40; i++) {
        struct ls_packed packed = { .data = malloc(4), .len = 4 };
        enum ls_err rc;

        if (packed.data == NULL) {
            failed = true;
            continue;
        }
        rc = ls_numbered_push(&n, packed, NULL);
        if (rc != LS_OK)
            free(packed.data);
        failed = failed || rc == LS_ENOMEM;
    }
    assert_true(failed == failmalloc_hit());
    ls_numbered_fini(&n);
}

static void pushing_survives_each_failed_allocation(void **state)
{
    (void)state;
    assert_true(failmalloc_each(push_many, NULL) > 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ring_holds_what_it_says_and_no_more),
        cmocka_unit_test(the_bytes_are_bounded_but_one_message_always_goes),
        cmocka_unit_test(impossible_acknowledgements_are_refused),
        cmocka_unit_test(each_number_is_taken_once_and_none_is_left_out),
        cmocka_unit_test(messages_keep_their_numbers_while_the_ring_grows_and_shrinks),
        cmocka_unit_test(pushing_survives_each_failed_allocation),
    };
    return cmocka_run_group_tests_name("common.numbered", tests, NULL, NULL);
}

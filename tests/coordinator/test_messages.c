/* The counters of WebSocket's messages: sums, differences, books. */
#include "tests/support/test.h"

#include <string.h>

#include "coordinator/result/messages.h"

static Ls__Messages some(uint64_t from)
{
    Ls__Messages m = LS__MESSAGES__INIT;

    m.sent = from;
    m.expected = from + 1;
    m.received = from + 2;
    m.lost = from + 3;
    m.duplicated = from + 4;
    m.out_of_order = from + 5;
    m.corrupted = from + 6;
    m.received_in_window = from + 7;
    m.pings = from + 8;
    m.closes = from + 9;
    return m;
}

static void each_counter_is_added_and_told_apart(void **state)
{
    Ls__Messages sum = some(100);
    const Ls__Messages more = some(1000);
    const Ls__Messages want = some(1100);
    uint64_t a = 0, b = 0;

    (void)state;
    assert_string_equal(coord_messages_differ(&sum, &more, &a, &b), "sent");
    assert_int_equal(a, 100);
    assert_int_equal(b, 1000);
    coord_messages_add(&sum, &more);
    assert_int_equal(sum.sent, want.sent);
    assert_int_equal(sum.closes, 100 + 1000 + 18);
    coord_messages_add(&sum, NULL);
    assert_null(coord_messages_differ(&sum, &sum, &a, &b));
    sum.closes++;
    assert_string_equal(coord_messages_differ(&sum, NULL, &a, &b), "sent");
}

static void the_first_close_code_stays(void **state)
{
    Ls__Messages sum = LS__MESSAGES__INIT;
    Ls__Messages one = LS__MESSAGES__INIT;

    (void)state;
    one.close_code = 1011;
    coord_messages_add(&sum, &one);
    one.close_code = 1000;
    coord_messages_add(&sum, &one);
    assert_int_equal(sum.close_code, 1011);
}

static void what_is_to_come_comes_or_is_known_to_be_lost(void **state)
{
    Ls__Messages m = LS__MESSAGES__INIT;
    char text[200];

    (void)state;
    assert_true(coord_messages_balance(NULL, text, sizeof(text)));
    m.expected = 12;
    m.received = 10;
    m.lost = 2;
    assert_true(coord_messages_balance(&m, text, sizeof(text)));
    m.lost = 1;
    assert_false(coord_messages_balance(&m, text, sizeof(text)));
    assert_string_equal(text, "12 messages were to come, but 10 came and 1 are known to be lost");
    m.out_of_order = 3;
    m.pings = 7;
    assert_string_equal(coord_messages_describe(&m, text, sizeof(text)), "1 lost, 3 out_of_order");
    m.lost = m.out_of_order = 0;
    assert_string_equal(coord_messages_describe(&m, text, sizeof(text)), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_counter_is_added_and_told_apart),
        cmocka_unit_test(the_first_close_code_stays),
        cmocka_unit_test(what_is_to_come_comes_or_is_known_to_be_lost),
    };

    return cmocka_run_group_tests_name("coordinator.messages", tests, NULL, NULL);
}

/* coordinator/run/knee.c: curves whose bend is known. */
#include "tests/support/test.h"

#include <math.h>

#include "common/attr.h"
#include "coordinator/run/knee.h"

static void a_line_that_stops_rising_bends_where_it_stops(void **state)
{
    struct coord_knee_point points[] = { { 8, 400 },  { 1, 100 }, { 2, 200 }, { 4, 400 },
                                         { 16, 400 }, { 4, 404 }, { 32, 400 } };
    struct coord_knee knee;

    (void)state;
    assert_true(coord_knee_find(points, LS_ARRAY_LEN(points), COORD_KNEE_SATURATES, &knee));
    assert_true(fabs(knee.at - 4) < 1e-9);
    assert_true(fabs(knee.low - 2) < 1e-9);
    assert_true(fabs(knee.high - 8) < 1e-9);
    assert_true(knee.bend > 0.8 && knee.bend <= 1);
}

/* M/M/1: 1 / (1 - rho) from 0 to 0.9, scaled to 0..1, is farthest from the diagonal where its slope
 * is 1: (1 - rho)^2 = 0.1, rho = 0.684. */
static void the_latency_of_mm1_bends_where_its_slope_is_one(void **state)
{
    struct coord_knee_point points[91];
    struct coord_knee knee;

    (void)state;
    for (int i = 0; i <= 90; i++)
        points[i] = (struct coord_knee_point){ i * 10.0, 1 / (1 - i / 100.0) };
    assert_true(coord_knee_find(points, LS_ARRAY_LEN(points), COORD_KNEE_EXPLODES, &knee));
    assert_true(fabs(knee.at - 680) < 1e-9);
    assert_true(knee.low < 680 && knee.high > 680);
}

static void what_has_no_bend_has_no_knee(void **state)
{
    struct coord_knee_point line[] = { { 1, 1 }, { 2, 2 }, { 3, 3.05 }, { 4, 4 }, { 5, 5 } };
    struct coord_knee_point few[] = { { 1, 1 }, { 2, 5 }, { 2, 5 }, { 3, 5 } };
    struct coord_knee_point flat[] = { { 1, 7 }, { 2, 7 }, { 3, 7 }, { 4, 7 } };
    struct coord_knee knee;

    (void)state;
    assert_false(coord_knee_find(line, LS_ARRAY_LEN(line), COORD_KNEE_SATURATES, &knee));
    assert_false(coord_knee_find(few, LS_ARRAY_LEN(few), COORD_KNEE_SATURATES, &knee));
    assert_false(coord_knee_find(flat, LS_ARRAY_LEN(flat), COORD_KNEE_SATURATES, &knee));
    assert_false(coord_knee_find(flat, 0, COORD_KNEE_SATURATES, &knee));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_that_stops_rising_bends_where_it_stops),
        cmocka_unit_test(the_latency_of_mm1_bends_where_its_slope_is_one),
        cmocka_unit_test(what_has_no_bend_has_no_knee),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "coordinator/history/change_points.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"

struct split {
    size_t at; /* 0: none is possible */
    double distance;
};

/* Sum of |x - y| over values[from, end). */
static double apart(const double *values, size_t from, size_t end, double x)
{
    double sum = 0;

    for (size_t i = from; i < end; i++)
        sum += fabs(x - values[i]);
    return sum;
}

/* The split with the largest energy distance of its sides, times the harmonic weight of their
 * lengths. Moving one value from right to left changes the three sums by its distances alone. */
static struct split best_split(const double *values, size_t n)
{
    double between = 0, left = 0, right = 0;
    struct split best = { 0 };

    for (size_t i = 0; i < n; i++)
        right += apart(values, i + 1, n, values[i]);
    for (size_t at = 1; at + COORD_CHANGE_LEAST <= n; at++) {
        double to_left = apart(values, 0, at - 1, values[at - 1]);
        double to_right = apart(values, at, n, values[at - 1]);
        double l = (double)at, r = (double)(n - at), distance;

        between += to_right - to_left;
        left += to_left;
        right -= to_right;
        if (at < COORD_CHANGE_LEAST)
            continue;
        distance = l * r / (l + r) *
                   (2 * between / (l * r) - 2 * left / (l * (l - 1)) - 2 * right / (r * (r - 1)));
        if (best.at == 0 || distance > best.distance)
            best = (struct split){ .at = at, .distance = distance };
    }
    return best;
}

static void shuffle(double *values, size_t n, struct ls_rng *rng)
{
    for (size_t i = n; i > 1; i--) {
        size_t k = (size_t)ls_rng_below(rng, i);
        double kept = values[i - 1];

        values[i - 1] = values[k];
        values[k] = kept;
    }
}

/* How often chance alone makes a split like that of these values. */
static double chance_of(const double *values, size_t n, double distance, double *scratch,
                        struct ls_rng *rng)
{
    unsigned as_far = 1;

    (void)memcpy(scratch, values, n * sizeof(*scratch));
    for (unsigned i = 0; i < COORD_CHANGE_PERMUTATIONS; i++) {
        shuffle(scratch, n, rng);
        as_far += best_split(scratch, n).distance >= distance;
    }
    return (double)as_far / (COORD_CHANGE_PERMUTATIONS + 1);
}

static int by_place(const void *a, const void *b)
{
    const struct coord_change *x = a, *y = b;

    return (x->at > y->at) - (x->at < y->at);
}

enum ls_err coord_change_points(const double *values, size_t n, uint64_t seed,
                                struct coord_change **out, size_t *out_count)
{
    struct coord_change *changes;
    size_t(*todo)[2]; /* segments that are still to be looked at */
    double *scratch;
    size_t count = 0, waiting = 0;
    enum ls_err rc = LS_ENOMEM;

    if (n > COORD_CHANGE_MOST)
        return LS_ERANGE;
    changes = calloc(n + 1, sizeof(*changes));
    todo = calloc(n + 1, sizeof(*todo));
    scratch = calloc(n + 1, sizeof(*scratch));
    if (changes == NULL || todo == NULL || scratch == NULL)
        goto out;
    todo[waiting][0] = 0;
    todo[waiting++][1] = n;
    while (waiting > 0) {
        size_t from = todo[--waiting][0], end = todo[waiting][1];
        struct split split = best_split(values + from, end - from);
        struct ls_rng rng;
        double p;

        if (split.at == 0 || split.distance <= 0)
            continue;
        ls_rng_init(&rng, seed, from * COORD_CHANGE_MOST + end);
        p = chance_of(values + from, end - from, split.distance, scratch, &rng);
        if (p > COORD_CHANGE_LEVEL)
            continue;
        changes[count++] = (struct coord_change){ .at = from + split.at, .p = p };
        todo[waiting][0] = from;
        todo[waiting++][1] = from + split.at;
        todo[waiting][0] = from + split.at;
        todo[waiting++][1] = end;
    }
    qsort(changes, count, sizeof(*changes), by_place);
    *out = changes;
    *out_count = count;
    changes = NULL;
    rc = LS_OK;
out:
    free(changes);
    free(todo);
    free(scratch);
    return rc;
}

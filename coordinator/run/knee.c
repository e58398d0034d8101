#include "coordinator/run/knee.h"

#include <math.h>
#include <stdlib.h>

static int by_x(const void *a, const void *b)
{
    const struct coord_knee_point *p = a, *q = b;

    return (p->x > q->x) - (p->x < q->x);
}

static size_t merge_equal(struct coord_knee_point *points, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count;) {
        double sum = 0;
        size_t n = 0;

        for (; i + n < count && points[i + n].x <= points[i].x; n++)
            sum += points[i + n].y;
        points[kept++] = (struct coord_knee_point){ points[i].x, sum / (double)n };
        i += n;
    }
    return kept;
}

bool coord_knee_find(struct coord_knee_point *points, size_t count, enum coord_knee_shape shape,
                     struct coord_knee *out)
{
    double lowest = INFINITY, highest = -INFINITY, width, most = 0;
    size_t at = 0;

    qsort(points, count, sizeof(*points), by_x);
    count = merge_equal(points, count);
    if (count < COORD_KNEE_POINTS_LEAST)
        return false;
    for (size_t i = 0; i < count; i++) {
        lowest = fmin(lowest, points[i].y);
        highest = fmax(highest, points[i].y);
    }
    width = points[count - 1].x - points[0].x;
    if (!(highest > lowest))
        return false;
    for (size_t i = 1; i + 1 < count; i++) {
        double x = (points[i].x - points[0].x) / width;
        double y = (points[i].y - lowest) / (highest - lowest);
        double far = shape == COORD_KNEE_SATURATES ? y - x : x - y;

        if (far > most) {
            most = far;
            at = i;
        }
    }
    if (most < COORD_KNEE_BEND_LEAST)
        return false;
    *out = (struct coord_knee){
        .at = points[at].x, .low = points[at - 1].x, .high = points[at + 1].x, .bend = most
    };
    return true;
}

/* coordinator/run/knee.h - where a curve bends. Pure.
 *
 * Kneedle (Satopaa, Albrecht, Irwin, Raghavan, "Finding a Kneedle in a Haystack", ICDCSW 2011), for
 * few points that are all known: both axes are scaled to 0..1, and the knee is where the curve is
 * farthest from the diagonal. Without its smoothing spline and its sensitivity, which are for
 * streams of noisy points.
 */
#ifndef LS_COORDINATOR_RUN_KNEE_H
#define LS_COORDINATOR_RUN_KNEE_H

#include <stdbool.h>
#include <stddef.h>

#define COORD_KNEE_POINTS_LEAST 4u /* of different x */
#define COORD_KNEE_BEND_LEAST   0.1
#define COORD_KNEE_METHOD       "Kneedle (Satopaa and others 2011), farthest from the diagonal"

struct coord_knee_point {
    double x;
    double y;
};

enum coord_knee_shape {
    COORD_KNEE_SATURATES, /* throughput over connections: rises, then less and less */
    COORD_KNEE_EXPLODES   /* latency over the rate: hardly rises, then ever more */
};

struct coord_knee {
    double at;
    double low; /* the points beside it */
    double high;
    double bend; /* distance from the diagonal, 0 to 1 */
};

/* points are sorted in place, and those of one x become one, their mean. False: too few of them, or
 * no bend worth the name. */
bool coord_knee_find(struct coord_knee_point *points, size_t count, enum coord_knee_shape shape,
                     struct coord_knee *out);

#endif

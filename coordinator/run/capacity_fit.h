/* coordinator/run/capacity_fit.h - shares over rates: where does the line cross? Pure.
 *
 * Quasi-binomial regression (McCullagh and Nelder, Generalized Linear Models, 4 and 9): the log
 * odds of a share are a + b x rate; scatter is binomial times a dispersion that the batches tell,
 * for answers that waited in one queue come in clusters. Fisher scoring; the interval of the
 * crossing is Fieller's (1954). */
#ifndef LS_COORDINATOR_RUN_CAPACITY_FIT_H
#define LS_COORDINATOR_RUN_CAPACITY_FIT_H

#include <stdbool.h>
#include <stddef.h>

struct coord_fit_point {
    double rate;
    double requests;
    double breaking;   /* of them */
    double dispersion; /* variance of the count over that of independent answers; at least 1 */
};

struct coord_fit {
    double rate; /* at which the share is the allowed one */
    double low;  /* 95 % interval of that */
    double high;
    double
        slope; /* of the log odds, over a change of the rate by a factor of e near the crossing */
    double misfit; /* Pearson's chi square over its degrees of freedom: about 1 if the line fits */
};

/* False: there is no rising line to be had, or its crossing could be anywhere. */
bool coord_fit_crossing(const struct coord_fit_point *points, size_t count, double allowed_share,
                        struct coord_fit *out);

#endif

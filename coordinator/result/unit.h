/* coordinator/result/unit.h - what a number in a report is, and the one place that rounds it. */
#ifndef LS_COORDINATOR_RESULT_UNIT_H
#define LS_COORDINATOR_RESULT_UNIT_H

#include <stddef.h>

enum coord_unit {
    COORD_UNIT_COUNT, /* whole: 12345 */
    COORD_UNIT_PER_S, /* 48.1 k */
    COORD_UNIT_NS,    /* 1.23 ms */
    COORD_UNIT_BYTES, /* 5.20 MiB */
    COORD_UNIT_SHARE, /* of 1: 12.3 % */
    COORD_UNIT_CORES, /* 0.98 */
    COORD_UNIT_PLAIN  /* of whatever unit: 1.235 */
};

/* For people: three significant digits (common/units.h). out holds at least 48 bytes. Returns it.
 */
const char *coord_unit_human(double value, enum coord_unit unit, char *out, size_t out_bytes);
/* For machines: the shortest digits that read back equal. */
const char *coord_unit_exact(double value, char *out, size_t out_bytes);

#endif

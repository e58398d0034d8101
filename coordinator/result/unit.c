#include "coordinator/result/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/units.h"

const char *coord_unit_human(double value, enum coord_unit unit, char *out, size_t out_bytes)
{
    switch (unit) {
    case COORD_UNIT_PER_S:
        return ls_human_count(value, out, out_bytes);
    case COORD_UNIT_NS:
        return ls_human_duration(value, out, out_bytes);
    case COORD_UNIT_BYTES:
        return ls_human_size(value, out, out_bytes);
    case COORD_UNIT_SHARE:
        (void)snprintf(out, out_bytes, "%.1f %%", value * 100);
        return out;
    case COORD_UNIT_CORES:
        (void)snprintf(out, out_bytes, "%.2f", value);
        return out;
    case COORD_UNIT_PLAIN:
        (void)snprintf(out, out_bytes, "%.4g", value);
        return out;
    case COORD_UNIT_COUNT:
        break;
    }
    (void)snprintf(out, out_bytes, "%.0f", value);
    return out;
}

const char *coord_unit_exact(double value, char *out, size_t out_bytes)
{
    if (value == floor(value) && fabs(value) < 0x1p53) {
        (void)snprintf(out, out_bytes, "%.0f", value);
        return out;
    }
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(out, out_bytes, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            break;
    }
    return out;
}

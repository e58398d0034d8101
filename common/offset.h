/* common/offset.h - a peer's clock offset and how far off it can be, from NTP-style exchanges
 * (RFC 5905 section 8). Of the last LS_OFFSET_SAMPLES exchanges the one with the smallest error
 * bound decides: half its round trip plus the drift since, so of fresh ones the fastest. */
#ifndef LS_COMMON_OFFSET_H
#define LS_COMMON_OFFSET_H

#include <stdbool.h>
#include <stdint.h>

#define LS_OFFSET_SAMPLES   64
#define LS_OFFSET_DRIFT_PPM 50 /* assumed of two quartz clocks, until measured otherwise */

struct ls_offset {
    struct {
        int64_t at_ns, offset_ns, round_trip_ns;
    } samples[LS_OFFSET_SAMPLES];
    uint32_t count; /* in samples */
    uint32_t next;
    uint64_t taken;
};

void ls_offset_init(struct ls_offset *offset);
/* t1 sent, t4 received here; t2 received, t3 replied there. An impossible exchange is ignored. */
void ls_offset_add(struct ls_offset *offset, int64_t t1, int64_t t2, int64_t t3, int64_t t4);
bool ls_offset_known(const struct ls_offset *offset);
/* peer's clock minus ours; error: half the best round trip plus drift since, at now_ns. */
int64_t ls_offset_ns(const struct ls_offset *offset);
int64_t ls_offset_error_ns(const struct ls_offset *offset, int64_t now_ns);
int64_t ls_offset_round_trip_ns(const struct ls_offset *offset); /* the best one */
int64_t ls_offset_slowest_ns(const struct ls_offset *offset);    /* the worst round trip seen */

#endif

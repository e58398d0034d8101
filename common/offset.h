/* common/offset.h - a peer's clock offset and how far off it can be, from NTP-style exchanges
 * (RFC 5905 section 8). Of the last LS_OFFSET_SAMPLES exchanges the one with the smallest error
 * bound decides: half its round trip plus the drift since, so of fresh ones the fastest.
 *
 * The bounds hold whatever the network does, so two exchanges whose bounds do not meet mean that
 * one of the clocks was set, or stood still (a suspended virtual machine), or runs at another rate
 * than is assumed: what is older than the newest is then forgotten, and the step is counted. */
#ifndef LS_COMMON_OFFSET_H
#define LS_COMMON_OFFSET_H

#include <stdbool.h>
#include <stdint.h>

#define LS_OFFSET_SAMPLES   64
#define LS_OFFSET_DRIFT_PPM 50 /* assumed of two quartz clocks */

/* The least that a drift is measured over, and for which a better anchor is looked for. */
#define LS_OFFSET_DRIFT_SPAN_NS INT64_C(1000000000)

struct ls_offset {
    struct {
        int64_t at_ns, offset_ns, round_trip_ns;
    } samples[LS_OFFSET_SAMPLES];
    uint32_t count; /* in samples */
    uint32_t next;
    uint32_t best; /* of samples: bounds the offset best from the newest one on */
    uint64_t taken;
    struct {
        int64_t at_ns, offset_ns, round_trip_ns;
    } anchor;           /* since which drift is measured; of before the samples */
    uint32_t steps;     /* contradictions */
    int64_t stepped_ns; /* the largest of them: the least that the clock moved */
};

void ls_offset_init(struct ls_offset *offset);
/* t1 sent, t4 received here; t2 received, t3 replied there. An impossible exchange is ignored. */
void ls_offset_add(struct ls_offset *offset, int64_t t1, int64_t t2, int64_t t3, int64_t t4);
bool ls_offset_known(const struct ls_offset *offset);
/* peer's clock minus ours; error: half the best round trip plus drift since, at now_ns. */
int64_t ls_offset_ns(const struct ls_offset *offset);
int64_t ls_offset_error_ns(const struct ls_offset *offset, int64_t now_ns);
/* As of an instant of ours, past ones included: by the exchange nearest to it that bounds it best.
 * False, with both untouched: nothing is known. */
bool ls_offset_at(const struct ls_offset *offset, int64_t at_ns, int64_t *out_offset_ns,
                  int64_t *out_error_ns);
/* How fast the peer's clock gains on ours, in parts per million, and how wrong that can be. False,
 * with both untouched: it was not watched for LS_OFFSET_DRIFT_SPAN_NS yet. */
bool ls_offset_drift(const struct ls_offset *offset, double *out_ppm, double *out_error_ppm);
int64_t ls_offset_newest_ns(const struct ls_offset *offset); /* our clock; 0: nothing is known */
int64_t ls_offset_round_trip_ns(const struct ls_offset *offset); /* the best one */
int64_t ls_offset_slowest_ns(const struct ls_offset *offset);    /* the worst round trip seen */

#endif

/* coordinator/result/raw.h - the raw tables of a trial, as they are written and read back: what its
 * counters and its server's figures can be computed again from.
 *
 *     intervals.csv  a row for each report of a client, in the order in which they came
 *     server.csv     a row for each sample of the server
 *
 * Whole numbers only, one heading line, columns by name: a reader takes them in any order and
 * passes over those that it does not know.
 */
#ifndef LS_COORDINATOR_RESULT_RAW_H
#define LS_COORDINATOR_RESULT_RAW_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "proto/result.pb-c.h"

#define COORD_RAW_INTERVALS "intervals.csv"
#define COORD_RAW_SERVER    "server.csv"
#define COORD_RAW_LINE_MAX  4096u /* bytes */

/* What a client said of one interval. Instants are nanoseconds on the coordinator's clock. */
struct coord_raw_interval {
    uint32_t client;   /* its place among the trial's clients, from 1 */
    uint32_t index;    /* of the interval, from the start of the load */
    uint32_t merged;   /* further intervals that it stands for, too */
    uint32_t late;     /* 1: came when its interval had been put together without it */
    int64_t slot_ns;   /* where the interval begins by plan, since the start of the load */
    int64_t at_ns;     /* the same, since the start of the measure window */
    int64_t start_ns;  /* where it began in truth, since the start of the load */
    int64_t length_ns; /* in truth */
    uint64_t ok_in_window;
    uint64_t bytes_in;
    uint64_t bytes_out;
    int64_t in_flight_ns;
    Ls__Requests warmup;
    Ls__Requests measure;
};

struct coord_raw_sample {
    Ls__Sample usage; /* at_ns since the start of the measure window */
    uint32_t edge;    /* 1: the window's first, 2: its last, 0: between */
    uint64_t rss_peak_bytes;
    uint64_t listen_overflows;
    uint64_t tcp_retransmits;
    int64_t cpus_busy_ns;
    int64_t cpus_steal_ns;
};

void coord_raw_interval_init(struct coord_raw_interval *row);
void coord_raw_sample_init(struct coord_raw_sample *row);

/* Appends the heading, or a row. */
void coord_raw_put_interval_head(struct ls_buf *out);
void coord_raw_put_interval(struct ls_buf *out, const struct coord_raw_interval *row);
void coord_raw_put_sample_head(struct ls_buf *out);
void coord_raw_put_sample(struct ls_buf *out, const struct coord_raw_sample *row);

/* Tells each row; take returns false to stop, which is LS_ENOMEM. LS_EIO: no such file, or it
 * cannot be read; LS_EPROTO: not such a table, diag says in which line. */
enum ls_err coord_raw_read_intervals(const char *path,
                                     bool (*take)(void *ctx, const struct coord_raw_interval *row),
                                     void *ctx, struct ls_diag *diag) LS_NODISCARD;
enum ls_err coord_raw_read_samples(const char *path,
                                   bool (*take)(void *ctx, const struct coord_raw_sample *row),
                                   void *ctx, struct ls_diag *diag) LS_NODISCARD;

#endif

/* common/log.h - one-line records on stderr: "time level id key=value ...".
 *
 * The id is short and stable, for grep and for tests. Only main, session, control and run log a
 * failure; everything below returns it. Thread safe: a record is one write.
 */
#ifndef LS_COMMON_LOG_H
#define LS_COMMON_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/attr.h"

enum ls_log_level { LS_LOG_DEBUG, LS_LOG_INFO, LS_LOG_WARN, LS_LOG_ERROR, LS_LOG_LEVEL_COUNT };

void ls_log_set_level(enum ls_log_level least); /* LS_LOG_WARN at start */
enum ls_log_level ls_log_level(void);
void ls_log_set_fd(int fd); /* borrowed; stderr at start. For tests that look at the log */
void ls_log(enum ls_log_level level, const char *id, const char *fmt, ...) LS_PRINTF(3, 4);

/* For what strangers can cause as often as they like: burst records at once, then one each period,
 * so that they do not fill a disk. One thread. */
struct ls_log_quota {
    int64_t period_ns;
    unsigned burst;
    int64_t spent_until_ns; /* zero at the beginning, like held */
    uint64_t held;          /* not logged since the last one that was */
};

/* May one be logged now? *out_held: how many were not since the last one that was. */
bool ls_log_quota_take(struct ls_log_quota *quota, int64_t now_ns, uint64_t *out_held);

#endif

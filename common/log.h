/* common/log.h - one-line records on stderr: "time level id key=value ...".
 *
 * The id is short and stable, for grep and for tests. Only main, session, control and run log a
 * failure; everything below returns it. Thread safe: a record is one write.
 */
#ifndef LS_COMMON_LOG_H
#define LS_COMMON_LOG_H

#include "common/attr.h"

enum ls_log_level { LS_LOG_DEBUG, LS_LOG_INFO, LS_LOG_WARN, LS_LOG_ERROR, LS_LOG_LEVEL_COUNT };

void ls_log_set_level(enum ls_log_level least); /* LS_LOG_WARN at start */
enum ls_log_level ls_log_level(void);
void ls_log(enum ls_log_level level, const char *id, const char *fmt, ...) LS_PRINTF(3, 4);

#endif

/* common/clock.h - the only caller of clock_gettime. Everything else receives now_ns.
 *
 * Monotonic time is int64_t nanoseconds since boot and is what measurement uses. Wall time is for
 * people and file names. Thread time is the CPU time of the calling thread.
 */
#ifndef LS_COMMON_CLOCK_H
#define LS_COMMON_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#define LS_NS_PER_US INT64_C(1000)
#define LS_NS_PER_MS INT64_C(1000000)
#define LS_NS_PER_S  INT64_C(1000000000)

int64_t ls_clock_mono_ns(void);
int64_t ls_clock_wall_ns(void);
int64_t ls_clock_thread_cpu_ns(void);
int64_t ls_clock_process_cpu_ns(void);
/* CPU time of another process: all its threads, those that have ended too, exact to the nanosecond
 * where /proc counts in ticks. -1: there is no such process. */
int64_t ls_clock_of_process_ns(int pid);

/* Sleeps until the monotonic instant, or returns early on a signal. */
void ls_clock_sleep_until(int64_t mono_ns);

/* "2026-11-30T14:05:09.123Z" in UTC; out holds at least 32 bytes. */
void ls_clock_format_wall(int64_t wall_ns, char *out, size_t out_bytes);

#endif

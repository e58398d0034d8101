/* coordinator/web/feed.h - events for many readers, one writer: the newest ones, bounded.
 *
 * The writer never waits for a reader: an event is copied into a ring, and the oldest go when there
 * is no room. Who has fallen behind is told so. Any thread.
 */
#ifndef LS_COORDINATOR_WEB_FEED_H
#define LS_COORDINATOR_WEB_FEED_H

#include <stdint.h>

#include "common/buf.h"

struct coord_feed;

/* max_bytes: of all events that are kept. NULL: out of memory. */
struct coord_feed *coord_feed_create(size_t max_bytes) LS_NODISCARD;
void coord_feed_destroy(struct coord_feed *feed); /* NULL is fine */

/* type: a word; data: one line, JSON. Out of memory: the event is lost, and its readers start anew
 * as those that have fallen behind. */
void coord_feed_publish(struct coord_feed *feed, const char *type, const char *data);

/* Number of the event that was published last, from 1; 0: none. */
uint64_t coord_feed_last(struct coord_feed *feed);

/* Appends the events behind number *at, as text/event-stream has them (HTML, 9.2), as far as they
 * fit; *at is then the last of them. LS_ERANGE: some that came behind it are gone, or it was never
 * published; nothing is changed. */
enum ls_err coord_feed_read(struct coord_feed *feed, uint64_t *at, struct ls_buf *out) LS_NODISCARD;

#endif

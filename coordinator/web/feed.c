#include "coordinator/web/feed.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#define EVENTS_MAX 512u

struct event {
    char *text; /* owned; NULL: there was no memory for it */
    size_t len;
};

struct coord_feed {
    pthread_mutex_t lock;
    struct event events[EVENTS_MAX]; /* of number n: n % EVENTS_MAX */
    uint64_t first;                  /* the oldest that is kept; first = last + 1: none */
    uint64_t last;
    size_t bytes;
    size_t max_bytes;
};

struct coord_feed *coord_feed_create(size_t max_bytes)
{
    struct coord_feed *feed = calloc(1, sizeof(*feed));

    if (feed == NULL)
        return NULL;
    if (pthread_mutex_init(&feed->lock, NULL) != 0) {
        free(feed);
        return NULL;
    }
    feed->first = 1;
    feed->max_bytes = max_bytes;
    return feed;
}

static void drop_oldest(struct coord_feed *feed)
{
    struct event *event = &feed->events[feed->first++ % EVENTS_MAX];

    feed->bytes -= event->len;
    free(event->text);
    *event = (struct event){ 0 };
}

void coord_feed_destroy(struct coord_feed *feed)
{
    if (feed == NULL)
        return;
    while (feed->first <= feed->last)
        drop_oldest(feed);
    (void)pthread_mutex_destroy(&feed->lock);
    free(feed);
}

static void add(struct coord_feed *feed, struct ls_buf *text)
{
    struct event *event;

    if (!text->ok) { /* the number is used up: whoever waits for it sees that it is missing */
        while (feed->first <= feed->last)
            drop_oldest(feed);
        feed->first = ++feed->last + 1;
        return;
    }
    while (feed->first <= feed->last && (feed->last - feed->first + 1 == EVENTS_MAX ||
                                         feed->bytes + text->len > feed->max_bytes))
        drop_oldest(feed);
    event = &feed->events[++feed->last % EVENTS_MAX];
    event->len = text->len;
    event->text = ls_buf_detach(text);
    feed->bytes += event->len;
}

void coord_feed_publish(struct coord_feed *feed, const char *type, const char *data)
{
    struct ls_buf text;

    ls_buf_init(&text, feed->max_bytes);
    (void)pthread_mutex_lock(&feed->lock);
    ls_buf_addf(&text, "id: %" PRIu64 "\nevent: %s\ndata: ", feed->last + 1, type);
    ls_buf_adds(&text, data);
    ls_buf_adds(&text, "\n\n");
    add(feed, &text);
    (void)pthread_mutex_unlock(&feed->lock);
    ls_buf_fini(&text);
}

uint64_t coord_feed_last(struct coord_feed *feed)
{
    uint64_t last;

    (void)pthread_mutex_lock(&feed->lock);
    last = feed->last;
    (void)pthread_mutex_unlock(&feed->lock);
    return last;
}

enum ls_err coord_feed_read(struct coord_feed *feed, uint64_t *at, struct ls_buf *out)
{
    enum ls_err rc = LS_OK;

    (void)pthread_mutex_lock(&feed->lock);
    if (*at + 1 < feed->first || *at > feed->last) {
        rc = LS_ERANGE;
    } else {
        while (*at < feed->last) {
            const struct event *event = &feed->events[(*at + 1) % EVENTS_MAX];

            if (event->len > out->max - out->len)
                break;
            ls_buf_add(out, event->text, event->len);
            if (!out->ok)
                break;
            (*at)++;
        }
    }
    (void)pthread_mutex_unlock(&feed->lock);
    return rc;
}

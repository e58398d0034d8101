#include "coordinator/web/live.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "coordinator/page/page.h"
#include "coordinator/result/escape.h"
#include "coordinator/result/heat.h"
#include "coordinator/result/report_live.h"
#include "coordinator/web/feed.h"
#include "coordinator/web/server.h"

enum {
    FEED_BYTES = 4 << 20,
    PART_BYTES = 1 << 20, /* of what is kept: a trial, agents, results */
    NAME_BYTES = 200,
    TEXT_BYTES = 1000,
    SAID_MAX = 100,
    POINTS_MAX = 600 /* over time; then two become one */
};

#define TICK_NS (200 * LS_NS_PER_MS)

struct point {
    int64_t at_ns, length_ns;
    uint64_t completed, scheduled, errors;
    int64_t p50_ns, p99_ns, max_ns;
    double cores, rss_bytes, switches_per_s; /* of the server; negative: not known */
    uint64_t heat[COORD_HEAT_ROWS];          /* requests by latency */
};

struct coord_live {
    struct coord_web *web;   /* owned */
    struct coord_feed *feed; /* owned */
    struct coord_web_route routes[3];
    struct ls_buf page, policy;
    void (*stop)(void *ctx);
    void *stop_ctx;
    int64_t next_ns;
    int64_t last_at_ns;             /* of the interval that was passed on last */
    uint64_t heat[COORD_HEAT_ROWS]; /* for the next one */
    char phase[40];
    pthread_mutex_t lock; /* what follows is for the server's thread as well */
    bool stop_asked;
    struct ls_buf trial, now, agents, result, end; /* JSON; empty: nothing yet */
    char *said[SAID_MAX];                          /* JSON; owned; a ring */
    uint64_t said_count;
    struct point points[POINTS_MAX];
    size_t point_count;
    size_t merged;  /* intervals in a point */
    size_t in_last; /* of them, in the last one */
};

/* ---- what browsers ask for; on the server's thread */

static void answer_page(void *ctx, struct coord_web_reply *reply)
{
    struct coord_live *live = ctx;

    reply->type = "text/html; charset=utf-8";
    reply->policy = (const char *)live->policy.data;
    ls_buf_add(&reply->body, live->page.data, live->page.len);
}

static void answer_stop(void *ctx, struct coord_web_reply *reply)
{
    struct coord_live *live = ctx;
    bool first;

    (void)pthread_mutex_lock(&live->lock);
    first = !live->stop_asked;
    live->stop_asked = true;
    (void)pthread_mutex_unlock(&live->lock);
    if (first)
        live->stop(live->stop_ctx);
    ls_buf_adds(&reply->body, "the run ends in good order\n");
}

/* Negative: not known. */
static void put_known(struct ls_buf *json, double value)
{
    if (value < 0)
        ls_buf_adds(json, ",null");
    else
        ls_buf_addf(json, ",%.4g", value);
}

static void put_point(struct ls_buf *out, const struct point *p)
{
    double seconds = (double)p->length_ns / 1e9;

    ls_buf_addf(out, "[%.3f,%.1f,%.1f,%" PRIu64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",",
                (double)p->at_ns / 1e9, seconds > 0 ? (double)p->completed / seconds : 0,
                seconds > 0 ? (double)p->scheduled / seconds : 0, p->errors, p->p50_ns, p->p99_ns,
                p->max_ns);
    coord_heat_put(p->heat, out);
    put_known(out, p->cores);
    put_known(out, p->rss_bytes);
    put_known(out, p->switches_per_s);
    ls_buf_adds(out, "]");
}

static void put_part(struct ls_buf *out, const char *name, const struct ls_buf *part)
{
    ls_buf_addf(out, "\"%s\":", name);
    if (part->ok && part->len > 0)
        ls_buf_add(out, part->data, part->len);
    else
        ls_buf_adds(out, "null");
    ls_buf_adds(out, ",");
}

static void write_snapshot(void *ctx, struct ls_buf *out, uint64_t *out_at)
{
    struct coord_live *live = ctx;
    uint64_t first;

    (void)pthread_mutex_lock(&live->lock);
    *out_at = coord_feed_last(live->feed);
    ls_buf_adds(out, "{");
    put_part(out, "trial", &live->trial);
    put_part(out, "now", &live->now);
    put_part(out, "agents", &live->agents);
    put_part(out, "result", &live->result);
    put_part(out, "end", &live->end);
    ls_buf_adds(out, "\"said\":[");
    first = live->said_count > SAID_MAX ? live->said_count - SAID_MAX : 0;
    for (uint64_t i = first; i < live->said_count; i++)
        ls_buf_addf(out, "%s%s", i > first ? "," : "", live->said[i % SAID_MAX]);
    ls_buf_addf(out, "],\"stopping\":%s,\"points\":[", live->stop_asked ? "true" : "false");
    for (size_t i = 0; i < live->point_count; i++) {
        ls_buf_adds(out, i > 0 ? "," : "");
        put_point(out, &live->points[i]);
    }
    ls_buf_adds(out, "]}");
    (void)pthread_mutex_unlock(&live->lock);
}

/* ---- what the run tells */

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void add_heat(uint64_t *to, const uint64_t *more)
{
    for (unsigned row = 0; row < COORD_HEAT_ROWS; row++)
        to[row] += more[row];
}

/* Counts are added, all else is the highest: as in the report. */
static void add_to(struct point *to, const struct point *more)
{
    to->length_ns += more->length_ns;
    to->completed += more->completed;
    to->scheduled += more->scheduled;
    to->errors += more->errors;
    to->p50_ns = most(to->p50_ns, more->p50_ns);
    to->p99_ns = most(to->p99_ns, more->p99_ns);
    to->max_ns = most(to->max_ns, more->max_ns);
    to->cores = fmax(to->cores, more->cores);
    to->rss_bytes = fmax(to->rss_bytes, more->rss_bytes);
    to->switches_per_s = fmax(to->switches_per_s, more->switches_per_s);
    add_heat(to->heat, more->heat);
}

static void keep_point(struct coord_live *live, const struct point *point)
{
    if (live->point_count > 0 && live->in_last < live->merged) {
        add_to(&live->points[live->point_count - 1], point);
        live->in_last++;
        return;
    }
    if (live->point_count == POINTS_MAX) {
        for (size_t i = 0; i < POINTS_MAX / 2; i++) {
            live->points[i] = live->points[2 * i];
            add_to(&live->points[i], &live->points[2 * i + 1]);
        }
        live->point_count = POINTS_MAX / 2;
        live->merged *= 2;
    }
    live->points[live->point_count++] = *point;
    live->in_last = 1;
}

/* Keeps a part and passes it on, both at once: a snapshot and the events behind it fit together.
 * point: that the part tells of; NULL: of none. */
static void tell_point(struct coord_live *live, const char *type, struct ls_buf *kept,
                       const struct ls_buf *json, const struct point *point)
{
    if (!json->ok || json->data == NULL)
        return;
    (void)pthread_mutex_lock(&live->lock);
    ls_buf_reset(kept);
    ls_buf_add(kept, json->data, json->len);
    if (point != NULL)
        keep_point(live, point);
    coord_feed_publish(live->feed, type, (const char *)json->data);
    (void)pthread_mutex_unlock(&live->lock);
}

static void tell(struct coord_live *live, const char *type, struct ls_buf *kept,
                 const struct ls_buf *json)
{
    tell_point(live, type, kept, json, NULL);
}

void coord_live_trial(struct coord_live *live, uint32_t index, uint32_t total, const char *target,
                      const char *workload, uint32_t repetition)
{
    struct ls_buf json;

    if (live == NULL)
        return;
    (void)pthread_mutex_lock(&live->lock);
    live->point_count = 0;
    live->merged = 1;
    live->in_last = 0;
    (void)pthread_mutex_unlock(&live->lock);
    live->phase[0] = '\0';
    live->next_ns = 0;
    live->last_at_ns = INT64_MIN;
    (void)memset(live->heat, 0, sizeof(live->heat));
    ls_buf_init(&json, PART_BYTES);
    ls_buf_addf(&json,
                "{\"index\":%" PRIu32 ",\"total\":%" PRIu32 ",\"repetition\":%" PRIu32
                ",\"target\":",
                index, total, repetition);
    coord_escape_json(&json, target, NAME_BYTES);
    ls_buf_adds(&json, ",\"workload\":");
    coord_escape_json(&json, workload, NAME_BYTES);
    ls_buf_adds(&json, "}");
    tell(live, "trial", &live->trial, &json);
    ls_buf_fini(&json);
}

static struct point point_of(const struct coord_live *live, const struct coord_live_now *now)
{
    struct point point = { .at_ns = now->at_ns,
                           .length_ns = now->length_ns,
                           .completed = now->completed,
                           .scheduled = now->scheduled,
                           .errors = now->errors,
                           .p50_ns = now->p50_ns,
                           .p99_ns = now->p99_ns,
                           .max_ns = now->max_ns,
                           .cores = now->cores,
                           .rss_bytes = now->rss_bytes,
                           .switches_per_s = now->switches_per_s };

    (void)memcpy(point.heat, live->heat, sizeof(point.heat));
    return point;
}

/* Tells of a phase, and of a measured interval if there is one. */
static void tell_now(struct coord_live *live, const struct coord_live_now *now,
                     const struct point *point)
{
    struct ls_buf json;

    ls_buf_init(&json, PART_BYTES);
    ls_buf_adds(&json, "{\"phase\":");
    coord_escape_json(&json, now->phase, NAME_BYTES);
    ls_buf_addf(&json, ",\"left_s\":%.1f,\"open\":%s,\"point\":", now->left_s,
                now->open_loop ? "true" : "false");
    if (point != NULL)
        put_point(&json, point);
    else
        ls_buf_adds(&json, "null");
    ls_buf_adds(&json, "}");
    tell_point(live, "now", &live->now, &json, point);
    ls_buf_fini(&json);
}

void coord_live_tick(struct coord_live *live, int64_t now_ns, const struct coord_live_now *now)
{
    struct point point;
    bool news, measured;

    if (live == NULL)
        return;
    if (now->heat != NULL)
        add_heat(live->heat, now->heat);
    news = now->has_interval && now->at_ns != live->last_at_ns;
    measured = news && now->at_ns + now->length_ns > 0;
    if (strcmp(live->phase, now->phase) == 0 && !(news && now_ns >= live->next_ns) &&
        now_ns < live->next_ns + LS_NS_PER_S)
        return;
    (void)snprintf(live->phase, sizeof(live->phase), "%s", now->phase);
    live->next_ns = now_ns + TICK_NS;
    if (news)
        live->last_at_ns = now->at_ns;
    if (measured) {
        point = point_of(live, now);
        (void)memset(live->heat, 0, sizeof(live->heat));
    }
    tell_now(live, now, measured ? &point : NULL);
}

void coord_live_agents(struct coord_live *live, const struct coord_live_agent *agents, size_t n)
{
    struct ls_buf json;

    if (live == NULL)
        return;
    ls_buf_init(&json, PART_BYTES);
    ls_buf_adds(&json, "[");
    for (size_t i = 0; i < n; i++) {
        ls_buf_adds(&json, i > 0 ? ",[" : "[");
        coord_escape_json(&json, agents[i].name, NAME_BYTES);
        ls_buf_addf(&json, ",\"%s\",\"%s\"", agents[i].role, agents[i].state);
        put_known(&json, (double)agents[i].clock_error_ns);
        put_known(&json, agents[i].share);
        put_known(&json, agents[i].cores);
        put_known(&json, agents[i].busiest);
        put_known(&json, (double)agents[i].send_lag_p99_ns);
        put_known(&json, (double)agents[i].rss_bytes);
        ls_buf_adds(&json, "]");
    }
    ls_buf_adds(&json, "]");
    if (live->agents.len != json.len || memcmp(live->agents.data, json.data, json.len) != 0)
        tell(live, "agents", &live->agents, &json);
    ls_buf_fini(&json);
}

void coord_live_said(struct coord_live *live, const char *style, const char *text)
{
    struct ls_buf json;
    char *copy;

    if (live == NULL)
        return;
    ls_buf_init(&json, PART_BYTES);
    ls_buf_addf(&json, "[\"%s\",", style);
    coord_escape_json(&json, text, TEXT_BYTES);
    ls_buf_adds(&json, "]");
    copy = json.ok ? strdup((const char *)json.data) : NULL;
    if (copy != NULL) {
        (void)pthread_mutex_lock(&live->lock);
        free(live->said[live->said_count % SAID_MAX]);
        live->said[live->said_count++ % SAID_MAX] = copy;
        coord_feed_publish(live->feed, "said", copy);
        (void)pthread_mutex_unlock(&live->lock);
    }
    ls_buf_fini(&json);
}

void coord_live_result(struct coord_live *live, const Ls__Result *result)
{
    struct ls_buf json;

    if (live == NULL)
        return;
    ls_buf_init(&json, PART_BYTES);
    coord_report_live(result, &json);
    tell(live, "result", &live->result, &json);
    ls_buf_fini(&json);
}

void coord_live_end(struct coord_live *live, const char *status, const char *dir)
{
    struct ls_buf json;

    if (live == NULL)
        return;
    ls_buf_init(&json, PART_BYTES);
    ls_buf_adds(&json, "[");
    coord_escape_json(&json, status, NAME_BYTES);
    ls_buf_adds(&json, ",");
    coord_escape_json(&json, dir, TEXT_BYTES);
    ls_buf_adds(&json, "]");
    tell(live, "end", &live->end, &json);
    ls_buf_fini(&json);
}

/* ---- life */

static enum ls_err make_page(struct coord_live *live, const char *title)
{
    struct ls_buf json, shown;
    bool ok;

    ls_buf_init(&json, PART_BYTES);
    ls_buf_init(&shown, PART_BYTES);
    coord_escape_text(&shown, title);
    ls_buf_adds(&json, "{\"title\":");
    coord_escape_json(&json, title, NAME_BYTES);
    ls_buf_addf(&json, ",\"version\":\"%s\"}", LS_VERSION);
    coord_page_policy(COORD_PAGE_LIVE, &live->policy);
    ls_buf_adds(&live->policy, "; frame-ancestors 'none'");
    if (json.ok && shown.ok)
        coord_page_write(COORD_PAGE_LIVE, shown.data != NULL ? (const char *)shown.data : "",
                         (struct ls_bytes){ json.data, json.len }, &live->page);
    ok = json.ok && shown.ok && live->page.ok && live->policy.ok;
    ls_buf_fini(&json);
    ls_buf_fini(&shown);
    return ok ? LS_OK : LS_ENOMEM;
}

static struct coord_live *create(void (*stop)(void *ctx), void *ctx)
{
    struct coord_live *live = calloc(1, sizeof(*live));
    struct ls_buf *const parts[] = { &live->trial, &live->now, &live->agents, &live->result,
                                     &live->end };

    if (live == NULL)
        return NULL;
    if (pthread_mutex_init(&live->lock, NULL) != 0) {
        free(live);
        return NULL;
    }
    for (size_t i = 0; i < LS_ARRAY_LEN(parts); i++)
        ls_buf_init(parts[i], PART_BYTES);
    ls_buf_init(&live->page, COORD_WEB_REPLY_MAX);
    ls_buf_init(&live->policy, PART_BYTES);
    live->stop = stop;
    live->stop_ctx = ctx;
    live->merged = 1;
    live->last_at_ns = INT64_MIN;
    live->feed = coord_feed_create(FEED_BYTES);
    return live;
}

enum ls_err coord_live_start(const char *address, const char *title, void (*stop)(void *ctx),
                             void *ctx, struct coord_live **out_live, struct ls_diag *diag)
{
    struct coord_live *live = create(stop, ctx);
    uint16_t port = 0;
    char host[80] = "";
    enum ls_err rc = LS_OK;

    if (live == NULL || live->feed == NULL || make_page(live, title) != LS_OK) {
        coord_live_destroy(live);
        return ls_fail(diag, LS_ENOMEM, "no memory for the live page");
    }
    live->routes[0] = (struct coord_web_route){
        .method = "GET", .path = "/", .answer = answer_page, .ctx = live
    };
    live->routes[1] = (struct coord_web_route){ .method = "GET",
                                                .path = "/events",
                                                .feed = live->feed,
                                                .snapshot = write_snapshot,
                                                .ctx = live };
    live->routes[2] = (struct coord_web_route){
        .method = "POST", .path = "/stop", .answer = answer_stop, .ctx = live
    };
    if (address[0] != '\0')
        rc = coord_web_parse(address, host, sizeof(host), &port, diag);
    if (rc == LS_OK)
        rc = coord_web_start(
            &(struct coord_web_options){ .address = host[0] != '\0' ? host : NULL,
                                         .port = port,
                                         .routes = live->routes,
                                         .route_count = LS_ARRAY_LEN(live->routes) },
            &live->web, diag);
    if (rc != LS_OK) {
        coord_live_destroy(live);
        return rc;
    }
    *out_live = live;
    return LS_OK;
}

void coord_live_destroy(struct coord_live *live)
{
    if (live == NULL)
        return;
    coord_web_stop(live->web);
    coord_feed_destroy(live->feed);
    for (size_t i = 0; i < SAID_MAX; i++)
        free(live->said[i]);
    ls_buf_fini(&live->trial);
    ls_buf_fini(&live->now);
    ls_buf_fini(&live->agents);
    ls_buf_fini(&live->result);
    ls_buf_fini(&live->end);
    ls_buf_fini(&live->page);
    ls_buf_fini(&live->policy);
    (void)pthread_mutex_destroy(&live->lock);
    free(live);
}

const char *coord_live_url(const struct coord_live *live)
{
    return coord_web_url(live->web);
}

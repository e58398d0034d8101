#include "coordinator/web/metrics.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/web/server.h"

struct coord_metrics {
    struct coord_web *web; /* owned */
    struct coord_web_route route;
    char url[160];
    pthread_mutex_t mutex; /* guards what follows */
    struct ls_buf text;
};

static void answer(void *ctx, struct coord_web_reply *reply)
{
    struct coord_metrics *metrics = ctx;

    reply->type = COORD_METRICS_TYPE;
    (void)pthread_mutex_lock(&metrics->mutex);
    if (metrics->text.len > 0)
        ls_buf_add(&reply->body, metrics->text.data, metrics->text.len);
    else
        ls_buf_adds(&reply->body, "# EOF\n");
    (void)pthread_mutex_unlock(&metrics->mutex);
}

static void name_url(struct coord_metrics *metrics, const char *host)
{
    bool six = strchr(host, ':') != NULL;

    (void)snprintf(metrics->url, sizeof(metrics->url), "http://%s%s%s:%u/metrics", six ? "[" : "",
                   host[0] != '\0' ? host : "127.0.0.1", six ? "]" : "",
                   (unsigned)coord_web_port(metrics->web));
}

enum ls_err coord_metrics_start(const char *address, struct coord_metrics **out,
                                struct ls_diag *diag)
{
    struct coord_metrics *metrics;
    uint16_t port = 0;
    char host[80];
    enum ls_err rc = coord_web_parse(address, host, sizeof(host), &port, diag);

    if (rc != LS_OK)
        return rc;
    metrics = calloc(1, sizeof(*metrics));
    if (metrics == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for the metrics");
    ls_buf_init(&metrics->text, COORD_METRICS_MAX);
    (void)pthread_mutex_init(&metrics->mutex, NULL);
    metrics->route = (struct coord_web_route){
        .method = "GET", .path = "/metrics", .open = true, .answer = answer, .ctx = metrics
    };
    rc = coord_web_start(&(struct coord_web_options){ .address = host[0] != '\0' ? host : NULL,
                                                      .port = port,
                                                      .routes = &metrics->route,
                                                      .route_count = 1 },
                         &metrics->web, diag);
    if (rc != LS_OK) {
        coord_metrics_stop(metrics);
        return rc;
    }
    name_url(metrics, host);
    *out = metrics;
    return LS_OK;
}

void coord_metrics_stop(struct coord_metrics *metrics)
{
    if (metrics == NULL)
        return;
    coord_web_stop(metrics->web);
    (void)pthread_mutex_destroy(&metrics->mutex);
    ls_buf_fini(&metrics->text);
    free(metrics);
}

void coord_metrics_publish(struct coord_metrics *metrics, struct ls_bytes text)
{
    if (metrics == NULL)
        return;
    (void)pthread_mutex_lock(&metrics->mutex);
    ls_buf_reset(&metrics->text);
    ls_buf_add(&metrics->text, text.data, text.len); /* what does not fit is left out: nothing */
    (void)pthread_mutex_unlock(&metrics->mutex);
}

const char *coord_metrics_url(const struct coord_metrics *metrics)
{
    return metrics->url;
}

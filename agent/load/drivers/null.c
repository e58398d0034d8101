/* A protocol of one byte: each byte sent is a request, each byte received answers the oldest one.
 * It measures our own overhead, with the null link or against a server that echoes. */
#include <stdlib.h>
#include <string.h>

#include "agent/load/driver.h"

struct null_conn {
    const struct agent_driver_env *env;
    uint32_t *ops; /* owned; ring of cap entries */
    uint32_t cap;
    uint32_t first;
    uint32_t count;  /* submitted and not done */
    uint32_t unsent; /* the youngest of them */
};

static enum ls_err check(const struct load_workload *workload, struct ls_diag *diag)
{
    (void)workload;
    (void)diag;
    return LS_OK;
}

static enum ls_err open_conn(void *state, const struct agent_driver_env *env,
                             uint32_t *out_max_in_flight)
{
    struct null_conn *conn = state;

    conn->env = env;
    conn->cap = env->workload->pipeline;
    conn->ops = calloc(conn->cap, sizeof(*conn->ops));
    if (conn->ops == NULL)
        return LS_ENOMEM;
    *out_max_in_flight = conn->cap;
    return LS_OK;
}

static enum ls_err submit(void *state, uint32_t op, uint64_t request)
{
    struct null_conn *conn = state;

    (void)request;
    if (conn->count == conn->cap)
        return LS_EAGAIN;
    conn->ops[(conn->first + conn->count) % conn->cap] = op;
    conn->count++;
    conn->unsent++;
    return LS_OK;
}

static void end_oldest(struct null_conn *conn, enum load_outcome outcome, const char *why,
                       bool more)
{
    uint32_t op = conn->ops[conn->first];
    struct agent_reply reply = { .outcome = outcome, .why = why, .more = more };

    conn->first = (conn->first + 1) % conn->cap;
    conn->count--;
    if (conn->unsent > conn->count)
        conn->unsent = conn->count;
    conn->env->done(conn->env->ctx, op, &reply);
}

static enum ls_err feed(void *state, struct ls_bytes in)
{
    struct null_conn *conn = state;

    if (in.len > conn->count - conn->unsent)
        return LS_EPROTO;
    for (size_t i = 0; i < in.len; i++)
        end_oldest(conn, LOAD_OK, "", i + 1 < in.len);
    return LS_OK;
}

static size_t drain(void *state, uint8_t *out, size_t cap, uint32_t *out_ops)
{
    struct null_conn *conn = state;
    uint32_t n = conn->unsent < cap ? conn->unsent : (uint32_t)cap;

    memset(out, '.', n);
    conn->unsent -= n;
    if (out_ops != NULL)
        *out_ops += n;
    return n;
}

static void eof(void *state, enum load_outcome how)
{
    struct null_conn *conn = state;

    while (conn->count > 0)
        end_oldest(conn, how, "the connection ended", false);
}

static void close_conn(void *state)
{
    struct null_conn *conn = state;

    free(conn->ops);
    conn->ops = NULL;
}

const struct agent_driver agent_driver_null = {
    .name = "null",
    .conn_size = sizeof(struct null_conn),
    .check = check,
    .open = open_conn,
    .submit = submit,
    .feed = feed,
    .drain = drain,
    .eof = eof,
    .close = close_conn,
};

/* lockstep bench URL: what wrk's users expect, by the same road as a plan. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/msg_json.h"
#include "common/options.h"
#include "common/pb.h"
#include "common/units.h"
#include "coordinator/bench_websocket.h"
#include "coordinator/cli.h"
#include "coordinator/execute.h"
#include "coordinator/url.h"
#include "proto/plan.pb-c.h"

#define HEADERS_MAX   BENCH_HEADERS_MAX
#define COUNT_TIME_NS (10 * 60 * LS_NS_PER_S) /* the most that a fixed count may take */
#define TIME_NS       (10 * LS_NS_PER_S)

struct arguments {
    uint64_t connections;
    uint64_t threads;
    int64_t duration_ns;
    uint64_t requests;
    double rate_per_s;
    bool poisson;
    uint64_t pipeline;
    bool http2;
    uint64_t streams;
    const char *pacing;
    int64_t think_ns;
    uint64_t lifetime;
    const char *method;
    struct ls_option_list headers;
    struct ls_option_list sources;
    const char *body;
    int64_t timeout_ns;
    int64_t warmup_ns;
    uint64_t expect_status;
    const char *expect_body;
    bool insecure;
    const char *ca;
    const char *cert;
    const char *key;
    const char *tls_version;
    const char *server_name;
    bool no_resume;
    bool gzip;
    struct bench_websocket_args websocket;
    const char *cpus;
    const char *io;
    const char *receive_stamps;
    int64_t min_wait_ns;
    bool find_capacity;
    bool profile;
    int64_t p50_ns;
    int64_t p90_ns;
    int64_t p99_ns;
    int64_t p999_ns;
    const char *errors;
    int64_t budget_ns;
    const char *out;
    bool json;
    bool quiet;
    bool help;
};

#define ROW(field) offsetof(struct arguments, field)

static const struct ls_option rows[] = {
    { "connections", 'c', LS_OPTION_COUNT, ROW(connections), "N", "10", 1, 1e6,
      "connections kept open" },
    { "threads", 't', LS_OPTION_COUNT, ROW(threads), "N", "2", 1, 1024,
      "worker threads, each on a CPU of its own where there are enough" },
    { "duration", 'd', LS_OPTION_DURATION, ROW(duration_ns), "TIME", NULL, 1e8, 8.64e13,
      "how long to measure (10s)" },
    { "requests", 'n', LS_OPTION_COUNT, ROW(requests), "N", NULL, 1, 1e12,
      "measure this many requests instead of a time" },
    { "rate", 'R', LS_OPTION_RATE, ROW(rate_per_s), "RATE", NULL, 1e-3, 1e9,
      "open loop: this many requests a second, whether or not they are answered" },
    { "poisson", 0, LS_OPTION_FLAG, ROW(poisson), NULL, NULL, 1, 0,
      "with -R: at random instants, that many a second on average" },
    { "pacing", 0, LS_OPTION_TEXT, ROW(pacing), "HOW", "precise", 1, 0,
      "precise (spins before each request that is due) or frugal (sleeps)" },
    { "think", 0, LS_OPTION_DURATION, ROW(think_ns), "TIME", NULL, 1e3, 3.6e12,
      "wait so long after each answer (not with -R)" },
    { "lifetime", 0, LS_OPTION_COUNT, ROW(lifetime), "N", NULL, 1, 1e12,
      "open a new connection after so many requests" },
    { "pipeline", 'p', LS_OPTION_COUNT, ROW(pipeline), "N", "1", 1, 1024,
      "requests in flight per connection; with --http2: streams" },
    { "http2", 0, LS_OPTION_FLAG, ROW(http2), NULL, NULL, 1, 0,
      "HTTP/2: by prior knowledge (h2c), or over https:// by ALPN" },
    { "streams", 0, LS_OPTION_COUNT, ROW(streams), "N", NULL, 1, 4096,
      "with --http2: requests in flight per connection, as far as the server allows (1)" },
    { "method", 'm', LS_OPTION_TEXT, ROW(method), "METHOD", "GET", 1, 0, "request method" },
    { "source", 0, LS_OPTION_LIST, ROW(sources), "ADDRESS", NULL, 1, 0,
      "where connections come from: an address or a range (127.0.0.0/26); may be given several "
      "times" },
    { "header", 'H', LS_OPTION_LIST, ROW(headers), "'NAME: VALUE'", NULL, 1, 0,
      "a request header; may be given several times" },
    { "body", 'b', LS_OPTION_TEXT, ROW(body), "TEXT|@FILE", NULL, 1, 0, "request body" },
    { "timeout", 0, LS_OPTION_DURATION, ROW(timeout_ns), "TIME", "5s", 1e6, 6e11,
      "of one request" },
    { "warmup", 0, LS_OPTION_DURATION, ROW(warmup_ns), "TIME", "1s", 0, 3.6e12,
      "load before the measurement" },
    { "expect-status", 0, LS_OPTION_COUNT, ROW(expect_status), "CODE", NULL, 200, 599,
      "the only status that is right (any of 200 to 399)" },
    { "expect-body", 0, LS_OPTION_TEXT, ROW(expect_body), "TEXT|@FILE", NULL, 1, 0,
      "the only body that is right" },
    { "insecure", 'k', LS_OPTION_FLAG, ROW(insecure), NULL, NULL, 1, 0,
      "https: any certificate will do; the report says so" },
    { "ca", 0, LS_OPTION_TEXT, ROW(ca), "FILE", NULL, 1, 0,
      "https: whom to trust, PEM (whom this host trusts)" },
    { "cert", 0, LS_OPTION_TEXT, ROW(cert), "FILE", NULL, 1, 0,
      "https: the client's certificate, PEM" },
    { "key", 0, LS_OPTION_TEXT, ROW(key), "FILE", NULL, 1, 0, "https: the key to it, PEM" },
    { "tls-version", 0, LS_OPTION_TEXT, ROW(tls_version), "1.2|1.3", NULL, 1, 0,
      "https: this version only (either)" },
    { "server-name", 0, LS_OPTION_TEXT, ROW(server_name), "NAME", NULL, 1, 0,
      "https: the name to send and to verify (the Host header's)" },
    { "no-resume", 0, LS_OPTION_FLAG, ROW(no_resume), NULL, NULL, 1, 0,
      "https: a full handshake for each connection" },
    { "gzip", 0, LS_OPTION_FLAG, ROW(gzip), NULL, NULL, 1, 0,
      "ask for gzip, and compare what is in it" },
    { "websocket", 0, LS_OPTION_FLAG, ROW(websocket.on), NULL, NULL, 1, 0,
      "WebSocket: requests are messages, answered by an echo (a ws:// or wss:// URL says so, too)" },
    { "size", 0, LS_OPTION_COUNT, ROW(websocket.size), "BYTES", NULL, 0, 16777216,
      "WebSocket: of a message (64)" },
    { "message", 0, LS_OPTION_TEXT, ROW(websocket.message), "TEXT", NULL, 1, 0,
      "WebSocket: this message instead of one of --size" },
    { "binary", 0, LS_OPTION_FLAG, ROW(websocket.binary), NULL, NULL, 1, 0,
      "WebSocket: messages are binary, not text" },
    { "deflate", 0, LS_OPTION_FLAG, ROW(websocket.deflate), NULL, NULL, 1, 0,
      "WebSocket: offer compression (permessage-deflate)" },
    { "room", 0, LS_OPTION_COUNT, ROW(websocket.room), "N", NULL, 1, 2048,
      "WebSocket: N connections in one room, each message to all of them (instead of -c)" },
    { "round", 0, LS_OPTION_COUNT, ROW(websocket.round), "N", NULL, 1, 1024,
      "room: each sends N messages at once, again when all have arrived (instead of -p, -R)" },
    { "ready", 0, LS_OPTION_TEXT, ROW(websocket.ready), "TEXT", NULL, 1, 0,
      "room: begin when the server has sent that to all" },
    { "delivery", 0, LS_OPTION_TEXT, ROW(websocket.delivery), "PATTERN", NULL, 1, 0,
      "room: what arrives, such as '{name}: {message}' ({message}); {name} may be in the URL, too" },
    { "subprotocol", 0, LS_OPTION_TEXT, ROW(websocket.subprotocol), "NAME", NULL, 1, 0,
      "WebSocket: ask for it; the server has to agree" },
    { "cpus", 0, LS_OPTION_TEXT, ROW(cpus), "LIST", "auto", 1, 0, "CPUs of the workers: 2-3" },
    { "io", 0, LS_OPTION_TEXT, ROW(io), "HOW", "auto", 1, 0,
      "auto, libev or io_uring: how the workers wait for their sockets" },
    { "receive-stamps", 0, LS_OPTION_TEXT, ROW(receive_stamps), "WHEN", "auto", 1, 0,
      "auto, on or off: the kernel says when answers arrive (read delay, kernel time)" },
    { "min-wait", 0, LS_OPTION_DURATION, ROW(min_wait_ns), "TIME", NULL, 1e3, 1e7,
      "closed loop on io_uring: collect answers for so long before reading them" },
    { "find-capacity", 0, LS_OPTION_FLAG, ROW(find_capacity), NULL, NULL, 1, 0,
      "search for the largest rate at which --p50, --p90, --p99, --p999 and --errors hold" },
    { "p50", 0, LS_OPTION_DURATION, ROW(p50_ns), "TIME", NULL, 1e3, 8.64e13,
      "of --find-capacity: half of the requests within this time" },
    { "p90", 0, LS_OPTION_DURATION, ROW(p90_ns), "TIME", NULL, 1e3, 8.64e13, "9 of 10" },
    { "p99", 0, LS_OPTION_DURATION, ROW(p99_ns), "TIME", NULL, 1e3, 8.64e13, "99 of 100" },
    { "p999", 0, LS_OPTION_DURATION, ROW(p999_ns), "TIME", NULL, 1e3, 8.64e13, "999 of 1000" },
    { "errors", 0, LS_OPTION_TEXT, ROW(errors), "SHARE", "0.1%", 1, 0,
      "of --find-capacity: the most that may go wrong" },
    { "budget", 0, LS_OPTION_DURATION, ROW(budget_ns), "TIME", "3m", 1e10, 8.64e13,
      "of --find-capacity: how long it may take" },
    { "profile", 0, LS_OPTION_FLAG, ROW(profile), NULL, NULL, 1, 0,
      "of --find-capacity: also measure overload, recovery, hysteresis and bursts" },
    { "out", 'o', LS_OPTION_TEXT, ROW(out), "DIR", NULL, 1, 0, "write a result folder, too" },
    { "json", 0, LS_OPTION_FLAG, ROW(json), NULL, NULL, 1, 0, "the result as one JSON document" },
    { "quiet", 'q', LS_OPTION_FLAG, ROW(quiet), NULL, NULL, 1, 0, "no progress on stderr" },
    { "help", 'h', LS_OPTION_FLAG, ROW(help), NULL, NULL, 1, 0, "this text" },
};

/* All parts of a plan, on the stack; only its JSON text leaves this file. */
struct draft {
    struct arguments args;
    struct coord_url url;
    double errors; /* share that --find-capacity allows */
    Ls__Io io;
    Ls__ReceiveStamps receive_stamps;
    char name[64];
    char *header_texts[HEADERS_MAX]; /* owned: "name\0value" */
    char *body_path;                 /* owned, like the following */
    char *expect_path;
    char *tls_paths[3];
};

/* The whole path of a file, so that the plan means the same in the result folder; NULL for NULL.
 * *out_path is the caller's. */
static char *whole_path(const char *file, char **out_path)
{
    if (file == NULL)
        return NULL;
    *out_path = realpath(file, NULL);
    return *out_path != NULL ? *out_path : ls_pb_text(file); /* refused by its name */
}

/* TEXT, or the name of @FILE, which takes the way of a plan's files and may hold anything. */
static void text_or_file(const char *word, char **out_text, char **out_file, char **out_path)
{
    if (word != NULL && word[0] == '@') {
        *out_file = whole_path(word + 1, out_path);
    } else if (word != NULL) {
        *out_text = ls_pb_text(word);
    }
}

/* "Name: value" cut at the colon, in place of a copy. */
static enum ls_err split_header(const char *word, char **out, const char **out_value,
                                struct ls_diag *diag)
{
    char *copy = strdup(word);
    char *colon = copy != NULL ? strchr(copy, ':') : NULL;

    *out = copy;
    if (copy == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory");
    if (colon == NULL || colon == copy)
        return ls_fail(diag, LS_EINVAL, "-H '%.60s': a header is written 'Name: value'", word);
    *colon++ = '\0';
    *out_value = colon + strspn(colon, " \t");
    return LS_OK;
}

static void name_target(struct draft *d)
{
    (void)snprintf(d->name, sizeof(d->name), "%.50s-%" PRIu32, d->url.host, d->url.port);
    for (char *c = d->name; *c != '\0'; c++) {
        if (*c == ':' || *c == '%')
            *c = '-';
    }
}

/* The number of word among words, which end with NULL. */
static enum ls_err read_choice(const char *option, const char *word, const char *const *words,
                               int *out, struct ls_diag *diag)
{
    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(word, words[i]) == 0) {
            *out = i;
            return LS_OK;
        }
    }
    return ls_fail(diag, LS_EINVAL, "%s '%.40s': %s, %s or %s is expected", option, word, words[0],
                   words[1], words[2]);
}

static enum ls_err read_io(struct draft *d, struct ls_diag *diag)
{
    static const char *const ios[] = { [LS__IO__IO_AUTO] = "auto",
                                       [LS__IO__IO_LIBEV] = "libev",
                                       [LS__IO__IO_IO_URING] = "io_uring",
                                       NULL };
    static const char *const stamps[] = { [LS__RECEIVE_STAMPS__RECEIVE_STAMPS_AUTO] = "auto",
                                          [LS__RECEIVE_STAMPS__RECEIVE_STAMPS_ON] = "on",
                                          [LS__RECEIVE_STAMPS__RECEIVE_STAMPS_OFF] = "off",
                                          NULL };
    int io = 0;
    int stamp = 0;
    enum ls_err rc = read_choice("--io", d->args.io, ios, &io, diag);

    if (rc == LS_OK)
        rc = read_choice("--receive-stamps", d->args.receive_stamps, stamps, &stamp, diag);
    d->io = (Ls__Io)io;
    d->receive_stamps = (Ls__ReceiveStamps)stamp;
    return rc;
}

/* Which options make no sense, as it is WebSocket or not. */
static enum ls_err check_protocol(struct draft *d, struct ls_diag *diag)
{
    struct arguments *args = &d->args;

    args->websocket.on = args->websocket.on || d->url.websocket;
    if (args->websocket.on &&
        (args->body != NULL || args->expect_body != NULL || args->expect_status > 0 || args->gzip ||
         strcmp(args->method, "GET") != 0))
        return ls_fail(diag, LS_EINVAL,
                       "-m, -b, --gzip, --expect-status and --expect-body are of HTTP: WebSocket "
                       "has --message and --size");
    if (args->websocket.round > 0 &&
        (args->rate_per_s > 0 || args->pipeline > 1 || args->think_ns > 0 || args->requests > 0))
        return ls_fail(diag, LS_EINVAL, "--round goes with none of -n, -R, -p and --think");
    return bench_websocket_check(&args->websocket, diag);
}

static enum ls_err check_search(struct draft *d, struct ls_diag *diag)
{
    const struct arguments *args = &d->args;
    bool limited = args->p50_ns > 0 || args->p90_ns > 0 || args->p99_ns > 0 || args->p999_ns > 0;

    if (limited && !args->find_capacity)
        return ls_fail(diag, LS_EINVAL, "--p50 to --p999 are limits of --find-capacity");
    if (args->profile && !args->find_capacity)
        return ls_fail(diag, LS_EINVAL, "--profile goes with --find-capacity");
    if (!args->find_capacity)
        return LS_OK;
    if (!limited)
        return ls_fail(
            diag, LS_EINVAL,
            "--find-capacity needs a limit that the load has to stay within: --p99 10ms");
    if (args->rate_per_s > 0 || args->requests > 0 || args->duration_ns > 0 || args->think_ns > 0 ||
        args->min_wait_ns > 0)
        return ls_fail(diag, LS_EINVAL,
                       "--find-capacity chooses rates and lengths itself: not with -R, -n, -d, "
                       "--think, --min-wait; --budget says how long it may take");
    return ls_parse_share(args->errors, &d->errors, diag) == LS_OK
               ? LS_OK
               : ls_fail_in(diag, LS_EINVAL, "--errors");
}

static enum ls_err read_words(struct draft *d, struct ls_diag *diag)
{
    enum ls_err rc = check_protocol(d, diag);

    if (rc != LS_OK)
        return rc;
    if (d->args.requests > 0 && d->args.rate_per_s > 0)
        return ls_fail(diag, LS_EINVAL,
                       "-n and -R exclude each other: a count is closed loop, a rate lasts -d");
    rc = check_search(d, diag);
    if (rc != LS_OK)
        return rc;
    if (d->args.poisson && d->args.rate_per_s <= 0)
        return ls_fail(diag, LS_EINVAL, "--poisson needs a rate: -R 20k/s");
    if (d->args.streams > 0 && !d->args.http2)
        return ls_fail(diag, LS_EINVAL, "--streams goes with --http2");
    if (d->args.streams > 0 && d->args.pipeline > 1)
        return ls_fail(diag, LS_EINVAL, "--streams and -p exclude each other: both are streams");
    if (d->args.streams > 0)
        d->args.pipeline = d->args.streams;
    if (d->args.think_ns > 0 && (d->args.rate_per_s > 0 || d->args.pipeline > 1))
        return ls_fail(diag, LS_EINVAL,
                       "--think goes with neither -R nor several requests in flight");
    if (d->args.min_wait_ns > 0 && (d->args.rate_per_s > 0 || strcmp(d->args.io, "libev") == 0 ||
                                    strcmp(d->args.receive_stamps, "off") == 0))
        return ls_fail(diag, LS_EINVAL,
                       "--min-wait goes with neither -R nor --io libev nor --receive-stamps off");
    if (strcmp(d->args.pacing, "precise") != 0 && strcmp(d->args.pacing, "frugal") != 0)
        return ls_fail(diag, LS_EINVAL, "--pacing %.40s: precise or frugal is expected",
                       d->args.pacing);
    if (d->args.headers.count > HEADERS_MAX)
        return ls_fail(diag, LS_ERANGE, "more than %u headers", HEADERS_MAX);
    name_target(d);
    return read_io(d, diag);
}

static enum ls_err compose_request(struct draft *d, Ls__Request__HeadersEntry *entries,
                                   Ls__Request__HeadersEntry **pointers, Ls__Request *request,
                                   Ls__Expect *expect, struct ls_diag *diag)
{
    bool has_host = false;
    size_t n = 0;

    for (size_t i = 0; i < d->args.headers.count; i++) {
        const char *value = "";
        enum ls_err rc = split_header(d->args.headers.items[i], &d->header_texts[i], &value, diag);

        if (rc != LS_OK)
            return rc;
        ls__request__headers_entry__init(&entries[n]);
        entries[n].key = d->header_texts[i];
        entries[n].value = ls_pb_text(value);
        has_host |= strcasecmp(entries[n].key, "host") == 0;
        pointers[n] = &entries[n];
        n++;
    }
    if (!has_host) { /* the name as it was given, not the address it resolved to */
        ls__request__headers_entry__init(&entries[n]);
        entries[n].key = ls_pb_text("Host");
        entries[n].value = d->url.authority;
        pointers[n] = &entries[n];
        n++;
    }
    request->method = ls_pb_text(d->args.method);
    request->path = d->url.path;
    request->headers = pointers;
    request->n_headers = n;
    text_or_file(d->args.body, &request->body, &request->body_file, &d->body_path);
    expect->has_status = d->args.expect_status > 0;
    expect->status = (uint32_t)d->args.expect_status;
    text_or_file(d->args.expect_body, &expect->body, &expect->body_file, &d->expect_path);
    expect->has_decode = d->args.gzip;
    expect->decode = LS__DECODE__DECODE_GZIP;
    request->expect = expect;
    return LS_OK;
}

static enum ls_err compose_tls(struct draft *d, Ls__Tls *tls, Ls__Target *target,
                               struct ls_diag *diag)
{
    const struct arguments *args = &d->args;

    if (!d->url.tls) {
        if (args->insecure || args->ca != NULL || args->cert != NULL || args->key != NULL ||
            args->tls_version != NULL || args->server_name != NULL || args->no_resume)
            return ls_fail(diag, LS_EINVAL,
                           "--insecure, --ca, --cert, --key, --tls-version, --server-name and "
                           "--no-resume go with an https:// URL");
        return LS_OK;
    }
    tls->has_verify = tls->has_resume = true;
    tls->verify = !args->insecure;
    tls->resume = !args->no_resume;
    tls->ca_file = whole_path(args->ca, &d->tls_paths[0]);
    tls->certificate_file = whole_path(args->cert, &d->tls_paths[1]);
    tls->key_file = whole_path(args->key, &d->tls_paths[2]);
    tls->server_name = ls_pb_text(args->server_name);
    if (args->tls_version != NULL)
        tls->min_version = tls->max_version = ls_pb_text(args->tls_version);
    target->tls = tls;
    return LS_OK;
}

/* What the load is made of. */
struct load_parts {
    Ls__Load load;
    Ls__Closed closed;
    Ls__Constant constant;
    Ls__Poisson poisson;
    Ls__Count count;
    Ls__Rate rate;
    Ls__Think think;
    Ls__Duration think_mean;
    Ls__Lifetime lifetime;
    Ls__Count lifetime_requests;
    Ls__Duration min_wait;
    Ls__Capacity capacity;
    Ls__CapacityLimits limits;
    Ls__Duration percentiles[4];
    Ls__Share errors;
    Ls__Duration budget;
};

static Ls__Duration *limit_of(Ls__Duration *duration, int64_t ns)
{
    ls__duration__init(duration);
    duration->ns = ns;
    return ns > 0 ? duration : NULL;
}

static void compose_capacity(const struct draft *d, struct load_parts *p)
{
    ls__capacity__init(&p->capacity);
    ls__capacity_limits__init(&p->limits);
    ls__share__init(&p->errors);
    p->errors.of_one = d->errors;
    p->limits.p50 = limit_of(&p->percentiles[0], d->args.p50_ns);
    p->limits.p90 = limit_of(&p->percentiles[1], d->args.p90_ns);
    p->limits.p99 = limit_of(&p->percentiles[2], d->args.p99_ns);
    p->limits.p999 = limit_of(&p->percentiles[3], d->args.p999_ns);
    p->limits.errors = &p->errors;
    p->capacity.limits = &p->limits;
    p->capacity.budget = limit_of(&p->budget, d->args.budget_ns);
    p->capacity.has_profile = true;
    p->capacity.profile = d->args.profile;
    p->load.law_case = LS__LOAD__LAW_CAPACITY;
    p->load.capacity = &p->capacity;
}

static void compose_load(const struct draft *d, struct load_parts *p, Ls__Workload *workload)
{
    *p = (struct load_parts){ .load = LS__LOAD__INIT,
                              .closed = LS__CLOSED__INIT,
                              .constant = LS__CONSTANT__INIT,
                              .poisson = LS__POISSON__INIT,
                              .count = LS__COUNT__INIT,
                              .rate = LS__RATE__INIT,
                              .think = LS__THINK__INIT,
                              .think_mean = LS__DURATION__INIT,
                              .lifetime = LS__LIFETIME__INIT,
                              .lifetime_requests = LS__COUNT__INIT,
                              .min_wait = LS__DURATION__INIT };
    p->rate.per_s = d->args.rate_per_s;
    p->constant.rate = p->poisson.rate = &p->rate;
    p->count.n = d->args.requests;
    p->closed.requests = d->args.requests > 0 ? &p->count : NULL;
    if (d->args.find_capacity) {
        compose_capacity(d, p);
    } else if (d->args.poisson) {
        p->load.law_case = LS__LOAD__LAW_POISSON;
        p->load.poisson = &p->poisson;
    } else if (d->args.rate_per_s > 0) {
        p->load.law_case = LS__LOAD__LAW_CONSTANT;
        p->load.constant = &p->constant;
    } else {
        p->load.law_case = LS__LOAD__LAW_CLOSED;
        p->load.closed = &p->closed;
    }
    p->think_mean.ns = d->args.think_ns;
    p->think.mean = &p->think_mean;
    p->lifetime_requests.n = d->args.lifetime;
    p->lifetime.requests = &p->lifetime_requests;
    workload->load = &p->load;
    workload->think = d->args.think_ns > 0 ? &p->think : NULL;
    workload->lifetime = d->args.lifetime > 0 ? &p->lifetime : NULL;
    p->min_wait.ns = d->args.min_wait_ns;
    workload->min_wait = d->args.min_wait_ns > 0 ? &p->min_wait : NULL;
    workload->has_pacing = true;
    workload->pacing = strcmp(d->args.pacing, "frugal") == 0 ? LS__PACING__PACING_FRUGAL
                                                             : LS__PACING__PACING_PRECISE;
}

/* The plan that says what the options say, as text: what runs can be read, kept and run again. */
static enum ls_err compose(struct draft *d, char **out_text, struct ls_diag *diag)
{
    Ls__Plan plan = LS__PLAN__INIT;
    Ls__Fleet fleet = LS__FLEET__INIT;
    Ls__FleetCpus cpus = LS__FLEET_CPUS__INIT;
    Ls__Target target = LS__TARGET__INIT;
    Ls__Tls tls = LS__TLS__INIT;
    Ls__Workload workload = LS__WORKLOAD__INIT;
    Ls__Http http = LS__HTTP__INIT;
    Ls__Request request = LS__REQUEST__INIT;
    Ls__Request__HeadersEntry entries[HEADERS_MAX + 1];
    Ls__Request__HeadersEntry *headers[HEADERS_MAX + 1];
    Ls__Expect expect = LS__EXPECT__INIT;
    struct load_parts load;
    struct bench_websocket_parts websocket;
    Ls__Duration warmup = LS__DURATION__INIT;
    Ls__Duration measure = LS__DURATION__INIT;
    Ls__Duration timeout = LS__DURATION__INIT;
    Ls__Schedule schedule = LS__SCHEDULE__INIT;
    Ls__Target *targets[] = { &target };
    Ls__Workload *workloads[] = { &workload };
    Ls__Request *requests[] = { &request };
    enum ls_err rc = compose_request(d, entries, headers, &request, &expect, diag);

    if (rc == LS_OK)
        rc = compose_tls(d, &tls, &target, diag);
    if (rc != LS_OK)
        return rc;
    warmup.ns = d->args.warmup_ns;
    timeout.ns = d->args.timeout_ns;
    measure.ns = d->args.duration_ns > 0 ? d->args.duration_ns
                 : d->args.requests > 0  ? COUNT_TIME_NS
                                         : TIME_NS;
    compose_load(d, &load, &workload);
    fleet.has_clients = fleet.has_servers = true;
    fleet.clients = 1;
    fleet.servers = 0;
    cpus.client = ls_pb_text(d->args.cpus);
    fleet.cpus = &cpus;
    target.name = d->name;
    target.host = d->url.address;
    target.has_port = target.has_external = true;
    target.port = d->url.port;
    target.external = true;
    http.requests = requests;
    http.n_requests = 1;
    if (d->args.http2) {
        http.has_version = http.has_streams = true;
        http.version = LS__HTTP_VERSION__HTTP_VERSION_HTTP2;
        http.streams = (uint32_t)d->args.pipeline;
    } else {
        http.has_pipeline = true;
        http.pipeline = (uint32_t)d->args.pipeline;
    }
    workload.name = ls_pb_text("bench");
    workload.protocol_case = LS__WORKLOAD__PROTOCOL_HTTP;
    workload.http = &http;
    workload.has_connections = true;
    workload.connections = (uint32_t)d->args.connections;
    if (d->args.websocket.on)
        bench_websocket_compose(&d->args.websocket, d->args.pipeline, &request, &websocket,
                                &workload);
    workload.warmup = &warmup;
    workload.measure = d->args.find_capacity ? NULL : &measure;
    workload.timeout = &timeout;
    workload.source_addresses = (char **)(void *)d->args.sources.items;
    workload.n_source_addresses = d->args.sources.count;
    workload.has_io = true;
    workload.io = d->io;
    workload.has_receive_stamps = true;
    workload.receive_stamps = d->receive_stamps;
    schedule.has_repetitions = true;
    schedule.repetitions = 1;
    plan.name = ls_pb_text("bench");
    plan.fleet = &fleet;
    plan.targets = targets;
    plan.n_targets = 1;
    plan.workloads = workloads;
    plan.n_workloads = 1;
    plan.schedule = &schedule;
    *out_text = ls_msg_to_json(&plan.base, 2);
    return *out_text != NULL ? LS_OK : ls_fail(diag, LS_ENOMEM, "out of memory for the plan");
}

static void draft_fini(struct draft *d)
{
    ls_options_fini(rows, LS_ARRAY_LEN(rows), &d->args);
    for (size_t i = 0; i < HEADERS_MAX; i++)
        free(d->header_texts[i]);
    free(d->body_path);
    free(d->expect_path);
    for (size_t i = 0; i < LS_ARRAY_LEN(d->tls_paths); i++)
        free(d->tls_paths[i]);
}

static int bench(struct draft *d, const char *word, struct ls_diag *diag)
{
    char *text = NULL;
    int status;

    if (coord_url_parse(word, &d->url, diag) != LS_OK || read_words(d, diag) != LS_OK ||
        compose(d, &text, diag) != LS_OK)
        return coord_cli_fail(d->args.json, COORD_EXIT_USAGE, diag->text);
    status = coord_execute(
        &(struct coord_execute_options){ .file = "bench",
                                         .text = text,
                                         .base_dir = ".",
                                         .out_dir = d->args.out != NULL ? d->args.out : "",
                                         .workers_per_client = (uint32_t)d->args.threads,
                                         .json = d->args.json,
                                         .quiet = d->args.quiet });
    free(text);
    return status;
}

int coord_cmd_bench(int argc, char **argv)
{
    struct draft draft = { 0 };
    struct ls_diag diag = { 0 };
    const char *word = NULL;
    size_t plain = 0;
    bool json = coord_cli_wants_json(argc, argv);
    int status;

    if (ls_options_parse(rows, LS_ARRAY_LEN(rows), argc, argv, &draft.args, &word, 1, &plain,
                         &diag) != LS_OK) {
        status = coord_cli_fail(json, COORD_EXIT_USAGE, diag.text);
    } else if (draft.args.help) {
        (void)printf("usage: lockstep bench [option ...] URL\n\n");
        ls_options_help(rows, LS_ARRAY_LEN(rows), stdout);
        status = COORD_EXIT_OK;
    } else if (plain == 0) {
        status = coord_cli_fail(json, COORD_EXIT_USAGE, "bench: URL is missing: what to load?");
    } else {
        status = bench(&draft, word, &diag);
    }
    draft_fini(&draft);
    return status;
}

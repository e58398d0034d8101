#include "agent/respond/settings.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/options.h"
#include "common/units.h"

#define BODY_MAX     (16u << 20)
#define DURATION_MAX (INT64_C(3600) * 1000000000)

enum argument { ARG_NONE, ARG_DURATION, ARG_STATUS, ARG_CODE };

static const struct {
    const char *name;
    enum argument argument;
} actions[] = {
    { "normal", ARG_NONE },     { "close", ARG_NONE },          { "reset", ARG_NONE },
    { "no-answer", ARG_NONE },  { "slow", ARG_DURATION },       { "drip", ARG_DURATION },
    { "status", ARG_STATUS },   { "wrong-body", ARG_NONE },     { "short", ARG_NONE },
    { "long", ARG_NONE },       { "garbage", ARG_NONE },        { "half", ARG_NONE },
    { "cut-head", ARG_NONE },   { "twice", ARG_NONE },          { "both-framings", ARG_NONE },
    { "bad-length", ARG_NONE }, { "endless-head", ARG_NONE },   { "interim-flood", ARG_NONE },
    { "bye", ARG_NONE },        { "unasked-408", ARG_NONE },    { "bad-accept", ARG_NONE },
    { "masked", ARG_NONE },     { "reserved-bits", ARG_NONE },  { "bad-utf8", ARG_NONE },
    { "giant", ARG_NONE },      { "fragments", ARG_NONE },      { "ping", ARG_NONE },
    { "close-code", ARG_CODE }, { "swap", ARG_NONE },           { "goaway", ARG_NONE },
    { "rst", ARG_NONE },        { "padding", ARG_NONE },        { "continuation", ARG_NONE },
    { "push", ARG_NONE },       { "settings", ARG_NONE },       { "trailers", ARG_NONE },
    { "ping-flood", ARG_NONE }, { "settings-flood", ARG_NONE }, { "bomb", ARG_NONE },
};
static_assert(LS_ARRAY_LEN(actions) == RESPOND_ACTION_COUNT, "a name for each action");

/* The options as they are written; what needs more than a number is parsed afterwards. */
struct raw {
    bool help;
    const char *listen;
    uint64_t threads;
    const char *cpus;
    const char *body;
    uint64_t body_bytes;
    const char *latency;
    const char *queue;
    const char *stall;
    int64_t spin_ns;
    struct ls_option_list every;
    struct ls_option_list after;
    uint64_t streams;
    bool no_window;
    bool chunked;
    bool interim;
    bool close;
    uint64_t seed;
    const char *tls_cert;
    const char *tls_key;
    bool tls_self_signed;
    const char *count_file;
    bool die_with_parent;
    bool room;
    bool plain;
    uint64_t clients;
    const char *ready;
};

#define AT(field) offsetof(struct raw, field)

static const struct ls_option options[] = {
    { "listen", 'l', LS_OPTION_TEXT, AT(listen), "HOST:PORT", "127.0.0.1:0", 1, 0,
      "literal address; port 0 picks a free one and says so" },
    { "threads", 't', LS_OPTION_COUNT, AT(threads), "N", "1", 1, 256,
      "connections are dealt out to them in turn" },
    { "cpus", 0, LS_OPTION_TEXT, AT(cpus), "LIST", NULL, 1, 0, "pin thread i to the i-th of them" },
    { "body", 0, LS_OPTION_TEXT, AT(body), "TEXT", NULL, 1, 0, "of each answer (Hello, World!)" },
    { "body-bytes", 0, LS_OPTION_COUNT, AT(body_bytes), "N", NULL, 1, BODY_MAX,
      "a body of N bytes: 0123456789 over and over" },
    { "latency", 0, LS_OPTION_TEXT, AT(latency), "LAW", NULL, 1, 0,
      "constant:1ms, uniform:1ms-3ms, exponential:1ms; from reading a request to answering it" },
    { "queue", 0, LS_OPTION_TEXT, AT(queue), "LAW", NULL, 1, 0,
      "constant:1ms, exponential:1ms; requests of all connections are served one after the other, "
      "each for that long; one thread" },
    { "stall", 0, LS_OPTION_TEXT, AT(stall), "PERIOD:LENGTH", NULL, 1, 0,
      "after each PERIOD, do nothing at all for LENGTH" },
    { "spin", 0, LS_OPTION_DURATION, AT(spin_ns), "TIME", NULL, 0, 1e9,
      "poll for the last part of a wait: exact to the microsecond, for a whole CPU" },
    { "every", 0, LS_OPTION_LIST, AT(every), "N:ACTION", NULL, 1, 0,
      "do that to each N-th request, counted over all connections; may be repeated" },
    { "after", 0, LS_OPTION_LIST, AT(after), "N:ACTION", NULL, 1, 0,
      "do that to each request after the N-th; may be repeated" },
    { "streams", 0, LS_OPTION_COUNT, AT(streams), "N", "128", 1, 1000000,
      "HTTP/2: how many a connection may have at once" },
    { "no-window-updates", 0, LS_OPTION_FLAG, AT(no_window), NULL, NULL, 1, 0,
      "HTTP/2: never open the window for requests' bodies" },
    { "chunked", 0, LS_OPTION_FLAG, AT(chunked), NULL, NULL, 1, 0, "chunked bodies" },
    { "interim", 0, LS_OPTION_FLAG, AT(interim), NULL, NULL, 1, 0, "a 103 before each answer" },
    { "close", 0, LS_OPTION_FLAG, AT(close), NULL, NULL, 1, 0,
      "end the connection after each answer" },
    { "seed", 0, LS_OPTION_COUNT, AT(seed), "N", "1", 0, 9e15, "of random latencies" },
    { "tls-cert", 0, LS_OPTION_TEXT, AT(tls_cert), "FILE", NULL, 1, 0,
      "speak TLS, with this certificate and what it was issued by, PEM" },
    { "tls-key", 0, LS_OPTION_TEXT, AT(tls_key), "FILE", NULL, 1, 0, "the key to it, PEM" },
    { "tls-self-signed", 0, LS_OPTION_FLAG, AT(tls_self_signed), NULL, NULL, 1, 0,
      "speak TLS, with a certificate made for the moment" },
    { "count-file", 0, LS_OPTION_TEXT, AT(count_file), "FILE", NULL, 1, 0,
      "write the counters there too" },
    { "die-with-parent", 0, LS_OPTION_FLAG, AT(die_with_parent), NULL, NULL, 1, 0,
      "end when the process that started it has ended" },
    { "websocket-room", 0, LS_OPTION_FLAG, AT(room), NULL, NULL, 1, 0,
      "a WebSocket message goes to all connections as 'name: text' (?name= of the URL), instead "
      "of back; one thread" },
    { "clients", 0, LS_OPTION_COUNT, AT(clients), "N", "0", 0, 1e6,
      "of the room: when so many are in, all get the ready text (0: never)" },
    { "ready", 0, LS_OPTION_TEXT, AT(ready), "TEXT", "ready", 1, 0, "that text" },
    { "plain", 0, LS_OPTION_FLAG, AT(plain), NULL, NULL, 1, 0, "of the room: the text alone" },
    { "help", 'h', LS_OPTION_FLAG, AT(help), NULL, NULL, 1, 0, "this text" },
};

const char *respond_action_name(enum respond_action action)
{
    return (unsigned)action < RESPOND_ACTION_COUNT ? actions[action].name : "?";
}

void respond_settings_help(FILE *file)
{
    (void)fputs(
        "usage: lockstep-agent respond [options]\n\n"
        "A server of exactly known behaviour for HTTP/1.1 and HTTP/2. Says where it listens, then answers "
        "until\nSIGTERM or SIGINT and prints its counters as one line of JSON (SIGUSR1: "
        "also before that).\n\n",
        file);
    ls_options_help(options, LS_ARRAY_LEN(options), file);
    (void)fputs("\nactions: ", file);
    for (size_t i = RESPOND_NORMAL + 1; i < LS_ARRAY_LEN(actions); i++) {
        static const char *const argument[] = { "", ":TIME", ":CODE", ":CODE" };

        (void)fprintf(file, "%s%s%s", i > 1 ? " " : "", actions[i].name,
                      argument[actions[i].argument]);
    }
    (void)fputs("\n", file);
}

const char *respond_format_address(const struct sockaddr_storage *address, char *out,
                                   size_t out_bytes)
{
    char host[INET6_ADDRSTRLEN] = "?";

    if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;

        (void)inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
        (void)snprintf(out, out_bytes, "[%s]:%u", host, (unsigned)ntohs(in6->sin6_port));
    } else {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;

        (void)inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
        (void)snprintf(out, out_bytes, "%s:%u", host, (unsigned)ntohs(in->sin_port));
    }
    return out;
}

/* Copies the part of text before the separator at end; false if it does not fit. */
static bool copy_part(const char *text, const char *end, char *out, size_t out_bytes)
{
    size_t len = (size_t)(end - text);

    if (len >= out_bytes)
        return false;
    (void)memcpy(out, text, len);
    out[len] = '\0';
    return true;
}

static enum ls_err parse_address(const char *text, struct respond_settings *out,
                                 struct ls_diag *diag)
{
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)&out->address;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)&out->address;
    const char *colon = strrchr(text, ':');
    const char *from = text[0] == '[' ? text + 1 : text;
    char host[INET6_ADDRSTRLEN];
    uint64_t port = 0;

    if (colon == NULL || (from != text && (colon - from < 1 || colon[-1] != ']')) ||
        !copy_part(from, from != text ? colon - 1 : colon, host, sizeof(host)) ||
        ls_parse_count(colon + 1, &port, NULL) != LS_OK || port > 65535)
        return ls_fail(diag, LS_EINVAL, "--listen %s: write 127.0.0.1:8080 or [::1]:8080", text);
    (void)memset(&out->address, 0, sizeof(out->address));
    if (from != text && inet_pton(AF_INET6, host, &in6->sin6_addr) == 1) {
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons((uint16_t)port);
        out->address_len = sizeof(*in6);
        return LS_OK;
    }
    if (from == text && inet_pton(AF_INET, host, &in->sin_addr) == 1) {
        in->sin_family = AF_INET;
        in->sin_port = htons((uint16_t)port);
        out->address_len = sizeof(*in);
        return LS_OK;
    }
    return ls_fail(diag, LS_EINVAL, "--listen %s: the host must be a literal address", text);
}

/* "1ms" and, after the separator, "3ms". */
static enum ls_err parse_two(const char *text, char separator, int64_t *out_a, int64_t *out_b,
                             struct ls_diag *diag)
{
    const char *at = strchr(text, separator);
    char first[48];

    if (at == NULL || !copy_part(text, at, first, sizeof(first)))
        return ls_fail(diag, LS_EINVAL, "'%s': two durations with '%c' between", text, separator);
    if (ls_parse_duration(first, out_a, diag) != LS_OK)
        return LS_EINVAL;
    return ls_parse_duration(at + 1, out_b, diag) == LS_OK ? LS_OK : LS_EINVAL;
}

static enum ls_err parse_latency(const char *text, struct respond_settings *out,
                                 struct ls_diag *diag)
{
    const char *colon = strchr(text, ':');
    size_t len = colon != NULL ? (size_t)(colon - text) : 0;
    enum ls_err rc = LS_OK;

    if (len == 8 && memcmp(text, "constant", len) == 0) {
        out->latency = RESPOND_CONSTANT;
        rc = ls_parse_duration(colon + 1, &out->latency_low_ns, diag);
    } else if (len == 11 && memcmp(text, "exponential", len) == 0) {
        out->latency = RESPOND_EXPONENTIAL;
        rc = ls_parse_duration(colon + 1, &out->latency_low_ns, diag);
    } else if (len == 7 && memcmp(text, "uniform", len) == 0) {
        out->latency = RESPOND_UNIFORM;
        rc = parse_two(colon + 1, '-', &out->latency_low_ns, &out->latency_high_ns, diag);
    } else {
        return ls_fail(diag, LS_EINVAL,
                       "--latency %s: write constant:1ms, uniform:1ms-3ms or exponential:1ms",
                       text);
    }
    if (rc != LS_OK)
        return ls_fail_in(diag, LS_EINVAL, "--latency %s", text);
    if (out->latency == RESPOND_UNIFORM && out->latency_low_ns > out->latency_high_ns)
        return ls_fail(diag, LS_EINVAL, "--latency %s: the first is larger than the second", text);
    if (out->latency_low_ns > DURATION_MAX || out->latency_high_ns > DURATION_MAX)
        return ls_fail(diag, LS_ERANGE, "--latency %s: at most an hour", text);
    return LS_OK;
}

/* The laws of --latency, but for uniform. */
static enum ls_err parse_queue(const char *text, struct respond_settings *out, struct ls_diag *diag)
{
    const char *colon = strchr(text, ':');
    size_t len = colon != NULL ? (size_t)(colon - text) : 0;
    bool constant = len == 8 && memcmp(text, "constant", len) == 0;

    if (!constant && !(len == 11 && memcmp(text, "exponential", len) == 0))
        return ls_fail(diag, LS_EINVAL, "--queue %s: write constant:1ms or exponential:1ms", text);
    out->queue = constant ? RESPOND_CONSTANT : RESPOND_EXPONENTIAL;
    if (ls_parse_duration(colon + 1, &out->queue_ns, diag) != LS_OK)
        return ls_fail_in(diag, LS_EINVAL, "--queue %s", text);
    if (out->queue_ns <= 0 || out->queue_ns > DURATION_MAX)
        return ls_fail(diag, LS_ERANGE, "--queue %s: above 0 and at most an hour", text);
    if (out->threads > 1)
        return ls_fail(diag, LS_EINVAL, "--queue has one thread: leave --threads away");
    return LS_OK;
}

static enum ls_err parse_stall(const char *text, struct respond_settings *out, struct ls_diag *diag)
{
    if (parse_two(text, ':', &out->stall_period_ns, &out->stall_length_ns, diag) != LS_OK)
        return ls_fail_in(diag, LS_EINVAL, "--stall %s", text);
    if (out->stall_length_ns <= 0 || out->stall_length_ns >= out->stall_period_ns)
        return ls_fail(diag, LS_EINVAL, "--stall %s: LENGTH must be shorter than PERIOD", text);
    return LS_OK;
}

static enum ls_err parse_argument(const char *text, const char *argument, struct respond_rule *rule,
                                  struct ls_diag *diag)
{
    uint64_t status = 0;

    switch (actions[rule->action].argument) {
    case ARG_DURATION:
        if (argument == NULL || ls_parse_duration(argument, &rule->duration_ns, NULL) != LS_OK ||
            rule->duration_ns > DURATION_MAX)
            return ls_fail(diag, LS_EINVAL, "%s: a duration is missing, as in %s:250ms", text,
                           actions[rule->action].name);
        return LS_OK;
    case ARG_STATUS:
        if (argument == NULL || ls_parse_count(argument, &status, NULL) != LS_OK || status < 200 ||
            status > 599)
            return ls_fail(diag, LS_EINVAL, "%s: a status from 200 to 599 is missing", text);
        rule->status = (uint16_t)status;
        return LS_OK;
    case ARG_CODE:
        if (argument == NULL || ls_parse_count(argument, &status, NULL) != LS_OK || status < 1000 ||
            status > 4999)
            return ls_fail(diag, LS_EINVAL, "%s: a code from 1000 to 4999 is missing", text);
        rule->status = (uint16_t)status;
        return LS_OK;
    default:
        if (argument != NULL)
            return ls_fail(diag, LS_EINVAL, "%s: %s takes no value", text,
                           actions[rule->action].name);
        return LS_OK;
    }
}

/* "100:slow:250ms" */
static enum ls_err parse_rule(const char *text, bool after, struct respond_settings *out,
                              struct ls_diag *diag)
{
    struct respond_rule *rule = &out->rules[out->rule_count];
    const char *colon = strchr(text, ':');
    const char *argument = NULL;
    char number[32];
    char name[32] = "";

    if (out->rule_count == RESPOND_RULES_MAX)
        return ls_fail(diag, LS_ERANGE, "%s: at most %d rules", text, RESPOND_RULES_MAX);
    (void)memset(rule, 0, sizeof(*rule));
    rule->after = after;
    if (colon == NULL || !copy_part(text, colon, number, sizeof(number)) ||
        ls_parse_count(number, &rule->n, NULL) != LS_OK || (!after && rule->n == 0))
        return ls_fail(diag, LS_EINVAL, "%s: write N:ACTION, as in 100:close", text);
    argument = strchr(colon + 1, ':');
    (void)copy_part(colon + 1, argument != NULL ? argument : colon + 1 + strlen(colon + 1), name,
                    sizeof(name));
    for (size_t i = RESPOND_NORMAL; i < LS_ARRAY_LEN(actions); i++) {
        if (i != RESPOND_NORMAL && strcmp(name, actions[i].name) == 0) {
            rule->action = (enum respond_action)i;
            out->rule_count++;
            return parse_argument(text, argument != NULL ? argument + 1 : NULL, rule, diag);
        }
    }
    return ls_fail(diag, LS_EINVAL, "%s: no action '%s'; --help lists them", text, name);
}

static enum ls_err make_body(const struct raw *raw, struct respond_settings *out,
                             struct ls_diag *diag)
{
    const char *text = raw->body != NULL ? raw->body : "Hello, World!";
    char *body;

    if (raw->body != NULL && raw->body_bytes != 0)
        return ls_fail(diag, LS_EINVAL, "--body and --body-bytes exclude each other");
    out->body_len = raw->body_bytes != 0 ? (size_t)raw->body_bytes : strlen(text);
    body = malloc(out->body_len + 1);
    if (body == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a body of %zu bytes", out->body_len);
    for (size_t i = 0; i < out->body_len; i++)
        body[i] = raw->body_bytes != 0 ? (char)('0' + i % 10) : text[i];
    body[out->body_len] = '\0';
    out->body = body;
    return LS_OK;
}

static enum ls_err parse_tls(const struct raw *raw, struct respond_settings *out,
                             struct ls_diag *diag)
{
    if ((raw->tls_cert != NULL) != (raw->tls_key != NULL))
        return ls_fail(diag, LS_EINVAL, "--tls-cert and --tls-key need each other");
    if (raw->tls_cert != NULL && raw->tls_self_signed)
        return ls_fail(diag, LS_EINVAL, "--tls-cert and --tls-self-signed exclude each other");
    out->tls_certificate = raw->tls_cert;
    out->tls_key = raw->tls_key;
    out->tls_self_signed = raw->tls_self_signed;
    return LS_OK;
}

static enum ls_err from_raw(const struct raw *raw, struct respond_settings *out,
                            struct ls_diag *diag)
{
    enum ls_err rc = parse_address(raw->listen, out, diag);

    out->threads = (uint32_t)raw->threads;
    out->spin_ns = raw->spin_ns;
    out->seed = raw->seed;
    out->streams = (uint32_t)raw->streams;
    out->no_window = raw->no_window;
    out->chunked = raw->chunked;
    out->interim = raw->interim;
    out->close = raw->close;
    out->die_with_parent = raw->die_with_parent;
    out->count_file = raw->count_file;
    out->room = raw->room;
    out->plain = raw->plain;
    out->room_clients = (uint32_t)raw->clients;
    out->ready = raw->ready;
    if (rc == LS_OK && raw->room && raw->threads > 1)
        rc = ls_fail(diag, LS_EINVAL, "--websocket-room has one thread: leave --threads away");
    if (rc == LS_OK && !raw->room && (raw->clients > 0 || raw->plain))
        rc = ls_fail(diag, LS_EINVAL, "--clients and --plain go with --websocket-room");
    if (rc == LS_OK && raw->cpus != NULL) {
        rc = ls_cpuset_parse(raw->cpus, &out->cpus, diag);
        if (rc != LS_OK)
            (void)ls_fail_in(diag, rc, "--cpus");
    }
    if (rc == LS_OK && raw->latency != NULL)
        rc = parse_latency(raw->latency, out, diag);
    if (rc == LS_OK && raw->queue != NULL)
        rc = parse_queue(raw->queue, out, diag);
    if (rc == LS_OK && raw->stall != NULL)
        rc = parse_stall(raw->stall, out, diag);
    for (size_t i = 0; rc == LS_OK && i < raw->every.count; i++)
        rc = parse_rule(raw->every.items[i], false, out, diag);
    for (size_t i = 0; rc == LS_OK && i < raw->after.count; i++)
        rc = parse_rule(raw->after.items[i], true, out, diag);
    if (rc == LS_OK)
        rc = parse_tls(raw, out, diag);
    if (rc == LS_OK)
        rc = make_body(raw, out, diag);
    for (size_t i = 0; rc == LS_OK && i < out->rule_count; i++) {
        if (out->body_len == 0 &&
            (out->rules[i].action == RESPOND_WRONG_BODY || out->rules[i].action == RESPOND_SHORT))
            rc = ls_fail(diag, LS_EINVAL, "%s needs a body",
                         respond_action_name(out->rules[i].action));
    }
    return rc;
}

enum ls_err respond_settings_parse(int argc, char **argv, struct respond_settings *out,
                                   bool *out_help, struct ls_diag *diag)
{
    struct raw raw = { 0 };
    struct respond_settings settings = { 0 };
    size_t positional = 0;
    enum ls_err rc;

    rc = ls_options_parse(options, LS_ARRAY_LEN(options), argc, argv, &raw, NULL, 0, &positional,
                          diag);
    if (rc == LS_OK && !raw.help)
        rc = from_raw(&raw, &settings, diag);
    ls_options_fini(options, LS_ARRAY_LEN(options), &raw);
    if (rc != LS_OK) {
        respond_settings_fini(&settings);
        return rc;
    }
    *out_help = raw.help;
    *out = settings;
    return LS_OK;
}

void respond_settings_fini(struct respond_settings *settings)
{
    free(settings->body);
    settings->body = NULL;
}

#include "agent/host/output.h"

#include <inttypes.h>
#include <math.h>
#include <regex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/digest.h"
#include "common/msg_json.h"
#include "common/utf8.h"

#define NAME_MAX_BYTES     64u
#define UNIT_MAX_BYTES     16u
#define CHECKSUM_MAX_BYTES 128u
#define REASON_MAX_BYTES   200u

struct host_expectation {
    const Ls__Process *process;
    struct ls_bytes expected;
    regex_t match;
    regex_t handled;
    bool has_match;
    bool has_handled;
};

struct host_output {
    const struct host_expectation *expectation;
    struct ls_buf kept;
    uint64_t bytes;
    struct ls_buf line; /* that has not come whole */
    bool line_too_long;
    bool marked;
    Ls__ScriptValue **values; /* owned */
    size_t value_count;
    uint64_t lines_ignored;
    bool no_memory;
    char why[200]; /* the first thing that was wrong; "" if nothing was */
};

/* ---- what is expected */

static enum ls_err compile(const char *pattern, regex_t *out, bool *out_has, struct ls_diag *diag)
{
    char why[120];
    int error;

    if (pattern == NULL)
        return LS_OK;
    error = regcomp(out, pattern, REG_EXTENDED | REG_NOSUB);
    *out_has = error == 0;
    if (error == 0)
        return LS_OK;
    (void)regerror(error, out, why, sizeof(why));
    return ls_fail(diag, LS_EINVAL, "\"%.80s\" is no extended regular expression: %s", pattern,
                   why);
}

enum ls_err host_expectation_create(const Ls__Process *process, struct ls_bytes expected,
                                    struct host_expectation **out_expectation, struct ls_diag *diag)
{
    struct host_expectation *e = calloc(1, sizeof(*e));
    enum ls_err rc;

    if (e == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for what a run is to print");
    e->process = process;
    e->expected = expected;
    rc = compile(process->expect->match, &e->match, &e->has_match, diag);
    if (rc == LS_OK)
        rc = compile(process->expect->handled, &e->handled, &e->has_handled, diag);
    if (rc != LS_OK) {
        host_expectation_destroy(e);
        return rc;
    }
    *out_expectation = e;
    return LS_OK;
}

void host_expectation_destroy(struct host_expectation *expectation)
{
    if (expectation == NULL)
        return;
    if (expectation->has_match)
        regfree(&expectation->match);
    if (expectation->has_handled)
        regfree(&expectation->handled);
    free(expectation);
}

bool host_expectation_listens(const struct host_expectation *e)
{
    return e->expected.data != NULL || e->process->expect->sha256 != NULL || e->has_match ||
           e->has_handled || e->process->n_metrics > 0 || e->process->marker != NULL;
}

enum ls_err host_output_create(const struct host_expectation *expectation,
                               struct host_output **out_output, struct ls_diag *diag)
{
    struct host_output *o = calloc(1, sizeof(*o));

    if (o == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for a run's output");
    o->expectation = expectation;
    ls_buf_init(&o->kept, expectation->process->output->bytes);
    ls_buf_init(&o->line, HOST_OUTPUT_LINE_MAX);
    *out_output = o;
    return LS_OK;
}

static void free_values(struct host_output *o)
{
    for (size_t i = 0; i < o->value_count; i++)
        ls__script_value__free_unpacked(o->values[i], NULL);
    free(o->values);
    o->values = NULL;
    o->value_count = 0;
}

void host_output_destroy(struct host_output *output)
{
    if (output == NULL)
        return;
    free_values(output);
    ls_buf_fini(&output->kept);
    ls_buf_fini(&output->line);
    free(output);
}

/* ---- lines */

static void wrong(struct host_output *o, const char *fmt, ...) LS_PRINTF(2, 3);
static void wrong(struct host_output *o, const char *fmt, ...)
{
    va_list ap;

    if (o->why[0] != '\0')
        return; /* the first one is enough */
    va_start(ap, fmt);
    (void)vsnprintf(o->why, sizeof(o->why), fmt, ap);
    va_end(ap);
    ls_utf8_clean(o->why, strlen(o->why));
}

static bool is_name(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/");

    return len > 0 && len <= NAME_MAX_BYTES && name[len] == '\0';
}

/* Short, and without control characters: it goes into reports. */
static bool is_word(const char *text, size_t max_bytes)
{
    size_t len = text != NULL ? strlen(text) : 0;

    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return false;
    }
    return len <= max_bytes;
}

static const char *fault_of(const Ls__MetricLine *m)
{
    if (m->metric == NULL || !is_name(m->metric))
        return "its name is not 1 to 64 letters, digits, '.', '_', '-' and '/'";
    if (m->has_value && m->not_applicable != NULL)
        return "it has both a value and a reason why there is none";
    if (!m->has_value && m->not_applicable == NULL)
        return "it has no value";
    if (m->has_value && !isfinite(m->value))
        return "its value is no finite number";
    if (!is_word(m->unit, UNIT_MAX_BYTES))
        return "its unit is longer than 16 bytes, or no plain text";
    if (!is_word(m->checksum, CHECKSUM_MAX_BYTES))
        return "its checksum is longer than 128 bytes, or no plain text";
    if (!is_word(m->not_applicable, REASON_MAX_BYTES))
        return "its reason is longer than 200 bytes, or no plain text";
    return NULL;
}

static bool set(char **field, const char *text)
{
    char *copy = text != NULL ? strdup(text) : NULL;

    if (copy != NULL)
        *field = copy;
    return text == NULL || copy != NULL;
}

static const Ls__ScriptValue *find(const struct host_output *o, const char *name)
{
    for (size_t i = 0; i < o->value_count; i++) {
        if (strcmp(o->values[i]->name, name) == 0)
            return o->values[i];
    }
    return NULL;
}

/* Of the plan, what it says comes before what the script says. */
static const Ls__ProcessMetric *planned(const struct host_output *o, const char *name)
{
    const Ls__Process *p = o->expectation->process;

    for (size_t i = 0; i < p->n_metrics; i++) {
        if (strcmp(p->metrics[i]->name, name) == 0)
            return p->metrics[i];
    }
    return NULL;
}

static Ls__ScriptValue *make_value(const struct host_output *o, const Ls__MetricLine *m)
{
    const Ls__ProcessMetric *plan = planned(o, m->metric);
    Ls__ScriptValue *value = malloc(sizeof(*value));

    if (value == NULL)
        return NULL;
    ls__script_value__init(value);
    value->value = m->has_value ? m->value : 0;
    value->higher_is_better =
        (plan != NULL && plan->has_better ? plan->better : m->better) == LS__BETTER__BETTER_HIGHER;
    if (set(&value->name, m->metric) &&
        set(&value->unit, plan != NULL && plan->unit != NULL ? plan->unit : m->unit) &&
        set(&value->checksum, m->checksum) && set(&value->not_applicable, m->not_applicable))
        return value;
    ls__script_value__free_unpacked(value, NULL);
    return NULL;
}

static void add_metric(struct host_output *o, const Ls__MetricLine *m)
{
    const char *fault = fault_of(m);
    Ls__ScriptValue **values;
    Ls__ScriptValue *value;

    if (fault != NULL) {
        wrong(o, "it printed a metric that makes no sense: %s", fault);
        return;
    }
    if (find(o, m->metric) != NULL) {
        wrong(o, "it printed the metric %s twice", m->metric);
        return;
    }
    if (o->value_count == HOST_OUTPUT_METRICS_MAX) {
        wrong(o, "it printed more than %u metrics", HOST_OUTPUT_METRICS_MAX);
        return;
    }
    values = realloc(o->values, (o->value_count + 1) * sizeof(Ls__ScriptValue *));
    if (values != NULL)
        o->values = values;
    value = values != NULL ? make_value(o, m) : NULL;
    if (value == NULL)
        o->no_memory = true;
    else
        o->values[o->value_count++] = value;
}

/* A JSON object that names a metric; anything else is for somebody else. */
static bool is_metric_line(const char *line)
{
    return line[strspn(line, " \t")] == '{' && strstr(line, "\"metric\"") != NULL;
}

static void take_metric(struct host_output *o, const char *line, size_t len)
{
    ProtobufCMessage *message = NULL;
    struct ls_diag diag = { 0 };
    enum ls_err rc =
        ls_msg_from_json(&ls__metric_line__descriptor,
                         (struct ls_bytes){ (const unsigned char *)line, len }, &message, &diag);

    if (rc == LS_ENOMEM) {
        o->no_memory = true;
        return;
    }
    if (rc != LS_OK) {
        wrong(o, "it printed a metric that cannot be read: %.120s", diag.text);
        return;
    }
    add_metric(o, (const Ls__MetricLine *)message);
    protobuf_c_message_free_unpacked(message, NULL);
}

static void end_line(struct host_output *o)
{
    const char *marker = o->expectation->process->marker;
    const char *line = o->line.data != NULL ? (const char *)o->line.data : "";
    size_t len = o->line.len;

    if (o->line_too_long || !o->line.ok) {
        o->lines_ignored++;
    } else {
        if (len > 0 && line[len - 1] == '\r')
            o->line.data[--len] = '\0';
        if (marker != NULL && strcmp(line, marker) == 0)
            o->marked = true;
        else if (strlen(line) == len && is_metric_line(line))
            take_metric(o, line, len);
        else
            o->lines_ignored++;
    }
    o->line_too_long = false;
    ls_buf_reset(&o->line);
}

static void scan(struct host_output *o, struct ls_bytes bytes)
{
    while (bytes.len > 0) {
        const unsigned char *end = memchr(bytes.data, '\n', bytes.len);
        size_t len = end != NULL ? (size_t)(end - bytes.data) : bytes.len;

        if (o->line.len + len > HOST_OUTPUT_LINE_MAX)
            o->line_too_long = true;
        else
            ls_buf_add(&o->line, bytes.data, len);
        if (end == NULL)
            return;
        end_line(o);
        bytes.data += len + 1;
        bytes.len -= len + 1;
    }
}

void host_output_feed(struct host_output *output, struct ls_bytes bytes)
{
    size_t room = output->kept.max - output->kept.len;

    output->bytes += bytes.len;
    ls_buf_add(&output->kept, bytes.data, bytes.len < room ? bytes.len : room);
    output->no_memory = output->no_memory || !output->kept.ok;
    scan(output, bytes);
}

bool host_output_is_marked(const struct host_output *output)
{
    return output->marked;
}

/* ---- judged */

static const char *text_of(const struct host_output *o)
{
    return o->kept.data != NULL ? (const char *)o->kept.data : "";
}

static void compare(struct host_output *o, const char *sha256)
{
    const struct host_expectation *e = o->expectation;
    const Ls__ProcessExpect *expect = e->process->expect;
    size_t at = 0;
    bool compared = e->expected.data != NULL || expect->sha256 != NULL || e->has_match;

    if (!compared)
        return;
    if (o->bytes > o->kept.len) {
        wrong(o, "it printed %" PRIu64 " bytes, and %zu are the most that are looked at", o->bytes,
              o->kept.len);
        return;
    }
    if (e->expected.data != NULL) {
        while (at < o->kept.len && at < e->expected.len && o->kept.data[at] == e->expected.data[at])
            at++;
        if (o->kept.len != e->expected.len || at < e->expected.len)
            wrong(o, "its output differs from what is expected at byte %zu (it is %zu bytes long)",
                  at, o->kept.len);
    }
    if (expect->sha256 != NULL && strcmp(expect->sha256, sha256) != 0)
        wrong(o, "its output has SHA-256 %.12s..., expected was %.12s...", sha256, expect->sha256);
    if (e->has_match && regexec(&e->match, text_of(o), 0, NULL, 0) != 0)
        wrong(o, "its output does not match \"%.80s\"", expect->match);
}

static void require_metrics(struct host_output *o)
{
    const Ls__Process *p = o->expectation->process;

    for (size_t i = 0; i < p->n_metrics; i++) {
        const Ls__ScriptValue *value = find(o, p->metrics[i]->name);

        if (value == NULL)
            wrong(o, "it did not print the metric %s", p->metrics[i]->name);
        else if (p->metrics[i]->checksum != NULL && value->not_applicable[0] == '\0' &&
                 strcmp(p->metrics[i]->checksum, value->checksum) != 0)
            wrong(o, "metric %s has checksum %.40s, expected was %.40s", value->name,
                  value->checksum[0] != '\0' ? value->checksum : "none", p->metrics[i]->checksum);
    }
    if (p->marker != NULL && !o->marked)
        wrong(o, "it did not print the line \"%.80s\"", p->marker);
}

const char *host_output_tail(const struct host_output *output, char *out, size_t out_bytes)
{
    size_t from = output->kept.len > out_bytes - 1 ? output->kept.len - (out_bytes - 1) : 0;
    size_t len = output->kept.len - from;

    if (len > 0)
        (void)memcpy(out, output->kept.data + from, len);
    out[len] = '\0';
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)out[i] < 0x20)
            out[i] = ' ';
    }
    ls_utf8_clean(out, len);
    return out;
}

/* Only a run that has ended well is asked what it has printed. */
static bool conclude(struct host_output *o, const char *sha256, Ls__ProcessRun *run)
{
    const struct host_expectation *e = o->expectation;

    require_metrics(o);
    compare(o, sha256);
    if (o->why[0] != '\0')
        return set(&run->outcome, "output") && set(&run->why, o->why);
    return set(&run->outcome, e->has_handled && regexec(&e->handled, text_of(o), 0, NULL, 0) == 0
                                  ? "handled"
                                  : "graceful");
}

enum ls_err host_output_judge(struct host_output *output, bool is_fine, Ls__ProcessRun *run,
                              struct ls_diag *diag)
{
    char sha256[LS_SHA256_HEX] = "";
    bool ok;

    if (output->line.len > 0 || output->line_too_long)
        end_line(output); /* a last line need not end */
    if (output->bytes == output->kept.len)
        ls_sha256_hex((struct ls_bytes){ output->kept.data, output->kept.len }, sha256);
    ok = set(&run->output_sha256, sha256) && (!is_fine || conclude(output, sha256, run));
    run->output_bytes = output->bytes;
    if (output->value_count > 0 || output->expectation->process->n_metrics > 0)
        run->lines_ignored = output->lines_ignored; /* else nobody has looked for anything */
    run->values = output->values;
    run->n_values = output->value_count;
    output->values = NULL;
    output->value_count = 0;
    return ok && !output->no_memory
               ? LS_OK
               : ls_fail(diag, LS_ENOMEM, "no memory for what a run has printed");
}

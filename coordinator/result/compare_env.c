/* What else differs between two results than their figures. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/msg_model.h"
#include "coordinator/result/compare_internal.h"
#include "coordinator/result/message.h"

static bool add(Ls__Comparison *to, const char *what, const char *a, const char *b, bool grave)
{
    Ls__Difference *difference;

    if (strcmp(a, b) == 0)
        return true;
    difference =
        coord_message_append(&to->n_differences, &to->differences, &ls__difference__descriptor);
    if (difference == NULL)
        return false;
    difference->grave = grave;
    return coord_message_string(&difference->what, what) &&
           coord_message_string(&difference->a, a) && coord_message_string(&difference->b, b);
}

/* Each trial has a folder of its own: its name tells nothing. */
static void without_folder(const char *text, const char *folder, struct ls_buf *out)
{
    size_t len = strlen(folder);
    const char *at;

    while (len > 0 && (at = strstr(text, folder)) != NULL) {
        ls_buf_add(out, text, (size_t)(at - text));
        ls_buf_adds(out, "{dir}");
        text = at + len;
    }
    ls_buf_adds(out, text);
}

static void element(const ProtobufCFieldDescriptor *field, const void *at, const char *folder,
                    struct ls_buf *out)
{
    char number[32];

    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        without_folder(*(char *const *)at, folder, out);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        ls_buf_adds(out, *(const protobuf_c_boolean *)at ? "yes" : "no");
        break;
    case PROTOBUF_C_TYPE_UINT32:
        ls_buf_addf(out, "%" PRIu32, *(const uint32_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT64:
        ls_buf_addf(out, "%" PRIu64, *(const uint64_t *)at);
        break;
    case PROTOBUF_C_TYPE_INT64:
        ls_buf_addf(out, "%" PRId64, *(const int64_t *)at);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        ls_buf_adds(out, ls_msg_format_double(*(const double *)at, number));
        break;
    default:
        break; /* messages are compared by who knows them */
    }
}

/* A field as text: its elements, with a blank between them. */
static void field_text(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                       const char *folder, struct ls_buf *out)
{
    size_t n = ls_msg_count(message, field);

    ls_buf_reset(out);
    for (size_t i = 0; i < n; i++) {
        ls_buf_adds(out, i > 0 ? " " : "");
        element(field, ls_msg_at(message, field, i), folder, out);
    }
}

static const char *text_of(const struct ls_buf *buf)
{
    return buf->len > 0 ? (const char *)buf->data : "";
}

struct side {
    const ProtobufCMessage *message;
    const char *folder; /* "": none */
};

/* Every scalar field of two messages of one kind. */
static bool messages(Ls__Comparison *to, const char *prefix, struct side a, struct side b)
{
    struct ls_buf left, right;
    bool ok = true;

    ls_buf_init(&left, COORD_COMPARE_TEXT_MAX);
    ls_buf_init(&right, COORD_COMPARE_TEXT_MAX);
    for (unsigned i = 0; ok && i < a.message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &a.message->descriptor->fields[i];
        char what[256];

        if (field->type == PROTOBUF_C_TYPE_MESSAGE)
            continue;
        field_text(a.message, field, a.folder, &left);
        field_text(b.message, field, b.folder, &right);
        (void)snprintf(what, sizeof(what), "%.200s %s", prefix, field->name);
        ok = left.ok && right.ok && add(to, what, text_of(&left), text_of(&right), false);
    }
    ls_buf_fini(&left);
    ls_buf_fini(&right);
    return ok;
}

/* ---- hosts */

static const Ls__Host *host_at(const Ls__Result *result, const char *role, size_t at)
{
    for (size_t i = 0; i < result->n_hosts; i++) {
        if (strcmp(result->hosts[i]->role, role) == 0 && at-- == 0)
            return result->hosts[i];
    }
    return NULL;
}

static size_t host_count(const Ls__Result *result, const char *role)
{
    size_t n = 0;

    for (size_t i = 0; i < result->n_hosts; i++)
        n += strcmp(result->hosts[i]->role, role) == 0;
    return n;
}

static bool hosts(Ls__Comparison *to, const Ls__Result *a, const Ls__Result *b, const char *role)
{
    size_t na = host_count(a, role), nb = host_count(b, role);
    char what[96], left[32], right[32];
    bool ok;

    (void)snprintf(what, sizeof(what), "%s agents", role);
    (void)snprintf(left, sizeof(left), "%zu", na);
    (void)snprintf(right, sizeof(right), "%zu", nb);
    ok = add(to, what, left, right, false);
    for (size_t i = 0; ok && i < na && i < nb; i++) {
        const Ls__Host *x = host_at(a, role, i), *y = host_at(b, role, i);

        (void)snprintf(what, sizeof(what), "%.64s", x->agent);
        ok = add(to, what, x->cpus, y->cpus, false);
        if (ok && x->facts != NULL && y->facts != NULL)
            ok = messages(to, what, (struct side){ &x->facts->base, "" },
                          (struct side){ &y->facts->base, "" });
    }
    return ok;
}

/* ---- what was run */

static bool number(Ls__Comparison *to, const char *what, double a, double b, bool grave)
{
    char left[32], right[32];

    return add(to, what, ls_msg_format_double(a, left), ls_msg_format_double(b, right), grave);
}

static double asked(const Ls__Trial *trial)
{
    return trial->connections != NULL ? (double)trial->connections->asked : 0;
}

static double seconds(const Ls__Trial *trial)
{
    return trial->window != NULL ? (double)trial->window->duration_ns / 1e9 : 0;
}

/* A fixed count takes as long as it takes. */
static bool has_length(const Ls__Trial *trial)
{
    return strstr(trial->load, " requests") == NULL;
}

static const char *first_io(const Ls__Trial *trial)
{
    return trial->n_clients > 0 ? trial->clients[0]->io : "";
}

/* Also of results from before it was known. */
static const char *path_of(const Ls__Trial *trial)
{
    return trial->network != NULL ? trial->network->path : "";
}

bool coord_compare_loads(Ls__Comparison *to, const Ls__Trial *a, const Ls__Trial *b)
{
    const struct {
        const char *what, *a, *b;
        bool grave;
    } texts[] = {
        { "load", a->load, b->load, true },
        { "think time", a->think, b->think, true },
        { "lifetime of connections", a->lifetime, b->lifetime, true },
        { "TLS", a->tls != NULL ? a->tls->version : "", b->tls != NULL ? b->tls->version : "",
          true },
        { "pacing", a->pacing, b->pacing, false },
        { "min_wait", a->min_wait, b->min_wait, true },
        { "io", first_io(a), first_io(b), false },
        { "path to the target", path_of(a), path_of(b), false },
    };
    char what[300];
    bool ok = true;

    for (size_t i = 0; ok && i < LS_ARRAY_LEN(texts); i++) {
        (void)snprintf(what, sizeof(what), "%.200s: %s", a->workload, texts[i].what);
        ok = add(to, what, texts[i].a, texts[i].b, texts[i].grave);
    }
    (void)snprintf(what, sizeof(what), "%.200s: connections", a->workload);
    ok = ok && number(to, what, asked(a), asked(b), true);
    (void)snprintf(what, sizeof(what), "%.200s: pipeline", a->workload);
    ok = ok && number(to, what, a->pipeline, b->pipeline, true);
    (void)snprintf(what, sizeof(what), "%.200s: seconds measured", a->workload);
    if (has_length(a) && has_length(b))
        ok = ok && number(to, what, seconds(a), seconds(b), false);
    return ok;
}

bool coord_compare_programs(Ls__Comparison *to, const Ls__Trial *a, const Ls__Trial *b)
{
    const Ls__Program *x, *y;
    char what[96];

    if (a->server == NULL || b->server == NULL || a->server->program == NULL ||
        b->server->program == NULL)
        return true;
    (void)snprintf(what, sizeof(what), "%.64s", a->target);
    x = a->server->program;
    y = b->server->program;
    return messages(to, what, (struct side){ &x->base, x->folder },
                    (struct side){ &y->base, y->folder });
}

bool coord_compare_hosts(Ls__Comparison *to, const Ls__Result *a, const Ls__Result *b)
{
    return add(to, "lockstep", a->lockstep_version, b->lockstep_version, false) &&
           hosts(to, a, b, "server") && hosts(to, a, b, "client");
}

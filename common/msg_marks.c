#include "common/msg_marks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/msg_model.h"

/* One table holds both kinds of entry: a message (field NULL) and a field or an element of it. */
struct entry {
    const ProtobufCMessage *message; /* NULL: free */
    const ProtobufCFieldDescriptor *field;
    int index;
    struct ls_mark mark;
    /* of a message: what it is a part of */
    const ProtobufCMessage *parent;
    const ProtobufCFieldDescriptor *parent_field;
    int parent_index;
    bool incomplete;
    /* Of a message: new with each one that is put at this address. Of a field: that of its message.
     * What is left of an earlier message at the same address is thus not found. */
    uint64_t generation;
};

struct ls_marks {
    struct entry *entries; /* open addressing, a power of two, at most half full; owned */
    size_t cap;
    size_t count;
    uint64_t generation; /* of the last message */
};

/* ---- paths ------------------------------------------------------------------------------------
 */

static void path_add(struct ls_msg_path *path, const char *fmt, ...) LS_PRINTF(2, 3);

static void path_add(struct ls_msg_path *path, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(path->text + path->len, sizeof(path->text) - path->len, fmt, ap);
    va_end(ap);
    if (n > 0)
        path->len += (size_t)n;
    if (path->len >= sizeof(path->text))
        path->len = sizeof(path->text) - 1;
}

void ls_msg_path_field(struct ls_msg_path *path, const char *name)
{
    path_add(path, "%s%s", path->len == 0 ? "" : ".", name);
}

void ls_msg_path_index(struct ls_msg_path *path, size_t index)
{
    path_add(path, "[%zu]", index);
}

void ls_msg_path_key(struct ls_msg_path *path, struct ls_bytes key)
{
    char shown[LS_EXCERPT_MAX];
    size_t i = 0;

    (void)ls_excerpt(key, shown);
    while ((shown[i] >= 'a' && shown[i] <= 'z') || (shown[i] >= 'A' && shown[i] <= 'Z') ||
           (shown[i] >= '0' && shown[i] <= '9') || shown[i] == '_' || shown[i] == '-')
        i++;
    if (i > 0 && shown[i] == '\0')
        ls_msg_path_field(path, shown);
    else
        path_add(path, "[\"%s\"]", shown);
}

/* ---- the table --------------------------------------------------------------------------------
 */

static size_t hash(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                   int index)
{
    uint64_t h = (uint64_t)(uintptr_t)message >> 4;

    h = h * UINT64_C(0x9e3779b97f4a7c15) + ((uint64_t)(uintptr_t)field >> 3);
    h = h * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)(unsigned)(index + 1);
    h *= UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(h >> 20);
}

static struct entry *slot(const struct ls_marks *marks, const ProtobufCMessage *message,
                          const ProtobufCFieldDescriptor *field, int index)
{
    size_t at = hash(message, field, index) & (marks->cap - 1);

    for (;;) {
        struct entry *e = &marks->entries[at];

        if (e->message == NULL || (e->message == message && e->field == field && e->index == index))
            return e;
        at = (at + 1) & (marks->cap - 1);
    }
}

static const struct entry *find(const struct ls_marks *marks, const ProtobufCMessage *message,
                                const ProtobufCFieldDescriptor *field, int index)
{
    const struct entry *e;

    if (marks == NULL)
        return NULL;
    e = slot(marks, message, field, index);
    if (e->message == NULL ||
        (field != NULL && e->generation != slot(marks, message, NULL, -1)->generation))
        return NULL;
    return e;
}

static bool grow(struct ls_marks *marks)
{
    struct ls_marks larger = { .cap = marks->cap == 0 ? 256 : marks->cap * 2,
                               .count = marks->count,
                               .generation = marks->generation };

    larger.entries = calloc(larger.cap, sizeof(*larger.entries));
    if (larger.entries == NULL)
        return false;
    for (size_t i = 0; i < marks->cap; i++) {
        const struct entry *e = &marks->entries[i];

        if (e->message != NULL)
            *slot(&larger, e->message, e->field, e->index) = *e;
    }
    free(marks->entries);
    *marks = larger;
    return true;
}

static struct entry *put(struct ls_marks *marks, const ProtobufCMessage *message,
                         const ProtobufCFieldDescriptor *field, int index)
{
    struct entry *e;

    if (marks->count * 2 >= marks->cap && !grow(marks))
        return NULL;
    e = slot(marks, message, field, index);
    if (e->message == NULL)
        marks->count++;
    *e = (struct entry){ .message = message, .field = field, .index = index };
    return e;
}

struct ls_marks *ls_marks_create(void)
{
    struct ls_marks *marks = calloc(1, sizeof(*marks));

    if (marks != NULL && !grow(marks)) {
        free(marks);
        return NULL;
    }
    return marks;
}

void ls_marks_destroy(struct ls_marks *marks)
{
    if (marks == NULL)
        return;
    free(marks->entries);
    free(marks);
}

enum ls_err ls_marks_put_message(struct ls_marks *marks, const ProtobufCMessage *message,
                                 const ProtobufCMessage *parent,
                                 const ProtobufCFieldDescriptor *field, int index,
                                 const struct ls_mark *mark)
{
    struct entry *e = put(marks, message, NULL, -1);

    if (e == NULL)
        return LS_ENOMEM;
    e->generation = ++marks->generation;
    e->mark = *mark;
    e->parent = parent;
    e->parent_field = field;
    e->parent_index = index;
    return LS_OK;
}

enum ls_err ls_marks_put(struct ls_marks *marks, const ProtobufCMessage *message,
                         const ProtobufCFieldDescriptor *field, int index,
                         const struct ls_mark *mark)
{
    struct entry *e = put(marks, message, field, index);

    if (e == NULL)
        return LS_ENOMEM;
    e->generation = slot(marks, message, NULL, -1)->generation;
    e->mark = *mark;
    return LS_OK;
}

void ls_marks_set_incomplete(struct ls_marks *marks, const ProtobufCMessage *message)
{
    struct entry *e = slot(marks, message, NULL, -1);

    if (e->message != NULL)
        e->incomplete = true;
}

bool ls_marks_incomplete(const struct ls_marks *marks, const ProtobufCMessage *message)
{
    const struct entry *e = find(marks, message, NULL, -1);

    return e != NULL && e->incomplete;
}

bool ls_marks_broken(const struct ls_marks *marks, const ProtobufCMessage *message,
                     const ProtobufCFieldDescriptor *field)
{
    const struct entry *e = find(marks, message, field, -1);

    return e != NULL && e->mark.broken;
}

/* ---- messages that were not read --------------------------------------------------------------
 */

static enum ls_err put_below(struct ls_marks *marks, const ProtobufCMessage *message,
                             const char *origin);

static enum ls_err put_element(struct ls_marks *marks, const ProtobufCMessage *message,
                               const ProtobufCFieldDescriptor *field, size_t i, const char *origin)
{
    const struct ls_mark mark = { .origin = origin };
    int index = field->label == PROTOBUF_C_LABEL_REPEATED ? (int)i : -1;
    enum ls_err rc = ls_marks_put(marks, message, field, index, &mark);
    const ProtobufCMessage *sub;

    if (rc != LS_OK || field->type != PROTOBUF_C_TYPE_MESSAGE)
        return rc;
    sub = ls_msg_sub(message, field, i);
    rc = ls_marks_put_message(marks, sub, message, field, index, &mark);
    return rc == LS_OK ? put_below(marks, sub, origin) : rc;
}

enum ls_err ls_marks_put_tree(struct ls_marks *marks, const ProtobufCMessage *message,
                              const ProtobufCFieldDescriptor *field, int index, const char *origin)
{
    const struct ls_mark mark = { .origin = origin };
    enum ls_err rc;

    if (index >= 0)
        return put_element(marks, message, field, (size_t)index, origin);
    rc = ls_marks_put(marks, message, field, -1, &mark);
    for (size_t i = 0; rc == LS_OK && i < ls_msg_count(message, field); i++)
        rc = put_element(marks, message, field, i, origin);
    return rc;
}

static enum ls_err put_below(struct ls_marks *marks, const ProtobufCMessage *message,
                             const char *origin)
{
    enum ls_err rc = LS_OK;

    for (unsigned i = 0; rc == LS_OK && i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];

        if (ls_msg_count(message, field) > 0)
            rc = ls_marks_put_tree(marks, message, field, -1, origin);
    }
    return rc;
}

struct ls_marks *ls_marks_of(const ProtobufCMessage *message, const char *origin)
{
    const struct ls_mark mark = { .origin = origin };
    struct ls_marks *marks = ls_marks_create();

    if (marks == NULL)
        return NULL;
    if (ls_marks_put_message(marks, message, NULL, NULL, -1, &mark) != LS_OK ||
        put_below(marks, message, origin) != LS_OK) {
        ls_marks_destroy(marks);
        return NULL;
    }
    return marks;
}

/* ---- issues by message ------------------------------------------------------------------------
 */

/* Element index of a map is named by its key. */
static void add_element(struct ls_msg_path *path, const ProtobufCMessage *message,
                        const ProtobufCFieldDescriptor *field, int index)
{
    if (index < 0)
        return;
    if (ls_msg_is_map(message->descriptor, field) && (size_t)index < ls_msg_count(message, field)) {
        const ProtobufCMessage *entry = ls_msg_sub(message, field, (size_t)index);
        const char *key = *(const char *const *)ls_msg_at(entry, &entry->descriptor->fields[0], 0);

        if (key != NULL) {
            ls_msg_path_key(path, (struct ls_bytes){ (const unsigned char *)key, strlen(key) });
            return;
        }
    }
    ls_msg_path_index(path, (size_t)index);
}

static void add_message(struct ls_msg_path *path, const struct ls_marks *marks,
                        const ProtobufCMessage *message)
{
    const struct entry *chain[LS_MSG_MAX_DEPTH + 1];
    size_t len = 0;

    for (const struct entry *e = find(marks, message, NULL, -1);
         e != NULL && e->parent != NULL && len < LS_ARRAY_LEN(chain);
         e = find(marks, e->parent, NULL, -1))
        chain[len++] = e;
    while (len > 0) {
        const struct entry *e = chain[--len];

        ls_msg_path_field(path, e->parent_field->name);
        add_element(path, e->parent, e->parent_field, e->parent_index);
    }
}

/* A map's entry is one place: "env.PORT", not "env.PORT.value". */
static bool is_entry_of_map(const struct entry *e)
{
    return e != NULL && e->parent != NULL && ls_msg_is_map(e->parent->descriptor, e->parent_field);
}

void ls_issues_add_at(struct ls_issues *issues, const struct ls_marks *marks,
                      const ProtobufCMessage *message, const char *field, int index,
                      const char *fmt, ...)
{
    const struct entry *of_message = find(marks, message, NULL, -1);
    const struct entry *e = of_message;
    struct ls_msg_path path = { .len = 0 };
    char text[sizeof(((struct ls_diag *)NULL)->text)];
    va_list ap;

    add_message(&path, marks, message);
    if (field != NULL) {
        const ProtobufCFieldDescriptor *f =
            protobuf_c_message_descriptor_get_field_by_name(message->descriptor, field);
        const struct entry *of_field = find(marks, message, f, index);

        if (of_field == NULL && index >= 0)
            of_field = find(marks, message, f, -1);
        if (of_field == NULL && of_message != NULL && of_message->incomplete)
            return; /* what seems to be missing may be what could not be read */
        if (of_field != NULL)
            e = of_field;
        if (ls_marks_broken(marks, message, f))
            return;
        if (!is_entry_of_map(of_message)) {
            ls_msg_path_field(&path, field);
            add_element(&path, message, f, index);
        }
    }
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    ls_issues_add_from(issues, e == NULL ? NULL : e->mark.origin, e == NULL ? 0 : e->mark.line,
                       e == NULL ? 0 : e->mark.column, path.text, "%s", text);
}

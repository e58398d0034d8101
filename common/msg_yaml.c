#include "common/msg_yaml.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/msg_marks.h"
#include "common/msg_model.h"
#include "common/msg_read.h"

/* ---- the reader -------------------------------------------------------------------------------
 */

static struct ls_mark mark_of(const struct ls_yaml_node *node, const struct ls_msg_reader *r)
{
    return (struct ls_mark){ .line = node->line, .column = node->column, .origin = r->origin };
}

static void note(struct ls_msg_reader *r, enum ls_err rc)
{
    if (rc == LS_ENOMEM)
        r->no_memory = true;
}

/* Marks what could not be read, so that nothing else is said about it. */
static void put_broken(struct ls_msg_reader *r, const ProtobufCMessage *message,
                       const ProtobufCFieldDescriptor *field, int index,
                       const struct ls_yaml_node *node)
{
    struct ls_mark mark = mark_of(node, r);

    mark.broken = true;
    note(r, ls_marks_put(r->marks, message, field, index, &mark));
}

static bool read_message(struct ls_msg_reader *r, const struct ls_yaml_node *node,
                         ProtobufCMessage *message);

static bool read_word(struct ls_msg_reader *r, const struct ls_yaml_node *node,
                      const ProtobufCFieldDescriptor *field, void *out)
{
    struct ls_bytes text = { (const unsigned char *)node->text, node->len };
    struct ls_diag diag;
    enum ls_err rc;

    if (node->kind != LS_YAML_WORD || ls_yaml_is_null(node)) {
        ls_msg_explain_word(r, node, field);
        return false;
    }
    rc = ls_msg_parse(field, text, out, &diag);
    note(r, rc);
    if (rc != LS_OK)
        ls_msg_say(r, node, "%s", diag.text);
    return rc == LS_OK;
}

/* A message that is not one word, made and read into *out even when parts of it are wrong. */
static bool read_sub(struct ls_msg_reader *r, const struct ls_yaml_node *node,
                     const ProtobufCMessage *parent, const ProtobufCFieldDescriptor *field,
                     int index, ProtobufCMessage **out)
{
    const ProtobufCMessageDescriptor *type = ls_msg_of_field(field);
    bool chosen = (field->flags & (unsigned)PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
    struct ls_mark mark = mark_of(node, r);

    /* "closed:" says something even with nothing behind it; elsewhere it is a slip. */
    if (node->kind != LS_YAML_MAP && !(chosen && ls_yaml_is_null(node))) {
        ls_msg_explain_message(r, node, field);
        return false;
    }
    *out = ls_msg_new(type);
    if (*out == NULL) {
        r->no_memory = true;
        return false;
    }
    note(r, ls_marks_put_message(r->marks, *out, parent, field, index, &mark));
    if (node->kind == LS_YAML_MAP)
        (void)read_message(r, node, *out); /* its mistakes are reported and marked */
    return true;
}

/* One value: a word, a unit or a message. False: nothing was stored. */
static bool read_value(struct ls_msg_reader *r, const struct ls_yaml_node *node,
                       const ProtobufCMessage *parent, const ProtobufCFieldDescriptor *field,
                       int index, void *out)
{
    const ProtobufCMessageDescriptor *type = ls_msg_of_field(field);

    if (node->broken)
        return false;
    if (type != NULL && ls_msg_unit(type) == LS_MSG_UNIT_NONE)
        return read_sub(r, node, parent, field, index, out);
    return read_word(r, node, field, out);
}

static void *member(ProtobufCMessage *message, unsigned offset)
{
    return (unsigned char *)message + offset;
}

/* Room for all elements at once; the count then grows with each that is read. */
static void *make_list(struct ls_msg_reader *r, ProtobufCMessage *message,
                       const ProtobufCFieldDescriptor *field, size_t count)
{
    void *list;

    if (count == 0)
        return NULL;
    list = calloc(count, ls_msg_type_size(field->type));
    if (list == NULL)
        r->no_memory = true;
    else
        *(void **)member(message, field->offset) = list;
    return list;
}

static bool read_list(struct ls_msg_reader *r, const struct ls_yaml_node *node,
                      ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    size_t *count = member(message, field->quantifier_offset);
    size_t size = ls_msg_type_size(field->type);
    struct ls_msg_path path = r->path;
    bool named = r->named;
    bool good = true;
    unsigned char *list;
    size_t i = 0;

    if (node->kind != LS_YAML_LIST) {
        ls_msg_explain_list(r, node, field);
        return false;
    }
    r->named = false;
    list = make_list(r, message, field, node->count);
    for (const struct ls_yaml_node *item = node->first; item != NULL && !r->no_memory;
         item = item->next, i++) {
        struct ls_mark mark = mark_of(item, r);

        r->path = path;
        if (!named)
            ls_msg_path_index(&r->path, i);
        if (!read_value(r, item, message, field, (int)i, list + *count * size)) {
            good = false;
            continue;
        }
        note(r, ls_marks_put(r->marks, message, field, (int)*count, &mark));
        ++*count;
    }
    r->path = path;
    return good && !node->cut;
}

/* ---- mappings of texts ------------------------------------------------------------------------
 */

static int compare_keys(const void *a, const void *b)
{
    const struct ls_yaml_node *x = *(const struct ls_yaml_node *const *)a;
    const struct ls_yaml_node *y = *(const struct ls_yaml_node *const *)b;
    int order = strcmp(x->text, y->text);

    if (order != 0)
        return order;
    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    return x->column < y->column ? -1 : x->column > y->column;
}

/* Reports keys that are there twice. False if there are any. */
static bool check_keys(struct ls_msg_reader *r, const struct ls_yaml_node *node)
{
    const struct ls_yaml_node **keys;
    size_t count = 0;
    bool good = true;

    if (node->count <= 2)
        return true;
    keys = calloc(node->count / 2, sizeof(const struct ls_yaml_node *));
    if (keys == NULL) {
        r->no_memory = true;
        return false;
    }
    for (const struct ls_yaml_node *key = node->first; key != NULL; key = key->next->next) {
        if (key->kind == LS_YAML_WORD && !key->broken)
            keys[count++] = key;
    }
    qsort(keys, count, sizeof(const struct ls_yaml_node *), compare_keys);
    for (size_t i = 1; i < count; i++) {
        if (strcmp(keys[i - 1]->text, keys[i]->text) == 0) {
            ls_msg_say_key(r, keys[i], "is given twice, first in line %u: keep one",
                           keys[i - 1]->line);
            good = false;
        }
    }
    free(keys);
    return good;
}

static bool read_entry(struct ls_msg_reader *r, const struct ls_yaml_node *key,
                       const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                       int index, ProtobufCMessage **out)
{
    const ProtobufCMessageDescriptor *type = ls_msg_of_field(field);
    struct ls_mark mark = mark_of(key, r);
    struct ls_mark value_mark = mark_of(key->next, r);
    ProtobufCMessage *entry;
    bool good;

    if (key->broken || key->kind != LS_YAML_WORD) {
        if (!key->broken)
            ls_msg_say(r, key, "a key must be one word");
        return false;
    }
    ls_msg_path_key(&r->path, (struct ls_bytes){ (const unsigned char *)key->text, key->len });
    entry = ls_msg_new(type);
    if (entry == NULL) {
        r->no_memory = true;
        return false;
    }
    good = read_value(r, key, entry, &type->fields[0], -1, member(entry, type->fields[0].offset)) &&
           read_value(r, key->next, entry, &type->fields[1], -1,
                      member(entry, type->fields[1].offset));
    if (!good) {
        protobuf_c_message_free_unpacked(entry, NULL);
        return false;
    }
    ls_msg_set_given(entry, &type->fields[0]);
    ls_msg_set_given(entry, &type->fields[1]);
    note(r, ls_marks_put_message(r->marks, entry, message, field, index, &mark));
    note(r, ls_marks_put(r->marks, entry, &type->fields[0], -1, &mark));
    note(r, ls_marks_put(r->marks, entry, &type->fields[1], -1, &value_mark));
    note(r, ls_marks_put(r->marks, message, field, index, &mark));
    *out = entry;
    return true;
}

static bool read_map(struct ls_msg_reader *r, const struct ls_yaml_node *node,
                     ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    size_t *count = member(message, field->quantifier_offset);
    struct ls_msg_path path = r->path;
    ProtobufCMessage **list;
    bool good;

    if (node->kind != LS_YAML_MAP) {
        ls_msg_explain_map(r, node);
        return false;
    }
    good = check_keys(r, node);
    list = make_list(r, message, field, node->count / 2);
    for (const struct ls_yaml_node *key = node->first; key != NULL && !r->no_memory;
         key = key->next->next) {
        r->path = path;
        if (read_entry(r, key, message, field, (int)*count, &list[*count]))
            ++*count;
        else
            good = false;
    }
    r->path = path;
    return good && !node->cut;
}

/* ---- messages ---------------------------------------------------------------------------------
 */

static bool read_field(struct ls_msg_reader *r, const struct ls_yaml_node *node,
                       ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    struct ls_mark mark = mark_of(node, r);
    bool good;

    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        if (node->broken)
            good = false;
        else if (ls_msg_is_map(message->descriptor, field))
            good = read_map(r, node, message, field);
        else
            good = read_list(r, node, message, field);
    } else {
        good = read_value(r, node, message, field, -1, member(message, field->offset));
        if (good)
            ls_msg_set_given(message, field);
    }
    if (good)
        note(r, ls_marks_put(r->marks, message, field, -1, &mark));
    else
        put_broken(r, message, field, -1, node);
    return good;
}

/* Another field of the same oneof that has been given before; NULL: none. */
static const ProtobufCFieldDescriptor *rival(const ProtobufCMessageDescriptor *type,
                                             const struct ls_yaml_node *const *seen,
                                             const ProtobufCFieldDescriptor *field)
{
    if ((field->flags & (unsigned)PROTOBUF_C_FIELD_FLAG_ONEOF) == 0)
        return NULL;
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &type->fields[i];

        if (seen[i] != NULL && f != field &&
            (f->flags & (unsigned)PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 &&
            f->quantifier_offset == field->quantifier_offset)
            return f;
    }
    return NULL;
}

static bool read_pair(struct ls_msg_reader *r, const struct ls_yaml_node *key,
                      ProtobufCMessage *message, const struct ls_yaml_node **seen)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    const ProtobufCFieldDescriptor *field = NULL;
    const ProtobufCFieldDescriptor *other;
    size_t at;

    if (key->broken)
        return false;
    if (key->kind != LS_YAML_WORD) {
        ls_msg_say(r, key, "a key must be one word");
        return false;
    }
    if (memchr(key->text, '\0', key->len) == NULL)
        field = protobuf_c_message_descriptor_get_field_by_name(type, key->text);
    if (field == NULL) {
        ls_msg_explain_key(r, key, type);
        return false;
    }
    at = (size_t)(field - type->fields);
    other = rival(type, seen, field);
    if (seen[at] != NULL) {
        ls_msg_say_key(r, key, "is given twice, first in line %u: keep one", seen[at]->line);
        return false;
    }
    if (other != NULL) {
        ls_msg_say_key(r, key, "excludes '%s', which is given in line %u: keep one", other->name,
                       seen[other - type->fields]->line);
        return false;
    }
    seen[at] = key;
    ls_msg_path_field(&r->path, field->name);
    return read_field(r, key->next, message, field);
}

static bool check_required(struct ls_msg_reader *r, const struct ls_yaml_node *node,
                           const ProtobufCMessageDescriptor *type,
                           const struct ls_yaml_node *const *seen)
{
    bool good = true;

    for (unsigned i = 0; i < type->n_fields; i++) {
        if (type->fields[i].label == PROTOBUF_C_LABEL_REQUIRED && seen[i] == NULL) {
            ls_msg_say(r, node, "'%s' is missing", type->fields[i].name);
            good = false;
        }
    }
    return good;
}

/* Reads a mapping into message, as far as it can be. False: something was wrong. */
static bool read_message(struct ls_msg_reader *r, const struct ls_yaml_node *node,
                         ProtobufCMessage *message)
{
    const struct ls_yaml_node *seen[LS_MSG_MAX_FIELDS] = { NULL };
    struct ls_msg_path path = r->path;
    bool good = !node->cut;

    assert(message->descriptor->n_fields <= LS_MSG_MAX_FIELDS);
    r->types[r->depth++] = message->descriptor;
    for (const struct ls_yaml_node *key = node->first; key != NULL && !r->no_memory;
         key = key->next->next) {
        r->path = path;
        if (!read_pair(r, key, message, seen))
            good = false;
    }
    r->path = path;
    if (good)
        good = check_required(r, node, message->descriptor, seen);
    r->depth--;
    if (!good)
        ls_marks_set_incomplete(r->marks, message);
    return good;
}

bool ls_msg_read_field(struct ls_msg_reader *r, const struct ls_yaml_node *node,
                       ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    return read_field(r, node, message, field);
}

/* ---- a whole text -----------------------------------------------------------------------------
 */

static enum ls_err read_root(const ProtobufCMessageDescriptor *descriptor,
                             const struct ls_yaml_node *root, struct ls_issues *issues,
                             struct ls_marks *marks, ProtobufCMessage **out_message)
{
    struct ls_msg_reader r = { .issues = issues, .marks = marks };
    struct ls_mark mark = mark_of(root, &r);
    ProtobufCMessage *message;

    if (root->broken)
        return LS_OK;
    if (root->kind != LS_YAML_MAP) {
        ls_msg_explain_root(&r, root, descriptor);
        return LS_OK;
    }
    message = ls_msg_new(descriptor);
    if (message == NULL)
        return LS_ENOMEM;
    note(&r, ls_marks_put_message(marks, message, NULL, NULL, -1, &mark));
    (void)read_message(&r, root, message);
    if (r.no_memory) {
        protobuf_c_message_free_unpacked(message, NULL);
        return LS_ENOMEM;
    }
    *out_message = message;
    return LS_OK;
}

enum ls_err ls_msg_from_yaml_partial(const ProtobufCMessageDescriptor *descriptor,
                                     struct ls_bytes text, struct ls_issues *issues,
                                     ProtobufCMessage **out_message, struct ls_marks **out_marks)
{
    size_t before = issues->count + issues->dropped;
    struct ls_marks *marks = ls_marks_create();
    struct ls_yaml_node *root = NULL;
    ProtobufCMessage *message = NULL;
    enum ls_err rc = LS_ENOMEM;

    *out_message = NULL;
    *out_marks = NULL;
    if (marks != NULL)
        rc = ls_yaml_parse(text, issues, &root);
    if (rc == LS_OK && root != NULL)
        rc = read_root(descriptor, root, issues, marks, &message);
    ls_yaml_free(root);
    if (rc != LS_OK) {
        ls_issues_add(issues, 0, 0, "", "there is no memory left to read it");
        ls_marks_destroy(marks);
        return rc;
    }
    if (message != NULL) {
        *out_message = message;
        *out_marks = marks;
        marks = NULL;
    }
    ls_marks_destroy(marks);
    ls_issues_sort(issues);
    return issues->count + issues->dropped == before ? LS_OK : LS_EINVAL;
}

enum ls_err ls_msg_from_yaml(const ProtobufCMessageDescriptor *descriptor, struct ls_bytes text,
                             struct ls_issues *issues, ProtobufCMessage **out_message,
                             struct ls_marks **out_marks)
{
    ProtobufCMessage *message;
    struct ls_marks *marks;
    enum ls_err rc = ls_msg_from_yaml_partial(descriptor, text, issues, &message, &marks);

    if (rc == LS_OK) {
        *out_message = message;
        *out_marks = marks;
        return LS_OK;
    }
    if (message != NULL)
        protobuf_c_message_free_unpacked(message, NULL);
    ls_marks_destroy(marks);
    return rc;
}

#include "common/msg_read.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char origin[] = "--set";

/* What a path leads to: a field of a message, or (index >= 0) an element of it, or (key) an entry
 * of a mapping. */
struct place {
    ProtobufCMessage *message;
    const ProtobufCFieldDescriptor *field;
    int index;
    const char *key;
    /* The outermost message on the way that had to be made, and where it belongs. */
    ProtobufCMessage *made; /* owned until it is put there */
    ProtobufCMessage *made_parent;
    const ProtobufCFieldDescriptor *made_field;
};

struct setter {
    struct ls_msg_reader reader;
    char *path; /* what is left of it, cut up on the way */
    struct place at;
};

static void say(struct setter *s, const char *fmt, ...) LS_PRINTF(2, 3);

static void say(struct setter *s, const char *fmt, ...)
{
    char text[sizeof(((struct ls_diag *)NULL)->text)];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    ls_issues_add_from(s->reader.issues, origin, 0, 0, s->reader.path.text, "%s", text);
}

/* ---- the way to the place ---------------------------------------------------------------------
 */

/* Cuts the next name off the path: up to '.', '[' or the end. */
static char *next_name(struct setter *s, char *out_end)
{
    char *name = s->path;
    size_t len = strcspn(name, ".[");

    *out_end = name[len];
    s->path += len + (name[len] != '\0');
    name[len] = '\0';
    return name;
}

static const ProtobufCFieldDescriptor *find_field(struct setter *s, ProtobufCMessage *message,
                                                  char *name)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
    struct ls_yaml_node key = { .text = name, .len = strlen(name) };

    if (field == NULL) {
        ls_msg_explain_key(&s->reader, &key, message->descriptor);
        return NULL;
    }
    ls_msg_path_field(&s->reader.path, name);
    return field;
}

/* The value of an element's field called name; NULL: it has none. */
static const char *name_of(const ProtobufCMessage *message)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, "name");

    if (f == NULL || f->type != PROTOBUF_C_TYPE_STRING || f->label == PROTOBUF_C_LABEL_REPEATED ||
        ls_msg_count(message, f) == 0)
        return NULL;
    return *(const char *const *)ls_msg_at(message, f, 0);
}

static int find_by_name(struct setter *s, const ProtobufCMessage *message,
                        const ProtobufCFieldDescriptor *field, const char *name)
{
    size_t count = ls_msg_count(message, field);
    const char *names[64];
    size_t known = 0;
    const char *close;

    for (size_t i = 0; i < count && field->type == PROTOBUF_C_TYPE_MESSAGE; i++) {
        const char *other = name_of(ls_msg_sub(message, field, i));

        if (other != NULL && strcmp(other, name) == 0)
            return (int)i;
        if (other != NULL && known < LS_ARRAY_LEN(names))
            names[known++] = other;
    }
    close = ls_closest(name, names, known);
    if (close != NULL)
        say(s, "none of these is called '%.64s': did you mean '%s'?", name, close);
    else
        say(s, "none of these is called '%.64s': take a number from 0 on, or a name", name);
    return -1;
}

/* "[3]" or "[nginx]"; the bracket is behind us. -1: no such element, and said so. */
static int next_index(struct setter *s, const ProtobufCMessage *message,
                      const ProtobufCFieldDescriptor *field)
{
    size_t count = ls_msg_count(message, field);
    char *text = s->path;
    size_t len = strcspn(text, "]");
    char *end;
    unsigned long value;
    int index;

    if (text[len] == '\0' || len == 0) {
        say(s, "']' is missing: write a number or a name in brackets");
        return -1;
    }
    text[len] = '\0';
    s->path += len + 1;
    value = strtoul(text, &end, 10);
    if (*end != '\0' || text[0] < '0' || text[0] > '9') {
        index = find_by_name(s, message, field, text);
    } else if (value >= count) {
        say(s, "there is no [%.20s]: there are %zu, counted from 0", text, count);
        index = -1;
    } else {
        index = (int)value;
    }
    if (index >= 0)
        ls_msg_path_index(&s->reader.path, (size_t)index);
    return index;
}

/* The message in a singular field; made if it is absent. NULL: no memory. */
static ProtobufCMessage *step_into(struct setter *s, ProtobufCMessage *message,
                                   const ProtobufCFieldDescriptor *field)
{
    ProtobufCMessage *sub;

    if (ls_msg_count(message, field) > 0)
        return ls_msg_sub(message, field, 0);
    sub = ls_msg_new(ls_msg_of_field(field));
    if (sub == NULL) {
        s->reader.no_memory = true;
        return NULL;
    }
    if (s->at.made == NULL) {
        s->at.made = sub;
        s->at.made_parent = message;
        s->at.made_field = field;
    } else { /* below what was made already */
        *(ProtobufCMessage **)((unsigned char *)message + field->offset) = sub;
        ls_msg_set_given(message, field);
    }
    return sub;
}

static bool is_plain_message(const ProtobufCFieldDescriptor *field)
{
    const ProtobufCMessageDescriptor *type = ls_msg_of_field(field);

    return type != NULL && ls_msg_unit(type) == LS_MSG_UNIT_NONE;
}

/* An entry of a mapping: the rest of the path is its key, ".PORT" or "[PORT]". */
static bool find_entry(struct setter *s, bool bracket)
{
    size_t len = strlen(s->path);

    if (bracket) {
        if (len < 2 || s->path[len - 1] != ']') {
            say(s, "']' is missing at the end");
            return false;
        }
        s->path[--len] = '\0';
    }
    if (len == 0) {
        say(s, "a name is missing behind it");
        return false;
    }
    s->at.key = s->path;
    return true;
}

/* Goes one field on. Returns the message to go on with; NULL: this was the last one, or an error;
 * *out_good tells. */
static ProtobufCMessage *step(struct setter *s, ProtobufCMessage *message, bool *out_good)
{
    char end;
    char *name = next_name(s, &end);
    const ProtobufCFieldDescriptor *field = find_field(s, message, name);
    bool repeated;

    *out_good = false;
    if (field == NULL)
        return NULL;
    s->at.message = message;
    s->at.field = field;
    repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
    if (end == '\0') {
        *out_good = true;
        return NULL;
    }
    if (ls_msg_is_map(message->descriptor, field)) {
        *out_good = find_entry(s, end == '[');
        return NULL;
    }
    if (repeated != (end == '[')) {
        if (repeated)
            say(s, "is a list: name one of it, such as %s[0]", name);
        else
            say(s, "is no list: leave out the brackets");
        return NULL;
    }
    if (repeated) {
        s->at.index = next_index(s, message, field);
        if (s->at.index < 0)
            return NULL;
        if (*s->path == '\0') {
            *out_good = true;
            return NULL;
        }
        if (*s->path++ != '.') {
            say(s, "'.' is expected behind ']'");
            return NULL;
        }
    }
    if (!is_plain_message(field)) {
        say(s, "has no parts: leave out what is behind it");
        return NULL;
    }
    if (repeated) {
        ProtobufCMessage *sub = ls_msg_sub(message, field, (size_t)s->at.index);

        s->at.index = -1;
        return sub;
    }
    return step_into(s, message, field);
}

static bool find_place(struct setter *s, ProtobufCMessage *root)
{
    bool good = false;

    for (ProtobufCMessage *message = root; message != NULL;)
        message = step(s, message, &good);
    return good;
}

/* ---- the value --------------------------------------------------------------------------------
 */

/* A word as the path's end takes it, not looked at by YAML. */
static struct ls_yaml_node word_node(char *text)
{
    return (struct ls_yaml_node){ .kind = LS_YAML_WORD, .text = text, .len = strlen(text) };
}

/* YAML's idea of value; NULL: mistakes, which have been reported. */
static struct ls_yaml_node *parse_value(struct setter *s, const char *value)
{
    struct ls_bytes text = { (const unsigned char *)value, strlen(value) };
    struct ls_yaml_node *node = NULL;
    struct ls_issues mistakes;

    if (value[strspn(value, " ")] == '\0') { /* nothing stands there: a null */
        node = calloc(1, sizeof(*node));
        if (node != NULL) {
            node->plain = true;
            node->text = calloc(1, 1);
        }
        if (node == NULL || node->text == NULL)
            s->reader.no_memory = true;
        return node;
    }
    ls_issues_init(&mistakes, "");
    if (ls_yaml_parse(text, &mistakes, &node) != LS_OK)
        s->reader.no_memory = true;
    for (size_t i = 0; i < mistakes.count; i++)
        say(s, "%s", mistakes.items[i].text);
    if (mistakes.count + mistakes.dropped > 0) {
        ls_yaml_free(node);
        node = NULL;
    }
    ls_issues_fini(&mistakes);
    return node;
}

/* The entry of a mapping with this key; -1: none. */
static int entry_index(const struct place *at)
{
    for (size_t i = 0; i < ls_msg_count(at->message, at->field); i++) {
        const ProtobufCMessage *entry = ls_msg_sub(at->message, at->field, i);
        const char *key = *(const char *const *)ls_msg_at(entry, &entry->descriptor->fields[0], 0);

        if (strcmp(key, at->key) == 0)
            return (int)i;
    }
    return -1;
}

static void *member(ProtobufCMessage *message, unsigned offset)
{
    return (unsigned char *)message + offset;
}

/* Exchanges element index of the field with the only one of scratch. */
static void swap_element(const struct place *at, ProtobufCMessage *scratch)
{
    size_t size = ls_msg_type_size(at->field->type);
    unsigned char *list = *(unsigned char **)member(at->message, at->field->offset);
    unsigned char *one = *(unsigned char **)member(scratch, at->field->offset);

    for (size_t i = 0; i < size; i++) {
        unsigned char *a = list + (size_t)at->index * size + i;
        unsigned char swap = *a;

        *a = one[i];
        one[i] = swap;
    }
}

/* Makes room for one more element, zeroed. */
static bool add_element(struct place *at)
{
    size_t *count = member(at->message, at->field->quantifier_offset);
    void **list = member(at->message, at->field->offset);
    size_t size = ls_msg_type_size(at->field->type);
    void *larger = calloc(*count + 1, size);

    if (larger == NULL)
        return false;
    if (*count > 0)
        (void)memcpy(larger, *list, *count * size);
    free(*list);
    *list = larger;
    at->index = (int)(*count)++;
    return true;
}

/* Moves what was read into scratch to its place. */
static void store(struct setter *s, ProtobufCMessage *scratch)
{
    struct place *at = &s->at;

    if (at->key != NULL) {
        at->index = entry_index(at);
        if (at->index < 0 && !add_element(at)) {
            s->reader.no_memory = true;
            return;
        }
    }
    if (at->index >= 0)
        swap_element(at, scratch);
    else
        ls_msg_move(at->message, scratch, at->field);
    if (at->made != NULL) {
        ls_msg_clear(at->made_parent, at->made_field);
        *(ProtobufCMessage **)member(at->made_parent, at->made_field->offset) = at->made;
        ls_msg_set_given(at->made_parent, at->made_field);
        at->made = NULL;
    }
}

static void put_marks(struct setter *s, struct ls_marks *marks)
{
    const struct place *at = &s->at;
    enum ls_err rc;

    if (at->made_parent != NULL)
        rc = ls_marks_put_tree(marks, at->made_parent, at->made_field, -1, origin);
    else
        rc = ls_marks_put_tree(marks, at->message, at->field, at->index, origin);
    if (rc != LS_OK)
        s->reader.no_memory = true;
}

/* Reads value into a message of its own first, so that a mistake leaves the real one alone. */
static bool read_value(struct setter *s, struct ls_yaml_node *node, ProtobufCMessage *scratch)
{
    const struct place *at = &s->at;
    struct ls_msg_path path = s->reader.path;
    struct ls_yaml_node list = { .kind = LS_YAML_LIST, .first = node, .last = node, .count = 1 };
    struct ls_yaml_node key = { .kind = LS_YAML_WORD, .next = node };
    struct ls_yaml_node map = { .kind = LS_YAML_MAP, .first = &key, .last = node, .count = 2 };
    char *key_text = NULL;
    bool good;

    if (at->key != NULL) {
        key_text = strdup(at->key);
        if (key_text == NULL) {
            s->reader.no_memory = true;
            return false;
        }
        key.text = key_text;
        key.len = strlen(key_text);
        good = ls_msg_read_field(&s->reader, &map, scratch, at->field);
    } else if (at->index >= 0) {
        s->reader.named = true;
        good = ls_msg_read_field(&s->reader, &list, scratch, at->field);
    } else {
        good = ls_msg_read_field(&s->reader, node, scratch, at->field);
    }
    s->reader.path = path;
    free(key_text);
    return good;
}

static void set_value(struct setter *s, const char *value, struct ls_marks *marks)
{
    const ProtobufCFieldDescriptor *field = s->at.field;
    bool one = s->at.index >= 0 || field->label != PROTOBUF_C_LABEL_REPEATED;
    bool literal = s->at.key != NULL || (one && field->type == PROTOBUF_C_TYPE_STRING);
    size_t before = s->reader.issues->count + s->reader.issues->dropped;
    ProtobufCMessage *scratch = ls_msg_new(s->at.message->descriptor);
    char *copy = strdup(value);
    struct ls_yaml_node word;
    struct ls_yaml_node *parsed = NULL;

    if (scratch == NULL || copy == NULL) {
        s->reader.no_memory = true;
        goto out;
    }
    word = word_node(copy);
    if (!literal) {
        parsed = parse_value(s, value);
        if (parsed == NULL)
            goto out;
    }
    if (read_value(s, literal ? &word : parsed, scratch) && !s->reader.no_memory &&
        s->reader.issues->count + s->reader.issues->dropped == before) {
        store(s, scratch);
        if (marks != NULL && !s->reader.no_memory)
            put_marks(s, marks);
    }
out:
    ls_yaml_free(parsed);
    free(copy);
    if (scratch != NULL)
        protobuf_c_message_free_unpacked(scratch, NULL);
}

enum ls_err ls_msg_set(ProtobufCMessage *root, struct ls_marks *marks, const char *path,
                       const char *value, struct ls_issues *issues)
{
    size_t before = issues->count + issues->dropped;
    char *copy = strdup(path);
    struct setter s = { .reader = { .issues = issues, .origin = origin },
                        .path = copy,
                        .at = { .index = -1 } };

    /* Where scratch messages were read is of no use once they have been moved. */
    s.reader.marks = ls_marks_create();
    if (copy == NULL || s.reader.marks == NULL)
        s.reader.no_memory = true;
    else if (find_place(&s, root))
        set_value(&s, value, marks);
    if (s.at.made != NULL)
        protobuf_c_message_free_unpacked(s.at.made, NULL);
    ls_marks_destroy(s.reader.marks);
    free(copy);
    if (s.reader.no_memory)
        return LS_ENOMEM;
    return issues->count + issues->dropped == before ? LS_OK : LS_EINVAL;
}

#include "common/msg_read.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void say(struct ls_msg_reader *r, const struct ls_yaml_node *node,
                const struct ls_msg_path *path, const char *fmt, va_list ap) LS_PRINTF(4, 0);

static void say(struct ls_msg_reader *r, const struct ls_yaml_node *node,
                const struct ls_msg_path *path, const char *fmt, va_list ap)
{
    char text[sizeof(((struct ls_diag *)NULL)->text)];

    (void)vsnprintf(text, sizeof(text), fmt, ap);
    ls_issues_add_from(r->issues, r->origin, r->origin == NULL ? node->line : 0,
                       r->origin == NULL ? node->column : 0, path->text, "%s", text);
}

void ls_msg_say(struct ls_msg_reader *r, const struct ls_yaml_node *node, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say(r, node, &r->path, fmt, ap);
    va_end(ap);
}

void ls_msg_say_key(struct ls_msg_reader *r, const struct ls_yaml_node *key, const char *fmt, ...)
{
    struct ls_msg_path path = r->path;
    va_list ap;

    ls_msg_path_key(&path, (struct ls_bytes){ (const unsigned char *)key->text, key->len });
    va_start(ap, fmt);
    say(r, key, &path, fmt, ap);
    va_end(ap);
}

static const char *shown(const struct ls_yaml_node *word, char *out)
{
    return ls_excerpt((struct ls_bytes){ (const unsigned char *)word->text, word->len }, out);
}

/* Appends to a fixed text; what does not fit is left out. */
static void add(char *out, size_t out_bytes, const char *fmt, ...) LS_PRINTF(3, 4);

static void add(char *out, size_t out_bytes, const char *fmt, ...)
{
    size_t used = strlen(out);
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(out + used, out_bytes - used, fmt, ap);
    va_end(ap);
}

const char *ls_msg_known_keys(const ProtobufCMessageDescriptor *type, char *out, size_t out_bytes)
{
    out[0] = '\0';
    for (unsigned i = 0; i < type->n_fields; i++)
        add(out, out_bytes, "%s%s", i == 0 ? "" : ", ", type->fields[i].name);
    return out;
}

/* ---- words ------------------------------------------------------------------------------------
 */

static void explain_null(struct ls_msg_reader *r, const struct ls_yaml_node *node,
                         const ProtobufCFieldDescriptor *field)
{
    char expected[LS_MSG_EXPECTED_MAX];
    char text[LS_EXCERPT_MAX];

    if (node->len > 0)
        ls_msg_say(r, node, "'%s' stands for nothing in YAML: remove it, or write \"%s\"",
                   shown(node, text), text);
    else if (field->type == PROTOBUF_C_TYPE_STRING)
        ls_msg_say(r, node, "is empty: remove it, or write \"\" for an empty text");
    else
        ls_msg_say(r, node, "is empty: %s is expected", ls_msg_expected(field, expected));
}

/* A mapping in {} of one key and nothing behind it: a placeholder that lacks its quotes. */
static bool is_placeholder(const struct ls_yaml_node *node)
{
    return node->kind == LS_YAML_MAP && node->flow && node->count == 2 &&
           node->first->kind == LS_YAML_WORD && node->last->kind == LS_YAML_WORD &&
           node->last->len == 0 && node->last->plain;
}

/* "a: b" in a list in []: a mapping without braces. */
static bool is_bare_pair(const struct ls_yaml_node *node)
{
    return node->kind == LS_YAML_MAP && node->count == 2 && node->first->kind == LS_YAML_WORD &&
           node->last->kind == LS_YAML_WORD && node->first->line == node->line &&
           node->first->column == node->column && node->last->line == node->line;
}

static void explain_text(struct ls_msg_reader *r, const struct ls_yaml_node *node)
{
    char key[LS_EXCERPT_MAX];
    char value[LS_EXCERPT_MAX];

    if (is_placeholder(node))
        ls_msg_say(r, node, "{%s} without quotes is a mapping in YAML: write \"{%s}\"",
                   shown(node->first, key), key);
    else if (is_bare_pair(node))
        ls_msg_say(r, node, "'%s: %s' without quotes is a mapping in YAML: write \"%s: %s\"",
                   shown(node->first, key), shown(node->last, value), key, value);
    else if (node->flow)
        ls_msg_say(r, node, "%s without quotes is a %s in YAML: put all of the text in quotes",
                   node->kind == LS_YAML_MAP ? "{...}" : "[...]",
                   node->kind == LS_YAML_MAP ? "mapping" : "list");
    else
        ls_msg_say(r, node,
                   "a text is expected, not a %s: put it in quotes, or begin it with | if it has "
                   "several lines",
                   node->kind == LS_YAML_MAP ? "mapping" : "list");
}

void ls_msg_explain_word(struct ls_msg_reader *r, const struct ls_yaml_node *node,
                         const ProtobufCFieldDescriptor *field)
{
    char expected[LS_MSG_EXPECTED_MAX];

    if (node->kind == LS_YAML_WORD)
        explain_null(r, node, field);
    else if (field->type == PROTOBUF_C_TYPE_STRING)
        explain_text(r, node);
    else
        ls_msg_say(r, node, "%s is expected, not a %s", ls_msg_expected(field, expected),
                   node->kind == LS_YAML_MAP ? "mapping" : "list");
}

/* ---- messages and mappings --------------------------------------------------------------------
 */

void ls_msg_explain_message(struct ls_msg_reader *r, const struct ls_yaml_node *node,
                            const ProtobufCFieldDescriptor *field)
{
    const ProtobufCMessageDescriptor *type = ls_msg_of_field(field);
    const ProtobufCFieldDescriptor *member = NULL;
    char keys[200];
    char text[LS_EXCERPT_MAX];

    (void)ls_msg_known_keys(type, keys, sizeof(keys));
    if (node->kind == LS_YAML_LIST) {
        ls_msg_say(r, node, "a mapping with %s is expected, not a list", keys);
        return;
    }
    if (ls_yaml_is_null(node)) {
        ls_msg_say(r, node,
                   "is empty: indent what belongs to it (%s), or write {} to take all defaults",
                   keys);
        return;
    }
    if (memchr(node->text, '\0', node->len) == NULL)
        member = protobuf_c_message_descriptor_get_field_by_name(type, node->text);
    if (member != NULL && ls_msg_of_field(member) != NULL &&
        ls_msg_unit(ls_msg_of_field(member)) == LS_MSG_UNIT_NONE)
        ls_msg_say(r, node, "a mapping is expected, not a word: write {%s: {}}", member->name);
    else
        ls_msg_say(r, node, "a mapping with %s is expected, not '%s'", keys, shown(node, text));
}

void ls_msg_explain_map(struct ls_msg_reader *r, const struct ls_yaml_node *node)
{
    const char *equals = node->kind == LS_YAML_WORD ? strchr(node->text, '=') : NULL;

    if (node->kind == LS_YAML_LIST)
        ls_msg_say(r, node, "a mapping is expected, not a list: write NAME: value, without '- '");
    else if (ls_yaml_is_null(node))
        ls_msg_say(r, node, "is empty: indent what belongs to it, or write {} for none");
    else if (equals != NULL && equals - node->text < 32 && strlen(equals) < 32)
        ls_msg_say(r, node, "a mapping is expected: write {%.*s: \"%s\"}",
                   (int)(equals - node->text), node->text, equals + 1);
    else
        ls_msg_say(r, node, "a mapping is expected: write {NAME: value}");
}

void ls_msg_explain_root(struct ls_msg_reader *r, const struct ls_yaml_node *node,
                         const ProtobufCMessageDescriptor *type)
{
    char keys[200];

    ls_msg_say(r, node, "a mapping with %s is expected, not a %s",
               ls_msg_known_keys(type, keys, sizeof(keys)),
               node->kind == LS_YAML_LIST ? "list" : "mere word");
}

/* ---- lists ------------------------------------------------------------------------------------
 */

/* An item of a list in [] as it has to be written. */
static void add_item(char *out, size_t out_bytes, const char *item, size_t len)
{
    bool quote = strcspn(item, "{}[],:#&*!|>%@`") < len;

    add(out, out_bytes, "%s%s%.*s%s", out[0] == '\0' ? "" : ", ", quote ? "\"" : "", (int)len, item,
        quote ? "\"" : "");
}

/* "nginx -p {dir}" is meant as [nginx, -p, "{dir}"]. False: not that simple. */
static bool as_list(const struct ls_yaml_node *word, char *out, size_t out_bytes)
{
    const char *at = word->text;

    if (word->len == 0 || word->len > 100 || strpbrk(word->text, "\"'\\\n\t") != NULL)
        return false;
    out[0] = '\0';
    while (*at != '\0') {
        size_t len = strcspn(at, " ");

        if (len > 0)
            add_item(out, out_bytes, at, len);
        at += len;
        at += *at == ' ';
    }
    return true;
}

void ls_msg_explain_list(struct ls_msg_reader *r, const struct ls_yaml_node *node,
                         const ProtobufCFieldDescriptor *field)
{
    bool of_messages = field->type == PROTOBUF_C_TYPE_MESSAGE;
    char items[300];
    char key[LS_EXCERPT_MAX];

    if (ls_yaml_is_null(node))
        ls_msg_say(r, node,
                   "is empty: put its items below, each behind '- ', or write [] for none");
    else if (node->kind == LS_YAML_MAP && of_messages && !node->flow && node->count > 0 &&
             node->first->kind == LS_YAML_WORD)
        ls_msg_say(r, node, "a list is expected: put '- ' before '%s'", shown(node->first, key));
    else if (node->kind == LS_YAML_MAP)
        ls_msg_say(r, node, "a list is expected, not a mapping: write %s",
                   of_messages ? "[{...}]" : "[...]");
    else if (!of_messages && as_list(node, items, sizeof(items)))
        ls_msg_say(r, node, "a list is expected: write [%s]", items);
    else
        ls_msg_say(r, node, "a list is expected: write [...], each item on its own");
}

/* ---- keys -------------------------------------------------------------------------------------
 */

/* Where below type a field of this name is: "load.constant", "targets[]". False: nowhere near. */
static bool find_below(const ProtobufCMessageDescriptor *type, const char *name, unsigned levels,
                       char *out, size_t out_bytes)
{
    size_t used = strlen(out);

    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &type->fields[i];
        const ProtobufCMessageDescriptor *sub = ls_msg_of_field(f);

        if (sub == NULL || ls_msg_unit(sub) != LS_MSG_UNIT_NONE || ls_msg_is_map(type, f))
            continue;
        add(out, out_bytes, "%s%s%s", used == 0 ? "" : ".", f->name,
            f->label == PROTOBUF_C_LABEL_REPEATED ? "[]" : "");
        if (protobuf_c_message_descriptor_get_field_by_name(sub, name) != NULL)
            return true;
        if (levels > 1 && find_below(sub, name, levels - 1, out, out_bytes))
            return true;
        out[used] = '\0';
    }
    return false;
}

static bool is_above(const struct ls_msg_reader *r, const char *name)
{
    for (unsigned i = 0; i + 1 < r->depth; i++) {
        if (protobuf_c_message_descriptor_get_field_by_name(r->types[i], name) != NULL)
            return true;
    }
    return false;
}

static const char *closest_key(const ProtobufCMessageDescriptor *type, const char *name)
{
    const char *names[LS_MSG_MAX_FIELDS];

    for (unsigned i = 0; i < type->n_fields; i++)
        names[i] = type->fields[i].name;
    return ls_closest(name, names, type->n_fields);
}

void ls_msg_explain_key(struct ls_msg_reader *r, const struct ls_yaml_node *key,
                        const ProtobufCMessageDescriptor *type)
{
    const char *close = closest_key(type, key->text);
    char text[300] = "";

    if (close != NULL)
        ls_msg_say_key(r, key, "unknown key: did you mean '%s'?", close);
    else if (strcmp(key->text, "<<") == 0)
        ls_msg_say_key(r, key, "merge keys are not read here: write the values out");
    else if (is_above(r, key->text))
        ls_msg_say_key(r, key, "unknown key here: it belongs further out, indent it less");
    else if (find_below(type, key->text, 1, text, sizeof(text)) ||
             find_below(type, key->text, 2, text, sizeof(text)))
        ls_msg_say_key(r, key, "unknown key here: it belongs to '%s'", text);
    else
        ls_msg_say_key(r, key, "unknown key: known here are %s",
                       ls_msg_known_keys(type, text, sizeof(text)));
}

#include "common/msg_yaml_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "common/msg_model.h"
#include "common/msg_yaml_explain.h"

struct builder {
    struct ls_issues *issues;
    struct ls_yaml_node *root; /* owned until handed over */
    struct ls_yaml_node *open[LS_YAML_MAX_DEPTH];
    unsigned depth;
    unsigned nodes;
    unsigned documents;
    struct ls_yaml_node *last_word; /* that was read; NULL: none yet */
};

enum step { STEP_ON, STEP_END, STEP_STOP, STEP_NO_MEMORY };

void ls_yaml_free(struct ls_yaml_node *node)
{
    if (node == NULL)
        return;
    for (struct ls_yaml_node *child = node->first, *next; child != NULL; child = next) {
        next = child->next;
        ls_yaml_free(child); /* as deep as LS_YAML_MAX_DEPTH */
    }
    free(node->text);
    free(node);
}

bool ls_yaml_is_null(const struct ls_yaml_node *node)
{
    return node->kind == LS_YAML_WORD && node->plain &&
           (node->len == 0 || strcmp(node->text, "~") == 0 || strcmp(node->text, "null") == 0);
}

static uint32_t line_of(const yaml_mark_t *mark)
{
    return (uint32_t)mark->line + 1;
}

static uint32_t column_of(const yaml_mark_t *mark)
{
    return (uint32_t)mark->column + 1;
}

static void append(struct ls_yaml_node *parent, struct ls_yaml_node *child)
{
    if (parent->last == NULL)
        parent->first = child;
    else
        parent->last->next = child;
    parent->last = child;
    parent->count++;
}

/* A new node at its place in the tree; NULL: out of memory. */
static struct ls_yaml_node *add_node(struct builder *b, enum ls_yaml_kind kind,
                                     const yaml_event_t *event)
{
    struct ls_yaml_node *node = calloc(1, sizeof(*node));

    if (node == NULL)
        return NULL;
    node->kind = kind;
    node->line = line_of(&event->start_mark);
    node->column = column_of(&event->start_mark);
    if (b->depth > 0)
        append(b->open[b->depth - 1], node);
    else
        b->root = node;
    return node;
}

/* As it was written: libyaml expands "!!". */
static const char *short_tag(const yaml_char_t *tag, char *out)
{
    static const char prefix[] = "tag:yaml.org,2002:";
    const char *text = (const char *)tag;
    bool standard = strncmp(text, prefix, sizeof(prefix) - 1) == 0;
    char shown[LS_EXCERPT_MAX];

    text += standard ? sizeof(prefix) - 1 : 0;
    (void)ls_excerpt((struct ls_bytes){ (const unsigned char *)text, strlen(text) }, shown);
    (void)snprintf(out, LS_EXCERPT_MAX + 2, "%s%s", standard ? "!!" : "", shown);
    return out;
}

static void refuse_extras(struct builder *b, const yaml_event_t *event, const yaml_char_t *anchor,
                          const yaml_char_t *tag)
{
    char shown[LS_EXCERPT_MAX + 2];

    if (anchor != NULL) {
        struct ls_bytes text = { anchor, strlen((const char *)anchor) };

        ls_issues_add(b->issues, line_of(&event->start_mark), column_of(&event->start_mark), "",
                      "anchors are not read here: remove '&%s', or put the value in quotes",
                      ls_excerpt(text, shown));
    }
    if (tag != NULL)
        ls_issues_add(b->issues, line_of(&event->start_mark), column_of(&event->start_mark), "",
                      "tags are not read here: remove '%s', or put the value in quotes",
                      short_tag(tag, shown));
}

static enum step add_word(struct builder *b, const yaml_event_t *event)
{
    struct ls_yaml_node *node = add_node(b, LS_YAML_WORD, event);

    if (node == NULL)
        return STEP_NO_MEMORY;
    node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    node->len = event->data.scalar.length;
    node->text = malloc(node->len + 1);
    if (node->text == NULL)
        return STEP_NO_MEMORY;
    (void)memcpy(node->text, event->data.scalar.value, node->len);
    node->text[node->len] = '\0';
    b->last_word = node;
    refuse_extras(b, event, event->data.scalar.anchor, event->data.scalar.tag);
    return STEP_ON;
}

/* A list or a mapping begins. */
static enum step open_node(struct builder *b, const yaml_event_t *event)
{
    bool list = event->type == YAML_SEQUENCE_START_EVENT;
    struct ls_yaml_node *node;

    if (b->depth == LS_YAML_MAX_DEPTH) {
        ls_issues_add(b->issues, line_of(&event->start_mark), column_of(&event->start_mark), "",
                      "is nested deeper than %u levels: nothing here needs that",
                      LS_YAML_MAX_DEPTH);
        return STEP_STOP;
    }
    node = add_node(b, list ? LS_YAML_LIST : LS_YAML_MAP, event);
    if (node == NULL)
        return STEP_NO_MEMORY;
    if (list) {
        node->flow = event->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
        refuse_extras(b, event, event->data.sequence_start.anchor, event->data.sequence_start.tag);
    } else {
        node->flow = event->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE;
        refuse_extras(b, event, event->data.mapping_start.anchor, event->data.mapping_start.tag);
    }
    b->open[b->depth++] = node;
    return STEP_ON;
}

static enum step add_alias(struct builder *b, const yaml_event_t *event)
{
    const yaml_char_t *anchor = event->data.alias.anchor;
    struct ls_bytes text = { anchor, strlen((const char *)anchor) };
    char shown[LS_EXCERPT_MAX];
    struct ls_yaml_node *node = add_node(b, LS_YAML_WORD, event);

    if (node == NULL)
        return STEP_NO_MEMORY;
    node->broken = true;
    node->text = calloc(1, 1);
    if (node->text == NULL)
        return STEP_NO_MEMORY;
    ls_issues_add(b->issues, node->line, node->column, "",
                  "aliases are not read here: write the value out, or put '*%s' in quotes",
                  ls_excerpt(text, shown));
    return STEP_ON;
}

static enum step start_document(struct builder *b, const yaml_event_t *event)
{
    if (b->documents++ == 0)
        return STEP_ON;
    ls_issues_add(b->issues, line_of(&event->start_mark), column_of(&event->start_mark), "",
                  "a second document begins here: a file holds one, remove '---'");
    return STEP_END;
}

static enum step take(struct builder *b, const yaml_event_t *event)
{
    bool is_node = event->type == YAML_ALIAS_EVENT || event->type == YAML_SCALAR_EVENT ||
                   event->type == YAML_SEQUENCE_START_EVENT ||
                   event->type == YAML_MAPPING_START_EVENT;

    if (is_node && ++b->nodes > LS_YAML_MAX_NODES) {
        ls_issues_add(b->issues, line_of(&event->start_mark), column_of(&event->start_mark), "",
                      "there are more than %u values up to here: split the file",
                      LS_YAML_MAX_NODES);
        return STEP_STOP;
    }
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return start_document(b, event);
    case YAML_ALIAS_EVENT:
        return add_alias(b, event);
    case YAML_SCALAR_EVENT:
        return add_word(b, event);
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return open_node(b, event);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        b->depth--;
        return STEP_ON;
    case YAML_STREAM_END_EVENT:
        return STEP_END;
    default:
        return STEP_ON;
    }
}

/* Drops a key without a value at the end of a mapping that broke off. */
static void drop_last_key(struct ls_yaml_node *map)
{
    struct ls_yaml_node *before = NULL;

    if (map->kind != LS_YAML_MAP || map->count % 2 == 0)
        return;
    for (struct ls_yaml_node *child = map->first; child != map->last; child = child->next)
        before = child;
    ls_yaml_free(map->last);
    map->last = before;
    map->count--;
    if (before == NULL)
        map->first = NULL;
    else
        before->next = NULL;
}

static void cut_open_nodes(struct builder *b)
{
    while (b->depth > 0) {
        struct ls_yaml_node *node = b->open[--b->depth];

        node->cut = true;
        drop_last_key(node);
    }
}

static enum step next_event(struct builder *b, yaml_parser_t *parser, struct ls_bytes text)
{
    yaml_event_t event;
    enum step step;

    if (!yaml_parser_parse(parser, &event)) {
        if (parser->error == YAML_MEMORY_ERROR)
            return STEP_NO_MEMORY;
        ls_yaml_explain(b->issues, parser, text, b->last_word);
        if (b->last_word != NULL)
            b->last_word->broken = true; /* the mistake may be in it */
        return STEP_STOP;
    }
    step = take(b, &event);
    yaml_event_delete(&event);
    return step;
}

enum ls_err ls_yaml_parse(struct ls_bytes text, struct ls_issues *issues,
                          struct ls_yaml_node **out_root)
{
    struct builder b = { .issues = issues };
    enum step step = STEP_ON;
    yaml_parser_t parser;

    *out_root = NULL;
    if (!ls_yaml_check_text(issues, &text))
        return LS_OK;
    if (!yaml_parser_initialize(&parser))
        return LS_ENOMEM;
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, text.data, text.len);
    while (step == STEP_ON)
        step = next_event(&b, &parser, text);
    yaml_parser_delete(&parser);
    if (step == STEP_NO_MEMORY) {
        ls_yaml_free(b.root);
        return LS_ENOMEM;
    }
    if (step == STEP_STOP)
        cut_open_nodes(&b);
    if (b.root == NULL && step == STEP_END)
        ls_issues_add(issues, 0, 0, "",
                      "is empty: there is nothing in it but white space and "
                      "comments");
    *out_root = b.root;
    return LS_OK;
}

/* common/msg_yaml_tree.h - YAML text as a tree of nodes with positions, within limits.
 *
 * A plan needs mappings, lists and words: anchors, aliases, tags and further documents are refused,
 * so a small text cannot become a large tree. Mistakes go to issues; what could be read is in the
 * tree all the same.
 */
#ifndef LS_COMMON_MSG_YAML_TREE_H
#define LS_COMMON_MSG_YAML_TREE_H

#include <stdbool.h>

#include "common/msg_yaml.h"

enum ls_yaml_kind { LS_YAML_WORD, LS_YAML_LIST, LS_YAML_MAP };

struct ls_yaml_node {
    enum ls_yaml_kind kind;
    uint32_t line;
    uint32_t column;
    bool plain;  /* a word without quotes, | or > */
    bool flow;   /* a list or mapping in [] or {} */
    bool broken; /* has been reported: read as if it were not there */
    bool cut;    /* the text broke off within it */
    char *text;  /* of a word; NUL-terminated beyond len; owned */
    size_t len;
    /* Elements of a list; of a mapping, key, value, key, value ... (an even number); owned. */
    struct ls_yaml_node *first;
    struct ls_yaml_node *last;
    struct ls_yaml_node *next;
    size_t count; /* of children */
};

/* LS_OK: *out_root is the document's node; NULL: nothing was read, and issues say why. Mistakes of
 * the text do not make it fail; LS_ENOMEM does. */
enum ls_err ls_yaml_parse(struct ls_bytes text, struct ls_issues *issues,
                          struct ls_yaml_node **out_root) LS_NODISCARD;
void ls_yaml_free(struct ls_yaml_node *node); /* NULL is fine */

/* A word without quotes that stands for nothing: empty, ~ or null. */
bool ls_yaml_is_null(const struct ls_yaml_node *node);

#endif

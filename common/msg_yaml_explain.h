/* common/msg_yaml_explain.h - what is wrong with a text that is not YAML, in words that help. */
#ifndef LS_COMMON_MSG_YAML_EXPLAIN_H
#define LS_COMMON_MSG_YAML_EXPLAIN_H

#include <stdbool.h>

#include <yaml.h>

#include "common/msg_yaml_tree.h"

/* Size, encoding and control characters; adds the first mistake and returns false. Takes a byte
 * order mark from the text's start. */
bool ls_yaml_check_text(struct ls_issues *issues, struct ls_bytes *text);

/* The parser has failed on text, not for lack of memory; last_word is the last word that it read
 * (NULL: none). Adds one issue. */
void ls_yaml_explain(struct ls_issues *issues, const yaml_parser_t *parser, struct ls_bytes text,
                     const struct ls_yaml_node *last_word);

#endif

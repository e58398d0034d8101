/* common/msg_read.h - YAML nodes into messages: what the reader, its explanations and --set share.
 */
#ifndef LS_COMMON_MSG_READ_H
#define LS_COMMON_MSG_READ_H

#include "common/msg_marks.h"
#include "common/msg_model.h"
#include "common/msg_yaml_tree.h"

struct ls_msg_reader {
    struct ls_issues *issues;
    struct ls_marks *marks;
    const char *origin; /* of struct ls_issue */
    struct ls_msg_path path;
    /* Types that are being read, outermost first; each takes a level of the text. */
    const ProtobufCMessageDescriptor *types[LS_YAML_MAX_DEPTH];
    unsigned depth;
    bool named;     /* the path names the element already that the next list is read for */
    bool no_memory; /* nothing else counts then */
};

/* Reads node into the field of message, which is as in a new message. False: something was wrong,
 * and has been reported and marked. */
bool ls_msg_read_field(struct ls_msg_reader *r, const struct ls_yaml_node *node,
                       ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* An issue at node, with the path that is being read; the second at the key below that path. */
void ls_msg_say(struct ls_msg_reader *r, const struct ls_yaml_node *node, const char *fmt, ...)
    LS_PRINTF(3, 4);
void ls_msg_say_key(struct ls_msg_reader *r, const struct ls_yaml_node *key, const char *fmt, ...)
    LS_PRINTF(3, 4);

/* ---- why node does not fit, and what to write instead (common/msg_hints.c) --------------------
 */

/* Neither a word nor a unit's word, or one that stands for nothing. */
void ls_msg_explain_word(struct ls_msg_reader *r, const struct ls_yaml_node *node,
                         const ProtobufCFieldDescriptor *field);
/* Not a mapping, for a field that is a message. */
void ls_msg_explain_message(struct ls_msg_reader *r, const struct ls_yaml_node *node,
                            const ProtobufCFieldDescriptor *field);
/* Not a list. */
void ls_msg_explain_list(struct ls_msg_reader *r, const struct ls_yaml_node *node,
                         const ProtobufCFieldDescriptor *field);
/* Not a mapping, for a mapping of texts. */
void ls_msg_explain_map(struct ls_msg_reader *r, const struct ls_yaml_node *node);
/* Not a key of type. */
void ls_msg_explain_key(struct ls_msg_reader *r, const struct ls_yaml_node *key,
                        const ProtobufCMessageDescriptor *type);
/* Not a mapping at the top. */
void ls_msg_explain_root(struct ls_msg_reader *r, const struct ls_yaml_node *node,
                         const ProtobufCMessageDescriptor *type);

/* "name, description, fleet" into out; returns out. */
const char *ls_msg_known_keys(const ProtobufCMessageDescriptor *type, char *out, size_t out_bytes);

#endif

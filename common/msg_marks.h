/* common/msg_marks.h - where each part of a message was read, for whoever reads or checks it. */
#ifndef LS_COMMON_MSG_MARKS_H
#define LS_COMMON_MSG_MARKS_H

#include <stdbool.h>

#include "common/msg_yaml.h"

#define LS_MSG_PATH_MAX 512u /* longer ones are cut */

/* A path under construction: "targets[0].env.PORT". */
struct ls_msg_path {
    size_t len;
    char text[LS_MSG_PATH_MAX];
};

void ls_msg_path_field(struct ls_msg_path *path, const char *name);  /* ".name" */
void ls_msg_path_index(struct ls_msg_path *path, size_t index);      /* "[3]" */
void ls_msg_path_key(struct ls_msg_path *path, struct ls_bytes key); /* ".PORT" or ["a b"] */

/* Where a message, a field or an element stands, and how. */
struct ls_mark {
    uint32_t line; /* 0: not in a file */
    uint32_t column;
    const char *origin; /* static; NULL: the file itself */
    bool broken;        /* what stands there has been reported already; say no more about it */
};

/* NULL: out of memory. */
struct ls_marks *ls_marks_create(void) LS_NODISCARD;

/* A message that is element index (-1: the only one) of parent's field; parent NULL: the root. */
enum ls_err ls_marks_put_message(struct ls_marks *marks, const ProtobufCMessage *message,
                                 const ProtobufCMessage *parent,
                                 const ProtobufCFieldDescriptor *field, int index,
                                 const struct ls_mark *mark) LS_NODISCARD;
/* An element of message's field, or (-1) the field as a whole. */
enum ls_err ls_marks_put(struct ls_marks *marks, const ProtobufCMessage *message,
                         const ProtobufCFieldDescriptor *field, int index,
                         const struct ls_mark *mark) LS_NODISCARD;
/* Something in message could not be read: what seems to be missing may have been meant there. */
void ls_marks_set_incomplete(struct ls_marks *marks, const ProtobufCMessage *message);
bool ls_marks_incomplete(const struct ls_marks *marks, const ProtobufCMessage *message);

/* Was the field given, but not readable? */
bool ls_marks_broken(const struct ls_marks *marks, const ProtobufCMessage *message,
                     const ProtobufCFieldDescriptor *field);

/* Marks element index (-1: all) of a field and everything below it as coming from origin: for what
 * was not read from the file. message is marked already. */
enum ls_err ls_marks_put_tree(struct ls_marks *marks, const ProtobufCMessage *message,
                              const ProtobufCFieldDescriptor *field, int index,
                              const char *origin) LS_NODISCARD;

/* ls_issues_add() with the origin of struct ls_issue. */
void ls_issues_add_from(struct ls_issues *issues, const char *origin, uint32_t line,
                        uint32_t column, const char *path, const char *fmt, ...) LS_PRINTF(6, 7);

#endif

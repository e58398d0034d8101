/* common/msg_yaml.h - YAML text into any protobuf-c message, by its descriptor alone.
 *
 * Rules in proto/README.md. All mistakes of a text are reported, not the first only. Positions of
 * what was read stay available, so that a later check can point at them too.
 */
#ifndef LS_COMMON_MSG_YAML_H
#define LS_COMMON_MSG_YAML_H

#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "common/attr.h"
#include "common/err.h"

#define LS_YAML_MAX_BYTES  (4u << 20)
#define LS_YAML_MAX_NODES  100000u
#define LS_YAML_MAX_DEPTH  32u
#define LS_YAML_MAX_ISSUES 200u

/* One mistake: "file:line:col: path: what is wrong, what to do". */
struct ls_issue {
    uint32_t line; /* from 1; 0: the file as a whole */
    uint32_t column;
    const char *origin; /* static; "--set" and the like; NULL: the file of the issues */
    char *path;         /* "workloads[0].http.requests[2].path"; "" at the top; owned */
    char *text;         /* owned */
};

struct ls_issues {
    char *file; /* owned; as the user named it */
    struct ls_issue *items;
    size_t count;
    size_t dropped; /* beyond LS_YAML_MAX_ISSUES */
};

void ls_issues_init(struct ls_issues *issues, const char *file);
void ls_issues_fini(struct ls_issues *issues);
void ls_issues_add(struct ls_issues *issues, uint32_t line, uint32_t column, const char *path,
                   const char *fmt, ...) LS_PRINTF(5, 6);
void ls_issues_sort(struct ls_issues *issues); /* by position */
/* Each on a line of its own; the caller frees. NULL: out of memory. */
char *ls_issues_format(const struct ls_issues *issues);

/* Where each message, field and element was read. */
struct ls_marks;
void ls_marks_destroy(struct ls_marks *marks); /* NULL is fine */

/* Adds an issue at field (NULL: the message itself), element index (-1: the field as a whole) of
 * message, which should be part of what was read with these marks: without them (NULL is fine) the
 * issue has no position and a short path. A field that was left out is reported where its message
 * stands. Nothing is added about what could not be read, for that has been reported. */
void ls_issues_add_at(struct ls_issues *issues, const struct ls_marks *marks,
                      const ProtobufCMessage *message, const char *field, int index,
                      const char *fmt, ...) LS_PRINTF(6, 7);

/* LS_OK: *out_message (caller frees with protobuf_c_message_free_unpacked(m, NULL)) and *out_marks.
 * Otherwise issues says why, every mistake with its position; outputs are untouched. */
enum ls_err ls_msg_from_yaml(const ProtobufCMessageDescriptor *descriptor, struct ls_bytes text,
                             struct ls_issues *issues, ProtobufCMessage **out_message,
                             struct ls_marks **out_marks) LS_NODISCARD;

/* The same, but what could be read in spite of mistakes is handed over, too, with LS_EINVAL: a
 * check can then go on and report all mistakes at once. *out_message and *out_marks are NULL when
 * there is nothing to check, always so with LS_ENOMEM. */
enum ls_err ls_msg_from_yaml_partial(const ProtobufCMessageDescriptor *descriptor,
                                     struct ls_bytes text, struct ls_issues *issues,
                                     ProtobufCMessage **out_message,
                                     struct ls_marks **out_marks) LS_NODISCARD;

/* Marks for a message that was not read but made, so that issues carry whole paths; origin (static)
 * stands where the file would. NULL: out of memory. */
struct ls_marks *ls_marks_of(const ProtobufCMessage *message, const char *origin) LS_NODISCARD;

/* Sets the field at path, "workloads[0].measure" or "targets[nginx].env.PORT", to value as a file
 * would write it; a text is taken as it is. An element is named by its number or by its name field;
 * messages on the way that are absent are made. LS_EINVAL: issues says why, and root is as it was.
 * Issues about it show "--set" for the file. */
enum ls_err ls_msg_set(ProtobufCMessage *root, struct ls_marks *marks, const char *path,
                       const char *value, struct ls_issues *issues) LS_NODISCARD;

/* The name in candidates (count of them) closest to word, if it is close enough to be meant. */
const char *ls_closest(const char *word, const char *const *candidates, size_t count);

#endif

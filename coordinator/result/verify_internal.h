/* coordinator/result/verify_internal.h - shared by verify*.c, by nobody else. */
#ifndef LS_COORDINATOR_RESULT_VERIFY_INTERNAL_H
#define LS_COORDINATOR_RESULT_VERIFY_INTERNAL_H

#include "common/attr.h"
#include "coordinator/result/verify.h"

struct verify {
    const char *dir;
    const Ls__Result *result;
    Ls__Verification *out;
    bool older;     /* made by another version, which may not have had all figures of this one */
    bool no_memory; /* sticky: checked once, at the end */
};

/* One more difference. figure "": the file as a whole. published, recomputed: NULL if it is none of
 * a figure; text: what is wrong, without their names. */
void verify_differs(struct verify *v, const char *file, const char *figure, const char *published,
                    const char *recomputed, const char *text);
void verify_note(struct verify *v, const char *fmt, ...) LS_PRINTF(2, 3);

/* ---- verify_figures.c: each figure is counted, each that differs told as one of where */

struct verify_source {
    const char *file; /* where the figures stand, below the folder */
    const char *from; /* what they were computed again from */
};

/* Every field of two messages of a kind, and of the messages in them. */
void verify_message(struct verify *v, const struct verify_source *source, const char *where,
                    const ProtobufCMessage *published, const ProtobufCMessage *computed);
/* The same for the fields in names alone, which ends with NULL. */
void verify_fields(struct verify *v, const struct verify_source *source, const char *where,
                   const ProtobufCMessage *published, const ProtobufCMessage *computed,
                   const char *const *names);
/* The same for all fields but those in names. */
void verify_other_fields(struct verify *v, const struct verify_source *source, const char *where,
                         const ProtobufCMessage *published, const ProtobufCMessage *computed,
                         const char *const *names);

/* ---- verify_trial.c */

/* What its folder says of a trial. where: how sentences call it. */
void verify_trial(struct verify *v, const Ls__Trial *trial, const char *where, const char *file);

/* ---- verify.c: a trial's own trial.json, whose path goes to relative (PATH_MAX bytes); NULL: it
 * has been told why not. The caller frees. */
Ls__Trial *verify_read_trial(struct verify *v, const char *folder, char *relative);

/* ---- verify_whole.c: what a search or a ladder is made of, and what it comes to */
void verify_whole(struct verify *v, const Ls__Trial *trial, const char *where);

/* ---- verify_sums.c: what it has of all its clients */
void verify_sums(struct verify *v, const Ls__Trial *trial, const char *where, const char *file);

/* ---- verify_server.c: what server.csv says of its server */
struct verify_server {
    const Ls__Trial *trial; /* that has a window */
    const char *where;
    const char *file;
    uint64_t ok_in_window; /* of all clients, from intervals.csv */
    bool counted;          /* that is known */
};
void verify_server(struct verify *v, const struct verify_server *s);

/* ---- verify_process.c: the same for trials of whole processes */
void verify_process(struct verify *v, const Ls__Trial *trial, const char *where, const char *file);

#endif

/* agent/respond/answer.h - the bytes of every answer, made once; nothing is formatted under load.
 */
#ifndef LS_AGENT_RESPOND_ANSWER_H
#define LS_AGENT_RESPOND_ANSWER_H

#include "agent/respond/settings.h"

enum respond_ending {
    RESPOND_KEEP,      /* the connection goes on */
    RESPOND_END_CLOSE, /* FIN after the bytes */
    RESPOND_END_RESET, /* RST after the bytes */
    RESPOND_END_NEVER  /* it stays open, but nothing more is answered */
};

/* What it is to the request that it answers. */
enum respond_part {
    RESPOND_COMPLETE, /* a whole answer, whatever else is wrong with it: counts as a response */
    RESPOND_BROKEN,   /* none, or a piece of one: counts as unanswered */
    RESPOND_EXTRA     /* belongs to no request, or comes before the answer */
};

struct respond_answer {
    unsigned char *bytes; /* owned: copies x len of them, so that pipelined answers leave at once */
    size_t len;           /* of one; 0: no bytes at all */
    uint32_t copies;
    enum respond_part part;
    enum respond_ending ending;
    int64_t later_ns; /* SLOW */
    int64_t drip_ns;  /* DRIP: spread over that */
};

/* One for the normal case and one for each rule, each in two forms: for HEAD (no body) and for
 * everything else. Immutable and shared by all threads. */
struct respond_answers;

/* LS_ENOMEM. The settings must outlive the answers. */
enum ls_err respond_answers_create(const struct respond_settings *settings,
                                   struct respond_answers **out_answers,
                                   struct ls_diag *diag) LS_NODISCARD;
void respond_answers_destroy(struct respond_answers *answers); /* NULL is fine */

/* rule: index into settings->rules, -1 for the normal answer. last: as the answer to a request that
 * asked for the end of the connection. */
const struct respond_answer *respond_answers_get(const struct respond_answers *answers, int rule,
                                                 bool head, bool last);
/* The answer to what is no request: 400 and the end. */
const struct respond_answer *respond_answers_bad(const struct respond_answers *answers);
/* "100 Continue", to be sent before the body of a request that waits for it. */
const struct respond_answer *respond_answers_continue(const struct respond_answers *answers);

#endif

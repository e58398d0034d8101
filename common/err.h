/* common/err.h - what can go wrong, and one sentence that says why.
 *
 * A fallible function returns enum ls_err and takes a struct ls_diag last (NULL is fine). The code
 * is for the program, the sentence for the user: what failed, on which value, what to do about it.
 */
#ifndef LS_COMMON_ERR_H
#define LS_COMMON_ERR_H

#include "common/attr.h"

enum ls_err {
    LS_OK,
    LS_EINVAL,   /* an argument or a piece of input makes no sense */
    LS_ERANGE,   /* it makes sense but is outside what is allowed */
    LS_ENOMEM,   /* memory, or a stated memory budget, is used up */
    LS_EIO,      /* the system refused: the sentence carries strerror */
    LS_ETIMEOUT, /* it did not happen in time */
    LS_EPROTO,   /* a peer broke the protocol */
    LS_ESTATE,   /* not now: the call does not fit the state */
    LS_EAGAIN,   /* full or empty at the moment: offer it again */
    LS_ECLOSED,  /* the peer has gone in good order */
    LS_EREFUSED, /* not allowed: by policy, or for want of a proven identity; exit status 5 */
    LS_ERR_COUNT
};

struct ls_diag { /* caller-owned; written only by a call that fails */
    enum ls_err code;
    char text[480]; /* no newline */
};

/* Fills diag (NULL is fine) and returns code: explaining and returning are one statement. */
enum ls_err ls_fail(struct ls_diag *diag, enum ls_err code, const char *fmt, ...) LS_PRINTF(3, 4);

/* Puts "prefix: " before the sentence of a call that failed. Returns code. */
enum ls_err ls_fail_in(struct ls_diag *diag, enum ls_err code, const char *fmt, ...)
    LS_PRINTF(3, 4);

/* "LS_EINVAL" and so on; never NULL. */
const char *ls_err_name(enum ls_err code);

#endif

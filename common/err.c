#include "common/err.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/utf8.h"

static const char *const names[] = {
    "LS_OK",     "LS_EINVAL", "LS_ERANGE", "LS_ENOMEM",  "LS_EIO",      "LS_ETIMEOUT",
    "LS_EPROTO", "LS_ESTATE", "LS_EAGAIN", "LS_ECLOSED", "LS_EREFUSED",
};
static_assert(LS_ARRAY_LEN(names) == LS_ERR_COUNT, "a name for each code");

/* A sentence is one line of text that any message can carry: whatever a peer or a file put into it,
 * and wherever it was cut. */
static void one_line(char *text)
{
    ls_utf8_clean(text, strlen(text));
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = ' ';
    }
}

enum ls_err ls_fail(struct ls_diag *diag, enum ls_err code, const char *fmt, ...)
{
    va_list ap;

    if (diag == NULL)
        return code;
    diag->code = code;
    va_start(ap, fmt);
    (void)vsnprintf(diag->text, sizeof(diag->text), fmt, ap);
    va_end(ap);
    one_line(diag->text);
    return code;
}

enum ls_err ls_fail_in(struct ls_diag *diag, enum ls_err code, const char *fmt, ...)
{
    char tail[sizeof(diag->text)];
    va_list ap;
    int used;

    if (diag == NULL)
        return code;
    (void)memcpy(tail, diag->text, sizeof(tail));
    tail[sizeof(tail) - 1] = '\0';
    diag->code = code;
    va_start(ap, fmt);
    used = vsnprintf(diag->text, sizeof(diag->text), fmt, ap);
    va_end(ap);
    if (used >= 0 && (size_t)used < sizeof(diag->text))
        (void)snprintf(diag->text + used, sizeof(diag->text) - (size_t)used, ": %.470s", tail);
    one_line(diag->text);
    return code;
}

const char *ls_err_name(enum ls_err code)
{
    return (unsigned)code < LS_ERR_COUNT ? names[code] : "LS_?";
}

#include "common/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAP = 64, DIGITS_MAX = 20 };

void ls_buf_init(struct ls_buf *buf, size_t max)
{
    *buf = (struct ls_buf){ .max = max, .ok = true };
}

void ls_buf_fini(struct ls_buf *buf)
{
    free(buf->data);
    *buf = (struct ls_buf){ .max = buf->max, .ok = true };
}

void ls_buf_reset(struct ls_buf *buf)
{
    buf->len = 0;
    buf->ok = true;
    if (buf->data != NULL)
        buf->data[0] = '\0';
}

/* Makes room for more bytes and the NUL behind them; otherwise ok becomes false. */
static bool reserve(struct ls_buf *buf, size_t more)
{
    size_t cap = buf->cap < FIRST_CAP ? FIRST_CAP : buf->cap;
    size_t need;
    unsigned char *data;

    if (!buf->ok)
        return false;
    if (more > buf->max - buf->len || buf->len + more == SIZE_MAX) {
        buf->ok = false;
        return false;
    }
    need = buf->len + more + 1;
    if (need <= buf->cap)
        return true;
    while (cap < need)
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    data = realloc(buf->data, cap);
    if (data == NULL) {
        buf->ok = false;
        return false;
    }
    buf->data = data;
    buf->cap = cap;
    return true;
}

void ls_buf_add(struct ls_buf *buf, const void *data, size_t len)
{
    if (!reserve(buf, len))
        return;
    if (len > 0)
        (void)memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void ls_buf_adds(struct ls_buf *buf, const char *text)
{
    ls_buf_add(buf, text, strlen(text));
}

void ls_buf_addu(struct ls_buf *buf, uint64_t x, unsigned digits)
{
    char text[DIGITS_MAX];
    unsigned n = 0;

    do
        text[DIGITS_MAX - ++n] = (char)('0' + x % 10);
    while ((x /= 10) > 0 || (n < digits && n < DIGITS_MAX));
    ls_buf_add(buf, text + DIGITS_MAX - n, n);
}

void ls_buf_addf(struct ls_buf *buf, const char *fmt, ...)
{
    va_list ap;
    va_list again;
    int len;

    va_start(ap, fmt);
    va_copy(again, ap);
    len = vsnprintf(NULL, 0, fmt, ap);
    if (len < 0) {
        buf->ok = false;
    } else if (reserve(buf, (size_t)len)) {
        (void)vsnprintf((char *)buf->data + buf->len, (size_t)len + 1, fmt, again);
        buf->len += (size_t)len;
    }
    va_end(again);
    va_end(ap);
}

void ls_buf_consume(struct ls_buf *buf, size_t len)
{
    if (len > buf->len)
        len = buf->len;
    if (len == 0)
        return;
    buf->len -= len;
    (void)memmove(buf->data, buf->data + len, buf->len + 1);
}

char *ls_buf_detach(struct ls_buf *buf)
{
    char *text;

    ls_buf_add(buf, "", 0); /* empty text is text, too */
    if (!buf->ok)
        return NULL;
    text = (char *)buf->data;
    ls_buf_init(buf, buf->max);
    return text;
}

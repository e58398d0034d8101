#include "common/utf8.h"

/* By Unicode's table 3-7. */
size_t ls_utf8_char_len(const unsigned char *p, size_t left)
{
    unsigned char low = 0x80;
    unsigned char high = 0xbf;
    size_t len;

    if (left == 0 || p[0] == 0)
        return 0;
    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (p[0] == 0xe0)
        low = 0xa0;
    else if (p[0] == 0xed)
        high = 0x9f;
    else if (p[0] == 0xf0)
        low = 0x90;
    else if (p[0] == 0xf4)
        high = 0x8f;
    if (left < len || p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

bool ls_utf8_is_text(struct ls_bytes bytes)
{
    for (size_t i = 0; i < bytes.len;) {
        size_t len = ls_utf8_char_len(bytes.data + i, bytes.len - i);

        if (len == 0)
            return false;
        i += len;
    }
    return true;
}

void ls_utf8_clean(char *text, size_t len)
{
    unsigned char *bytes = (unsigned char *)text;

    for (size_t i = 0; i < len;) {
        size_t n = ls_utf8_char_len(bytes + i, len - i);

        if (n == 2 && bytes[i] == 0xc2 && bytes[i + 1] < 0xa0) /* a terminal may obey it */
            bytes[i] = bytes[i + 1] = '?';
        if (n == 0) {
            bytes[i] = '?';
            n = 1;
        }
        i += n;
    }
}

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/web/server.h"

enum ls_err coord_web_parse(const char *text, char *out_host, size_t host_bytes, uint16_t *out_port,
                            struct ls_diag *diag)
{
    const char *colon = strrchr(text, ':');
    const char *digits = colon != NULL ? colon + 1 : text;
    size_t len = colon != NULL ? (size_t)(colon - text) : 0;
    char *end = NULL;
    unsigned long port = strtoul(digits, &end, 10);

    if (*digits < '0' || *digits > '9' || *end != '\0' || port > UINT16_MAX || len >= host_bytes)
        return ls_fail(
            diag, LS_EINVAL,
            "'%.60s' is no address to listen at: a port, ADDRESS:PORT or [ADDRESS]:PORT is "
            "expected",
            text);
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
    }
    (void)snprintf(out_host, host_bytes, "%.*s", (int)len, text);
    *out_port = (uint16_t)port;
    return LS_OK;
}

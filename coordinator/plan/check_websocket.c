/* WebSocket: the request that asks for it, and the messages. */
#include <string.h>
#include <strings.h>

#include "coordinator/plan/plan_check_parts.h"

#define PIPELINE_MAX 1024u
#define MESSAGE_MAX  (16u << 20)

/* Fields of the handshake that are ours. */
static const char *ours(const char *name)
{
    static const char *const names[] = { "Connection",        "Upgrade",
                                         "Sec-WebSocket-Key", "Sec-WebSocket-Version",
                                         "Transfer-Encoding", "Content-Length" };

    for (size_t i = 0; i < LS_ARRAY_LEN(names); i++) {
        if (strcasecmp(name, names[i]) == 0)
            return "is part of the handshake already: leave it out";
    }
    if (strcasecmp(name, "Sec-WebSocket-Protocol") == 0)
        return "is what subprotocol says: write it there";
    if (strcasecmp(name, "Sec-WebSocket-Extensions") == 0)
        return "is what deflate says: write it there";
    return NULL;
}

static void check_header(struct coord_plan_checker *c, const Ls__WebSocket *ws, size_t i)
{
    const Ls__WebSocket__HeadersEntry *entry = ws->headers[i];
    const char *wrong = ours(entry->key);

    if (!coord_plan_is_token(entry->key))
        coord_plan_check_say(c, &entry->base, NULL, -1, "is no name for a header");
    else if (wrong != NULL)
        coord_plan_check_say(c, &entry->base, NULL, -1, "%s", wrong);
    wrong = entry->value != NULL ? coord_plan_bad_header(entry->value) : NULL;
    if (wrong != NULL)
        coord_plan_check_say(c, &entry->base, "value", -1, "holds a %s: remove it", wrong);
    for (size_t k = 0; k < i; k++) {
        if (strcasecmp(entry->key, ws->headers[k]->key) == 0) {
            coord_plan_check_say(c, &entry->base, NULL, -1,
                                 "is given twice, for names of headers are not case-sensitive: "
                                 "keep one");
            break;
        }
    }
}

static void check_request(struct coord_plan_checker *c, const Ls__WebSocket *ws)
{
    const char *wrong = coord_plan_bad_path(ws->path);

    if (ws->path[0] != '/')
        coord_plan_check_say(c, &ws->base, "path", -1, "begins with '/'");
    else if (wrong != NULL)
        coord_plan_check_say(c, &ws->base, "path", -1, "holds a %s: encode it, as in %%20", wrong);
    if (ws->subprotocol != NULL && !coord_plan_is_token(ws->subprotocol))
        coord_plan_check_say(c, &ws->base, "subprotocol", -1,
                             "is one word without separators, such as graphql-ws");
    if (coord_plan_check_few(c, &ws->base, "headers", ws->n_headers)) {
        for (size_t i = 0; i < ws->n_headers; i++)
            check_header(c, ws, i);
    }
}

static void check_message(struct coord_plan_checker *c, const Ls__Message *message)
{
    if (message->text != NULL && message->size != NULL)
        coord_plan_check_say(c, &message->base, "size", -1,
                             "excludes text: give the one or the other");
    if (message->text != NULL && strlen(message->text) > MESSAGE_MAX)
        coord_plan_check_say(c, &message->base, "text", -1, "is longer than 16MiB");
    if (message->size != NULL && message->size->bytes > MESSAGE_MAX)
        coord_plan_check_say(c, &message->base, "size", -1, "is out of range: 0 to 16MiB");
}

void coord_plan_check_websocket(struct coord_plan_checker *c, const Ls__WebSocket *ws)
{
    check_request(c, ws);
    coord_plan_check_range(c, &ws->base, "pipeline", ws->pipeline, 1, PIPELINE_MAX);
    if (ws->message != NULL)
        check_message(c, ws->message);
    if (ws->fragment != NULL && (ws->fragment->bytes == 0 || ws->fragment->bytes > MESSAGE_MAX))
        coord_plan_check_say(c, &ws->base, "fragment", -1, "is out of range: 1 to 16MiB");
}

/* WebSocket: the request that asks for it, and the messages. */
#include <string.h>
#include <strings.h>

#include "coordinator/plan/plan_check_parts.h"

#define PIPELINE_MAX 1024u
#define MESSAGE_MAX  (16u << 20)
#define DELIVERY_MAX 200u

#define ROOM_MAX         2048u /* each keeps count of each */
#define ROOM_MESSAGE_MIN 16u

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

/* Once {message}, and {name} at most once, before it. */
static void check_delivery(struct coord_plan_checker *c, const Ls__Room *room)
{
    const char *message = strstr(room->delivery, "{message}");
    const char *name = strstr(room->delivery, "{name}");

    if (message == NULL || strstr(message + 1, "{message}") != NULL)
        coord_plan_check_say(c, &room->base, "delivery", -1,
                             "holds {message} once, such as '{name}: {message}'");
    else if (name != NULL && (name > message || strstr(name + 1, "{name}") != NULL))
        coord_plan_check_say(c, &room->base, "delivery", -1,
                             "holds {name} at most once, and before {message}");
    else if (strlen(room->delivery) > DELIVERY_MAX)
        coord_plan_check_say(c, &room->base, "delivery", -1, "is longer than %u bytes",
                             DELIVERY_MAX);
}

static void check_round(struct coord_plan_checker *c, const Ls__Workload *w, const Ls__Room *room)
{
    coord_plan_check_range(c, &room->base, "round", room->round, 1, PIPELINE_MAX);
    if (w->load != NULL && w->load->law_case != LS__LOAD__LAW__NOT_SET)
        coord_plan_check_say(c, &w->base, "load", -1,
                             "does not go with a room's round, which says when messages are sent: "
                             "keep one");
    if (w->websocket->has_pipeline)
        coord_plan_check_say(c, &w->websocket->base, "pipeline", -1,
                             "does not go with a room's round, which is as many messages: leave it "
                             "out");
}

static void check_room(struct coord_plan_checker *c, const Ls__Workload *w, const Ls__Room *room)
{
    const Ls__Message *message = w->websocket->message;

    check_delivery(c, room);
    if (room->has_round)
        check_round(c, w, room);
    if (room->ready != NULL && room->ready[0] == '\0')
        coord_plan_check_say(c, &room->base, "ready", -1,
                             "is empty: leave it out if nothing is to be waited for");
    if (message != NULL && message->text != NULL)
        coord_plan_check_say(c, &message->base, "text", -1,
                             "cannot be chosen in a room: messages say who sent them: give a size");
    if (message != NULL && message->size != NULL && message->size->bytes < ROOM_MESSAGE_MIN)
        coord_plan_check_say(c, &message->base, "size", -1,
                             "is too small for a room: messages begin with %u bytes that say who "
                             "sent them, and when",
                             ROOM_MESSAGE_MIN);
    if (w->connections > ROOM_MAX)
        coord_plan_check_say(c, &w->base, "connections", -1,
                             "%u are too many for a room: at most %u", w->connections, ROOM_MAX);
    if (!room->to_sender && w->connections < 2)
        coord_plan_check_say(c, &w->base, "connections", -1,
                             "in a room whose senders do not hear themselves there must be two");
    if (w->lifetime != NULL)
        coord_plan_check_say(c, &w->base, "lifetime", -1,
                             "does not go with a room: its members stay");
}

void coord_plan_check_websocket(struct coord_plan_checker *c, const Ls__Workload *w)
{
    const Ls__WebSocket *ws = w->websocket;

    check_request(c, ws);
    coord_plan_check_range(c, &ws->base, "pipeline", ws->pipeline, 1, PIPELINE_MAX);
    if (ws->message != NULL)
        check_message(c, ws->message);
    if (ws->fragment != NULL && (ws->fragment->bytes == 0 || ws->fragment->bytes > MESSAGE_MAX))
        coord_plan_check_say(c, &ws->base, "fragment", -1, "is out of range: 1 to 16MiB");
    if (ws->kind_case == LS__WEB_SOCKET__KIND_ROOM)
        check_room(c, w, ws->room);
}

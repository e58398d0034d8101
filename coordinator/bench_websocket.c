#include "coordinator/bench_websocket.h"

#include "common/pb.h"

enum ls_err bench_websocket_check(const struct bench_websocket_args *args, struct ls_diag *diag)
{
    bool any = args->room > 0 || args->size > 0 || args->message != NULL || args->binary ||
               args->deflate || args->subprotocol != NULL;

    if (!args->on && any)
        return ls_fail(diag, LS_EINVAL,
                       "--room, --size, --message, --binary, --deflate and --subprotocol go with "
                       "--websocket, or a ws:// URL");
    if (args->room == 0 && (args->round > 0 || args->ready != NULL || args->delivery != NULL))
        return ls_fail(diag, LS_EINVAL, "--round, --ready and --delivery go with --room");
    if (args->message != NULL && args->size > 0)
        return ls_fail(diag, LS_EINVAL, "--message and --size exclude each other");
    return LS_OK;
}

static void compose_room(const struct bench_websocket_args *args, struct bench_websocket_parts *p,
                         Ls__Workload *workload)
{
    ls__room__init(&p->room);
    p->room.has_round = args->round > 0;
    p->room.round = (uint32_t)args->round;
    p->room.ready = ls_pb_text(args->ready);
    if (args->delivery != NULL)
        p->room.delivery = ls_pb_text(args->delivery);
    p->websocket.kind_case = LS__WEB_SOCKET__KIND_ROOM;
    p->websocket.room = &p->room;
    workload->connections = (uint32_t)args->room;
    if (args->round > 0)
        workload->load = NULL; /* rounds say themselves when messages are sent */
}

void bench_websocket_compose(const struct bench_websocket_args *args, uint64_t pipeline,
                             const Ls__Request *request, struct bench_websocket_parts *p,
                             Ls__Workload *workload)
{
    ls__web_socket__init(&p->websocket);
    ls__message__init(&p->message);
    ls__size__init(&p->size);
    ls__echo__init(&p->echo);
    ls__deflate__init(&p->deflate);
    for (size_t i = 0; i < request->n_headers; i++) {
        ls__web_socket__headers_entry__init(&p->entries[i]);
        p->entries[i].key = request->headers[i]->key;
        p->entries[i].value = request->headers[i]->value;
        p->headers[i] = &p->entries[i];
    }
    p->message.text = ls_pb_text(args->message);
    p->message.has_binary = true;
    p->message.binary = args->binary;
    p->size.bytes = args->size;
    p->message.size = args->size > 0 ? &p->size : NULL;
    p->websocket.path = request->path;
    p->websocket.headers = p->headers;
    p->websocket.n_headers = request->n_headers;
    p->websocket.subprotocol = ls_pb_text(args->subprotocol);
    p->websocket.message = &p->message;
    p->websocket.has_pipeline = args->round == 0;
    p->websocket.pipeline = (uint32_t)pipeline;
    p->websocket.deflate = args->deflate ? &p->deflate : NULL;
    p->websocket.kind_case = LS__WEB_SOCKET__KIND_ECHO;
    p->websocket.echo = &p->echo;
    if (args->room > 0)
        compose_room(args, p, workload);
    workload->protocol_case = LS__WORKLOAD__PROTOCOL_WEBSOCKET;
    workload->websocket = &p->websocket;
}

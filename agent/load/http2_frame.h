/* agent/load/http2_frame.h - numbers of RFC 9113, and how they are written. */
#ifndef LS_AGENT_LOAD_HTTP2_FRAME_H
#define LS_AGENT_LOAD_HTTP2_FRAME_H

#include <stdint.h>
#include <string.h>

#define HTTP2_HEAD_BYTES    9u
#define HTTP2_FRAME_MAX     16384u /* payload: what we take, and send */
#define HTTP2_WINDOW        65535  /* of streams and connections, before SETTINGS */
#define HTTP2_WINDOW_MAX    0x7fffffff
#define HTTP2_ID_MAX        0x7fffffffu
#define HTTP2_PREFACE       "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define HTTP2_PREFACE_BYTES 24u

enum http2_type {
    HTTP2_DATA,
    HTTP2_HEADERS,
    HTTP2_PRIORITY,
    HTTP2_RST_STREAM,
    HTTP2_SETTINGS,
    HTTP2_PUSH_PROMISE,
    HTTP2_PING,
    HTTP2_GOAWAY,
    HTTP2_WINDOW_UPDATE,
    HTTP2_CONTINUATION
};

#define HTTP2_END_STREAM  0x01u
#define HTTP2_ACK         0x01u
#define HTTP2_END_HEADERS 0x04u
#define HTTP2_PADDED      0x08u
#define HTTP2_PRIORITISED 0x20u

enum http2_setting {
    HTTP2_HEADER_TABLE_SIZE = 1,
    HTTP2_ENABLE_PUSH,
    HTTP2_MAX_CONCURRENT_STREAMS,
    HTTP2_INITIAL_WINDOW_SIZE,
    HTTP2_MAX_FRAME_SIZE,
    HTTP2_MAX_HEADER_LIST_SIZE
};

enum http2_error {
    HTTP2_NO_ERROR,
    HTTP2_PROTOCOL_ERROR,
    HTTP2_INTERNAL_ERROR,
    HTTP2_FLOW_CONTROL_ERROR,
    HTTP2_SETTINGS_TIMEOUT,
    HTTP2_STREAM_CLOSED,
    HTTP2_FRAME_SIZE_ERROR,
    HTTP2_REFUSED_STREAM,
    HTTP2_CANCEL,
    HTTP2_COMPRESSION_ERROR,
    HTTP2_CONNECT_ERROR,
    HTTP2_ENHANCE_YOUR_CALM,
    HTTP2_INADEQUATE_SECURITY,
    HTTP2_HTTP_1_1_REQUIRED,
    HTTP2_ERROR_COUNT
};

static inline uint32_t http2_get32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline void http2_put32(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 24);
    at[1] = (uint8_t)(value >> 16);
    at[2] = (uint8_t)(value >> 8);
    at[3] = (uint8_t)value;
}

static inline void http2_put_head(uint8_t *at, uint32_t len, enum http2_type type, unsigned flags,
                                  uint32_t id)
{
    at[0] = (uint8_t)(len >> 16);
    at[1] = (uint8_t)(len >> 8);
    at[2] = (uint8_t)len;
    at[3] = (uint8_t)type;
    at[4] = (uint8_t)flags;
    http2_put32(at + 5, id);
}

static inline uint32_t http2_frame_len(const uint8_t *head)
{
    return (uint32_t)head[0] << 16 | (uint32_t)head[1] << 8 | head[2];
}

#endif

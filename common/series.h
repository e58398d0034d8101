/* common/series.h - what histograms are kept of, for both programs. Same order and numbers as
 * ls.SeriesKind in wire.proto; the names are the tags of .hlog files and the fields of a result. */
#ifndef LS_COMMON_SERIES_H
#define LS_COMMON_SERIES_H

enum ls_series {
    LS_SERIES_RESPONSE_TIME,  /* completion - scheduled */
    LS_SERIES_SERVICE_TIME,   /* completion - first byte sent */
    LS_SERIES_SEND_LAG,       /* first byte sent - scheduled */
    LS_SERIES_FIRST_BYTE,     /* first byte of the answer - first byte sent */
    LS_SERIES_CONNECT_TIME,   /* TCP connection - start of the attempt */
    LS_SERIES_HANDSHAKE_TIME, /* TLS session - TCP connection */
    LS_SERIES_READ_DELAY,     /* our read - arrival in the kernel, of an answer's last byte */
    LS_SERIES_KERNEL_TIME,    /* that arrival - first byte sent: service time without our reading */
    LS_SERIES_DELIVERY_TIME,  /* of a room's message to a member - scheduled; within a client */
    LS_SERIES_LOOP_LAG,       /* our coming to a request - scheduled; open loop, no waves */
    LS_SERIES_COUNT
};

const char *ls_series_name(enum ls_series series); /* "response_time"; "?" if out of range */

#endif

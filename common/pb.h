/* common/pb.h - small help with protobuf-c's structs. */
#ifndef LS_COMMON_PB_H
#define LS_COMMON_PB_H

/* protobuf-c's string fields are char *, but a message that is only packed is never written
 * through. This is the one place that takes the const away. */
static inline char *ls_pb_text(const char *text)
{
    union {
        const char *in;
        char *out;
    } u = { .in = text };

    return u.out;
}

#endif

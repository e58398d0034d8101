/* common/libraries.h - what the programs are made of: for --version --verbose. */
#ifndef LS_COMMON_LIBRARIES_H
#define LS_COMMON_LIBRARIES_H

#include <stddef.h>
#include <stdio.h>

struct ls_library {
    const char *name;
    const char *licence; /* of the library, as SPDX calls it; all are linked dynamically */
    const char *built;   /* version of the headers */
    /* Version of what is loaded now; out is room for a text. NULL: it has no way to say. */
    const char *(*running)(char *out, size_t out_bytes);
};

/* "PROGRAM VERSION", and with libraries a line for each of those that both programs have, of more
 * (count of them), and of this build. */
void ls_libraries_print(FILE *file, const char *program, const struct ls_library *more,
                        size_t count);

#endif

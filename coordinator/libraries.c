#include "coordinator/libraries.h"

#ifdef LS_BUILT_BUNDLES /* not with LS_BUILD_BUNDLES=OFF */
#include <archive.h>
#endif
#ifdef LS_BUILT_MICROHTTPD /* not with LS_BUILD_WEB=OFF */
#include <microhttpd.h>
#endif
#include <sqlite3.h>

#include "common/attr.h"
#include "common/libraries.h"

#ifdef LS_BUILT_BUNDLES
static const char *run_archive(char *out, size_t out_bytes)
{
    int version = archive_version_number(); /* 3006002 is 3.6.2 */

    (void)snprintf(out, out_bytes, "%d.%d.%d", version / 1000000, version / 1000 % 1000,
                   version % 1000);
    return out;
}
#endif

static const char *run_sqlite(char *out, size_t out_bytes)
{
    (void)out;
    (void)out_bytes;
    return sqlite3_libversion();
}

#ifdef LS_BUILT_MICROHTTPD
static const char *run_microhttpd(char *out, size_t out_bytes)
{
    (void)out;
    (void)out_bytes;
    return MHD_get_version();
}
#endif

void coord_libraries_print(FILE *file)
{
    static const struct ls_library more[] = {
#ifdef LS_BUILT_BUNDLES
        { "libarchive", "BSD-2-Clause", ARCHIVE_VERSION_ONLY_STRING, run_archive },
#endif
        { "SQLite", "blessing", SQLITE_VERSION, run_sqlite },
#ifdef LS_BUILT_MICROHTTPD
        { "microhttpd", "LGPL-2.1-or-later", LS_BUILT_MICROHTTPD, run_microhttpd },
#endif
    };

    ls_libraries_print(file, "lockstep", more, LS_ARRAY_LEN(more));
}

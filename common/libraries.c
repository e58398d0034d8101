#include "common/libraries.h"

#include <ev.h>
#include <gnu/libc-version.h>
#include <jansson.h>
#include <nng/nng.h>
#include <openssl/crypto.h>
#include <protobuf-c/protobuf-c.h>
#include <sys/utsname.h>
#include <yaml.h>
#include <zlib.h>

#include "common/attr.h"
#include "common/transport.h"

#define TEXT(x)    TEXT_OF(x)
#define TEXT_OF(x) #x

static const char *run_openssl(char *out, size_t out_bytes)
{
    (void)snprintf(out, out_bytes, "%u.%u.%u", OPENSSL_version_major(), OPENSSL_version_minor(),
                   OPENSSL_version_patch());
    return out;
}

static const char *run_nng(char *out, size_t out_bytes)
{
    (void)out;
    (void)out_bytes;
    return nng_version();
}

static const char *run_protobuf(char *out, size_t out_bytes)
{
    (void)out;
    (void)out_bytes;
    return protobuf_c_version();
}

static const char *run_ev(char *out, size_t out_bytes)
{
    (void)snprintf(out, out_bytes, "%d.%d", ev_version_major(), ev_version_minor());
    return out;
}

static const char *run_yaml(char *out, size_t out_bytes)
{
    (void)out;
    (void)out_bytes;
    return yaml_get_version_string();
}

static const char *run_jansson(char *out, size_t out_bytes)
{
    (void)out;
    (void)out_bytes;
    return jansson_version_str();
}

static const char *run_zlib(char *out, size_t out_bytes)
{
    (void)out;
    (void)out_bytes;
    return zlibVersion();
}

static const char *run_libc(char *out, size_t out_bytes)
{
    (void)out;
    (void)out_bytes;
    return gnu_get_libc_version();
}

static const struct ls_library libraries[] = {
    { "OpenSSL", "Apache-2.0", OPENSSL_FULL_VERSION_STR, run_openssl },
    { "nng", "MIT", TEXT(NNG_MAJOR_VERSION) "." TEXT(NNG_MINOR_VERSION) "." TEXT(NNG_PATCH_VERSION),
      run_nng },
    { "protobuf-c", "BSD-2-Clause", PROTOBUF_C_VERSION, run_protobuf },
    { "libev", "BSD-2-Clause OR GPL-2.0-or-later",
      TEXT(EV_VERSION_MAJOR) "." TEXT(EV_VERSION_MINOR), run_ev },
    { "libyaml", "MIT", LS_BUILT_YAML, run_yaml },
    { "jansson", "MIT", JANSSON_VERSION, run_jansson },
    { "zlib", "Zlib", ZLIB_VERSION, run_zlib },
    { "hwloc", "BSD-3-Clause", LS_BUILT_HWLOC, NULL },
    { "glibc", "LGPL-2.1-or-later", TEXT(__GLIBC__) "." TEXT(__GLIBC_MINOR__), run_libc },
};

static void print_all(FILE *file, const struct ls_library *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char text[48];

        (void)fprintf(file, "  %-11s %-10s %-10s %s\n", list[i].name, list[i].built,
                      list[i].running != NULL ? list[i].running(text, sizeof(text)) : "-",
                      list[i].licence);
    }
}

void ls_libraries_print(FILE *file, const char *program, const struct ls_library *more,
                        size_t count)
{
    struct utsname system;

    (void)fprintf(file, "%s %s\n\n  %-11s %-10s %-10s %s\n", program, LS_VERSION, "library",
                  "built with", "runs with", "licence");
    print_all(file, libraries, LS_ARRAY_LEN(libraries));
    print_all(file, more, count);
    (void)fprintf(file, "\n  wire format %u; compiled by %s", (unsigned)LS_WIRE_VERSION,
                  __VERSION__);
    if (uname(&system) == 0)
        (void)fprintf(file, "; runs on %s %s, %s", system.sysname, system.release, system.machine);
    (void)fputs(
        "\n  bill of materials: /usr/share/doc/lockstep/lockstep.spdx.json (the package's)\n",
        file);
}

/* lockstep bundle DIR: a result in one file, to send to somebody. */
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buf.h"
#include "common/fs.h"
#include "common/options.h"
#include "coordinator/bundle/bundle.h"
#include "coordinator/cli.h"
#include "coordinator/result/escape.h"

#define NAME_SHOWN_MAX 65536u

struct arguments {
    const char *out;
    bool with_keys;
    bool unpack;
    bool help;
};

static const struct ls_option rows[] = {
    { "out", 'o', LS_OPTION_TEXT, offsetof(struct arguments, out), "FILE", NULL, 1, 0,
      "the bundle (DIR.tar.zst); with --unpack, the new folder" },
    { "with-keys", 0, LS_OPTION_FLAG, offsetof(struct arguments, with_keys), NULL, NULL, 1, 0,
      "private keys that the plan names go along, for everybody to read" },
    { "unpack", 0, LS_OPTION_FLAG, offsetof(struct arguments, unpack), NULL, NULL, 1, 0,
      "the other way: DIR is a bundle, and is unpacked into a folder" },
    { "help", 'h', LS_OPTION_FLAG, offsetof(struct arguments, help), NULL, NULL, 1, 0,
      "this text" },
};

static int fail(enum ls_err rc, const char *text)
{
    return coord_cli_fail(false,
                          rc == LS_ENOMEM   ? COORD_EXIT_FAULT
                          : rc == LS_EPROTO ? COORD_EXIT_INVALID
                                            : COORD_EXIT_USAGE,
                          text);
}

static int pack(const char *dir, const struct arguments *args)
{
    char name[PATH_MAX];
    struct ls_diag diag = { 0 };
    size_t len = strlen(dir);
    enum ls_err rc;

    while (len > 1 && dir[len - 1] == '/')
        len--;
    if (snprintf(name, sizeof(name), "%.*s.tar.zst", (int)len, dir) >= (int)sizeof(name))
        return fail(LS_ERANGE, "bundle: the path is too long");
    rc = coord_bundle_write(dir, args->out != NULL ? args->out : name,
                            &(struct coord_bundle_options){ .with_keys = args->with_keys }, &diag);
    if (rc != LS_OK)
        return fail(rc, diag.text);
    (void)printf("%s\n", args->out != NULL ? args->out : name);
    return COORD_EXIT_OK;
}

/* A folder that could not be filled whole does not stay. */
static int unpack(const char *file, const char *dir)
{
    struct ls_diag diag = { 0 };
    Ls__Bundle *manifest = NULL;
    struct ls_buf name;
    enum ls_err rc;

    if (mkdir(dir, 0755) != 0) {
        rc = ls_fail(&diag, LS_EIO, "cannot create the folder %s: %s", dir, strerror(errno));
        return fail(rc, diag.text);
    }
    rc = coord_bundle_read(file, dir, &manifest, &diag);
    if (rc != LS_OK) {
        if (ls_fs_remove_tree(dir, NULL) != LS_OK)
            (void)fprintf(stderr, "lockstep: what was unpacked of it is still in %s\n", dir);
        return fail(rc, diag.text);
    }
    ls_buf_init(&name, NAME_SHOWN_MAX);
    coord_escape_text(&name, manifest->name); /* somebody's: a terminal is to obey none of it */
    (void)printf("%s: %zu files of %s; the result is in %s/" COORD_BUNDLE_RESULT "\n", dir,
                 manifest->n_files, name.len > 0 ? (const char *)name.data : "a run", dir);
    ls_buf_fini(&name);
    ls__bundle__free_unpacked(manifest, NULL);
    return COORD_EXIT_OK;
}

int coord_cmd_bundle(int argc, char **argv)
{
    struct arguments args = { 0 };
    struct ls_diag diag = { 0 };
    const char *what = NULL;
    size_t plain = 0;

    if (ls_options_parse(rows, LS_ARRAY_LEN(rows), argc, argv, &args, &what, 1, &plain, &diag) !=
        LS_OK)
        return coord_cli_fail(false, COORD_EXIT_USAGE, diag.text);
    if (args.help) {
        (void)printf("usage: lockstep bundle DIR [-o FILE]\n"
                     "       lockstep bundle --unpack FILE -o DIR\n\n"
                     "One file with the result, its raw data, the plan and the files that the plan "
                     "names.\nThe same folder gives the same bytes.\n\n");
        ls_options_help(rows, LS_ARRAY_LEN(rows), stdout);
        return COORD_EXIT_OK;
    }
    if (plain == 0)
        return coord_cli_fail(false, COORD_EXIT_USAGE,
                              "bundle: DIR is missing: which result folder?");
    if (args.unpack && args.out == NULL)
        return coord_cli_fail(false, COORD_EXIT_USAGE,
                              "bundle --unpack: -o DIR is missing: into which folder?");
    return args.unpack ? unpack(what, args.out) : pack(what, &args);
}

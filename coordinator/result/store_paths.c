#include "coordinator/result/store_paths.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_MAX = 48 };

enum ls_err coord_path(const char *folder, const char *name, char *out, struct ls_diag *diag)
{
    int used = snprintf(out, PATH_MAX, "%s/%s", folder, name);

    if (used < 0 || used >= PATH_MAX)
        return ls_fail(diag, LS_ERANGE, "the path %.100s... is too long", folder);
    return LS_OK;
}

static bool harmless(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || (c == '.' && !first);
}

bool coord_path_piece(const char *name, char *out, size_t out_bytes)
{
    size_t n = 0;

    for (; name[n] != '\0' && n < PIECE_MAX && n + 1 < out_bytes; n++)
        out[n] = harmless(name[n], n == 0) ? name[n] : '_';
    if (n == 0 && out_bytes > 1)
        out[n++] = '_';
    out[n] = '\0';
    return strcmp(out, name) == 0;
}

void coord_path_trial(uint32_t index, const char *target, const char *workload, uint32_t repetition,
                      char *out, size_t out_bytes)
{
    char target_piece[64], workload_piece[64];

    (void)coord_path_piece(target, target_piece, sizeof(target_piece));
    (void)coord_path_piece(workload, workload_piece, sizeof(workload_piece));
    (void)snprintf(out, out_bytes, COORD_TRIALS_DIR "/%03u-%s-%s-r%u", index, target_piece,
                   workload_piece, repetition);
}

void coord_path_hlog(const char *client, unsigned copy, char *out, size_t out_bytes)
{
    char piece[64];

    if (client == NULL) {
        (void)snprintf(out, out_bytes, "merged.hlog");
        return;
    }
    (void)coord_path_piece(client, piece, sizeof(piece));
    if (copy < 2)
        (void)snprintf(out, out_bytes, "%s%s.hlog",
                       strncmp(piece, "client-", 7) == 0 ? "" : "client-", piece);
    else
        (void)snprintf(out, out_bytes, "client-%s.%u.hlog", piece, copy);
}

enum ls_err coord_sync_folder(const char *path, struct ls_diag *diag)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && fsync(fd) == 0;
    int error = errno;

    if (fd >= 0)
        (void)close(fd);
    if (!ok)
        return ls_fail(diag, LS_EIO, "cannot bring %s to the disk: %s", path, strerror(error));
    return LS_OK;
}

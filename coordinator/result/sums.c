#include "coordinator/result/sums.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"

enum { HEX = LS_SHA256_HEX - 1 };

void coord_sums_fini(struct coord_sums *sums)
{
    for (size_t i = 0; i < sums->n; i++)
        free(sums->items[i].path);
    free(sums->items);
    *sums = (struct coord_sums){ 0 };
}

static struct coord_sum *find(const struct coord_sums *sums, const char *path)
{
    for (size_t i = 0; i < sums->n; i++) {
        if (strcmp(sums->items[i].path, path) == 0)
            return &sums->items[i];
    }
    return NULL;
}

bool coord_sums_set(struct coord_sums *sums, const char *path, const char hex[LS_SHA256_HEX])
{
    struct coord_sum *sum = find(sums, path);
    struct coord_sum *items;
    char *copy;

    if (sum == NULL) {
        copy = strdup(path);
        if (copy == NULL)
            return false;
        items = realloc(sums->items, (sums->n + 1) * sizeof(*items));
        if (items == NULL) {
            free(copy);
            return false;
        }
        sums->items = items;
        sum = &items[sums->n++];
        sum->path = copy;
    }
    (void)memcpy(sum->hex, hex, HEX);
    sum->hex[HEX] = '\0';
    return true;
}

const char *coord_sums_find(const struct coord_sums *sums, const char *path)
{
    const struct coord_sum *sum = find(sums, path);

    return sum != NULL ? sum->hex : NULL;
}

void coord_sums_drop(struct coord_sums *sums, const char *prefix)
{
    size_t kept = 0;

    for (size_t i = 0; i < sums->n; i++) {
        if (strncmp(sums->items[i].path, prefix, strlen(prefix)) == 0)
            free(sums->items[i].path);
        else
            sums->items[kept++] = sums->items[i];
    }
    sums->n = kept;
}

static int by_path(const void *a, const void *b)
{
    const struct coord_sum *x = a, *y = b;

    return strcmp(x->path, y->path);
}

void coord_sums_format(struct coord_sums *sums, struct ls_buf *out)
{
    if (sums->n > 1)
        qsort(sums->items, sums->n, sizeof(*sums->items), by_path);
    for (size_t i = 0; i < sums->n; i++)
        ls_buf_addf(out, "%s  %s\n", sums->items[i].hex, sums->items[i].path);
}

/* Relative, printable, and never up: what we write ourselves is a small part of this. */
static bool path_is_ours(const char *path)
{
    if (path[0] == '\0' || path[0] == '/')
        return false;
    for (const char *p = path; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '\\')
            return false;
    }
    for (const char *p = path; p != NULL; p = strchr(p, '/')) {
        p += *p == '/';
        if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || p[2] == '\0'))
            return false;
    }
    return true;
}

static bool parse_line(const char *line, size_t len, char hex[LS_SHA256_HEX], char *path,
                       size_t path_bytes)
{
    if (len < HEX + 3 || len - HEX - 2 >= path_bytes)
        return false;
    if (strspn(line, "0123456789abcdef") != HEX || memcmp(line + HEX, "  ", 2) != 0)
        return false;
    (void)memcpy(hex, line, HEX);
    hex[HEX] = '\0';
    (void)memcpy(path, line + HEX + 2, len - HEX - 2);
    path[len - HEX - 2] = '\0';
    return path_is_ours(path);
}

enum ls_err coord_sums_parse(struct coord_sums *sums, struct ls_bytes text, struct ls_diag *diag)
{
    const char *at = (const char *)text.data;
    size_t left = text.len;
    enum ls_err rc = LS_OK;

    for (unsigned number = 1; left > 0 && rc == LS_OK; number++) {
        const char *end = memchr(at, '\n', left);
        char hex[LS_SHA256_HEX], path[PATH_MAX];

        if (end == NULL || !parse_line(at, (size_t)(end - at), hex, path, sizeof(path)))
            rc = ls_fail(diag, LS_EPROTO, "line %u of " COORD_SUMS_FILE " is not \"SHA-256  path\"",
                         number);
        else if (!coord_sums_set(sums, path, hex))
            rc = ls_fail(diag, LS_ENOMEM, "no memory for " COORD_SUMS_FILE);
        else {
            left -= (size_t)(end - at) + 1;
            at = end + 1;
        }
    }
    if (rc != LS_OK)
        coord_sums_fini(sums);
    return rc;
}

enum ls_err coord_sums_read(struct coord_sums *sums, const char *dir, struct ls_diag *diag)
{
    char path[PATH_MAX];
    struct stat st;
    char *text = NULL;
    size_t len = 0;
    enum ls_err rc;

    if (snprintf(path, sizeof(path), "%s/" COORD_SUMS_FILE, dir) >= (int)sizeof(path))
        return ls_fail(diag, LS_ERANGE, "the path %.100s... is too long", dir);
    if (lstat(path, &st) != 0)
        return ls_fail(diag, LS_ESTATE, "%s is not there", path);
    rc = ls_fs_read(path, COORD_SUMS_MAX_BYTES, &text, &len, diag);
    if (rc == LS_OK) {
        rc = coord_sums_parse(sums, (struct ls_bytes){ .data = (unsigned char *)text, .len = len },
                              diag);
        free(text);
    }
    if (rc != LS_OK)
        return ls_fail_in(diag, rc, "%s", dir);
    return LS_OK;
}

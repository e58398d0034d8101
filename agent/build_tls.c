#include "agent/build_tls.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 256 };

struct agent_build_tls {
    struct load_tls settings;
    unsigned char *files[3]; /* owned: CA, certificate, key */
    char **alpn;             /* owned, and its entries */
    size_t alpn_count;
    char *ciphers; /* owned */
    char server_name[NAME_BYTES];
};

void agent_build_tls_destroy(struct agent_build_tls *tls)
{
    if (tls == NULL)
        return;
    for (size_t i = 0; i < LS_ARRAY_LEN(tls->files); i++)
        free(tls->files[i]);
    for (size_t i = 0; i < tls->alpn_count; i++)
        free(tls->alpn[i]);
    free(tls->alpn);
    free(tls->ciphers);
    free(tls);
}

const struct load_tls *agent_build_tls_get(const struct agent_build_tls *tls)
{
    return &tls->settings;
}

/* A copy of the file that the plan names by path. */
static enum ls_err take_file(const Ls__Prepare *prepare, const struct agent_files *files,
                             const char *path, unsigned char **out_copy, struct ls_bytes *out,
                             struct ls_diag *diag)
{
    struct ls_bytes content;
    size_t i = 0;
    enum ls_err rc;

    if (path == NULL)
        return LS_OK;
    while (i < prepare->n_plan_files && strcmp(prepare->plan_files[i]->name, path) != 0)
        i++;
    if (i == prepare->n_plan_files)
        return ls_fail(diag, LS_EPROTO, "PREPARE came without the file %.120s", path);
    rc = agent_files_get(files, prepare->plan_files[i]->sha256, &content, diag);
    if (rc != LS_OK)
        return rc;
    *out_copy = malloc(content.len + 1);
    if (*out_copy == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for %.120s", path);
    if (content.len > 0)
        (void)memcpy(*out_copy, content.data, content.len);
    *out = (struct ls_bytes){ *out_copy, content.len };
    return LS_OK;
}

/* The host of "name:port" or "[v6]:port"; an address without brackets is taken as it stands. */
static enum ls_err take_name(struct agent_build_tls *tls, const char *host, struct ls_diag *diag)
{
    size_t len = strlen(host);
    const char *colon = strchr(host, ':');

    if (host[0] == '[') {
        host++;
        len = strcspn(host, "]");
    } else if (colon != NULL && strchr(colon + 1, ':') == NULL) {
        len = (size_t)(colon - host);
    }
    if (len == 0 || len >= sizeof(tls->server_name))
        return ls_fail(diag, LS_EINVAL, "'%.60s' gives TLS no name of the server: set server_name",
                       host);
    (void)memcpy(tls->server_name, host, len);
    tls->server_name[len] = '\0';
    tls->settings.server_name = tls->server_name;
    return LS_OK;
}

static enum ls_err take_texts(struct agent_build_tls *tls, const Ls__Tls *in, struct ls_diag *diag)
{
    bool ok = true;

    tls->alpn = calloc(in->n_alpn + 1, sizeof(char *));
    while (tls->alpn != NULL && ok && tls->alpn_count < in->n_alpn) {
        tls->alpn[tls->alpn_count] = strdup(in->alpn[tls->alpn_count]);
        ok = tls->alpn[tls->alpn_count++] != NULL;
    }
    if (in->ciphers != NULL)
        tls->ciphers = strdup(in->ciphers);
    if (tls->alpn == NULL || !ok || (in->ciphers != NULL && tls->ciphers == NULL))
        return ls_fail(diag, LS_ENOMEM, "out of memory for TLS settings");
    tls->settings.alpn = (const char *const *)tls->alpn;
    tls->settings.ciphers = tls->ciphers;
    return LS_OK;
}

static uint16_t version_of(const char *text)
{
    return strcmp(text, "1.2") == 0 ? 0x0303 : 0x0304;
}

enum ls_err agent_build_tls(const Ls__Prepare *prepare, const struct agent_files *files,
                            const char *host, bool http2, struct agent_build_tls **out_tls,
                            struct ls_diag *diag)
{
    static const char *const only_h2[] = { "h2", NULL };
    const Ls__Tls *in = prepare->target->tls;
    struct agent_build_tls *tls = calloc(1, sizeof(*tls));
    struct load_tls *set;
    enum ls_err rc;

    if (tls == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory for TLS settings");
    set = &tls->settings;
    set->verify = in->verify;
    set->resume = in->resume;
    set->min_version = version_of(in->min_version);
    set->max_version = version_of(in->max_version);
    rc = take_name(tls, in->server_name != NULL ? in->server_name : host, diag);
    if (rc == LS_OK)
        rc = take_texts(tls, in, diag);
    if (http2) {
        set->alpn = only_h2;
        set->alpn_required = true;
    }
    if (rc == LS_OK)
        rc = take_file(prepare, files, in->ca_file, &tls->files[0], &set->ca, diag);
    if (rc == LS_OK)
        rc = take_file(prepare, files, in->certificate_file, &tls->files[1], &set->certificate,
                       diag);
    if (rc == LS_OK)
        rc = take_file(prepare, files, in->key_file, &tls->files[2], &set->key, diag);
    if (rc != LS_OK) {
        agent_build_tls_destroy(tls);
        return rc;
    }
    *out_tls = tls;
    return LS_OK;
}

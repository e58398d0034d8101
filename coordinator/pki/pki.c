#include "coordinator/pki/pki.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/msg_json.h"
#include "coordinator/pki/authority.h"
#include "coordinator/pki/keys_folder.h"
#include "coordinator/result/message.h"

#define DAY_S         INT64_C(86400)
#define CRL_DAYS_MIN  30
#define PEM_MAX_BYTES (1u << 20)
#define RECORD_MAX    (64u << 20)

/* A pki that is being worked in. */
struct pki {
    const char *dir;
    int lock_fd;
    int64_t now_s;
    struct coord_authority *authority; /* owned */
    char *ca_pem;                      /* owned */
    Ls__Pki *record;                   /* owned */
};

static enum ls_err path_in(const char *dir, const char *name, char out[PATH_MAX],
                           struct ls_diag *diag)
{
    int used = snprintf(out, PATH_MAX, "%s/%s", dir, name);

    if (used < 0 || used >= PATH_MAX)
        return ls_fail(diag, LS_ERANGE, "the path of %.100s... is too long", dir);
    return LS_OK;
}

static enum ls_err read_text(const char *dir, const char *name, size_t max_bytes, char **out,
                             struct ls_diag *diag)
{
    char path[PATH_MAX];
    size_t len = 0;
    enum ls_err rc = path_in(dir, name, path, diag);

    return rc == LS_OK ? ls_fs_read(path, max_bytes, out, &len, diag) : rc;
}

static enum ls_err write_text(const char *dir, const char *name, const char *text, mode_t mode,
                              struct ls_diag *diag)
{
    char path[PATH_MAX];
    enum ls_err rc = path_in(dir, name, path, diag);

    if (rc != LS_OK)
        return rc;
    return ls_fs_write(path, (struct ls_bytes){ (const unsigned char *)text, strlen(text) }, mode,
                       diag);
}

/* ---- the record ---- */

static enum ls_err read_record(const char *dir, Ls__Pki **out, struct ls_diag *diag)
{
    ProtobufCMessage *message = NULL;
    char *text = NULL;
    enum ls_err rc = read_text(dir, "issued.json", RECORD_MAX, &text, diag);

    if (rc != LS_OK)
        return rc;
    rc = ls_msg_from_json(&ls__pki__descriptor,
                          (struct ls_bytes){ (const unsigned char *)text, strlen(text) }, &message,
                          diag);
    free(text);
    if (rc != LS_OK)
        return ls_fail_in(diag, rc, "%s/issued.json", dir);
    *out = (Ls__Pki *)(void *)message;
    if ((*out)->version == COORD_PKI_VERSION)
        return LS_OK;
    rc = ls_fail(diag, LS_EINVAL, "%s/issued.json has version %u, and this program knows %u", dir,
                 (unsigned)(*out)->version, COORD_PKI_VERSION);
    coord_message_free(*out);
    *out = NULL;
    return rc;
}

static enum ls_err write_record(const struct pki *pki, struct ls_diag *diag)
{
    char *text = ls_msg_to_json(&pki->record->base, 2);
    enum ls_err rc = text != NULL ? write_text(pki->dir, "issued.json", text, 0600, diag)
                                  : ls_fail(diag, LS_ENOMEM, "no memory for the record");

    free(text);
    return rc;
}

static bool is_in_force(const struct pki *pki, const Ls__IssuedCertificate *entry)
{
    char now[32];

    coord_pki_format_time(pki->now_s, now);
    return entry->revoked_at[0] == '\0' && strcmp(entry->not_after, now) > 0;
}

/* ---- the list of revoked certificates ---- */

/* A list is good for as long as there is something that it is about: it is never what ends first.
 */
static int64_t next_list_s(const struct pki *pki)
{
    int64_t end_s = coord_authority_end_s(pki->authority);
    int64_t next_s = pki->now_s + CRL_DAYS_MIN * DAY_S;

    for (size_t i = 0; i < pki->record->n_issued; i++) {
        int64_t until_s = coord_pki_parse_time(pki->record->issued[i]->not_after);

        if (until_s > next_s)
            next_s = until_s;
    }
    return next_s < end_s ? next_s : end_s;
}

/* The record is written first: what is in it can always be made into a list again. */
static enum ls_err write_list(struct pki *pki, char **out_text, struct ls_diag *diag)
{
    char *text = NULL;
    enum ls_err rc;

    pki->record->crl_number++;
    rc = write_record(pki, diag);
    if (rc == LS_OK)
        rc = coord_authority_crl(pki->authority, pki->record, pki->now_s, next_list_s(pki), &text,
                                 diag);
    if (rc == LS_OK)
        rc = write_text(pki->dir, "crl.pem", text, 0644, diag);
    if (rc == LS_OK && out_text != NULL) {
        *out_text = text;
        text = NULL;
    }
    free(text);
    return rc;
}

/* ---- opening ---- */

static void close_pki(struct pki *pki)
{
    coord_authority_destroy(pki->authority);
    coord_message_free(pki->record);
    free(pki->ca_pem);
    if (pki->lock_fd >= 0)
        (void)close(pki->lock_fd); /* the lock goes with it */
}

static enum ls_err read_authority(struct pki *pki, struct ls_diag *diag)
{
    char path[PATH_MAX];
    struct stat st;
    char *key = NULL;
    enum ls_err rc = path_in(pki->dir, "ca-key.pem", path, diag);

    if (rc == LS_OK && stat(path, &st) == 0 && (st.st_mode & 077) != 0)
        return ls_fail(diag, LS_ESTATE,
                       "%s has mode %04o: whoever can read it can make agents and coordinators "
                       "(chmod 600 %s, or begin anew if somebody may have)",
                       path, (unsigned)st.st_mode & 07777u, path);
    if (rc == LS_OK)
        rc = read_text(pki->dir, "ca.pem", PEM_MAX_BYTES, &pki->ca_pem, diag);
    if (rc == LS_OK)
        rc = read_text(pki->dir, "ca-key.pem", PEM_MAX_BYTES, &key, diag);
    if (rc == LS_OK)
        rc = coord_authority_read(pki->ca_pem, key, &pki->authority, diag);
    coord_pki_free_key(key);
    return rc == LS_EINVAL ? ls_fail_in(diag, rc, "%s", pki->dir) : rc;
}

/* On any return but LS_OK there is nothing to close. */
static enum ls_err open_pki(const char *dir, struct pki *out, struct ls_diag *diag)
{
    struct pki pki = { .dir = dir, .now_s = ls_clock_wall_ns() / LS_NS_PER_S };
    enum ls_err rc = LS_OK;
    char path[PATH_MAX];

    rc = path_in(dir, "issued.json", path, diag);
    if (rc == LS_OK && access(path, F_OK) != 0 && errno == ENOENT)
        return ls_fail(diag, LS_EINVAL,
                       "%s: there is no pki ('lockstep pki init %s' makes one, --pki DIR names "
                       "another)",
                       dir, dir);
    pki.lock_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (pki.lock_fd < 0)
        return ls_fail(diag, LS_EIO, "cannot open %s: %s", dir, strerror(errno));
    while (rc == LS_OK && flock(pki.lock_fd, LOCK_EX) != 0) {
        if (errno != EINTR)
            rc = ls_fail(diag, LS_EIO, "cannot lock %s: %s", dir, strerror(errno));
    }
    if (rc == LS_OK)
        rc = read_record(dir, &pki.record, diag);
    if (rc == LS_OK)
        rc = read_authority(&pki, diag);
    if (rc != LS_OK) {
        close_pki(&pki);
        return rc;
    }
    *out = pki;
    return LS_OK;
}

/* ---- init ---- */

static Ls__Pki *new_record(const char *name, int64_t end_s)
{
    Ls__Pki *record = coord_message_new(&ls__pki__descriptor);
    char end[32];

    coord_pki_format_time(end_s, end);
    if (record == NULL)
        return NULL;
    record->version = COORD_PKI_VERSION;
    if (coord_message_string(&record->name, name) && coord_message_string(&record->not_after, end))
        return record;
    coord_message_free(record);
    return NULL;
}

static enum ls_err fill_new(struct pki *pki, const char *name, int64_t end_s, struct ls_diag *diag)
{
    char *key = NULL;
    enum ls_err rc = coord_authority_create(name, pki->now_s, end_s, &pki->authority, diag);

    if (rc != LS_OK)
        return rc;
    pki->record = new_record(name, end_s);
    pki->ca_pem = coord_authority_certificate(pki->authority);
    key = coord_authority_key(pki->authority);
    if (pki->record == NULL || pki->ca_pem == NULL || key == NULL)
        rc = ls_fail(diag, LS_ENOMEM, "no memory for a pki");
    if (rc == LS_OK)
        rc = write_text(pki->dir, "ca-key.pem", key, 0600, diag);
    if (rc == LS_OK)
        rc = write_text(pki->dir, "ca.pem", pki->ca_pem, 0644, diag);
    if (rc == LS_OK)
        rc = write_list(pki, NULL, diag);
    coord_pki_free_key(key);
    return rc;
}

enum ls_err coord_pki_init(const char *dir, const char *name, uint32_t days, struct ls_diag *diag)
{
    struct pki pki = { .lock_fd = -1, .now_s = ls_clock_wall_ns() / LS_NS_PER_S };
    char fresh[PATH_MAX];
    enum ls_err rc;

    if (!ls_identity_name_is_fine(name))
        return ls_fail(diag, LS_EINVAL,
                       "--name %.80s: use 1 to %u letters, digits, '.', '_' and '-', and begin "
                       "with a letter or digit",
                       name, LS_IDENTITY_NAME_MAX);
    if (days == 0 || days > COORD_PKI_CA_DAYS_MAX)
        return ls_fail(diag, LS_ERANGE, "an authority lasts 1 to %u days", COORD_PKI_CA_DAYS_MAX);
    rc = coord_keys_folder_begin(dir, fresh, diag);
    if (rc != LS_OK)
        return rc;
    pki.dir = fresh;
    rc = fill_new(&pki, name, pki.now_s + days * DAY_S, diag);
    close_pki(&pki);
    return coord_keys_folder_end(fresh, dir, rc, diag);
}

/* ---- issue ---- */

static const Ls__IssuedCertificate *newest_of(const struct pki *pki, const char *uri)
{
    for (size_t i = pki->record->n_issued; i-- > 0;) {
        if (strcmp(pki->record->issued[i]->uri, uri) == 0)
            return pki->record->issued[i];
    }
    return NULL;
}

static const Ls__IssuedCertificate *in_force_of(const struct pki *pki, const char *uri)
{
    for (size_t i = 0; i < pki->record->n_issued; i++) {
        const Ls__IssuedCertificate *entry = pki->record->issued[i];

        if (strcmp(entry->uri, uri) == 0 && is_in_force(pki, entry))
            return entry;
    }
    return NULL;
}

/* What the certificate is to say, from what was asked and what was before. */
static enum ls_err settle(const struct pki *pki, const struct coord_pki_issue *asked,
                          struct coord_pki_want *out, struct ls_diag *diag)
{
    const char *role = ls_identity_role_name(asked->role);
    int64_t left_s = coord_authority_end_s(pki->authority) - pki->now_s;
    const Ls__IssuedCertificate *before;
    char uri[LS_IDENTITY_URI_MAX];

    *out = (struct coord_pki_want){ .role = asked->role,
                                    .name = asked->name,
                                    .hosts = asked->hosts,
                                    .host_count = asked->host_count,
                                    .now_s = pki->now_s,
                                    .end_s = pki->now_s + asked->days * DAY_S };
    (void)snprintf(uri, sizeof(uri), "lockstep:%s/%s", role, asked->name);
    before = in_force_of(pki, uri);
    if (before != NULL && !asked->renew)
        return ls_fail(diag, LS_ESTATE,
                       "%s %s has a certificate until %s: --renew makes its next one, 'pki revoke' "
                       "ends it",
                       role, asked->name, before->not_after);
    before = newest_of(pki, uri);
    if (asked->renew && asked->host_count == 0 && before != NULL) {
        out->hosts = (const char *const *)before->hosts;
        out->host_count = before->n_hosts;
    }
    if (asked->role == LS_IDENTITY_COORDINATOR && out->host_count == 0)
        return ls_fail(diag, LS_EINVAL,
                       "a coordinator needs --host NAME_OR_ADDRESS: what its agents dial (may be "
                       "given several times)");
    if (left_s < DAY_S)
        return ls_fail(diag, LS_ERANGE,
                       "the authority ends at %s: make a new one ('lockstep pki init') and "
                       "certificates by it",
                       pki->record->not_after);
    if (asked->days * DAY_S > left_s)
        return ls_fail(diag, LS_ERANGE, "--days %u: the authority itself ends in %u days",
                       (unsigned)asked->days, (unsigned)(left_s / DAY_S));
    return LS_OK;
}

static enum ls_err remember(struct pki *pki, const Ls__IssuedCertificate *record,
                            struct ls_diag *diag)
{
    Ls__IssuedCertificate **bigger =
        realloc(pki->record->issued, (pki->record->n_issued + 1) * sizeof(Ls__IssuedCertificate *));
    Ls__IssuedCertificate *copy;

    if (bigger == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for the record");
    pki->record->issued = bigger;
    copy = coord_message_copy(record);
    if (copy == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for the record");
    bigger[pki->record->n_issued++] = copy;
    return LS_OK;
}

static enum ls_err issue_into(struct pki *pki, const struct coord_pki_issue *asked,
                              const char *folder, Ls__IssuedCertificate **out_record,
                              struct ls_diag *diag)
{
    struct coord_keys_folder files = { .ca = pki->ca_pem };
    struct coord_pki_want want;
    Ls__IssuedCertificate *record = NULL;
    char *certificate = NULL;
    char *key = NULL;
    char *list = NULL;
    enum ls_err rc = settle(pki, asked, &want, diag);

    if (rc == LS_OK)
        rc = coord_authority_issue(pki->authority, &want, &certificate, &key, &record, diag);
    if (rc == LS_OK)
        rc = remember(pki, record, diag);
    if (rc == LS_OK)
        rc = write_list(pki, &list, diag);
    if (rc == LS_OK) {
        files.certificate = certificate;
        files.key = key;
        files.crl = list;
        rc = coord_keys_folder_write(folder, &files, asked->renew, diag);
    }
    if (rc == LS_OK)
        *out_record = record;
    else
        coord_message_free(record);
    free(certificate);
    coord_pki_free_key(key);
    free(list);
    return rc;
}

enum ls_err coord_pki_issue(const struct coord_pki_issue *want, char **out_folder,
                            Ls__IssuedCertificate **out_record, struct ls_diag *diag)
{
    struct pki pki;
    char *folder = NULL;
    enum ls_err rc;

    if (want->days == 0 || want->days > COORD_PKI_LEAF_DAYS_MAX)
        return ls_fail(diag, LS_ERANGE, "--days %u: a certificate lasts 1 to %u days",
                       (unsigned)want->days, COORD_PKI_LEAF_DAYS_MAX);
    if (want->out != NULL)
        folder = strdup(want->out);
    else if (asprintf(&folder, "%s/issued/%s-%s", want->dir, ls_identity_role_name(want->role),
                      want->name) < 0)
        folder = NULL;
    if (folder == NULL)
        return ls_fail(diag, LS_ENOMEM, "out of memory");
    rc = open_pki(want->dir, &pki, diag);
    if (rc == LS_OK) {
        rc = coord_keys_folder_check(folder, want->renew, diag); /* before anything is recorded */
        if (rc == LS_OK)
            rc = issue_into(&pki, want, folder, out_record, diag);
        close_pki(&pki);
    }
    if (rc == LS_OK)
        *out_folder = folder;
    else
        free(folder);
    return rc;
}

/* ---- revoke ---- */

static bool is_meant(const Ls__IssuedCertificate *entry, const char *who)
{
    const char *holder = entry->uri + strlen("lockstep:");
    const char *slash = strchr(entry->uri, '/');

    return strncmp(entry->uri, "lockstep:", strlen("lockstep:")) == 0 && slash != NULL &&
           (strcmp(holder, who) == 0 || strcmp(slash + 1, who) == 0 ||
            strcasecmp(entry->serial, who) == 0);
}

static enum ls_err mark_revoked(struct pki *pki, const char *who, uint32_t *out_count,
                                struct ls_diag *diag)
{
    const char *uri = NULL;
    uint32_t count = 0;
    char now[32];

    coord_pki_format_time(pki->now_s, now);
    for (size_t i = 0; i < pki->record->n_issued; i++) {
        if (!is_meant(pki->record->issued[i], who))
            continue;
        if (uri != NULL && strcmp(uri, pki->record->issued[i]->uri) != 0)
            return ls_fail(diag, LS_EINVAL,
                           "'%.80s' may be %s or %s: say agent/%s or coordinator/%s", who, uri,
                           pki->record->issued[i]->uri, who, who);
        uri = pki->record->issued[i]->uri;
    }
    if (uri == NULL)
        return ls_fail(diag, LS_EINVAL,
                       "'%.80s' was not issued here: 'lockstep pki show %s' lists what was", who,
                       pki->dir);
    for (size_t i = 0; i < pki->record->n_issued; i++) {
        Ls__IssuedCertificate *entry = pki->record->issued[i];

        if (!is_meant(entry, who) || !is_in_force(pki, entry))
            continue;
        if (!coord_message_string(&entry->revoked_at, now))
            return ls_fail(diag, LS_ENOMEM, "no memory for the record");
        count++;
    }
    if (count == 0)
        return ls_fail(diag, LS_ESTATE, "all certificates of %s are revoked or have ended already",
                       uri);
    *out_count = count;
    return LS_OK;
}

enum ls_err coord_pki_revoke(const char *dir, const char *who, uint32_t *out_count,
                             struct ls_diag *diag)
{
    char issued[PATH_MAX];
    struct pki pki;
    char *list = NULL;
    uint32_t count = 0;
    enum ls_err rc = open_pki(dir, &pki, diag);

    if (rc != LS_OK)
        return rc;
    rc = mark_revoked(&pki, who, &count, diag);
    if (rc == LS_OK)
        rc = write_list(&pki, &list, diag);
    if (rc == LS_OK)
        rc = path_in(dir, "issued", issued, diag);
    if (rc == LS_OK)
        rc = coord_keys_folders_set_crl(issued, list, diag);
    if (rc == LS_OK)
        *out_count = count;
    free(list);
    close_pki(&pki);
    return rc;
}

/* ---- show ---- */

static enum ls_err show_certificate(const char *path, Ls__Pki **out, struct ls_diag *diag)
{
    Ls__IssuedCertificate *entry = NULL;
    Ls__Pki *record = NULL;
    char *text = NULL;
    size_t len = 0;
    enum ls_err rc = ls_fs_read(path, PEM_MAX_BYTES, &text, &len, diag);

    if (rc != LS_OK)
        return rc;
    rc = coord_pki_describe(text, &entry, diag);
    free(text);
    if (rc != LS_OK)
        return ls_fail_in(diag, rc, "%s", path);
    record = coord_message_new(&ls__pki__descriptor);
    if (record != NULL)
        record->issued = calloc(1, sizeof(Ls__IssuedCertificate *));
    if (record == NULL || record->issued == NULL) {
        coord_message_free(record);
        coord_message_free(entry);
        return ls_fail(diag, LS_ENOMEM, "out of memory");
    }
    record->version = COORD_PKI_VERSION;
    record->issued[record->n_issued++] = entry;
    *out = record;
    return LS_OK;
}

enum ls_err coord_pki_show(const char *path, Ls__Pki **out, struct ls_diag *diag)
{
    char inside[PATH_MAX];
    struct stat st;
    enum ls_err rc;

    if (stat(path, &st) != 0)
        return ls_fail(diag, LS_EINVAL, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return show_certificate(path, out, diag);
    rc = path_in(path, "issued.json", inside, diag);
    if (rc == LS_OK && access(inside, F_OK) == 0)
        return read_record(path, out, diag);
    if (rc == LS_OK)
        rc = path_in(path, "cert.pem", inside, diag);
    if (rc == LS_OK && access(inside, F_OK) == 0)
        return show_certificate(inside, out, diag);
    if (rc == LS_OK)
        rc = ls_fail(diag, LS_EINVAL,
                     "%s: neither a pki (issued.json) nor a folder of keys (cert.pem)", path);
    return rc;
}

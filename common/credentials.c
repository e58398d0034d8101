#include "common/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/tls_impl.h"

enum { FILE_CA, FILE_CERT, FILE_KEY, FILE_CRL, FILE_COUNT };

static const char *const file_names[FILE_COUNT] = { "ca.pem", "cert.pem", "key.pem", "crl.pem" };

/* What tells one state of a file from another without reading it. */
struct mark {
    dev_t device;
    ino_t inode;
    off_t bytes;
    struct timespec modified;
    struct timespec changed;
};

/* One consistent set of files, as OpenSSL takes it. */
struct set {
    SSL_CTX *ctx; /* owned */
    struct ls_identity identity;
    int64_t begin_wall_ns;
    int64_t expiry_wall_ns;
    bool has_crl;
};

struct ls_credentials {
    atomic_uint holders;
    char *dir; /* owned */
    enum ls_identity_role wanted;
    struct ls_identity identity;
    pthread_mutex_t mutex; /* guards what follows */
    struct set set;
    unsigned generation;           /* of set; from 1 on */
    struct mark marks[FILE_COUNT]; /* of the last attempt, good or bad */
    bool news;
    bool news_good;
    char news_text[sizeof(((struct ls_diag *)0)->text)];
};

/* ---- the files */

static void path_of(const char *dir, int which, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%s/%s", dir, file_names[which]);
}

static void look(const char *dir, struct mark out[FILE_COUNT])
{
    char path[PATH_MAX];
    struct stat st;

    memset(out, 0, FILE_COUNT * sizeof(out[0])); /* padding too: marks are compared as bytes */
    for (int i = 0; i < FILE_COUNT; i++) {
        path_of(dir, i, path);
        if (stat(path, &st) != 0)
            continue;
        out[i].device = st.st_dev;
        out[i].inode = st.st_ino;
        out[i].bytes = st.st_size;
        out[i].modified = st.st_mtim;
        out[i].changed = st.st_ctim;
    }
}

/* Whoever can change a file of ours decides whom we trust; whoever can read the key is us. A key
 * of root's that this user was given by its group is fine. */
static enum ls_err check_safe(const struct stat *st, const char *path, bool secret,
                              struct ls_diag *diag)
{
    mode_t bad = secret ? 077 : 022;

    if (st->st_uid != 0 && st->st_uid != geteuid())
        return ls_fail(diag, LS_EREFUSED,
                       "%s belongs to user %u, who could change it: it must be this user's (%u) or "
                       "root's",
                       path, (unsigned)st->st_uid, (unsigned)geteuid());
    if (secret && st->st_uid == 0 && geteuid() != 0)
        bad = 037;
    if ((st->st_mode & bad) != 0)
        return ls_fail(diag, LS_EREFUSED, "%s has mode %04o, so that others can %s it: chmod %s %s",
                       path, (unsigned)st->st_mode & 07777u, secret ? "read" : "change",
                       secret ? "600" : "go-w", path);
    return LS_OK;
}

static enum ls_err check_folder(const char *dir, struct ls_diag *diag)
{
    struct stat st;

    if (stat(dir, &st) != 0)
        return ls_fail(diag, LS_EREFUSED,
                       "%s: %s (want a folder of keys, made with 'lockstep pki issue')", dir,
                       strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return ls_fail(diag, LS_EREFUSED,
                       "%s is not a folder (want one of keys, made with 'lockstep pki issue')",
                       dir);
    return check_safe(&st, dir, false, diag);
}

/* The file's content as a BIO of its own memory. *out stays NULL if the file is not there. */
static enum ls_err read_file(const char *dir, int which, BIO **out, struct ls_diag *diag)
{
    char path[PATH_MAX];
    char piece[4096];
    enum ls_err rc;
    struct stat st;
    BIO *bio = NULL;
    ssize_t got = 0;
    int fd;

    path_of(dir, which, path);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hold us up */
    if (fd < 0 && errno == ENOENT)
        return LS_OK;
    if (fd < 0)
        return ls_fail(diag, LS_EREFUSED, "cannot open %s: %s", path, strerror(errno));
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > LS_CREDENTIALS_FILE_MAX) {
        rc = ls_fail(diag, LS_EREFUSED, "%s is not a file of at most %u bytes", path,
                     LS_CREDENTIALS_FILE_MAX);
        goto out;
    }
    rc = check_safe(&st, path, which == FILE_KEY, diag);
    if (rc != LS_OK)
        goto out;
    bio = BIO_new(which == FILE_KEY ? BIO_s_secmem() : BIO_s_mem());
    while (bio != NULL && (got = read(fd, piece, sizeof(piece))) > 0) {
        if (BIO_write(bio, piece, (int)got) != (int)got)
            break;
    }
    OPENSSL_cleanse(piece, sizeof(piece));
    if (bio == NULL || got > 0)
        rc = ls_fail(diag, LS_ENOMEM, "no memory to read %s", path);
    else if (got < 0)
        rc = ls_fail(diag, LS_EREFUSED, "cannot read %s: %s", path, strerror(errno));
    if (rc == LS_OK) {
        *out = bio;
        bio = NULL;
    }
out:
    (void)BIO_free(bio);
    (void)close(fd);
    return rc;
}

/* A key with a passphrase is not asked for one: nobody is there to answer. */
static int no_passphrase(char *out, int bytes, int writing, void *ctx)
{
    (void)out;
    (void)bytes;
    (void)writing;
    (void)ctx;
    return -1;
}

/* ---- from files to a context */

static bool add_authorities(SSL_CTX *ctx, BIO *bio)
{
    X509_STORE *store = SSL_CTX_get_cert_store(ctx);
    unsigned count = 0;
    bool ok = true;
    X509 *certificate;

    while (ok && (certificate = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL)) != NULL) {
        ok = X509_STORE_add_cert(store, certificate) == 1;
        X509_free(certificate);
        count++;
    }
    return ok && count > 0;
}

static bool add_revocations(SSL_CTX *ctx, BIO *bio)
{
    X509_STORE *store = SSL_CTX_get_cert_store(ctx);
    unsigned count = 0;
    bool ok = true;
    X509_CRL *crl;

    while (ok && (crl = PEM_read_bio_X509_CRL(bio, NULL, no_passphrase, NULL)) != NULL) {
        ok = X509_STORE_add_crl(store, crl) == 1;
        X509_CRL_free(crl);
        count++;
    }
    return ok && count > 0 && X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK) == 1;
}

static bool use_certificate(SSL_CTX *ctx, BIO *bio)
{
    X509 *certificate = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL);
    bool ok = certificate != NULL && SSL_CTX_use_certificate(ctx, certificate) == 1;

    X509_free(certificate);
    while (ok && (certificate = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL)) != NULL) {
        if (SSL_CTX_add0_chain_cert(ctx, certificate) != 1) {
            X509_free(certificate);
            ok = false;
        }
    }
    return ok;
}

static bool use_key(SSL_CTX *ctx, BIO *bio)
{
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL);
    bool ok = key != NULL && SSL_CTX_use_PrivateKey(ctx, key) == 1;

    EVP_PKEY_free(key);
    return ok;
}

static SSL_CTX *new_context(void)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_method());

    if (ctx == NULL)
        return NULL;
    if (SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_num_tickets(ctx, 0) != 1) {
        SSL_CTX_free(ctx);
        return NULL;
    }
    /* A resumed session would pass by a list of revoked certificates that is newer than it. */
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
    (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    (void)SSL_CTX_set_max_cert_list(ctx, 32 * 1024); /* what a stranger may make us take in */
    SSL_CTX_set_verify_depth(ctx, 3);
    return ctx;
}

static const char *openssl_reason(void)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());

    return reason != NULL ? reason : "it is empty";
}

/* Reads one file into ctx by use; what: for the sentence. */
static enum ls_err load(SSL_CTX *ctx, const char *dir, int which,
                        bool (*use)(SSL_CTX *ctx, BIO *bio), const char *what, bool *out_present,
                        struct ls_diag *diag)
{
    BIO *bio = NULL;
    enum ls_err rc = read_file(dir, which, &bio, diag);

    *out_present = bio != NULL;
    if (rc == LS_OK && bio != NULL) {
        ERR_clear_error();
        if (!use(ctx, bio))
            rc = ls_fail(diag, LS_EREFUSED, "%s/%s: no %s that can be used in it: %s", dir,
                         file_names[which], what, openssl_reason());
        ERR_clear_error();
    } else if (rc == LS_OK && which != FILE_CRL) {
        rc =
            ls_fail(diag, LS_EREFUSED, "%s/%s is missing (keys are made with 'lockstep pki issue')",
                    dir, file_names[which]);
    }
    (void)BIO_free(bio);
    return rc;
}

const char *ls_tls_verify_text(int error, char *out, size_t out_bytes)
{
    const char *text = X509_verify_cert_error_string(error);
    char now[32];

    if (error == X509_V_ERR_CERT_NOT_YET_VALID || error == X509_V_ERR_CERT_HAS_EXPIRED ||
        error == X509_V_ERR_CRL_NOT_YET_VALID || error == X509_V_ERR_CRL_HAS_EXPIRED) {
        ls_clock_format_wall(ls_clock_wall_ns(), now, sizeof(now));
        (void)snprintf(out, out_bytes, "%s (this host's clock says %s)", text, now);
    } else {
        (void)snprintf(out, out_bytes, "%s", text);
    }
    return out;
}

/* Would the other side take this certificate? Said here, it has a better explanation. */
static enum ls_err verify_own(SSL_CTX *ctx, const char *dir, const struct ls_identity *identity,
                              struct ls_diag *diag)
{
    bool agent = identity->role == LS_IDENTITY_AGENT;
    X509_STORE_CTX *verify = X509_STORE_CTX_new();
    STACK_OF(X509) *chain = NULL;
    enum ls_err rc = LS_OK;
    char why[160];

    (void)SSL_CTX_get0_chain_certs(ctx, &chain);
    if (verify == NULL ||
        X509_STORE_CTX_init(verify, SSL_CTX_get_cert_store(ctx), SSL_CTX_get0_certificate(ctx),
                            chain) != 1 ||
        X509_STORE_CTX_set_default(verify, agent ? "ssl_client" : "ssl_server") != 1)
        rc = ls_fail(diag, LS_ENOMEM, "no memory to verify the certificate in %s", dir);
    else if (X509_verify_cert(verify) != 1)
        rc = ls_fail(diag, LS_EREFUSED,
                     "%s: the certificate of %s is of no use: %s (a new one: 'lockstep pki issue "
                     "%s %s --renew')",
                     dir, identity->uri,
                     ls_tls_verify_text(X509_STORE_CTX_get_error(verify), why, sizeof(why)),
                     ls_identity_role_name(identity->role), identity->name);
    X509_STORE_CTX_free(verify);
    ERR_clear_error();
    return rc;
}

int64_t ls_certificate_expiry_wall_ns(const X509 *certificate)
{
    struct tm end;

    return ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) == 1
               ? (int64_t)timegm(&end) * LS_NS_PER_S
               : INT64_MAX;
}

static enum ls_err read_certificate(SSL_CTX *ctx, const char *dir, struct set *out,
                                    struct ls_diag *diag)
{
    X509 *certificate = SSL_CTX_get0_certificate(ctx);
    enum ls_err rc = ls_identity_of(certificate, &out->identity, diag);
    struct tm begin;

    if (rc != LS_OK)
        return ls_fail_in(diag, rc, "%s/%s", dir, file_names[FILE_CERT]);
    out->expiry_wall_ns = ls_certificate_expiry_wall_ns(certificate);
    if (ASN1_TIME_to_tm(X509_get0_notBefore(certificate), &begin) != 1 ||
        out->expiry_wall_ns == INT64_MAX)
        return ls_fail(diag, LS_EREFUSED, "%s/%s: its beginning or end is no time", dir,
                       file_names[FILE_CERT]);
    out->begin_wall_ns = (int64_t)timegm(&begin) * LS_NS_PER_S;
    return LS_OK;
}

/* All of a folder, or nothing. */
static enum ls_err read_set(const char *dir, struct set *out, struct ls_diag *diag)
{
    struct set set = { .ctx = new_context() };
    enum ls_err rc = check_folder(dir, diag);
    bool there;

    if (set.ctx == NULL)
        rc = ls_fail(diag, LS_ENOMEM, "%s: no memory for a TLS context", dir);
    if (rc == LS_OK)
        rc = load(set.ctx, dir, FILE_CA, add_authorities, "certificate", &there, diag);
    if (rc == LS_OK)
        rc = load(set.ctx, dir, FILE_CERT, use_certificate, "certificate", &there, diag);
    if (rc == LS_OK)
        rc = load(set.ctx, dir, FILE_KEY, use_key, "private key for the certificate beside it",
                  &there, diag);
    if (rc == LS_OK)
        rc = load(set.ctx, dir, FILE_CRL, add_revocations, "list of revoked certificates",
                  &set.has_crl, diag);
    if (rc == LS_OK)
        rc = read_certificate(set.ctx, dir, &set, diag);
    if (rc == LS_OK)
        rc = verify_own(set.ctx, dir, &set.identity, diag);
    if (rc != LS_OK) {
        SSL_CTX_free(set.ctx);
        return rc;
    }
    *out = set;
    return LS_OK;
}

/* ---- life */

enum ls_err ls_credentials_open(const char *dir, enum ls_identity_role wanted,
                                struct ls_credentials **out, struct ls_diag *diag)
{
    struct ls_credentials *c = calloc(1, sizeof(*c));
    enum ls_err rc;

    if (c == NULL || (c->dir = strdup(dir)) == NULL) {
        free(c);
        return ls_fail(diag, LS_ENOMEM, "%s: out of memory", dir);
    }
    if (strlen(dir) + sizeof("/cert.pem") > PATH_MAX)
        rc = ls_fail(diag, LS_EREFUSED, "the path of the folder of keys is too long");
    else {
        look(dir, c->marks);
        rc = read_set(dir, &c->set, diag);
    }
    if (rc == LS_OK && c->set.identity.role != wanted)
        rc = ls_fail(diag, LS_EREFUSED,
                     "%s holds the keys of %s, and this is %s %s: 'lockstep pki issue %s NAME' "
                     "makes the right ones",
                     dir, c->set.identity.uri, wanted == LS_IDENTITY_AGENT ? "an" : "a",
                     ls_identity_role_name(wanted), ls_identity_role_name(wanted));
    if (rc != LS_OK) {
        SSL_CTX_free(c->set.ctx);
        free(c->dir);
        free(c);
        return rc;
    }
    atomic_init(&c->holders, 1);
    c->wanted = wanted;
    c->generation = 1;
    c->identity = c->set.identity;
    (void)pthread_mutex_init(&c->mutex, NULL); /* without attributes it does not fail on Linux */
    *out = c;
    return LS_OK;
}

void ls_credentials_hold(struct ls_credentials *credentials)
{
    (void)atomic_fetch_add(&credentials->holders, 1);
}

void ls_credentials_close(struct ls_credentials *credentials)
{
    if (credentials == NULL || atomic_fetch_sub(&credentials->holders, 1) != 1)
        return;
    (void)pthread_mutex_destroy(&credentials->mutex);
    SSL_CTX_free(credentials->set.ctx);
    free(credentials->dir);
    free(credentials);
}

const struct ls_identity *ls_credentials_identity(const struct ls_credentials *credentials)
{
    return &credentials->identity;
}

const char *ls_credentials_folder(const struct ls_credentials *credentials)
{
    return credentials->dir;
}

bool ls_credentials_has_crl(struct ls_credentials *credentials)
{
    bool has_crl;

    (void)pthread_mutex_lock(&credentials->mutex);
    has_crl = credentials->set.has_crl;
    (void)pthread_mutex_unlock(&credentials->mutex);
    return has_crl;
}

int64_t ls_credentials_expiry_wall_ns(struct ls_credentials *credentials)
{
    int64_t expiry_wall_ns;

    (void)pthread_mutex_lock(&credentials->mutex);
    expiry_wall_ns = credentials->set.expiry_wall_ns;
    (void)pthread_mutex_unlock(&credentials->mutex);
    return expiry_wall_ns;
}

bool ls_credentials_end_soon(struct ls_credentials *credentials, int64_t now_wall_ns)
{
    int64_t life_ns;
    int64_t left_ns;

    (void)pthread_mutex_lock(&credentials->mutex);
    life_ns = credentials->set.expiry_wall_ns - credentials->set.begin_wall_ns;
    left_ns = credentials->set.expiry_wall_ns - now_wall_ns;
    (void)pthread_mutex_unlock(&credentials->mutex);
    return left_ns < life_ns / 10;
}

/* ---- renewal */

static enum ls_err check_successor(const struct ls_credentials *c, const struct set *next,
                                   struct ls_diag *diag)
{
    if (strcmp(next->identity.uri, c->identity.uri) != 0)
        return ls_fail(diag, LS_EREFUSED, "%s: the new certificate is one of %s, not of %s", c->dir,
                       next->identity.uri, c->identity.uri);
    if (c->set.has_crl && !next->has_crl)
        return ls_fail(diag, LS_EREFUSED, "%s: %s is gone: nothing is un-revoked by that", c->dir,
                       file_names[FILE_CRL]);
    return LS_OK;
}

/* With the mutex held. A state of the files that was tried once is not tried again. */
static void refresh(struct ls_credentials *c)
{
    struct mark marks[FILE_COUNT];
    struct ls_diag diag = { 0 };
    struct set next = { 0 };
    char end[32];

    look(c->dir, marks);
    if (memcmp(marks, c->marks, sizeof(marks)) == 0)
        return;
    memcpy(c->marks, marks, sizeof(marks));
    c->news = true;
    c->news_good =
        read_set(c->dir, &next, &diag) == LS_OK && check_successor(c, &next, &diag) == LS_OK;
    if (!c->news_good) {
        SSL_CTX_free(next.ctx);
        (void)snprintf(c->news_text, sizeof(c->news_text), "%s", diag.text);
        return;
    }
    SSL_CTX_free(c->set.ctx); /* connections that use it hold it */
    c->set = next;
    c->generation++;
    ls_clock_format_wall(next.expiry_wall_ns, end, sizeof(end));
    (void)snprintf(c->news_text, sizeof(c->news_text), "%s: the certificate of %s until %s", c->dir,
                   next.identity.uri, end);
}

SSL *ls_credentials_new_ssl(struct ls_credentials *credentials, unsigned *out_generation)
{
    SSL *ssl;

    (void)pthread_mutex_lock(&credentials->mutex);
    refresh(credentials);
    ssl = SSL_new(credentials->set.ctx);
    *out_generation = credentials->generation;
    (void)pthread_mutex_unlock(&credentials->mutex);
    return ssl;
}

unsigned ls_credentials_generation(struct ls_credentials *credentials)
{
    unsigned generation;

    (void)pthread_mutex_lock(&credentials->mutex);
    refresh(credentials);
    generation = credentials->generation;
    (void)pthread_mutex_unlock(&credentials->mutex);
    return generation;
}

bool ls_credentials_still_take(struct ls_credentials *credentials, const SSL *ssl, char *out,
                               size_t out_bytes)
{
    bool peer_is_agent = credentials->wanted == LS_IDENTITY_COORDINATOR;
    X509_STORE_CTX *verify = X509_STORE_CTX_new();
    SSL_CTX *ctx;
    bool ok;

    (void)pthread_mutex_lock(&credentials->mutex);
    ctx = credentials->set.ctx;
    (void)SSL_CTX_up_ref(ctx);
    (void)pthread_mutex_unlock(&credentials->mutex);
    ok = verify != NULL &&
         X509_STORE_CTX_init(verify, SSL_CTX_get_cert_store(ctx), SSL_get0_peer_certificate(ssl),
                             SSL_get_peer_cert_chain(ssl)) == 1 &&
         X509_STORE_CTX_set_default(verify, peer_is_agent ? "ssl_client" : "ssl_server") == 1;
    if (!ok)
        (void)snprintf(out, out_bytes, "no memory to verify a certificate");
    else if (X509_verify_cert(verify) != 1) {
        (void)ls_tls_verify_text(X509_STORE_CTX_get_error(verify), out, out_bytes);
        ok = false;
    }
    X509_STORE_CTX_free(verify);
    SSL_CTX_free(ctx);
    ERR_clear_error();
    return ok;
}

bool ls_credentials_news(struct ls_credentials *credentials, bool *out_good, char *out,
                         size_t out_bytes)
{
    bool news;

    (void)pthread_mutex_lock(&credentials->mutex);
    news = credentials->news;
    if (news) {
        *out_good = credentials->news_good;
        (void)snprintf(out, out_bytes, "%s", credentials->news_text);
        credentials->news = false;
    }
    (void)pthread_mutex_unlock(&credentials->mutex);
    return news;
}

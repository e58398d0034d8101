/* common/tls_engine.c - see the header. What nng 1.5.2 does that its own header denies: it calls
 * send and recv before the handshake is over, and fini on connections that were never initialised
 * (all zeros). NNG_ECLOSED and NNG_ECANCELED must not come from an engine: nng takes them for its
 * own. An error of the handshake is NNG_EPEERAUTH, any later one NNG_ECRYPTO. */
#include "common/tls_engine.h"

#include <arpa/inet.h>
#include <nng/nng.h>
#include <nng/supplemental/tls/engine.h>
#include <nng/supplemental/tls/tls.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/tls_impl.h"

#define ENGINE_NAME "lockstep-openssl"
#define HOST_MAX    256
#define SETTLE_NS   (5 * LS_NS_PER_S)

struct nng_tls_engine_config {
    struct ls_credentials *credentials; /* held; NULL: nng's own default, which connects nobody */
    enum ls_identity_role peer_role;
    bool server;
    bool is_address;
    char host[HOST_MAX];
};

struct nng_tls_engine_conn {
    SSL *ssl;                           /* owned */
    struct ls_credentials *credentials; /* held by the configuration, which outlives this */
    unsigned generation;
    enum ls_identity_role peer_role;
    bool done;
    int fatal; /* the error that ended it; 0: none */
    struct ls_identity peer;
    int64_t expiry_wall_ns; /* of its certificate */
    char trouble[LS_TLS_TROUBLE_MAX];
};

/* nng has no way to hand a pointer to an engine's init() or to get a struct out of verified(). Both
 * are called in the thread, and within the call, that asks for them. */
static _Thread_local const struct nng_tls_engine_config *making;
static _Thread_local struct ls_tls_peer *looking;
static _Thread_local bool looking_again;

/* Connections that nng has made or is about to make, and has not freed. */
static pthread_mutex_t living_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t living_changed = PTHREAD_COND_INITIALIZER;
static unsigned living;

static BIO_METHOD *bio_method;
static pthread_once_t bio_once = PTHREAD_ONCE_INIT;

/* ---- the record layer's bytes go straight to and from nng's buffers ---- */

static int bio_write(BIO *bio, const char *data, int len)
{
    size_t count = len > 0 ? (size_t)len : 0;
    int rv;

    BIO_clear_retry_flags(bio);
    if (count == 0)
        return 0;
    rv = nng_tls_engine_send(BIO_get_data(bio), (const uint8_t *)data, &count);
    if (rv == 0)
        return (int)count;
    if (rv == NNG_EAGAIN)
        BIO_set_retry_write(bio);
    return -1;
}

static int bio_read(BIO *bio, char *data, int len)
{
    size_t count = len > 0 ? (size_t)len : 0;
    int rv;

    BIO_clear_retry_flags(bio);
    if (count == 0)
        return 0;
    rv = nng_tls_engine_recv(BIO_get_data(bio), (uint8_t *)data, &count);
    if (rv == 0)
        return (int)count;
    if (rv == NNG_EAGAIN)
        BIO_set_retry_read(bio);
    return -1;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static int bio_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

static void make_bio_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "nng");

    if (method == NULL)
        return;
    if (BIO_meth_set_write(method, bio_write) == 1 && BIO_meth_set_read(method, bio_read) == 1 &&
        BIO_meth_set_ctrl(method, bio_ctrl) == 1 && BIO_meth_set_create(method, bio_create) == 1)
        bio_method = method;
    else
        BIO_meth_free(method);
}

/* ---- who is there ---- */

/* Within the handshake, once for each certificate of the chain that the peer sent. The last one, of
 * the peer itself, has to say who it is and that it may be that. */
static int on_verify(int good, X509_STORE_CTX *verify)
{
    const SSL *ssl = X509_STORE_CTX_get_ex_data(verify, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct nng_tls_engine_conn *conn = SSL_get_app_data(ssl);
    X509 *certificate = X509_STORE_CTX_get_current_cert(verify);
    struct ls_identity identity = { 0 };
    struct ls_diag diag = { 0 };
    char why[160];

    if (!good) {
        bool known = certificate != NULL && X509_STORE_CTX_get_error_depth(verify) == 0 &&
                     ls_identity_of(certificate, &identity, NULL) == LS_OK;

        (void)snprintf(conn->trouble, sizeof(conn->trouble), "%s%s%s",
                       ls_tls_verify_text(X509_STORE_CTX_get_error(verify), why, sizeof(why)),
                       known ? ": it says it is " : "", known ? identity.uri : "");
        return 0;
    }
    if (X509_STORE_CTX_get_error_depth(verify) != 0)
        return 1;
    if (ls_identity_of(certificate, &identity, &diag) == LS_OK && identity.role == conn->peer_role)
        return 1;
    if (diag.text[0] != '\0')
        (void)snprintf(conn->trouble, sizeof(conn->trouble), "%.255s", diag.text);
    else
        (void)snprintf(conn->trouble, sizeof(conn->trouble),
                       "the certificate of %s where one of %s %s has to be", identity.uri,
                       conn->peer_role == LS_IDENTITY_AGENT ? "an" : "a",
                       ls_identity_role_name(conn->peer_role));
    X509_STORE_CTX_set_error(verify, X509_V_ERR_APPLICATION_VERIFICATION);
    return 0;
}

/* Not taken on trust from the callback: read again from the certificate that the handshake used. */
static int learn_peer(struct nng_tls_engine_conn *conn)
{
    X509 *certificate = SSL_get0_peer_certificate(conn->ssl);
    struct ls_identity identity = { 0 };

    if (certificate == NULL || SSL_get_verify_result(conn->ssl) != X509_V_OK ||
        ls_identity_of(certificate, &identity, NULL) != LS_OK || identity.role != conn->peer_role) {
        (void)snprintf(conn->trouble, sizeof(conn->trouble), "the peer has not proven who it is");
        return NNG_EPEERAUTH;
    }
    identity.proven = true;
    conn->expiry_wall_ns = ls_certificate_expiry_wall_ns(certificate);
    conn->peer = identity;
    conn->done = true;
    return 0;
}

/* ---- errors ---- */

/* "ssl/tls alert certificate revoked" is what the peer thinks of us. */
static void explain(struct nng_tls_engine_conn *conn)
{
    unsigned long error = ERR_peek_last_error();
    int reason = ERR_GET_REASON(error);
    const char *text = ERR_reason_error_string(error);

    if (conn->trouble[0] != '\0')
        return; /* on_verify() knows better */
    if (ERR_GET_LIB(error) == ERR_LIB_SSL && reason > SSL_AD_REASON_OFFSET)
        (void)snprintf(conn->trouble, sizeof(conn->trouble), "the other side refuses: %s",
                       SSL_alert_desc_string_long(reason - SSL_AD_REASON_OFFSET));
    else if (ERR_GET_LIB(error) == ERR_LIB_SSL && reason == SSL_R_UNSUPPORTED_PROTOCOL)
        (void)snprintf(conn->trouble, sizeof(conn->trouble), "the other side has no TLS 1.3");
    else
        (void)snprintf(conn->trouble, sizeof(conn->trouble), "TLS: %s",
                       text != NULL ? text : "an error without a name");
}

static int failure(struct nng_tls_engine_conn *conn, int result)
{
    int error = SSL_get_error(conn->ssl, result);

    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return NNG_EAGAIN;
    if (error == SSL_ERROR_ZERO_RETURN) {
        conn->fatal = NNG_ECONNSHUT;
    } else if (error == SSL_ERROR_SYSCALL && ERR_peek_error() == 0) {
        conn->fatal = NNG_ECONNRESET;
    } else {
        explain(conn);
        conn->fatal = conn->done ? NNG_ECRYPTO : NNG_EPEERAUTH;
    }
    ERR_clear_error();
    return conn->fatal;
}

/* ---- a connection ---- */

static bool expect_host(SSL *ssl, const struct nng_tls_engine_config *config)
{
    if (config->is_address)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), config->host) == 1;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    return SSL_set1_host(ssl, config->host) == 1 &&
           SSL_set_tlsext_host_name(ssl, config->host) == 1;
}

static int conn_init(nng_tls_engine_conn *conn, void *stream, nng_tls_engine_config *config)
{
    BIO *bio;

    if (config->credentials == NULL || (!config->server && config->host[0] == '\0'))
        return NNG_EPEERAUTH; /* nobody said who may be at the other end */
    conn->peer_role = config->peer_role;
    conn->credentials = config->credentials;
    conn->ssl = ls_credentials_new_ssl(config->credentials, &conn->generation);
    bio = BIO_new(bio_method);
    if (conn->ssl == NULL || bio == NULL) {
        (void)BIO_free(bio);
        return NNG_ENOMEM; /* fini follows */
    }
    BIO_set_data(bio, stream);
    SSL_set_bio(conn->ssl, bio, bio);
    SSL_set_app_data(conn->ssl, conn);
    SSL_set_verify(conn->ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, on_verify);
    if (config->server) {
        SSL_set_accept_state(conn->ssl);
        return 0;
    }
    SSL_set_connect_state(conn->ssl);
    return expect_host(conn->ssl, config) ? 0 : NNG_EPEERAUTH;
}

static void conn_fini(nng_tls_engine_conn *conn)
{
    SSL_free(conn->ssl);
    conn->ssl = NULL;
    (void)pthread_mutex_lock(&living_mutex);
    if (living > 0 && --living == 0)
        (void)pthread_cond_broadcast(&living_changed);
    (void)pthread_mutex_unlock(&living_mutex);
}

static void conn_close(nng_tls_engine_conn *conn)
{
    if (!conn->done || conn->fatal != 0)
        return;
    ERR_clear_error();
    (void)SSL_shutdown(conn->ssl); /* close_notify, if there is room for it */
    ERR_clear_error();
}

static int conn_handshake(nng_tls_engine_conn *conn)
{
    int result;

    if (conn->fatal != 0)
        return conn->fatal;
    if (conn->done)
        return 0;
    ERR_clear_error();
    result = SSL_do_handshake(conn->ssl);
    if (result != 1)
        return failure(conn, result);
    conn->fatal = learn_peer(conn);
    return conn->fatal;
}

static int conn_recv(nng_tls_engine_conn *conn, uint8_t *data, size_t *len)
{
    int result = conn_handshake(conn);
    size_t count = 0;

    if (result != 0)
        return result;
    ERR_clear_error();
    result = SSL_read_ex(conn->ssl, data, *len, &count);
    if (result != 1)
        return failure(conn, result);
    *len = count;
    return 0;
}

static int conn_send(nng_tls_engine_conn *conn, const uint8_t *data, size_t *len)
{
    int result = conn_handshake(conn);
    size_t count = 0;

    if (result != 0)
        return result;
    ERR_clear_error();
    result = SSL_write_ex(conn->ssl, data, *len, &count);
    if (result != 1)
        return failure(conn, result);
    *len = count;
    return 0;
}

static void verify_again(nng_tls_engine_conn *conn)
{
    char why[128];

    if (!conn->done || conn->fatal != 0 ||
        ls_credentials_still_take(conn->credentials, conn->ssl, why, sizeof(why)))
        return;
    (void)snprintf(conn->trouble, sizeof(conn->trouble), "%s: it was %s", why, conn->peer.uri);
    conn->fatal = NNG_ECRYPTO;
}

static bool conn_verified(nng_tls_engine_conn *conn)
{
    if (looking != NULL) {
        if (looking_again)
            verify_again(conn);
        looking->identity = conn->peer;
        looking->generation = conn->generation;
        looking->expiry_wall_ns = conn->expiry_wall_ns;
        memcpy(looking->trouble, conn->trouble, sizeof(looking->trouble));
    }
    return conn->peer.proven;
}

/* ---- configurations: nng's own setters can only be refused, or be without effect ---- */

static int config_init(nng_tls_engine_config *config, nng_tls_mode mode)
{
    config->server = mode == NNG_TLS_MODE_SERVER;
    if (making == NULL)
        return 0; /* the default that every stream dialer and listener of nng's begins with */
    *config = *making;
    ls_credentials_hold(config->credentials);
    return 0;
}

static void config_fini(nng_tls_engine_config *config)
{
    ls_credentials_close(config->credentials);
}

static int config_server(nng_tls_engine_config *config, const char *name)
{
    (void)config;
    (void)name; /* nng sets it in its default */
    return 0;
}

static int config_auth(nng_tls_engine_config *config, nng_tls_auth_mode mode)
{
    (void)config;
    return mode == NNG_TLS_AUTH_MODE_REQUIRED ? 0 : NNG_ENOTSUP;
}

static int config_ca_chain(nng_tls_engine_config *config, const char *ca, const char *crl)
{
    (void)config;
    (void)ca;
    (void)crl;
    return NNG_ENOTSUP;
}

static int config_own_cert(nng_tls_engine_config *config, const char *certificate, const char *key,
                           const char *passphrase)
{
    (void)config;
    (void)certificate;
    (void)key;
    (void)passphrase;
    return NNG_ENOTSUP;
}

static int config_version(nng_tls_engine_config *config, nng_tls_version min, nng_tls_version max)
{
    (void)config;
    return min <= NNG_TLS_1_3 && max == NNG_TLS_1_3 ? 0 : NNG_ENOTSUP;
}

static nng_tls_engine_config_ops config_ops = {
    .size = sizeof(struct nng_tls_engine_config),
    .init = config_init,
    .fini = config_fini,
    .server = config_server,
    .auth = config_auth,
    .ca_chain = config_ca_chain,
    .own_cert = config_own_cert,
    .version = config_version,
};

static nng_tls_engine_conn_ops conn_ops = {
    .size = sizeof(struct nng_tls_engine_conn),
    .init = conn_init,
    .fini = conn_fini,
    .close = conn_close,
    .handshake = conn_handshake,
    .recv = conn_recv,
    .send = conn_send,
    .verified = conn_verified,
};

static const nng_tls_engine engine = {
    .version = NNG_TLS_ENGINE_VERSION, /* of the headers: nng takes no other one */
    .config_ops = &config_ops,
    .conn_ops = &conn_ops,
    .name = ENGINE_NAME,
    .description = OPENSSL_VERSION_TEXT,
    .fips_mode = false,
};

/* ---- for the transport ---- */

bool ls_tls_engine_end(void)
{
    bool can_begin_again = strncmp(nng_version(), "1.5.", 4) == 0;

    ls_tls_settle();
    if (can_begin_again)
        nng_fini();
    return can_begin_again;
}

enum ls_err ls_tls_engine_start(struct ls_diag *diag)
{
    int rv = 0;

    (void)pthread_once(&bio_once, make_bio_method);
    if (bio_method == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for TLS");
    /* The question starts nng, which installs the engine it was built with; only then is ours not
     * replaced again. */
    if (strcmp(nng_tls_engine_name(), ENGINE_NAME) != 0)
        rv = nng_tls_engine_register(&engine);
    if (rv == NNG_ENOTSUP)
        return ls_fail(
            diag, LS_EIO,
            "TLS: this program was built for nng %d.%d, and nng %s takes engines of its own "
            "version only: build it on this system",
            NNG_MAJOR_VERSION, NNG_MINOR_VERSION, nng_version());
    if (rv != 0 || strcmp(nng_tls_engine_name(), ENGINE_NAME) != 0)
        return ls_fail(diag, LS_EIO,
                       "nng does not take the TLS engine of this program but uses '%s'%s%s",
                       nng_tls_engine_name(), rv != 0 ? ": " : "", rv != 0 ? nng_strerror(rv) : "");
    return LS_OK;
}

static enum ls_err make_config(const struct nng_tls_engine_config *made, nng_tls_mode mode,
                               nng_tls_config **out, struct ls_diag *diag)
{
    enum ls_err rc = ls_tls_engine_start(diag);
    int rv;

    if (rc != LS_OK)
        return rc;
    making = made;
    rv = nng_tls_config_alloc(out, mode);
    making = NULL;
    if (rv != 0)
        return ls_fail(diag, rv == NNG_ENOMEM ? LS_ENOMEM : LS_EIO, "TLS: %s", nng_strerror(rv));
    return LS_OK;
}

static enum ls_err check_role(const struct ls_credentials *credentials, enum ls_identity_role role,
                              struct ls_diag *diag)
{
    const struct ls_identity *own = ls_credentials_identity(credentials);

    if (own->role == role)
        return LS_OK;
    return ls_fail(diag, LS_EREFUSED, "%s holds the keys of %s, but %s has to be %s",
                   ls_credentials_folder(credentials), own->uri,
                   role == LS_IDENTITY_AGENT ? "who dials" : "who listens",
                   role == LS_IDENTITY_AGENT ? "an agent" : "a coordinator");
}

enum ls_err ls_tls_dialer(struct nng_stream_dialer *dialer, struct ls_credentials *credentials,
                          const char *host, struct ls_diag *diag)
{
    struct nng_tls_engine_config made = { .credentials = credentials,
                                          .peer_role = LS_IDENTITY_COORDINATOR };
    nng_tls_config *config = NULL;
    unsigned char address[sizeof(struct in6_addr)];
    enum ls_err rc = check_role(credentials, LS_IDENTITY_AGENT, diag);
    int rv;

    if (rc != LS_OK)
        return rc;
    if (host[0] == '\0' || strlen(host) >= sizeof(made.host))
        return ls_fail(diag, LS_EINVAL, "a host's name has 1 to %zu characters",
                       sizeof(made.host) - 1);
    (void)snprintf(made.host, sizeof(made.host), "%s", host);
    made.is_address =
        inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
    rc = make_config(&made, NNG_TLS_MODE_CLIENT, &config, diag);
    if (rc != LS_OK)
        return rc;
    rv = nng_stream_dialer_set_ptr(dialer, NNG_OPT_TLS_CONFIG, config);
    nng_tls_config_free(config);
    return rv == 0 ? LS_OK : ls_fail(diag, LS_EIO, "TLS: %s", nng_strerror(rv));
}

enum ls_err ls_tls_listener(struct nng_stream_listener *listener,
                            struct ls_credentials *credentials, struct ls_diag *diag)
{
    const struct nng_tls_engine_config made = { .credentials = credentials,
                                                .peer_role = LS_IDENTITY_AGENT,
                                                .server = true };
    nng_tls_config *config = NULL;
    enum ls_err rc = check_role(credentials, LS_IDENTITY_COORDINATOR, diag);
    int rv;

    if (rc == LS_OK)
        rc = make_config(&made, NNG_TLS_MODE_SERVER, &config, diag);
    if (rc != LS_OK)
        return rc;
    rv = nng_stream_listener_set_ptr(listener, NNG_OPT_TLS_CONFIG, config);
    nng_tls_config_free(config);
    return rv == 0 ? LS_OK : ls_fail(diag, LS_EIO, "TLS: %s", nng_strerror(rv));
}

void ls_tls_opening(void)
{
    (void)pthread_mutex_lock(&living_mutex);
    living++;
    (void)pthread_mutex_unlock(&living_mutex);
}

void ls_tls_settle(void)
{
    int64_t until_ns = ls_clock_wall_ns() + SETTLE_NS; /* a condition waits by wall time */
    struct timespec until = { .tv_sec = (time_t)(until_ns / LS_NS_PER_S),
                              .tv_nsec = (long)(until_ns % LS_NS_PER_S) };

    (void)pthread_mutex_lock(&living_mutex);
    while (living > 0 && pthread_cond_timedwait(&living_changed, &living_mutex, &until) == 0)
        continue;
    living = 0;
    (void)pthread_mutex_unlock(&living_mutex);
}

void ls_tls_look(struct nng_stream *stream, struct ls_tls_peer *out)
{
    bool verified = false;

    *out = (struct ls_tls_peer){ 0 };
    looking = out;
    if (nng_stream_get_bool(stream, NNG_OPT_TLS_VERIFIED, &verified) != 0 || !verified)
        out->identity = (struct ls_identity){ 0 };
    looking = NULL;
}

void ls_tls_look_again(struct nng_stream *stream, struct ls_tls_peer *out)
{
    looking_again = true;
    ls_tls_look(stream, out);
    looking_again = false;
}

/* lockstep pki: keys for agents and coordinators. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/credentials.h"
#include "common/msg_json.h"
#include "common/msg_yaml.h"
#include "common/options.h"
#include "coordinator/cli.h"
#include "coordinator/pki/authority.h"
#include "coordinator/pki/pki.h"
#include "coordinator/result/message.h"

#define DEFAULT_DIR "pki"

struct arguments {
    const char *pki;
    const char *name;
    const char *out;
    struct ls_option_list hosts;
    uint64_t days;
    bool renew;
    bool json;
    bool help;
};

#define ROW(field) offsetof(struct arguments, field)
#define PKI_ROW                                                                          \
    {                                                                                    \
        "pki", 0, LS_OPTION_TEXT, ROW(pki), "DIR", DEFAULT_DIR, 1, 0, "the pki's folder" \
    }
#define JSON_ROW                                                \
    {                                                           \
        "json", 0, LS_OPTION_FLAG, ROW(json), NULL, NULL, 1, 0, \
            "what came of it as one JSON document"              \
    }
#define HELP_ROW                                                              \
    {                                                                         \
        "help", 'h', LS_OPTION_FLAG, ROW(help), NULL, NULL, 1, 0, "this text" \
    }

static const struct ls_option init_rows[] = {
    { "name", 0, LS_OPTION_TEXT, ROW(name), "LAB", "lockstep", 1, 0,
      "what the authority is called" },
    { "days", 0, LS_OPTION_COUNT, ROW(days), "N", "1825", 1, COORD_PKI_CA_DAYS_MAX,
      "how long the authority lasts" },
    JSON_ROW,
    HELP_ROW,
};

static const struct ls_option issue_rows[] = {
    { "host", 0, LS_OPTION_LIST, ROW(hosts), "NAME_OR_ADDRESS", NULL, 1, 0,
      "what agents dial to reach this coordinator; several are fine" },
    { "out", 0, LS_OPTION_TEXT, ROW(out), "DIR", NULL, 1, 0,
      "the folder to write (PKI/issued/ROLE-NAME)" },
    { "days", 0, LS_OPTION_COUNT, ROW(days), "N", "30", 1, COORD_PKI_LEAF_DAYS_MAX,
      "how long the certificate lasts" },
    { "renew", 0, LS_OPTION_FLAG, ROW(renew), NULL, NULL, 1, 0,
      "the next one for a name that has one: new key, same hosts unless given" },
    PKI_ROW,
    JSON_ROW,
    HELP_ROW,
};

static const struct ls_option other_rows[] = {
    PKI_ROW,
    JSON_ROW,
    HELP_ROW,
};

static int status_of(enum ls_err rc)
{
    switch (rc) {
    case LS_OK:
        return COORD_EXIT_OK;
    case LS_EREFUSED:
        return COORD_EXIT_REFUSED;
    case LS_EIO:
    case LS_ENOMEM:
        return COORD_EXIT_FAULT;
    default:
        return COORD_EXIT_USAGE;
    }
}

static int put(const struct ls_buf *text)
{
    if (text->ok && fwrite(text->data, 1, text->len, stdout) == text->len && fflush(stdout) == 0)
        return COORD_EXIT_OK;
    (void)fprintf(stderr, "lockstep: stdout did not take the text\n");
    return COORD_EXIT_FAULT;
}

static int print_json(const ProtobufCMessage *message)
{
    char *text = ls_msg_to_json(message, 2);
    int status = COORD_EXIT_FAULT;

    if (text != NULL && fputs(text, stdout) >= 0 && fflush(stdout) == 0)
        status = COORD_EXIT_OK;
    else
        (void)fprintf(stderr, "lockstep: stdout did not take the JSON\n");
    free(text);
    return status;
}

/* ---- init ---- */

static int show_as_json(const char *path)
{
    struct ls_diag diag = { 0 };
    Ls__Pki *record = NULL;
    enum ls_err rc = coord_pki_show(path, &record, &diag);
    int status;

    if (rc != LS_OK)
        return coord_cli_fail(true, status_of(rc), diag.text);
    status = print_json(&record->base);
    coord_message_free(record);
    return status;
}

static int run_init(const struct arguments *args, const char *const *plain, size_t plain_count)
{
    const char *dir = plain_count > 0 ? plain[0] : DEFAULT_DIR;
    struct ls_diag diag = { 0 };
    enum ls_err rc = coord_pki_init(dir, args->name, (uint32_t)args->days, &diag);

    if (rc != LS_OK)
        return coord_cli_fail(args->json, status_of(rc), diag.text);
    if (args->json)
        return show_as_json(dir);
    (void)printf("%s: the authority '%s'. Its key, %s/ca-key.pem, makes agents and coordinators: "
                 "keep it here.\n"
                 "Next: lockstep pki issue coordinator NAME --host ADDRESS --pki %s\n"
                 "      lockstep pki issue agent NAME --pki %s\n",
                 dir, args->name, dir, dir, dir);
    return fflush(stdout) == 0 ? COORD_EXIT_OK : COORD_EXIT_FAULT;
}

/* ---- issue ---- */

static int say_issued(const char *folder, const Ls__IssuedCertificate *record)
{
    bool agent = strncmp(record->uri, "lockstep:agent/", strlen("lockstep:agent/")) == 0;
    const char *name = strchr(record->uri, '/') + 1;

    (void)printf("%s: %s until %s\n", folder, record->uri, record->not_after);
    for (size_t i = 0; i < record->n_hosts; i++)
        (void)printf("%s%s%s", i == 0 ? "  to be dialled as " : ", ", record->hosts[i],
                     i + 1 == record->n_hosts ? "\n" : "");
    if (agent)
        (void)printf(
            "Copy it to the agent's host: lockstep-agent --dial tls+tcp://HOST:PORT --name "
            "%s --keys DIR ...\n",
            name);
    else
        (void)printf("The coordinator takes it: lockstep run PLAN --listen tls+tcp://ADDRESS:PORT "
                     "--keys %s\n",
                     folder);
    return fflush(stdout) == 0 ? COORD_EXIT_OK : COORD_EXIT_FAULT;
}

static int run_issue(const struct arguments *args, const char *const *plain, size_t plain_count)
{
    struct coord_pki_issue want = { .dir = args->pki,
                                    .hosts = args->hosts.items,
                                    .host_count = args->hosts.count,
                                    .out = args->out,
                                    .days = (uint32_t)args->days,
                                    .renew = args->renew };
    Ls__IssuedCertificate *record = NULL;
    struct ls_diag diag = { 0 };
    char *folder = NULL;
    enum ls_err rc;
    int status;

    if (plain_count < 2)
        return coord_cli_fail(args->json, COORD_EXIT_USAGE,
                              "pki issue: want agent NAME or coordinator NAME");
    want.role = ls_identity_role_of(plain[0]);
    want.name = plain[1];
    if (want.role == LS_IDENTITY_NONE) {
        (void)ls_fail(&diag, LS_EINVAL, "pki issue %.40s: want agent or coordinator", plain[0]);
        return coord_cli_fail(args->json, COORD_EXIT_USAGE, diag.text);
    }
    rc = coord_pki_issue(&want, &folder, &record, &diag);
    if (rc != LS_OK)
        return coord_cli_fail(args->json, status_of(rc), diag.text);
    status = args->json ? print_json(&record->base) : say_issued(folder, record);
    coord_message_free(record);
    free(folder);
    return status;
}

/* ---- revoke ---- */

static int run_revoke(const struct arguments *args, const char *const *plain, size_t plain_count)
{
    struct ls_diag diag = { 0 };
    uint32_t count = 0;
    enum ls_err rc;

    if (plain_count < 1)
        return coord_cli_fail(args->json, COORD_EXIT_USAGE,
                              "pki revoke: want NAME, agent/NAME, coordinator/NAME or a serial "
                              "number");
    rc = coord_pki_revoke(args->pki, plain[0], &count, &diag);
    if (rc != LS_OK)
        return coord_cli_fail(args->json, status_of(rc), diag.text);
    if (args->json)
        return show_as_json(args->pki);
    (void)printf("%" PRIu32 " certificate%s revoked. It takes effect where %s/crl.pem is: copy it "
                 "into the coordinator's folder of keys, and the agents'; no restart is needed.\n",
                 count, count == 1 ? "" : "s", args->pki);
    return fflush(stdout) == 0 ? COORD_EXIT_OK : COORD_EXIT_FAULT;
}

/* ---- show ---- */

static void describe_state(const Ls__IssuedCertificate *entry, int64_t now_s, char *out,
                           size_t out_bytes)
{
    int64_t end_s = coord_pki_parse_time(entry->not_after);
    int64_t begin_s = coord_pki_parse_time(entry->not_before);

    if (entry->revoked_at[0] != '\0')
        (void)snprintf(out, out_bytes, "revoked at %.31s", entry->revoked_at);
    else if (end_s <= now_s)
        (void)snprintf(out, out_bytes, "has ended");
    else if (begin_s > now_s)
        (void)snprintf(out, out_bytes, "not yet");
    else
        (void)snprintf(out, out_bytes, "%" PRId64 " days left", (end_s - now_s) / 86400);
}

static void add_entry(struct ls_buf *text, const Ls__IssuedCertificate *entry, int64_t now_s)
{
    char state[64];

    describe_state(entry, now_s, state, sizeof(state));
    ls_buf_addf(text, "%-40s  until %.10s  %s", entry->uri, entry->not_after, state);
    for (size_t i = 0; i < entry->n_hosts; i++)
        ls_buf_addf(text, "%s%s", i == 0 ? "  hosts " : ",", entry->hosts[i]);
    ls_buf_addf(text, "\n    serial %s  sha256 %s\n", entry->serial, entry->fingerprint);
}

/* A folder of keys says, too, whether a program would take it. */
static void add_credentials(struct ls_buf *text, const char *path, const Ls__Pki *record)
{
    enum ls_identity_role role =
        strncmp(record->issued[0]->uri, "lockstep:agent/", strlen("lockstep:agent/")) == 0
            ? LS_IDENTITY_AGENT
            : LS_IDENTITY_COORDINATOR;
    struct ls_credentials *credentials = NULL;
    struct ls_diag diag = { 0 };

    if (ls_credentials_open(path, role, &credentials, &diag) == LS_OK)
        ls_buf_adds(text, "    the folder is in order\n");
    else
        ls_buf_addf(text, "    %s\n", diag.text);
    ls_credentials_close(credentials);
}

static int run_show(const struct arguments *args, const char *const *plain, size_t plain_count)
{
    const char *path = plain_count > 0 ? plain[0] : args->pki;
    int64_t now_s = ls_clock_wall_ns() / LS_NS_PER_S;
    struct ls_diag diag = { 0 };
    Ls__Pki *record = NULL;
    struct ls_buf text;
    enum ls_err rc;
    int status;

    if (args->json)
        return show_as_json(path);
    rc = coord_pki_show(path, &record, &diag);
    if (rc != LS_OK)
        return coord_cli_fail(false, status_of(rc), diag.text);
    ls_buf_init(&text, 256u << 20);
    if (record->name[0] != '\0')
        ls_buf_addf(&text,
                    "authority '%s' until %.10s, list of revoked certificates no. %" PRIu32 "\n",
                    record->name, record->not_after, record->crl_number);
    for (size_t i = 0; i < record->n_issued; i++)
        add_entry(&text, record->issued[i], now_s);
    if (record->name[0] == '\0' && record->n_issued == 1)
        add_credentials(&text, path, record);
    status = put(&text);
    ls_buf_fini(&text);
    coord_message_free(record);
    return status;
}

/* ---- the words after "pki" ---- */

static const struct {
    const char *name;
    const char *arguments;
    const char *help;
    const struct ls_option *rows;
    size_t row_count;
    size_t plain_max;
    int (*run)(const struct arguments *args, const char *const *plain, size_t plain_count);
} words[] = {
    { "init", "[DIR]", "makes an authority in a new folder", init_rows, LS_ARRAY_LEN(init_rows), 1,
      run_init },
    { "issue", "agent|coordinator NAME", "makes a folder of keys, ready to be copied", issue_rows,
      LS_ARRAY_LEN(issue_rows), 2, run_issue },
    { "revoke", "NAME|SERIAL", "ends a certificate before its time", other_rows,
      LS_ARRAY_LEN(other_rows), 1, run_revoke },
    { "show", "[DIR|FILE]", "what was issued, or what is in a folder of keys", other_rows,
      LS_ARRAY_LEN(other_rows), 1, run_show },
};

static void help(FILE *file)
{
    (void)fputs("usage: lockstep pki WORD [argument ...]\n\n", file);
    for (size_t i = 0; i < LS_ARRAY_LEN(words); i++)
        (void)fprintf(file, "  %-6s %-22s  %s\n", words[i].name, words[i].arguments, words[i].help);
    (void)fputs("\n'lockstep pki WORD --help' lists a word's options.\n", file);
}

static int run_word(size_t which, int argc, char **argv, bool json)
{
    struct arguments args = { 0 };
    struct ls_diag diag = { 0 };
    const char *plain[2] = { NULL, NULL };
    size_t plain_count = 0;
    int status;

    if (ls_options_parse(words[which].rows, words[which].row_count, argc, argv, &args, plain,
                         words[which].plain_max, &plain_count, &diag) != LS_OK) {
        status = coord_cli_fail(json, COORD_EXIT_USAGE, diag.text);
    } else if (args.help) {
        (void)printf("usage: lockstep pki %s %s [option ...]\n\n", words[which].name,
                     words[which].arguments);
        ls_options_help(words[which].rows, words[which].row_count, stdout);
        status = COORD_EXIT_OK;
    } else {
        status = words[which].run(&args, plain, plain_count);
    }
    ls_options_fini(words[which].rows, words[which].row_count, &args);
    return status;
}

int coord_cmd_pki(int argc, char **argv)
{
    bool json = coord_cli_wants_json(argc, argv);
    const char *names[LS_ARRAY_LEN(words)];
    struct ls_diag diag = { 0 };
    const char *meant;

    if (argc < 2) {
        help(stderr);
        return COORD_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        help(stdout);
        return COORD_EXIT_OK;
    }
    for (size_t i = 0; i < LS_ARRAY_LEN(words); i++) {
        if (strcmp(argv[1], words[i].name) == 0)
            return run_word(i, argc - 1, argv + 1, json);
        names[i] = words[i].name;
    }
    meant = ls_closest(argv[1], names, LS_ARRAY_LEN(words));
    (void)ls_fail(&diag, LS_EINVAL, "pki: no word '%.40s'%s%s%s", argv[1],
                  meant != NULL ? "; did you mean '" : ": init, issue, revoke, show",
                  meant != NULL ? meant : "", meant != NULL ? "'?" : "");
    return coord_cli_fail(json, COORD_EXIT_USAGE, diag.text);
}

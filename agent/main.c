/* lockstep-agent: wiring and exit statuses. */
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/control.h"
#include "agent/exit.h"
#include "agent/host/cgroup.h"
#include "agent/host/target.h"
#include "agent/introduce.h"
#include "agent/key_pool.h"
#include "agent/policy/policy.h"
#include "agent/respond/respond.h"
#include "common/credentials.h"
#include "common/fs.h"
#include "common/libraries.h"
#include "common/log.h"
#include "common/options.h"

struct arguments {
    const char *dial;
    const char *name;
    const char *role;
    const char *address;
    const char *keys;
    const char *work_dir;
    const char *policy;
    struct ls_option_list labels;
    int64_t lease_ns;
    int64_t wait_ns;
    bool once;
    bool verbose;
    bool quiet;
    bool help;
    bool version;
};

static const struct ls_option rows[] = {
    { "dial", 0, LS_OPTION_TEXT, offsetof(struct arguments, dial), "URL", NULL, 1, 0,
      "the coordinator: tls+tcp://HOST:PORT, or tcp://127.0.0.1:PORT on this host" },
    { "name", 0, LS_OPTION_TEXT, offsetof(struct arguments, name), "NAME", NULL, 1, 0,
      "this agent's name in plans and results (that of its keys, or of the host)" },
    { "role", 0, LS_OPTION_TEXT, offsetof(struct arguments, role), "client|server", "client", 1, 0,
      "generate load, or keep the program under test; a host that does both runs two agents" },
    { "label", 0, LS_OPTION_LIST, offsetof(struct arguments, labels), "KEY=VALUE", NULL, 1, 0,
      "what plans may ask for; may be given several times" },
    { "keys", 0, LS_OPTION_TEXT, offsetof(struct arguments, keys), "DIR", NULL, 1, 0,
      "its key and certificates, from 'lockstep pki issue agent NAME', or several such folders: "
      "the first that no other agent of this host has" },
    { "address", 0, LS_OPTION_TEXT, offsetof(struct arguments, address), "ADDRESS", NULL, 1, 0,
      "where clients reach the targets of this host (where its connection comes from)" },
    { "work-dir", 0, LS_OPTION_TEXT, offsetof(struct arguments, work_dir), "DIR", NULL, 1, 0,
      "private folder for trials (one of its own)" },
    { "policy", 0, LS_OPTION_TEXT, offsetof(struct arguments, policy), "FILE", NULL, 1, 0,
      "what this host allows (" AGENT_POLICY_DEFAULT_FILE ", if it is there)" },
    { "lease", 0, LS_OPTION_DURATION, offsetof(struct arguments, lease_ns), "TIME", "10s", 5e8,
      3.6e12, "without the coordinator for longer, load and target end" },
    { "once", 0, LS_OPTION_FLAG, offsetof(struct arguments, once), NULL, NULL, 1, 0,
      "leave after one run" },
    { "wait", 0, LS_OPTION_DURATION, offsetof(struct arguments, wait_ns), "TIME", NULL, 1e8,
      8.64e13, "leave if no coordinator takes this agent in time, or one refuses it (for ever)" },
    { "verbose", 'v', LS_OPTION_FLAG, offsetof(struct arguments, verbose), NULL, NULL, 1, 0,
      "log what happens, as it does anyway unless it was given --wait; the libraries, with --version" },
    { "quiet", 'q', LS_OPTION_FLAG, offsetof(struct arguments, quiet), NULL, NULL, 1, 0,
      "log what goes wrong and nothing else" },
    { "help", 'h', LS_OPTION_FLAG, offsetof(struct arguments, help), NULL, NULL, 1, 0,
      "this text" },
    { "version", 0, LS_OPTION_FLAG, offsetof(struct arguments, version), NULL, NULL, 1, 0,
      "the version" },
};

static void help(void)
{
    (void)printf(
        "usage: lockstep-agent --dial URL [option ...]\n"
        "       lockstep-agent respond --help\n\n"
        "Takes its part of test plans from the coordinator at URL, run after run: dials it\n"
        "again and again until it is there.\n\n");
    ls_options_help(rows, LS_ARRAY_LEN(rows), stdout);
}

static const char *run_nghttp2(char *out, size_t out_bytes)
{
    (void)out;
    (void)out_bytes;
    return nghttp2_version(0)->version_str;
}

static int usage_error(const char *text)
{
    (void)fprintf(stderr, "lockstep-agent: %s\n", text);
    return AGENT_EXIT_USAGE;
}

/* The file that was named, or the host's; without one, what is safe for whom it dials. */
static enum ls_err choose_policy(const struct arguments *args, struct agent_policy **out_policy)
{
    const char *file = args->policy;
    struct ls_issues issues;
    enum ls_err rc;

    /* One that cannot be looked at is not one that is not there. */
    if (file == NULL && (access(AGENT_POLICY_DEFAULT_FILE, F_OK) == 0 || errno != ENOENT))
        file = AGENT_POLICY_DEFAULT_FILE;
    if (file == NULL)
        return agent_policy_without_file(
            agent_policy_url_is_local(args->dial) ? AGENT_POLICY_LOCAL : AGENT_POLICY_REMOTE,
            out_policy);
    ls_issues_init(&issues, file);
    rc = agent_policy_load(file, &issues, out_policy);
    if (rc != LS_OK) {
        char *text = ls_issues_format(&issues);

        (void)fprintf(stderr, "%slockstep-agent: refused: the policy of this host cannot be used\n",
                      text != NULL ? text : "");
        free(text);
    }
    ls_issues_fini(&issues);
    return rc;
}

/* What is wrong with the arguments; NULL: nothing. */
static const char *find_mistake(const struct arguments *args)
{
    if (args->dial == NULL)
        return "--dial URL is missing: where is the coordinator?";
    if (strcmp(args->role, "client") != 0 && strcmp(args->role, "server") != 0)
        return "--role must be client or server";
    if (!ls_identity_name_is_fine(args->name))
        return "--name: use letters, digits, '.', '_' and '-' only, at most 64 of them";
    return NULL;
}

static int serve(const struct arguments *args, struct ls_credentials *credentials)
{
    struct agent_control_options options = { .url = args->dial,
                                             .name = args->name,
                                             .role = strcmp(args->role, "server") == 0
                                                         ? &agent_role_server
                                                         : &agent_role_client,
                                             .address = args->address,
                                             .credentials = credentials,
                                             .work_dir = args->work_dir,
                                             .labels = args->labels,
                                             .lease_ns = args->lease_ns,
                                             .wait_ns = args->wait_ns,
                                             .once = args->once };
    struct agent_policy *policy = NULL;
    struct ls_diag diag = { 0 };
    int status;

    if (choose_policy(args, &policy) != LS_OK)
        return AGENT_EXIT_REFUSED;
    options.policy = policy;
    if (!args->quiet && (args->verbose || args->wait_ns == 0))
        ls_log_set_level(LS_LOG_INFO);
    if (credentials != NULL && agent_policy_shares_user(policy))
        ls_log(
            LS_LOG_WARN, "agent.keys_in_reach",
            "programs of this host's policy run as the agent's own user, who can read %s/key.pem, "
            "and be this agent elsewhere: run the agent as root, and give them another user",
            ls_credentials_folder(credentials));
    if (host_adopt_orphans(&diag) != LS_OK)
        ls_log(LS_LOG_WARN, "agent.no_subreaper", "%s", diag.text);
    host_cgroup_sweep();
    status = agent_control_run(&options);
    agent_policy_destroy(policy);
    return status;
}

static int begin(struct arguments *args, struct ls_credentials *credentials)
{
    char host_name[256];
    const char *mistake;

    if (args->name == NULL)
        args->name = credentials != NULL ? ls_credentials_identity(credentials)->name
                                         : agent_host_name(host_name, sizeof(host_name));
    mistake = find_mistake(args);
    if (mistake != NULL)
        return usage_error(mistake);
    return serve(args, credentials);
}

static void print_version(bool verbose)
{
    static const struct ls_library more[] = {
        { "nghttp2", "MIT", LS_BUILT_NGHTTP2, run_nghttp2 },
        { "liburing", "MIT OR LGPL-2.1-or-later", LS_BUILT_URING, NULL },
    };

    if (verbose)
        ls_libraries_print(stdout, "lockstep-agent", more, LS_ARRAY_LEN(more));
    else
        (void)printf("lockstep-agent %s\n", LS_VERSION);
}

/* Help, the version, or the agent with its keys. */
static int act(struct arguments *args)
{
    struct agent_key_pool pool = { .fd = -1 };
    struct ls_credentials *credentials = NULL;
    struct ls_diag diag = { 0 };
    int status;

    if (args->help) {
        help();
        return AGENT_EXIT_OK;
    }
    if (args->version) {
        print_version(args->verbose);
        return AGENT_EXIT_OK;
    }
    if (args->keys != NULL &&
        (agent_key_pool_init(&pool, args->keys, &diag) != LS_OK ||
         ls_credentials_open(pool.dir, LS_IDENTITY_AGENT, &credentials, &diag) != LS_OK)) {
        (void)fprintf(stderr, "lockstep-agent: %s\n", diag.text);
        status = AGENT_EXIT_REFUSED;
    } else {
        status = begin(args, credentials);
    }
    ls_credentials_close(credentials);
    agent_key_pool_fini(&pool);
    return status;
}

int main(int argc, char **argv)
{
    struct arguments args = { 0 };
    struct ls_diag diag = { 0 };
    size_t plain = 0;
    int status;

    host_target_main_hook(argc, argv); /* does not return in a supervisor */
    ls_fs_hold_std();
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file limit is an error to report, not to die of */
    if (argc > 1 && strcmp(argv[1], "respond") == 0)
        return agent_respond_main(argc - 1, argv + 1);
    if (ls_options_parse(rows, LS_ARRAY_LEN(rows), argc, argv, &args, NULL, 0, &plain, &diag) ==
        LS_OK)
        status = act(&args);
    else
        status = usage_error(diag.text);
    ls_options_fini(rows, LS_ARRAY_LEN(rows), &args);
    return status;
}

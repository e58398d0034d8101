/* The policy language: what it takes, what it says of mistakes, what it then allows. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/policy/policy.h"
#include "common/fs.h"
#include "common/pb.h"
#include "tests/support/failmalloc.h"
#include "tests/support/tmpdir.h"

#define DIR "/tmp/a/trial-001"
#define S   INT64_C(1000000000)

static struct ls_bytes bytes_of(const char *text)
{
    return (struct ls_bytes){ (const unsigned char *)text, strlen(text) };
}

static struct agent_policy *policy_of(const char *text)
{
    struct agent_policy *policy = NULL;
    struct ls_issues issues;

    ls_issues_init(&issues, "dir/policy.yaml");
    if (agent_policy_parse(bytes_of(text), "dir/policy.yaml", false, &issues, &policy) != LS_OK)
        fail_msg("%s", ls_issues_format(&issues));
    ls_issues_fini(&issues);
    return policy;
}

/* ---- mistakes */

static void every_mistake_is_told_with_its_place(void **state)
{
    static const struct {
        const char *text;
        bool root;
        const char *says;
    } cases[] = {
        { "programs: [{path: nginx}]\n", false,
          "p.yaml:1:19: programs[0].path: has to be absolute, or {dir}/... for what comes with a "
          "plan\n" },
        { "programs:\n  - name: x\n", false,
          "p.yaml:2:5: programs[0].path: is missing: the program's file, such as /usr/sbin/nginx\n" },
        { "program: []\n", false, "p.yaml:1:1: program: unknown key: did you mean 'programs'?\n" },
        { "programs:\n  - path: /bin/x\n    arguments: [-c, ..., -x]\n", false,
          "p.yaml:3:21: programs[0].arguments[1]: '...' stands for all further arguments: nothing "
          "may follow it\n" },
        { "programs:\n  - path: /bin/x\n    sha256: [ABC]\n", false,
          "p.yaml:3:14: programs[0].sha256[0]: is no SHA-256: 64 digits of 0-9 and a-f, as sha256sum "
          "prints them\n" },
        { "programs:\n  - path: /bin/x\n    user: no-such-user\n", true,
          "p.yaml:3:11: programs[0].user: 'no-such-user' is no user of this host\n" },
        { "programs:\n  - path: /bin/x\n", true,
          "p.yaml:2:5: programs[0].user: is missing: the agent is root's, and who this program runs "
          "as has to be said, even if it is root\n" },
        { "programs:\n  - path: /bin/x\n    user: 65534\n", true,
          "p.yaml:3:11: programs[0].user: is a number, and then needs a group\n" },
        { "programs:\n  - path: /bin/x\n    group: daemon\n", true,
          "p.yaml:3:12: programs[0].group: needs a user\n" },
        { "programs:\n  - {path: /bin/x, user: root, limits: {processes: 3}}\n", true,
          "p.yaml:2:52: programs[0].limits.processes: does not hold for root: give the program "
          "another user\n" },
        { "programs:\n  - {path: /bin/x, limits: {descriptors: 3, cpus: 0-}}\n", false,
          "descriptors: is too few for any program: 8 at the least\n" },
        { "programs:\n  - {path: /bin/x, limits: {memory: 0, processes: 0}}\n", false,
          "programs[0].limits.memory: allows nothing\n" },
        { "load: {targets: [10.0.0.5/24, example.test]}\n", false,
          "p.yaml:1:18: load.targets[0]: '10.0.0.5/24': bits of the address are beyond /24\n"
          "p.yaml:1:31: load.targets[1]: 'example.test' is none of loopback, servers, a literal "
          "address or a range such as 10.0.0.0/24: names are not looked up\n" },
        { "load: {max_rate: 0/s}\n", false, "allows nothing: leave targets empty for that\n" },
        { "load: {max_rate: fast}\n", false, "p.yaml:1:18: load.max_rate: " },
        { "load: {max_connections: 0}\n", false, "allows nothing" },
        { "load: {max_duration: 0s}\n", false, "allows nothing" },
        { "files: {max_bytes: 1GiB}\n", false,
          "p.yaml:1:20: files.max_bytes: is at most 64 MiB\n" },
        { "files: {max_files: 5000}\n", false, "files.max_files: is at most 1024\n" },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct agent_policy *policy = NULL;
        struct ls_issues issues;
        char *text;

        ls_issues_init(&issues, "p.yaml");
        assert_int_equal(
            agent_policy_parse(bytes_of(cases[i].text), "p.yaml", cases[i].root, &issues, &policy),
            LS_EINVAL);
        assert_null(policy);
        text = ls_issues_format(&issues);
        if (text == NULL || strstr(text, cases[i].says) == NULL)
            fail_msg("%s\nsays\n%s\ninstead of\n%s", cases[i].text, text, cases[i].says);
        free(text);
        ls_issues_fini(&issues);
    }
}

/* ---- programs */

struct command {
    const char *real;
    const char *path; /* as found; NULL: real */
    const char *sha256;
    const char *argv[6];
    bool version;
    const char *variables[4];
};

static enum ls_err ask(const struct agent_policy *policy, const struct command *command,
                       struct host_confine *confine, struct ls_diag *diag)
{
    struct host_program_file file = { 0 };
    char *argv[LS_ARRAY_LEN(command->argv)], *variables[LS_ARRAY_LEN(command->variables)];
    const struct agent_policy_command question = {
        .file = &file, .argv = argv, .version = command->version, .dir = DIR, .variables = variables
    };

    for (size_t i = 0; i < LS_ARRAY_LEN(argv); i++)
        argv[i] = ls_pb_text(command->argv[i]); /* nobody writes to them */
    for (size_t i = 0; i < LS_ARRAY_LEN(variables); i++)
        variables[i] = ls_pb_text(command->variables[i]);
    (void)snprintf(file.path, sizeof(file.path), "%s",
                   command->path != NULL ? command->path : command->real);
    (void)snprintf(file.real, sizeof(file.real), "%s", command->real);
    (void)snprintf(file.sha256, sizeof(file.sha256), "%s",
                   command->sha256 != NULL ? command->sha256 : "");
    return agent_policy_program(policy, &question, confine, diag);
}

#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B64 "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static const char programs_text[] = "programs:\n"
                                    "  - name: web\n"
                                    "    path: /usr/sbin/nginx\n"
                                    "    arguments: [-p, '{dir}', -c, '*.conf']\n"
                                    "    version: [-v]\n"
                                    "    environment: [APP_*]\n"
                                    "  - name: node\n"
                                    "    path: /usr/bin/node\n"
                                    "    arguments: ['{dir}/*.mjs', '*']\n"
                                    "    environment: [NODE_OPTIONS]\n"
                                    "    limits: {memory: 1GiB, descriptors: 64, cpus: 0}\n"
                                    "  - path: '{dir}/server'\n"
                                    "    sha256: [" A64 "]\n"
                                    "    arguments: ['...']\n";

static void a_program_runs_as_its_rule_says_or_not_at_all(void **state)
{
    static const struct {
        struct command command;
        const char *says; /* NULL: allowed */
    } cases[] = {
        { { .real = "/usr/sbin/nginx",
            .sha256 = NULL,
            .argv = { "nginx", "-p", DIR, "-c", "a.conf" } },
          NULL },
        { { .real = "/usr/sbin/nginx", .sha256 = NULL, .argv = { "nginx", "-v" }, .version = true },
          NULL },
        { { .real = "/usr/sbin/nginx",
            .sha256 = NULL,
            .argv = { "nginx", "-p", DIR, "-c", "a.conf" },
            .variables = { "APP_MODE" } },
          NULL },
        { { .real = "/usr/bin/node", .sha256 = NULL, .argv = { "node", DIR "/a.mjs", "80" } },
          NULL },
        { { .real = DIR "/server", .sha256 = A64, .argv = { "./server", "anything", "../at all" } },
          NULL },
        /* another program */
        { { .real = "/bin/sh", .sha256 = NULL, .argv = { "sh", "-c", "id" } },
          "policy.yaml: programs: /bin/sh is not among them" },
        { { .real = "/usr/sbin/nginx2", .sha256 = NULL, .argv = { "nginx" } },
          "programs: /usr/sbin/nginx2 is not among them" },
        { { .real = DIR "/other", .sha256 = A64, .argv = { "./other" } }, "is not among them" },
        { { .real = DIR "/server", .sha256 = B64, .argv = { "./server" } },
          "sha256: " DIR "/server has " B64 },
        /* other arguments */
        { { .real = "/usr/sbin/nginx", .sha256 = NULL, .argv = { "nginx" } },
          "policy.yaml: programs (web): arguments: ''" },
        { { .real = "/usr/sbin/nginx",
            .sha256 = NULL,
            .argv = { "nginx", "-p", DIR, "-c", "../a.conf" } },
          "programs (web): arguments: '-p " DIR " -c ../a.conf' does not fit" },
        { { .real = "/usr/sbin/nginx",
            .sha256 = NULL,
            .argv = { "nginx", "-p", DIR, "-c", "/etc/a.conf" } },
          "does not fit" },
        { { .real = "/usr/sbin/nginx",
            .sha256 = NULL,
            .argv = { "nginx", "-p", DIR, "-c", "a.conf\n.conf" } },
          "does not fit" },
        { { .real = "/usr/sbin/nginx",
            .sha256 = NULL,
            .argv = { "nginx", "-p", "/", "-c", "a.conf" } },
          "does not fit" },
        { { .real = "/usr/bin/node", .sha256 = NULL, .argv = { "node", "-e", "process.exit()" } },
          "does not fit" },
        { { .real = "/usr/bin/node", .sha256 = NULL, .argv = { "node", DIR "/../b.mjs", "80" } },
          "does not fit" },
        { { .real = "/usr/bin/node", .sha256 = NULL, .argv = { "node", "-v" }, .version = true },
          "programs (node): version: '-v' is not allowed, none are" },
        { { .real = "/usr/sbin/nginx", .sha256 = NULL, .argv = { "nginx", "-T" }, .version = true },
          "version: '-T'" },
        /* other variables */
        { { .real = "/usr/sbin/nginx",
            .sha256 = NULL,
            .argv = { "nginx", "-p", DIR, "-c", "a.conf" },
            .variables = { "APP_MODE", "LD_PRELOAD" } },
          "programs (web): environment: LD_PRELOAD is not among them, and would have to be by its "
          "full name" },
        { { .real = "/usr/sbin/nginx",
            .sha256 = NULL,
            .argv = { "nginx", "-p", DIR, "-c", "a.conf" },
            .variables = { "OTHER" } },
          "environment: OTHER is not among them" },
        { { .real = "/usr/bin/node",
            .sha256 = NULL,
            .argv = { "node", DIR "/a.mjs", "80" },
            .variables = { "NODE_OPTIONS", "PATH" } },
          "environment: PATH" },
        { { .real = "/usr/bin/node",
            .sha256 = NULL,
            .argv = { "node", DIR "/a.mjs", "80" },
            .variables = { "NODE_OPTIONS" } },
          NULL },
    };
    struct agent_policy *policy = policy_of(programs_text);

    (void)state;
    assert_true(agent_policy_runs_programs(policy));
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct ls_diag diag = { 0 };
        struct host_confine confine;
        enum ls_err rc = ask(policy, &cases[i].command, &confine, &diag);

        if (rc != (cases[i].says == NULL ? LS_OK : LS_EREFUSED) ||
            (cases[i].says != NULL && strstr(diag.text, cases[i].says) == NULL))
            fail_msg("case %zu: %s: \"%s\" instead of \"%s\"", i, ls_err_name(rc), diag.text,
                     cases[i].says != NULL ? cases[i].says : "");
    }
    agent_policy_destroy(policy);
}

/* "sh httpd" runs a script of the plan's where "busybox httpd" was allowed. */
static void a_name_that_no_rule_fits_is_not_what_a_program_is_called(void **state)
{
    static const struct {
        const char *rule;
        struct command command;
        bool by_real_path;
    } cases[] = {
        { "/bin/busybox", { .real = "/bin/busybox", .argv = { "busybox", "httpd" } }, false },
        { "/bin/busybox",
          { .real = "/bin/busybox", .path = "/bin/sh", .argv = { "sh", "httpd" } },
          true },
        { "/bin/*",
          { .real = "/bin/busybox", .path = "/bin/sh", .argv = { "sh", "httpd" } },
          false },
        { "/bin/*",
          { .real = "/bin/busybox", .path = DIR "/../bin/sh", .argv = { "sh", "httpd" } },
          true },
        { "/**",
          { .real = "/usr/bin/python3", .path = "/app/bin/python", .argv = { "python", "httpd" } },
          false },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        char text[200];
        struct agent_policy *policy;
        struct host_confine confine;

        (void)snprintf(text, sizeof(text), "programs:\n  - path: '%s'\n    arguments: [httpd]\n",
                       cases[i].rule);
        policy = policy_of(text);
        assert_int_equal(ask(policy, &cases[i].command, &confine, NULL), LS_OK);
        assert_int_equal(confine.by_real_path, cases[i].by_real_path);
        agent_policy_destroy(policy);
    }
}

static void limits_come_with_the_rule(void **state)
{
    const struct command node = { .real = "/usr/bin/node", .argv = { "node", DIR "/a.mjs", "80" } };
    struct agent_policy *policy = policy_of(programs_text);
    struct host_confine confine;

    (void)state;
    assert_int_equal(ask(policy, &node, &confine, NULL), LS_OK);
    assert_int_equal(confine.memory_bytes, 1u << 30);
    assert_int_equal(confine.descriptors, 64);
    assert_int_equal(confine.processes, 0);
    assert_true(confine.has_cpus);
    assert_int_equal(ls_cpuset_count(&confine.cpus), 1);
    assert_false(confine.change_user);
    agent_policy_destroy(policy);
}

static void users_are_looked_up_and_only_root_can_change_them(void **state)
{
    static const char text[] =
        "programs: [{path: /bin/true, user: nobody}, {path: /bin/false, user: "
        "4711, group: 4712}]\n";
    struct command command = { .real = "/bin/true", .argv = { "true" } };
    struct agent_policy *policy = NULL;
    struct host_confine confine;
    struct ls_issues issues;
    char *told;

    (void)state;
    ls_issues_init(&issues, "p.yaml");
    assert_int_equal(agent_policy_parse(bytes_of(text), "p.yaml", true, &issues, &policy), LS_OK);
    assert_int_equal(ask(policy, &command, &confine, NULL), LS_OK);
    assert_true(confine.change_user && confine.uid != 0 && confine.gid != 0);
    command.real = "/bin/false";
    assert_int_equal(ask(policy, &command, &confine, NULL), LS_OK);
    assert_int_equal(confine.uid, 4711);
    assert_int_equal(confine.gid, 4712);
    assert_true(agent_policy_changes_user(policy));
    agent_policy_destroy(policy);
    assert_int_equal(agent_policy_parse(bytes_of(text), "p.yaml", false, &issues, &policy),
                     LS_EINVAL);
    told = ls_issues_format(&issues);
    assert_non_null(strstr(told, "programs[0].user: 'nobody' is not who the agent runs as"));
    free(told);
    ls_issues_fini(&issues);
}

/* ---- load */

static struct load_workload load_of(const char *host, uint16_t port)
{
    struct load_workload w = { .law = LOAD_LAW_CONSTANT,
                               .rate_per_s = 1000,
                               .connections = 10,
                               .pipeline = 1,
                               .workers = 1,
                               .workers_total = 1 };
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&w.address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)&w.address;

    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
    } else {
        assert_int_equal(inet_pton(AF_INET6, host, &v6->sin6_addr), 1);
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
    }
    return w;
}

static void expect_load(const struct agent_policy *policy, const struct load_workload *w,
                        const char *says)
{
    static char server[] = "192.0.2.9:7400", local[] = "local";
    char *servers[] = { local, server };
    struct ls_diag diag = { 0 };
    enum ls_err rc = agent_policy_workload(policy, w, servers, 2, &diag);

    if (rc != (says == NULL ? LS_OK : LS_EREFUSED) ||
        (says != NULL && strstr(diag.text, says) == NULL))
        fail_msg("%s: \"%s\" instead of \"%s\"", ls_err_name(rc), diag.text,
                 says != NULL ? says : "");
}

static void only_what_is_listed_is_loaded(void **state)
{
    static const struct {
        const char *host;
        uint16_t port;
        const char *says;
    } cases[] = {
        { "10.0.0.5", 8080, NULL },
        { "::ffff:10.0.0.5", 8080, NULL },
        { "10.0.0.5", 8081, "policy.yaml: load.targets: 10.0.0.5 port 8081 is not in any of them" },
        { "10.0.1.5", 8080, "not in any of them" },
        { "192.0.2.9", 80, NULL }, /* servers */
        { "192.0.2.8", 80, "not in any of them" },
        { "127.0.0.1", 80, "not in any of them" }, /* not even this host, unless it is listed */
        { "0.0.0.0", 8080, "is no address of a host" },
        { "::", 8080, "is no address of a host" },
        { "::ffff:0.0.0.0", 8080, "is no address of a host" },
        { "224.0.0.1", 8080, "is multicast" },
        { "255.255.255.255", 8080, "is broadcast" },
        { "169.254.169.254", 80, "not in any of them" },
    };
    struct agent_policy *policy = policy_of("load: {targets: ['10.0.0.0/24:8080', servers]}\n");

    (void)state;
    assert_false(agent_policy_runs_programs(policy));
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct load_workload w = load_of(cases[i].host, cases[i].port);

        expect_load(policy, &w, cases[i].says);
    }
    agent_policy_destroy(policy);
}

static void how_hard_is_bounded_by_this_agents_share(void **state)
{
    struct agent_policy *policy = policy_of(
        "load: {targets: [loopback], max_connections: 100, max_rate: 5k/s, max_duration: 1m}\n");
    struct ls_rate_piece pieces[] = { { .from_per_s = 100, .to_per_s = 9000 } };
    struct load_workload w = load_of("127.0.0.1", 80);
    struct ls_diag diag = { 0 };

    (void)state;
    expect_load(policy, &w, NULL);
    w.connections = 101;
    expect_load(policy, &w, "policy.yaml: load.max_connections: 101 are more than 100");
    w.workers_total = 2; /* half of it is another agent's */
    expect_load(policy, &w, NULL);
    w.connections = 10;
    w.workers_total = 1;
    w.rate_per_s = 5001;
    expect_load(policy, &w, "load.max_rate: 5001/s are more than 5k/s");
    w.law = LOAD_LAW_POISSON;
    expect_load(policy, &w, "load.max_rate");
    w.workers_total = 2;
    expect_load(policy, &w, NULL);
    w.law = LOAD_LAW_PIECES;
    w.pieces = pieces;
    w.piece_count = 1;
    expect_load(policy, &w, NULL); /* 4500/s of the 9000/s at the top */
    pieces[0].to_per_s = 10001;
    expect_load(policy, &w, "load.max_rate");
    w.law = LOAD_LAW_WAVES;
    expect_load(policy, &w, "as fast as the server");
    w.law = LOAD_LAW_CLOSED;
    expect_load(policy, &w, "as fast as the server");
    w.think_ns = S / 100; /* 5 connections, 100/s each */
    expect_load(policy, &w, NULL);
    w.think_ns = S / 1000 - 1;
    expect_load(policy, &w, "load.max_rate");
    assert_int_equal(agent_policy_duration(policy, 60 * S, &diag), LS_OK);
    assert_int_equal(agent_policy_duration(policy, 60 * S + 1, &diag), LS_EREFUSED);
    assert_non_null(strstr(diag.text, "policy.yaml: load.max_duration: "));
    agent_policy_destroy(policy);
}

static void connections_come_from_listed_addresses(void **state)
{
    struct agent_policy *policy =
        policy_of("load: {targets: [loopback], sources: [127.0.0.0/30]}\n");
    struct load_workload w = load_of("127.0.0.1", 80), from = load_of("127.0.0.2", 0);

    (void)state;
    w.sources = &from.address;
    w.source_count = 1;
    expect_load(policy, &w, NULL);
    from = load_of("127.0.0.4", 0);
    expect_load(policy, &w, "load.sources: 127.0.0.4 is not in any of them");
    agent_policy_destroy(policy);
    policy = policy_of("load: {targets: [loopback]}\n");
    expect_load(policy, &w, NULL);
    from = load_of("0.0.0.0", 0);
    expect_load(policy, &w, "load.sources: 0.0.0.0 is no address of a host");
    agent_policy_destroy(policy);
}

/* ---- without a file, coordinators, files */

static void without_a_file_a_dialling_agent_loads_this_host_and_the_runs_servers(void **state)
{
    const struct command sh = { .real = "/bin/sh", .argv = { "sh" } };
    struct agent_policy *policy = NULL;
    struct host_confine confine;
    struct ls_diag diag = { 0 };
    struct load_workload w;

    (void)state;
    assert_int_equal(agent_policy_without_file(AGENT_POLICY_REMOTE, &policy), LS_OK);
    assert_false(agent_policy_runs_programs(policy));
    assert_int_equal(ask(policy, &sh, &confine, &diag), LS_EREFUSED);
    assert_non_null(strstr(diag.text, "no policy file: this host runs no program for others: allow "
                                      "it in " AGENT_POLICY_DEFAULT_FILE));
    w = load_of("127.0.0.1", 80);
    expect_load(policy, &w, NULL);
    w = load_of("192.0.2.9", 80);
    expect_load(policy, &w, NULL);
    w = load_of("192.0.2.8", 80);
    expect_load(policy, &w,
                "no policy file: 192.0.2.8 port 80 is neither this host nor one that has "
                "a server agent in this run");
    w = load_of("0.0.0.0", 80);
    expect_load(policy, &w, "is no address of a host");
    agent_policy_destroy(policy);

    assert_int_equal(agent_policy_without_file(AGENT_POLICY_LOCAL, &policy), LS_OK);
    assert_int_equal(ask(policy, &sh, &confine, &diag), LS_OK);
    assert_false(confine.change_user);
    w = load_of("192.0.2.8", 80);
    expect_load(policy, &w, NULL);
    agent_policy_destroy(policy);
}

static void an_empty_policy_allows_nothing(void **state)
{
    const struct command sh = { .real = "/bin/sh", .argv = { "sh" } };
    struct agent_policy *policy = policy_of("programs: []\nload: {targets: []}\n");
    struct load_workload w = load_of("127.0.0.1", 80);
    struct host_confine confine;

    (void)state;
    assert_int_equal(ask(policy, &sh, &confine, NULL), LS_EREFUSED);
    expect_load(policy, &w, "not in any of them");
    agent_policy_destroy(policy);
}

static void a_coordinator_has_to_be_among_those_named_and_to_prove_it(void **state)
{
    struct agent_policy *policy = policy_of("coordinators: [lab-1, 'ci-*']\n");
    struct ls_diag diag = { 0 };

    (void)state;
    assert_int_equal(agent_policy_coordinator(policy, "lab-1", &diag), LS_OK);
    assert_int_equal(agent_policy_coordinator(policy, "ci-7", &diag), LS_OK);
    assert_int_equal(agent_policy_coordinator(policy, "lab-2", &diag), LS_EREFUSED);
    assert_non_null(strstr(diag.text, "policy.yaml: coordinators: 'lab-2' is not among them"));
    assert_int_equal(agent_policy_coordinator(policy, "", &diag), LS_EREFUSED);
    assert_non_null(strstr(diag.text, "has not proven who it is"));
    agent_policy_destroy(policy);
    policy = policy_of("programs: []\n");
    assert_int_equal(agent_policy_coordinator(policy, "anybody", &diag), LS_OK);
    agent_policy_destroy(policy);
}

static void it_is_known_whether_programs_run_as_the_agent_itself(void **state)
{
    static const struct {
        const char *text;
        bool shares;
    } cases[] = {
        { "programs: []\n", false },
        { "programs: [{path: /bin/x}]\n", true },
        { "programs: [{path: /bin/x, user: '54321', group: '54321'}]\n", false },
        { "programs: [{path: /bin/x, user: '54321', group: '54321'}, {path: /bin/y, user: root}]\n",
          true },
    };
    struct agent_policy *policy = NULL;

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        struct ls_issues issues;
        bool root = strstr(cases[i].text, "user") != NULL; /* else nobody may change it */

        if (root && geteuid() != 0)
            continue;
        ls_issues_init(&issues, "p.yaml");
        assert_int_equal(
            agent_policy_parse(bytes_of(cases[i].text), "p.yaml", root, &issues, &policy), LS_OK);
        assert_int_equal(agent_policy_shares_user(policy), cases[i].shares);
        agent_policy_destroy(policy);
        ls_issues_fini(&issues);
    }
    assert_int_equal(agent_policy_without_file(AGENT_POLICY_REMOTE, &policy), LS_OK);
    assert_false(agent_policy_shares_user(policy));
    agent_policy_destroy(policy);
}

static void a_policy_describes_itself(void **state)
{
    struct agent_policy *policy =
        policy_of("coordinators: [lab]\n"
                  "programs: [{name: web, path: /usr/sbin/nginx}, {path: /usr/bin/node}]\n"
                  "load: {targets: [servers], max_rate: 5k/s, max_connections: 7}\n"
                  "files: {max_bytes: 1MiB, max_files: 3}\n");
    Ls__HostLimits *limits = malloc(sizeof(*limits));
    struct agent_files_limits files;

    (void)state;
    assert_non_null(limits);
    ls__host_limits__init(limits);
    assert_int_equal(agent_policy_describe(policy, limits), LS_OK);
    assert_string_equal(limits->policy, "dir/policy.yaml");
    assert_int_equal(limits->n_programs, 2);
    assert_string_equal(limits->programs[0], "web");
    assert_string_equal(limits->programs[1], "/usr/bin/node");
    assert_string_equal(limits->targets[0], "servers");
    assert_true(limits->max_rate_per_s > 4999 && limits->max_rate_per_s < 5001);
    assert_int_equal(limits->max_connections, 7);
    assert_string_equal(limits->coordinators[0], "lab");
    ls__host_limits__free_unpacked(limits, NULL);
    agent_policy_files(policy, &files);
    assert_int_equal(files.max_bytes, 1u << 20);
    assert_int_equal(files.max_files, 3);
    assert_string_equal(files.policy, "policy.yaml");
    agent_policy_destroy(policy);
}

static void the_example_allows_nothing(void **state)
{
    const struct command sh = { .real = "/bin/sh", .argv = { "sh" } };
    struct load_workload w = load_of("127.0.0.1", 80);
    struct agent_policy *policy;
    struct host_confine confine;
    char *text = NULL;
    size_t len = 0;

    (void)state;
    assert_int_equal(
        ls_fs_read(LS_SOURCE "/deploy/policy.example.yaml", 1u << 20, &text, &len, NULL), LS_OK);
    policy = policy_of(text);
    assert_false(agent_policy_runs_programs(policy));
    assert_int_equal(ask(policy, &sh, &confine, NULL), LS_EREFUSED);
    expect_load(policy, &w, "not in any of them");
    agent_policy_destroy(policy);
    free(text);
}

/* Its examples are no mistakes either. */
static void the_examples_lines_are_good_ones(void **state)
{
    char *text = NULL, *at, *out;
    struct agent_policy *policy = NULL;
    struct ls_issues issues;
    size_t len = 0;

    (void)state;
    assert_int_equal(
        ls_fs_read(LS_SOURCE "/deploy/policy.example.yaml", 1u << 20, &text, &len, NULL), LS_OK);
    for (at = text, out = text; *at != '\0';) { /* without what stands for nothing */
        size_t line = strcspn(at, "\n") + 1;
        const char *dots = strstr(at, "...]");
        bool cut = dots != NULL && dots - at < (long)line; /* a digest that is not there */
        bool example = strncmp(at, "#   ", 4) == 0 || strncmp(at, "# files: {", 10) == 0 ||
                       strncmp(at, "# coordinators: [", 17) == 0;

        if (strncmp(at, "programs: []", 12) == 0) {
            (void)memcpy(out, "programs:\n", 10);
            out += 10;
        } else if (strncmp(at, "  targets: []", 13) != 0 && !cut && (example || at[0] != '#')) {
            size_t skip = example ? 2 : 0;

            (void)memmove(out, at + skip, line - skip);
            out += line - skip;
        }
        at += line;
    }
    *out = '\0';
    ls_issues_init(&issues, "example");
    (void)!agent_policy_parse(bytes_of(text), "example", true, &issues, &policy);
    for (size_t i = 0; i < issues.count; i++) { /* the user of the example need not be here */
        if (strstr(issues.items[i].text, "is no user of this host") == NULL)
            fail_msg("%s: %s\n%s", issues.items[i].path, issues.items[i].text, text);
    }
    ls_issues_fini(&issues);
    agent_policy_destroy(policy);
    free(text);
}

/* ---- who could have written it */

static void put(const char *path)
{
    assert_int_equal(ls_fs_write(path, bytes_of("programs: []\n"), 0644, NULL), LS_OK);
}

static enum ls_err load(const char *path, char *out, size_t out_bytes)
{
    struct agent_policy *policy = NULL;
    struct ls_issues issues;
    enum ls_err rc;
    char *text;

    ls_issues_init(&issues, path);
    rc = agent_policy_load(path, &issues, &policy);
    text = ls_issues_format(&issues);
    (void)snprintf(out, out_bytes, "%s", text != NULL ? text : "");
    free(text);
    ls_issues_fini(&issues);
    agent_policy_destroy(policy);
    return rc;
}

static void a_file_that_others_could_write_is_refused(void **state)
{
    struct tmpdir tmp;
    char text[600];

    (void)state;
    tmpdir_make(&tmp);
    assert_int_equal(chdir(tmp.path), 0);
    assert_int_equal(mkdir("d", 0755), 0);
    put("d/policy.yaml");
    assert_int_equal(load("d/policy.yaml", text, sizeof(text)), LS_OK);
    assert_int_equal(symlink("d/policy.yaml", "link"), 0);
    assert_int_equal(load("link", text, sizeof(text)), LS_OK);
    assert_int_equal(chmod("d/policy.yaml", 0664), 0);
    assert_int_equal(load("d/policy.yaml", text, sizeof(text)), LS_EREFUSED);
    assert_non_null(strstr(text, "chmod go-w it"));
    assert_int_equal(load("link", text, sizeof(text)), LS_EREFUSED);
    assert_int_equal(chmod("d/policy.yaml", 0646), 0);
    assert_int_equal(load("d/policy.yaml", text, sizeof(text)), LS_EREFUSED);
    assert_int_equal(chmod("d/policy.yaml", 0600), 0);
    assert_int_equal(chmod("d", 0777), 0);
    assert_int_equal(load("d/policy.yaml", text, sizeof(text)), LS_EREFUSED);
    assert_non_null(strstr(text, "/d can be written"));
    assert_int_equal(load("link", text, sizeof(text)), LS_EREFUSED);
    assert_int_equal(mkdir("d/e", 0755), 0); /* further up, too */
    put("d/e/policy.yaml");
    assert_int_equal(load("d/e/policy.yaml", text, sizeof(text)), LS_EREFUSED);
    assert_int_equal(symlink("../d/policy.yaml", "d/link"), 0);
    assert_int_equal(chmod("d", 0755), 0);
    assert_int_equal(load("d/e/policy.yaml", text, sizeof(text)), LS_OK);
    assert_int_equal(load("d/link", text, sizeof(text)), LS_OK);
    assert_int_equal(load("d", text, sizeof(text)), LS_EIO);
    assert_int_equal(load("absent", text, sizeof(text)), LS_EIO);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_int_equal(load("fifo", text, sizeof(text)), LS_EIO);
    if (geteuid() == 0) {
        assert_int_equal(chown("d/policy.yaml", 4711, 0), 0);
        assert_int_equal(load("d/policy.yaml", text, sizeof(text)), LS_EREFUSED);
        assert_non_null(strstr(text, "belongs to user 4711"));
        assert_int_equal(chown("d/policy.yaml", 0, 0), 0);
        assert_int_equal(chown("d", 4711, 0), 0);
        assert_int_equal(load("d/policy.yaml", text, sizeof(text)), LS_EREFUSED);
    }
    assert_int_equal(chdir("/"), 0);
    tmpdir_remove(&tmp);
}

static void a_private_socket_of_ones_own_is_local(void **state)
{
    struct tmpdir tmp;
    char url[300];

    (void)state;
    tmpdir_make(&tmp);
    (void)snprintf(url, sizeof(url), "ipc://%s/socket", tmp.path);
    assert_true(agent_policy_url_is_local(url));
    assert_int_equal(chmod(tmp.path, 0755), 0);
    assert_false(agent_policy_url_is_local(url));
    assert_int_equal(chmod(tmp.path, 0700), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(tmp.path, 4711, 4711), 0);
        assert_false(agent_policy_url_is_local(url));
        assert_int_equal(chown(tmp.path, 0, 0), 0);
    }
    assert_false(agent_policy_url_is_local("tcp://127.0.0.1:7400"));
    assert_false(agent_policy_url_is_local("ipc:///absent/folder/socket"));
    assert_false(agent_policy_url_is_local("ipc://socket"));
    tmpdir_remove(&tmp);
}

/* ---- memory */

static void parse_once(void *ctx)
{
    struct agent_policy *policy = NULL;
    struct ls_issues issues;
    enum ls_err rc;

    (void)ctx;
    ls_issues_init(&issues, "p.yaml");
    rc = agent_policy_parse(bytes_of("programs: [{path: /bin/x, arguments: [a]}]\n"
                                     "load: {targets: [loopback, 10.0.0.0/8]}\n"),
                            "p.yaml", false, &issues, &policy);
    if (!failmalloc_hit())
        assert_int_equal(rc, LS_OK);
    else if (rc != LS_OK)
        assert_int_equal(rc, LS_ENOMEM);
    agent_policy_destroy(policy);
    ls_issues_fini(&issues);
}

static void reading_survives_each_failed_allocation(void **state)
{
    (void)state;
    assert_true(failmalloc_each(parse_once, NULL) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mistake_is_told_with_its_place),
        cmocka_unit_test(a_program_runs_as_its_rule_says_or_not_at_all),
        cmocka_unit_test(a_name_that_no_rule_fits_is_not_what_a_program_is_called),
        cmocka_unit_test(limits_come_with_the_rule),
        cmocka_unit_test(users_are_looked_up_and_only_root_can_change_them),
        cmocka_unit_test(only_what_is_listed_is_loaded),
        cmocka_unit_test(how_hard_is_bounded_by_this_agents_share),
        cmocka_unit_test(connections_come_from_listed_addresses),
        cmocka_unit_test(without_a_file_a_dialling_agent_loads_this_host_and_the_runs_servers),
        cmocka_unit_test(an_empty_policy_allows_nothing),
        cmocka_unit_test(a_coordinator_has_to_be_among_those_named_and_to_prove_it),
        cmocka_unit_test(it_is_known_whether_programs_run_as_the_agent_itself),
        cmocka_unit_test(a_policy_describes_itself),
        cmocka_unit_test(the_example_allows_nothing),
        cmocka_unit_test(the_examples_lines_are_good_ones),
        cmocka_unit_test(a_file_that_others_could_write_is_refused),
        cmocka_unit_test(a_private_socket_of_ones_own_is_local),
        cmocka_unit_test(reading_survives_each_failed_allocation),
    };

    return cmocka_run_group_tests_name("agent.policy", tests, NULL, NULL);
}

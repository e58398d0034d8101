#include "tests/support/test.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/host/facts.h"
#include "common/clock.h"
#include "common/cpuset.h"

static void facts_agree_with_what_the_system_says(void **state)
{
    Ls__Facts *facts = malloc(sizeof(*facts));
    struct ls_cpuset own, told;
    struct rlimit files;
    struct utsname names;
    struct ls_diag diag = { 0 };

    (void)state;
    ls__facts__init(facts);
    if (host_facts_read(facts, &diag) != LS_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(uname(&names), 0);
    assert_string_equal(facts->hostname, names.nodename);
    assert_string_equal(facts->architecture, names.machine);
    assert_non_null(strstr(facts->kernel, names.release));
    assert_true(facts->cpu_cores >= 1 && facts->cpu_threads >= facts->cpu_cores);
    assert_int_equal(facts->smt, facts->cpu_threads > facts->cpu_cores);
    assert_true(facts->numa_nodes >= 1);
    assert_true(facts->memory_bytes >= (64u << 20) &&
                facts->memory_bytes <=
                    (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    assert_int_equal(facts->open_files_limit, files.rlim_cur);
    assert_int_equal(ls_cpuset_get_affinity(0, &own, NULL), LS_OK);
    assert_int_equal(ls_cpuset_parse(facts->cpus_allowed, &told, NULL), LS_OK);
    assert_true(ls_cpuset_equal(&own, &told));
    for (size_t i = 0; i < facts->base.descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &facts->base.descriptor->fields[i];

        if (field->type == PROTOBUF_C_TYPE_STRING && field->label != PROTOBUF_C_LABEL_REPEATED)
            assert_int_not_equal((*(char *const *)((const char *)facts + field->offset))[0], '\0');
    }
    ls__facts__free_unpacked(facts, NULL);
}

static unsigned long number_in(const char *path)
{
    char text[64] = "";
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return 0;
    (void)!fgets(text, sizeof(text), file);
    (void)fclose(file);
    return strtoul(text, NULL, 10);
}

static void what_the_hardware_is_and_what_is_set_agree_with_the_systems_files(void **state)
{
    Ls__Facts *facts = malloc(sizeof(*facts));
    char path[128];

    (void)state;
    ls__facts__init(facts);
    assert_int_equal(host_facts_read(facts, NULL), LS_OK);
    assert_true(facts->cpu_sockets >= 1 && facts->cpu_sockets <= facts->cpu_cores);
    assert_int_equal(facts->listen_backlog_limit, number_in("/proc/sys/net/core/somaxconn"));
    assert_true(facts->steal_share >= 0 && facts->steal_share < 1);
    assert_non_null(strchr(facts->local_ports, '-'));
    assert_int_equal(strtoul(facts->local_ports, NULL, 10),
                     number_in("/proc/sys/net/ipv4/ip_local_port_range"));
    if (number_in("/sys/devices/system/cpu/cpu0/cache/index0/level") > 0) {
        assert_true(facts->n_caches > 0);
        assert_int_equal(facts->caches[0][0], 'L');
        assert_non_null(strstr(facts->caches[0], " x"));
    }
    for (size_t i = 0; i < facts->n_nics; i++) {
        const Ls__Nic *nic = facts->nics[i];

        (void)snprintf(path, sizeof(path), "/sys/class/net/%.40s/mtu", nic->name);
        assert_int_equal(nic->mtu, number_in(path));
        assert_string_not_equal(nic->name, "lo");
        assert_string_not_equal(nic->driver, "");
    }
    ls__facts__free_unpacked(facts, NULL);
}

static void limits_without_bound_fit_json(void **state)
{
    Ls__Facts *facts = malloc(sizeof(*facts));
    struct rlimit limit;

    (void)state;
    ls__facts__init(facts);
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    assert_int_equal(host_facts_read(facts, NULL), LS_OK);
    if (limit.rlim_cur == RLIM_INFINITY)
        assert_true(facts->locked_memory_limit_bytes == (UINT64_C(1) << 53) - 1);
    else
        assert_true(facts->locked_memory_limit_bytes == limit.rlim_cur);
    ls__facts__free_unpacked(facts, NULL);
}

static void burn(int64_t cpu_ns)
{
    int64_t end_ns = ls_clock_thread_cpu_ns() + cpu_ns;

    while (ls_clock_thread_cpu_ns() < end_ns)
        ;
}

static void busy_time_grows_on_the_cpu_that_is_busy(void **state)
{
    const int64_t tick_ns = 10 * LS_NS_PER_MS, burnt_ns = 200 * LS_NS_PER_MS;
    struct host_counters before, after, all;
    struct ls_cpuset own, one = { { 0 } };
    char list[32];

    (void)state;
    assert_int_equal(ls_cpuset_get_affinity(0, &own, NULL), LS_OK);
    ls_cpuset_add(&one, (unsigned)ls_cpuset_nth(&own, 0));
    assert_int_equal(ls_cpuset_set_affinity(0, &one, NULL), LS_OK);
    (void)ls_cpuset_format(&one, list, sizeof(list));
    host_counters_read(list, 0, &before);
    burn(burnt_ns);
    host_counters_read(list, 0, &after);
    assert_int_equal(ls_cpuset_set_affinity(0, &own, NULL), LS_OK);
    /* What the hypervisor takes of a CPU has been somebody's time, and is not counted as busy. */
    assert_true(after.cpus_busy_ns - before.cpus_busy_ns + after.cpus_steal_ns -
                    before.cpus_steal_ns >=
                burnt_ns - 5 * tick_ns);
    host_counters_read(NULL, 0, &all);
    assert_true(all.cpus_busy_ns >= after.cpus_busy_ns);
    host_counters_read("", 0, &after);
    assert_true(after.cpus_busy_ns >= all.cpus_busy_ns);
}

static void counters_of_cpus_that_are_not_there_are_zero(void **state)
{
    struct host_counters counters;

    (void)state;
    host_counters_read("1023", 0, &counters);
    assert_int_equal(counters.cpus_busy_ns, 0);
    assert_int_equal(counters.cpus_steal_ns, 0);
}

/* The kernel's own word: the value below the name in /proc/self/net/netstat. */
static uint64_t listen_overflows(void)
{
    char names[4096], values[4096], *name, *value, *rest_of_names, *rest_of_values;
    FILE *file = fopen("/proc/self/net/netstat", "re");

    assert_non_null(file);
    assert_non_null(fgets(names, sizeof(names), file));
    assert_non_null(fgets(values, sizeof(values), file));
    (void)fclose(file);
    name = strtok_r(names, " \n", &rest_of_names);
    value = strtok_r(values, " \n", &rest_of_values);
    while (name != NULL && value != NULL && strcmp(name, "ListenOverflows") != 0) {
        name = strtok_r(NULL, " \n", &rest_of_names);
        value = strtok_r(NULL, " \n", &rest_of_values);
    }
    assert_non_null(value);
    return strtoull(value, NULL, 10);
}

static void each_overflow_of_an_accept_queue_counts_once(void **state)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct host_counters counters;
    uint64_t before;
    int fds[8];

    (void)state;
    assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    assert_int_equal(listen(listener, 1), 0);
    for (size_t i = 0; i < LS_ARRAY_LEN(fds); i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(fds[i], (struct sockaddr *)&address, len); /* nobody accepts it */
    }
    before = listen_overflows();
    host_counters_read(NULL, 0, &counters);
    assert_true(before > 0);
    assert_in_range(counters.listen_overflows, before, listen_overflows());
    for (size_t i = 0; i < LS_ARRAY_LEN(fds); i++)
        (void)close(fds[i]);
    (void)close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_agree_with_what_the_system_says),
        cmocka_unit_test(what_the_hardware_is_and_what_is_set_agree_with_the_systems_files),
        cmocka_unit_test(limits_without_bound_fit_json),
        cmocka_unit_test(busy_time_grows_on_the_cpu_that_is_busy),
        cmocka_unit_test(counters_of_cpus_that_are_not_there_are_zero),
        cmocka_unit_test(each_overflow_of_an_accept_queue_counts_once),
    };

    return cmocka_run_group_tests_name("agent.host_facts", tests, NULL, NULL);
}

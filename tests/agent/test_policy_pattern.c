#include "tests/support/test.h"

#include <stdbool.h>
#include <string.h>

#include "agent/policy/pattern.h"
#include "common/attr.h"
#include "common/rng.h"

#define DIR "/tmp/a/trial-001"

static void a_pattern_fits_the_whole_text(void **state)
{
    static const struct {
        const char *pattern;
        const char *text;
        bool fits;
    } cases[] = {
        { "", "", true },
        { "", "x", false },
        { "/usr/sbin/nginx", "/usr/sbin/nginx", true },
        { "/usr/sbin/nginx", "/usr/sbin/nginx2", false },
        { "/usr/sbin/nginx", "/opt/usr/sbin/nginx", false },
        { "/usr/*/nginx", "/usr/sbin/nginx", true },
        { "/usr/*/nginx", "/usr/local/sbin/nginx", false },
        { "/usr/**/nginx", "/usr/local/sbin/nginx", true },
        { "/usr/**", "/usr/bin/sh", true },
        { "/usr/**", "/opt/bin/sh", false },
        { "*", "", true },
        { "*.conf", "a.b.conf", true },
        { "*.conf", "a/b.conf", false },
        { "-c*", "-cx", true },
        { "{dir}/server", DIR "/server", true },
        { "{dir}/server", "/tmp/a/trial-002/server", false },
        { "{dir}/*", DIR "/bin", true },
        { "{dir}/*", DIR "1/bin", false },
        { "{dir}/*", DIR "/a/bin", false },
        { "{host}", "{host}", true }, /* no other word is one */
        { "--config={dir}/x", "--config=" DIR "/x", true },
        /* out of it again */
        { "{dir}/**", DIR "/../trial-002/x", false },
        { "{dir}/**", DIR "/..", false },
        { "**", "../etc/shadow", false },
        { "*", "..", false },
        { "--config=**", "--config=../../etc/shadow", false },
        { "-c**", "-c../../etc/shadow", false },
        { "-c**", "-c..", false },
        { "-c**", "-c..x", true },
        { "--range=*", "--range=1..5", true },
        { "../x", "../x", true }, /* that is what it says */
        { "*", "..x", true },
        { "*", "x..", true },
        { "**", "a/b../c", true },
        /* what does not belong into a word */
        { "*", "a\nb", false },
        { "**", "a\tb", false },
        { "*", "a\x7f", false },
        { "a\nb", "a\nb", true },
        { "*", "gr\xc3\xbc\xc3\x9f", true },
    };

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(cases); i++) {
        if (policy_pattern_fits(cases[i].pattern, cases[i].text, DIR) != cases[i].fits)
            fail_msg("'%s' and '%s'", cases[i].pattern, cases[i].text);
    }
    assert_false(
        policy_pattern_fits("{dir}/x", "/x", "")); /* without a folder it stands for none */
}

/* By trying everything. */
static bool oracle(const char *pattern, const char *text)
{
    if (pattern[0] == '*') {
        bool across = pattern[1] == '*';
        const char *rest = pattern + (across ? 2 : 1);

        if (oracle(rest, text))
            return true;
        return text[0] != '\0' && text[0] != '\n' && (across || text[0] != '/') &&
               oracle(pattern, text + 1);
    }
    if (text[0] == '\0' || pattern[0] == '\0')
        return text[0] == pattern[0];
    return pattern[0] == text[0] && oracle(pattern + 1, text + 1);
}

static void matching_agrees_with_trying_everything(void **state)
{
    static const char letters[] = "ab/*", texts[] = "ab/\n";
    struct ls_rng rng;
    unsigned hits = 0;

    (void)state;
    ls_rng_init(&rng, 5, 0);
    for (unsigned i = 0; i < 300000; i++) {
        char pattern[9] = "", text[9] = "";
        size_t n = (size_t)(ls_rng_next(&rng) % 8), m = (size_t)(ls_rng_next(&rng) % 8);
        bool want;

        for (size_t k = 0; k < n; k++)
            pattern[k] = letters[ls_rng_next(&rng) % 4];
        for (size_t k = 0; k < m; k++)
            text[k] = texts[ls_rng_next(&rng) % (k > 5 ? 4 : 3)];
        if (strstr(pattern, "***") != NULL)
            continue;
        want = oracle(pattern, text);
        hits += want;
        if (policy_pattern_fits(pattern, text, "") != want)
            fail_msg("'%s' and '%s'", pattern, text);
    }
    assert_true(hits > 1000);
}

/* Trying everything would outlast the test. */
static void no_pattern_takes_for_ever(void **state)
{
    char pattern[401], text[4001];

    (void)state;
    for (size_t i = 0; i < 400; i++)
        pattern[i] = i % 2 == 0 ? 'a' : '*';
    pattern[400] = '\0';
    (void)memset(text, 'a', 4000);
    text[3999] = 'b';
    text[4000] = '\0';
    assert_true(policy_pattern_fits(pattern, text, ""));
    text[2000] = '/';
    assert_false(policy_pattern_fits(pattern, text, ""));
    for (size_t i = 0; i < 400; i++)
        pattern[i] = i % 3 == 0 ? 'a' : '*';
    pattern[399] = 'c';
    assert_false(policy_pattern_fits(pattern, text, ""));
}

static bool fit(char **patterns, size_t count, char **arguments)
{
    return policy_arguments_fit(patterns, count, arguments, DIR);
}

#define WORDS(...) ((char *[]){ __VA_ARGS__, NULL })
static char c[] = "-c", conf[] = "*.conf", dots[] = "...", file[] = "a.conf", evil[] = "../a.conf",
            g[] = "-g";

static void arguments_fit_word_by_word(void **state)
{
    char *none[] = { NULL };

    (void)state;
    assert_true(fit(NULL, 0, none));
    assert_false(fit(NULL, 0, WORDS(c)));
    assert_true(fit(WORDS(c, conf), 2, WORDS(c, file)));
    assert_false(fit(WORDS(c, conf), 2, WORDS(c)));
    assert_false(fit(WORDS(c, conf), 2, WORDS(c, file, g)));
    assert_false(fit(WORDS(c, conf), 2, WORDS(file, c)));
    assert_false(fit(WORDS(c, conf), 2, WORDS(c, evil)));
    assert_true(fit(WORDS(c, dots), 2, WORDS(c)));
    assert_true(fit(WORDS(c, dots), 2, WORDS(c, evil, g)));
    assert_false(fit(WORDS(c, dots), 2, WORDS(g, evil)));
    assert_true(fit(WORDS(dots), 1, none));
}

static void dangerous_variables_are_allowed_by_name_only(void **state)
{
    static const char *const dangerous[] = {
        "LD_PRELOAD",   "LD_LIBRARY_PATH", "LD_AUDIT",     "GCONV_PATH",
        "PATH",         "BASH_ENV",        "NODE_OPTIONS", "PYTHONPATH",
        "PERL5OPT",     "GLIBC_TUNABLES",  "BASH_FUNC_x",  "IFS",
        "OPENSSL_CONF", "NODE_PATH",       "HOME",         "JAVA_TOOL_OPTIONS",
    };
    static const char *const harmless[] = { "NODE_ENV", "PORT", "APP_MODE", "WORKERS", "LANG" };
    char any[] = "**", ld[] = "LD_*", preload[] = "LD_PRELOAD";

    (void)state;
    for (size_t i = 0; i < LS_ARRAY_LEN(dangerous); i++) {
        if (!policy_variable_is_dangerous(dangerous[i]))
            fail_msg("%s is not dangerous", dangerous[i]);
        assert_false(policy_variable_fits(WORDS(any), 1, dangerous[i]));
    }
    for (size_t i = 0; i < LS_ARRAY_LEN(harmless); i++) {
        assert_false(policy_variable_is_dangerous(harmless[i]));
        assert_true(policy_variable_fits(WORDS(any), 1, harmless[i]));
        assert_false(policy_variable_fits(NULL, 0, harmless[i]));
    }
    assert_false(policy_variable_fits(WORDS(ld), 1, "LD_PRELOAD"));
    assert_true(policy_variable_fits(WORDS(ld, preload), 2, "LD_PRELOAD"));
    assert_false(policy_variable_fits(WORDS(ld, preload), 2, "LD_AUDIT"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_fits_the_whole_text),
        cmocka_unit_test(matching_agrees_with_trying_everything),
        cmocka_unit_test(no_pattern_takes_for_ever),
        cmocka_unit_test(arguments_fit_word_by_word),
        cmocka_unit_test(dangerous_variables_are_allowed_by_name_only),
    };

    return cmocka_run_group_tests_name("agent.policy_pattern", tests, NULL, NULL);
}

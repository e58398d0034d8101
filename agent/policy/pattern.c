#include "agent/policy/pattern.h"

#include <string.h>

#include "common/attr.h"

static const char dir_word[] = "{dir}";

/* ---- patterns */

/* One thing that a pattern asks for. */
struct piece {
    enum { PIECE_CHAR, PIECE_PART, PIECE_ANY, PIECE_DIR, PIECE_END } kind;
    size_t len; /* in the pattern */
};

static struct piece piece_at(const char *pattern)
{
    if (pattern[0] == '\0')
        return (struct piece){ PIECE_END, 0 };
    if (strncmp(pattern, dir_word, sizeof(dir_word) - 1) == 0)
        return (struct piece){ PIECE_DIR, sizeof(dir_word) - 1 };
    if (pattern[0] != '*')
        return (struct piece){ PIECE_CHAR, 1 };
    if (pattern[1] == '*')
        return (struct piece){ PIECE_ANY, 1 + strspn(pattern + 1, "*") };
    return (struct piece){ PIECE_PART, 1 };
}

static bool wild_takes(bool across, char c)
{
    return (unsigned char)c >= 0x20 && c != 0x7f && (across || c != '/');
}

/* A wildcard to come back to when what follows it does not fit: it then takes one more. */
struct retreat {
    const char *pattern; /* behind the wildcard; NULL: there is none */
    const char *text;    /* what it has taken ends here */
};

static bool take_more(struct retreat *r, bool across, const char **pattern, const char **text)
{
    if (r->pattern == NULL || *r->text == '\0' || !wild_takes(across, *r->text))
        return false;
    r->text++;
    *pattern = r->pattern;
    *text = r->text;
    return true;
}

/* The last wildcard of each kind is enough to come back to: an earlier "*" could only take what the
 * later one may take as well, up to the next slash, and beyond that only an earlier "**" helps. */
static bool fits(const char *pattern, const char *text, const char *dir)
{
    struct retreat part = { NULL, NULL }, any = { NULL, NULL };
    size_t dir_len = strlen(dir);

    for (;;) {
        struct piece piece = piece_at(pattern);

        if (piece.kind == PIECE_PART || piece.kind == PIECE_ANY) {
            pattern += piece.len;
            if (piece.kind == PIECE_ANY) {
                any = (struct retreat){ pattern, text };
                part = (struct retreat){ NULL, NULL };
            } else {
                part = (struct retreat){ pattern, text };
            }
        } else if (piece.kind == PIECE_DIR && dir_len > 0 && strncmp(text, dir, dir_len) == 0) {
            pattern += piece.len;
            text += dir_len;
        } else if (piece.kind == PIECE_CHAR && *text == *pattern) {
            pattern++;
            text++;
        } else if (piece.kind == PIECE_END && *text == '\0') {
            return true;
        } else if (!take_more(&part, false, &pattern, &text)) {
            part = (struct retreat){ NULL, NULL };
            if (!take_more(&any, true, &pattern, &text))
                return false;
        }
    }
}

/* ".." as a part of a path, also as in "--config=../x" and "-c../x". */
static bool climbs(const char *text)
{
    bool option = text[0] == '-';

    for (const char *at = strstr(text, ".."); at != NULL; at = strstr(at + 1, "..")) {
        bool begins = at == text || strchr("/=:,", at[-1]) != NULL ||
                      (option && (at[2] == '/' || at == text + 2));

        if (begins && (at[2] == '\0' || at[2] == '/'))
            return true;
    }
    return false;
}

bool policy_pattern_fits(const char *pattern, const char *text, const char *dir)
{
    return (!climbs(text) || climbs(pattern)) && fits(pattern, text, dir);
}

bool policy_arguments_fit(char *const *patterns, size_t count, char *const *arguments,
                          const char *dir)
{
    bool open = count > 0 && strcmp(patterns[count - 1], "...") == 0;
    size_t fixed = open ? count - 1 : count;
    size_t n = 0;

    for (; arguments[n] != NULL && n < fixed; n++) {
        if (!policy_pattern_fits(patterns[n], arguments[n], dir))
            return false;
    }
    return n == fixed && (open || arguments[n] == NULL);
}

/* ---- variables */

/* What loaders, C libraries, shells and interpreters obey before the program does; PATH decides
 * what "command" is, HOME where most look for a configuration. */
static const char *const dangerous[] = {
    "LD_*",       "GCONV_PATH",    "GLIBC_TUNABLES", "GETCONF_DIR",  "LOCPATH",
    "NLSPATH",    "NIS_PATH",      "HOSTALIASES",    "LOCALDOMAIN",  "RES_OPTIONS",
    "RESOLV_*",   "MALLOC_*",      "TZDIR",          "TMPDIR",       "PATH",
    "*_PATH",     "*PATH",         "HOME",           "SHELL",        "IFS",
    "ENV",        "BASH*",         "SHELLOPTS",      "PS4",          "PROMPT_COMMAND",
    "PYTHON*",    "PERL*",         "RUBY*",          "NODE_OPTIONS", "NODE_EXTRA_CA_CERTS",
    "NPM_*",      "npm_*",         "JAVA_*",         "_JAVA_*",      "JDK_*",
    "LUA_*",      "PHP*",          "GOTRACEBACK",    "GODEBUG",      "OPENSSL_*",
    "SSL_CERT_*", "SSLKEYLOGFILE", "GIT_*",          "XDG_*",        "TERMINFO*",
    "TERMCAP",    "*_PRELOAD",     "*_LIBRARY_PATH", "ASAN_*",       "UBSAN_*",
    "LSAN_*",     "TSAN_*",        "DOTNET_*",       "COMPlus_*",    "CORECLR_*",
    "ERL_*",      "ELIXIR_ERL_*",  "XDG*",           "EDITOR",       "PAGER",
};

bool policy_variable_is_dangerous(const char *name)
{
    for (size_t i = 0; i < LS_ARRAY_LEN(dangerous); i++) {
        if (policy_pattern_fits(dangerous[i], name, ""))
            return true;
    }
    return false;
}

bool policy_variable_fits(char *const *patterns, size_t count, const char *name)
{
    bool full = policy_variable_is_dangerous(name);

    for (size_t i = 0; i < count; i++) {
        if (full ? strcmp(patterns[i], name) == 0 : policy_pattern_fits(patterns[i], name, ""))
            return true;
    }
    return false;
}

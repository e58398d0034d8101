/* agent/policy/pattern.h - the patterns of a policy: paths, arguments, variables, names. */
#ifndef LS_AGENT_POLICY_PATTERN_H
#define LS_AGENT_POLICY_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

/* Is text, the whole of it, what the pattern means? * is any characters but '/', ** any, {dir} the
 * folder dir ("" if there is none; never a wildcard). No wildcard stands for a control character,
 * and a text with a ".." between slashes or after a '=' fits only a pattern that has one. Takes
 * time in the order of the product of the lengths, whatever they hold. */
bool policy_pattern_fits(const char *pattern, const char *text, const char *dir);

/* Patterns (count of them), each for the argument of its place; the last may be "...": any number
 * of further ones. */
bool policy_arguments_fit(char *const *patterns, size_t count, char *const *arguments,
                          const char *dir);

/* Does this environment variable make programs load, run or believe something else: LD_PRELOAD,
 * GCONV_PATH, NODE_OPTIONS? */
bool policy_variable_is_dangerous(const char *name);
/* Among patterns (count of them); one that is dangerous only if it is there by its full name. */
bool policy_variable_fits(char *const *patterns, size_t count, const char *name);

#endif

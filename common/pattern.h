/* common/pattern.h - texts with placeholders, from which the requests of a load are made.
 *
 *     {seq:0-4095}   the numbers in turn; {seq:0000-4095} with as many digits
 *     {rand:1-6}     one of them, drawn from the seed
 *     {pick:a,b,c}   one of the texts, drawn from the seed; one that is listed twice comes twice as
 *                    often
 *     {csv:column}   that column of a row of the table, in turn or drawn
 *     {{             a brace
 *
 * A brace that is not followed by a name is itself, so that JSON needs no escapes. A placeholder
 * that occurs again in the same request stands for the same value; {seq}, {rand} and {pick} alone
 * are short for the first of their kind in the request. All {csv:...} of a request are of one row.
 *
 * Each request of a plan counts its own turns: 0, 1, 2 ... A value depends on nothing but the turn
 * and the seed, so that neither the number of workers nor the order in which they run can change
 * what is sent.
 */
#ifndef LS_COMMON_PATTERN_H
#define LS_COMMON_PATTERN_H

#include <stdbool.h>

#include "common/csv.h"

#define LS_PATTERN_VARIABLES_MAX 16u /* different ones in one request */
#define LS_PATTERN_DIGITS_MAX    18u /* of a number */
#define LS_PATTERN_CHOICES_MAX   4096u
#define LS_PATTERN_TRIED_MAX     256u /* values of a request that a preflight tries, one by one */

enum ls_generator {
    LS_GENERATOR_SEQ,
    LS_GENERATOR_RAND,
    LS_GENERATOR_PICK,
    LS_GENERATOR_CSV,
    LS_GENERATOR_COUNT
};

struct ls_variable {
    enum ls_generator generator;
    bool drawn;               /* from the seed, not in turn */
    uint64_t from;            /* numbers: the first */
    uint64_t count;           /* of values, at least 1 */
    unsigned width;           /* digits at least */
    char *spec;               /* owned: as written, "0-4095"; NULL for csv */
    struct ls_bytes *choices; /* owned; they point into spec */
};

/* What one request varies. Zeroed but for what csv says: none yet. */
struct ls_variables {
    const struct ls_csv *csv; /* NULL: the plan has no table */
    bool csv_random;
    uint64_t seed; /* another one for each request of a plan */
    size_t count;
    struct ls_variable items[LS_PATTERN_VARIABLES_MAX];
};

enum ls_piece_kind { LS_PIECE_TEXT, LS_PIECE_VALUE, LS_PIECE_LENGTH };

struct ls_piece {
    enum ls_piece_kind kind;
    struct ls_bytes text; /* LS_PIECE_TEXT: unescaped */
    uint32_t variable;    /* LS_PIECE_VALUE */
    uint32_t column;      /* ... of a table */
};

struct ls_pattern {
    struct ls_piece *pieces; /* owned */
    size_t count;
    char *text; /* owned */
    bool varies;
};

/* Flags of ls_pattern_parse. */
#define LS_PATTERN_KNOWN 1u /* may only repeat what the request has sent */
#define LS_PATTERN_LENGTH \
    2u /* {length} is allowed: the bytes of the body, which the caller knows */

/* Adds what is new to variables. LS_EINVAL, LS_ERANGE: diag says which placeholder, at which byte
 * (from 1), and what is known. LS_ENOMEM. On LS_OK the caller ends with ls_pattern_fini(). */
enum ls_err ls_pattern_parse(struct ls_variables *variables, const char *text, unsigned flags,
                             struct ls_pattern *out_pattern, struct ls_diag *diag) LS_NODISCARD;
void ls_pattern_fini(struct ls_pattern *pattern); /* a zeroed one is fine, and twice */
void ls_variables_fini(struct ls_variables *variables);

/* Which of its values variable has at a turn: below its count. */
uint64_t ls_variable_at(const struct ls_variables *variables, uint32_t variable, uint64_t turn);

/* The value number index that piece stands for; digits (of LS_PATTERN_DIGITS_MAX bytes) is room for
 * a number. Neither allocates nor formats by printf: it is called under load. */
struct ls_bytes ls_piece_value(const struct ls_variables *variables, const struct ls_piece *piece,
                               uint64_t index, char *digits);

/* Calls see for every value that piece can have until it returns false, except for numbers, whose
 * first and last are enough. Returns false if see did. */
bool ls_piece_each(const struct ls_variables *variables, const struct ls_piece *piece,
                   bool (*see)(void *ctx, struct ls_bytes value), void *ctx);

/* The text for turn 0 with braces escaped, as a pattern that does not vary; every variable has its
 * first value. The caller frees; NULL: no memory. */
char *ls_pattern_first(const struct ls_variables *variables,
                       const struct ls_pattern *pattern) LS_NODISCARD;

#endif

#include "common/units.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RATE_LEAST_PER_S 1e-9
#define RATE_MOST_PER_S  1e12

struct unit {
    const char *name;
    uint64_t scale;
};

/* Larger units first; a later unit of a duration is smaller than the one before it. */
static const struct unit duration_units[] = {
    { "h", 3600 * UINT64_C(1000000000) },
    { "m", 60 * UINT64_C(1000000000) },
    { "s", UINT64_C(1000000000) },
    { "ms", UINT64_C(1000000) },
    { "us", UINT64_C(1000) },
    { "ns", 1 },
};
static const struct unit count_units[] = {
    { "G", UINT64_C(1000000000) },
    { "M", UINT64_C(1000000) },
    { "k", UINT64_C(1000) },
    { "", 1 },
};
static const struct unit size_units[] = {
    { "TiB", UINT64_C(1) << 40 },
    { "GiB", UINT64_C(1) << 30 },
    { "MiB", UINT64_C(1) << 20 },
    { "KiB", UINT64_C(1) << 10 },
    { "GB", UINT64_C(1000000000) },
    { "MB", UINT64_C(1000000) },
    { "kB", UINT64_C(1000) },
    { "B", 1 },
    { "", 1 },
};

/* A decimal number as written: whole + fraction / 10^digits. */
struct decimal {
    uint64_t whole;
    uint64_t fraction;
    uint64_t power; /* 10^digits, at most 10^18 */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads digits[.digits] at *text and moves past it. */
static enum ls_err read_decimal(const char **text, struct decimal *out)
{
    const char *at = *text;
    struct decimal number = { .power = 1 };

    if (!is_digit(*at))
        return LS_EINVAL;
    for (; is_digit(*at); at++) {
        uint64_t digit = (uint64_t)(*at - '0');

        if (number.whole > (UINT64_MAX - digit) / 10)
            return LS_ERANGE;
        number.whole = number.whole * 10 + digit;
    }
    if (*at == '.') {
        at++;
        if (!is_digit(*at))
            return LS_EINVAL;
        for (; is_digit(*at); at++) {
            if (number.power == UINT64_C(1000000000000000000))
                return LS_EINVAL;
            number.fraction = number.fraction * 10 + (uint64_t)(*at - '0');
            number.power *= 10;
        }
    }
    *text = at;
    *out = number;
    return LS_OK;
}

/* number x scale, which must be a whole number. */
static enum ls_err scale_decimal(const struct decimal *number, uint64_t scale, uint64_t *out)
{
    ls_u128 part = (ls_u128)number->fraction * scale;
    ls_u128 all = (ls_u128)number->whole * scale + part / number->power;

    if (part % number->power != 0)
        return LS_EINVAL;
    if (all > UINT64_MAX)
        return LS_ERANGE;
    *out = (uint64_t)all;
    return LS_OK;
}

/* The unit that is the letters at *text, all of them, moved past; NULL if there is no such. */
static const struct unit *read_unit(const char **text, const struct unit *units, size_t count)
{
    size_t len = 0;

    while (((*text)[len] | 0x20) >= 'a' && ((*text)[len] | 0x20) <= 'z')
        len++;
    for (size_t i = 0; i < count; i++) {
        if (strlen(units[i].name) == len && memcmp(units[i].name, *text, len) == 0) {
            *text += len;
            return &units[i];
        }
    }
    return NULL;
}

static enum ls_err explain(struct ls_diag *diag, enum ls_err rc, const char *text,
                           const char *expected)
{
    if (rc == LS_ERANGE)
        return ls_fail(diag, rc, "\"%.40s\" is too large", text);
    return ls_fail(diag, rc, "\"%.40s\" is not %s", text, expected);
}

static enum ls_err read_duration(const char *at, uint64_t *out_ns)
{
    uint64_t total = 0;
    uint64_t smaller_than = UINT64_MAX;

    do {
        struct decimal number;
        uint64_t part;
        const struct unit *unit;
        enum ls_err rc = read_decimal(&at, &number);

        if (rc != LS_OK)
            return rc;
        unit = read_unit(&at, duration_units, LS_ARRAY_LEN(duration_units));
        if (unit == NULL || unit->scale >= smaller_than)
            return LS_EINVAL;
        rc = scale_decimal(&number, unit->scale, &part);
        if (rc != LS_OK)
            return rc;
        if (part > INT64_MAX - total)
            return LS_ERANGE;
        total += part;
        smaller_than = unit->scale;
    } while (*at != '\0');
    *out_ns = total;
    return LS_OK;
}

enum ls_err ls_parse_duration(const char *text, int64_t *out_ns, struct ls_diag *diag)
{
    uint64_t ns;
    enum ls_err rc = read_duration(text, &ns);

    if (rc != LS_OK)
        return explain(diag, rc, text,
                       "a duration in whole nanoseconds such as 250ms, 10s or 1m30s");
    *out_ns = (int64_t)ns;
    return LS_OK;
}

static enum ls_err read_quantity(const char *at, const struct unit *units, size_t count,
                                 uint64_t *out)
{
    struct decimal number;
    const struct unit *unit;
    enum ls_err rc = read_decimal(&at, &number);

    if (rc != LS_OK)
        return rc;
    unit = read_unit(&at, units, count);
    if (unit == NULL || *at != '\0')
        return LS_EINVAL;
    return scale_decimal(&number, unit->scale, out);
}

enum ls_err ls_parse_count(const char *text, uint64_t *out_n, struct ls_diag *diag)
{
    enum ls_err rc = read_quantity(text, count_units, LS_ARRAY_LEN(count_units), out_n);

    if (rc != LS_OK)
        return explain(diag, rc, text, "a whole number such as 1000, 50k or 2M");
    return LS_OK;
}

enum ls_err ls_parse_size(const char *text, uint64_t *out_bytes, struct ls_diag *diag)
{
    enum ls_err rc = read_quantity(text, size_units, LS_ARRAY_LEN(size_units), out_bytes);

    if (rc != LS_OK)
        return explain(diag, rc, text, "a size in whole bytes such as 512, 64KiB or 4MiB");
    return LS_OK;
}

/* The unit is handed to strtod as an exponent: one correct rounding, not two. */
static enum ls_err read_rate(const char *text, double *out_per_s)
{
    static const char exponents[][3] = { "e9", "e6", "e3", "e0" };
    char number[48];
    const struct unit *unit;
    double per_s;
    size_t whole = strspn(text, "0123456789");
    size_t len = whole;
    const char *at;

    static_assert(LS_ARRAY_LEN(exponents) == LS_ARRAY_LEN(count_units), "one for each unit");
    if (text[len] == '.')
        len += 1 + strspn(text + len + 1, "0123456789");
    if (whole == 0 || len == whole + 1 || len + sizeof(exponents[0]) > sizeof(number))
        return LS_EINVAL;
    at = text + len;
    unit = read_unit(&at, count_units, LS_ARRAY_LEN(count_units));
    if (unit == NULL || strcmp(at, "/s") != 0)
        return LS_EINVAL;
    (void)memcpy(number, text, len);
    (void)memcpy(number + len, exponents[unit - count_units], sizeof(exponents[0]));
    per_s = strtod(number, NULL);
    if (per_s > RATE_MOST_PER_S || (per_s > 0 && per_s < RATE_LEAST_PER_S))
        return LS_ERANGE;
    *out_per_s = per_s;
    return LS_OK;
}

enum ls_err ls_parse_rate(const char *text, double *out_per_s, struct ls_diag *diag)
{
    enum ls_err rc = read_rate(text, out_per_s);

    if (rc == LS_ERANGE)
        return ls_fail(diag, rc, "\"%.40s\" is outside of 0.000000001/s to 1000G/s", text);
    if (rc != LS_OK)
        return explain(diag, rc, text, "a rate such as 500/s or 20k/s");
    return LS_OK;
}

/* As for rates, the unit is an exponent: 0.1% is read as 0.1e-2. */
enum ls_err ls_parse_share(const char *text, double *out_share, struct ls_diag *diag)
{
    static const char *const expected = "a percentage such as 0.1% or 5%";
    size_t whole = strspn(text, "0123456789"), len = whole;
    char number[48];
    double share;

    if (text[len] == '.')
        len += 1 + strspn(text + len + 1, "0123456789");
    if (whole == 0 || len == whole + 1 || len + sizeof("e-2") > sizeof(number) ||
        strcmp(text + len, "%") != 0)
        return explain(diag, LS_EINVAL, text, expected);
    (void)memcpy(number, text, len);
    (void)memcpy(number + len, "e-2", sizeof("e-2"));
    share = strtod(number, NULL);
    if (share > 1)
        return ls_fail(diag, LS_ERANGE, "\"%.40s\" is more than 100%%", text);
    *out_share = share;
    return LS_OK;
}

/* ns in unit with as many decimals as it takes: "1.5s". */
static size_t format_part(uint64_t ns, const struct unit *unit, char *out, size_t out_bytes)
{
    size_t used = (size_t)snprintf(out, out_bytes, "%" PRIu64, ns / unit->scale);
    uint64_t rest = ns % unit->scale;
    uint64_t scale = unit->scale / 10;

    if (rest > 0)
        used += (size_t)snprintf(out + used, out_bytes - used, ".");
    for (; rest > 0; scale /= 10) {
        used += (size_t)snprintf(out + used, out_bytes - used, "%" PRIu64, rest / scale);
        rest %= scale;
    }
    return used + (size_t)snprintf(out + used, out_bytes - used, "%s", unit->name);
}

const char *ls_format_duration(int64_t ns, char *out, size_t out_bytes)
{
    uint64_t rest = ns < 0 ? 0 : (uint64_t)ns;
    size_t used = 0;

    assert(out_bytes >= 48);
    if (rest == 0)
        (void)snprintf(out, out_bytes, "0s");
    for (const struct unit *unit = duration_units; rest > 0; unit++) {
        bool sexagesimal = unit->scale > UINT64_C(1000000000);
        uint64_t part = sexagesimal ? rest - rest % unit->scale : rest;

        if (rest < unit->scale)
            continue;
        used += format_part(part, unit, out + used, out_bytes - used);
        rest -= part;
    }
    return out;
}

/* The first unit that divides n; the last one always does. */
static const char *format_whole(uint64_t n, const struct unit *units, const char *tail, char *out,
                                size_t out_bytes)
{
    while (units->scale > 1 && (n == 0 || n % units->scale != 0))
        units++;
    (void)snprintf(out, out_bytes, "%" PRIu64 "%s%s", n / units->scale,
                   units->scale > 1 ? units->name : "", tail);
    return out;
}

const char *ls_format_count(uint64_t n, char *out, size_t out_bytes)
{
    return format_whole(n, count_units, "", out, out_bytes);
}

const char *ls_format_size(uint64_t bytes, char *out, size_t out_bytes)
{
    static const struct unit binary[] = {
        { "TiB", UINT64_C(1) << 40 },
        { "GiB", UINT64_C(1) << 30 },
        { "MiB", UINT64_C(1) << 20 },
        { "KiB", UINT64_C(1) << 10 },
        { "", 1 },
    };

    return format_whole(bytes, binary, "", out, out_bytes);
}

const char *ls_format_rate(double per_s, char *out, size_t out_bytes)
{
    assert(out_bytes >= 48);
    if (per_s >= 0 && per_s <= RATE_MOST_PER_S && per_s == floor(per_s))
        return format_whole((uint64_t)per_s, count_units, "/s", out, out_bytes);
    /* Fewest decimals that read back equal; 26 suffice for 17 digits of the least rate. */
    for (int decimals = 1; decimals <= 26; decimals++) {
        (void)snprintf(out, out_bytes, "%.*f/s", decimals, per_s);
        if (strtod(out, NULL) == per_s)
            break;
    }
    return out;
}

const char *ls_format_share(double share, char *out, size_t out_bytes)
{
    assert(out_bytes >= 48);
    for (int decimals = 0; decimals <= 40; decimals++) {
        double again = 0;

        (void)snprintf(out, out_bytes, "%.*f%%", decimals, share * 100);
        if (ls_parse_share(out, &again, NULL) == LS_OK && again == share)
            break;
    }
    return out;
}

struct human_unit {
    const char *name;
    double scale;
};

/* To three significant digits; whole numbers above them stay whole: 1023. */
static double round_shown(double x)
{
    char digits[32];

    if (x >= 1000)
        return rint(x);
    (void)snprintf(digits, sizeof(digits), "%.2e", x);
    return strtod(digits, NULL);
}

/* In the largest unit that keeps the number at 1 or above. */
static const char *human(double x, const struct human_unit *units, size_t count, char *out,
                         size_t out_bytes)
{
    double size = fabs(x);
    double shown;
    int decimals;
    size_t i = 0;

    if (!isfinite(x)) {
        (void)snprintf(out, out_bytes, "?");
        return out;
    }
    /* Rounding comes first: 999.6 us is 1.00 ms, not 1000 us. */
    for (;; i++) {
        shown = round_shown(size / units[i].scale);
        if (i + 1 == count || shown * units[i].scale < units[i + 1].scale)
            break;
    }
    decimals = shown >= 100 ? 0 : shown >= 10 ? 1 : 2;
    if (i == 0 && size == floor(size))
        decimals = 0; /* 5 of something is not 5.00 */
    (void)snprintf(out, out_bytes, "%s%.*f%s%s", x < 0 ? "-" : "", decimals, shown,
                   units[i].name[0] != '\0' ? " " : "", units[i].name);
    return out;
}

const char *ls_human_duration(double ns, char *out, size_t out_bytes)
{
    static const struct human_unit units[] = {
        { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { "min", 60e9 }, { "h", 3600e9 },
    };

    return human(ns, units, LS_ARRAY_LEN(units), out, out_bytes);
}

const char *ls_human_count(double n, char *out, size_t out_bytes)
{
    static const struct human_unit units[] = {
        { "", 1 }, { "k", 1e3 }, { "M", 1e6 }, { "G", 1e9 }, { "T", 1e12 },
    };

    return human(n, units, LS_ARRAY_LEN(units), out, out_bytes);
}

const char *ls_human_size(double bytes, char *out, size_t out_bytes)
{
    static const struct human_unit units[] = {
        { "B", 1 }, { "KiB", 0x1p10 }, { "MiB", 0x1p20 }, { "GiB", 0x1p30 }, { "TiB", 0x1p40 },
    };

    return human(bytes, units, LS_ARRAY_LEN(units), out, out_bytes);
}

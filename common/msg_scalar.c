#include "common/msg_model.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base64.h"
#include "common/msg_yaml.h"
#include "common/units.h"
#include "common/utf8.h"

/* Members of the unit messages, in the order of enum ls_msg_unit; each has one field. */
union unit_value {
    int64_t ns;
    double per_s;
    uint64_t n;
    double share;
};

/* ---- text -------------------------------------------------------------------------------------
 */

const char *ls_excerpt(struct ls_bytes text, char *out)
{
    enum { max = 40 };
    size_t used = 0;
    size_t i = 0;

    while (i < text.len) {
        const unsigned char *c = text.data + i;
        size_t len = ls_utf8_char_len(c, text.len - i);
        bool escape = *c == '\n' || *c == '\t';
        size_t width = escape ? 2 : len == 0 ? 1 : len;
        bool control = *c < 0x20 || *c == 0x7f || (len == 2 && *c == 0xc2 && c[1] < 0xa0);

        if (used + width > max)
            break;
        if (escape) {
            out[used++] = '\\';
            out[used++] = *c == '\n' ? 'n' : 't';
        } else if (len == 0 || control) {
            out[used++] = '?';
        } else {
            (void)memcpy(out + used, c, len);
            used += len;
        }
        i += len == 0 ? 1 : len;
    }
    if (i < text.len) {
        (void)memcpy(out + used, "...", 3);
        used += 3;
    }
    out[used] = '\0';
    return out;
}

const char *ls_msg_format_double(double value, char *out)
{
    assert(isfinite(value));
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(out, 32, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            break;
    }
    return out;
}

/* ---- numbers ----------------------------------------------------------------------------------
 */

static bool is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

static size_t count_digits(const char *text)
{
    size_t n = 0;

    while (is_digit((unsigned char)text[n]))
        n++;
    return n;
}

/* -?digits, without leading zeros */
static bool is_integer(const char *text)
{
    size_t n;

    text += *text == '-';
    n = count_digits(text);
    return n > 0 && text[n] == '\0' && (n == 1 || text[0] != '0');
}

/* -?digits(.digits)?([eE][+-]?digits)? */
static bool is_decimal(const char *text)
{
    size_t n;

    text += *text == '-';
    n = count_digits(text);
    if (n == 0)
        return false;
    text += n;
    if (*text == '.') {
        n = count_digits(text + 1);
        if (n == 0)
            return false;
        text += 1 + n;
    }
    if (*text == 'e' || *text == 'E') {
        text++;
        text += *text == '-' || *text == '+';
        n = count_digits(text);
        if (n == 0)
            return false;
        text += n;
    }
    return *text == '\0';
}

static enum ls_err fail_integer(const char *text, const char *shown, struct ls_diag *diag)
{
    uint64_t n;

    if (*text == '\0')
        return ls_fail(diag, LS_EINVAL, "is empty: a whole number is expected");
    if (ls_parse_count(text, &n, NULL) == LS_OK)
        return ls_fail(diag, LS_EINVAL, "'%s' is not a plain whole number: write %" PRIu64, shown,
                       n);
    return ls_fail(diag, LS_EINVAL, "'%s' is not a whole number", shown);
}

static enum ls_err parse_signed(const char *text, const char *shown, int64_t min, int64_t max,
                                int64_t *out, struct ls_diag *diag)
{
    long long value;

    if (!is_integer(text))
        return fail_integer(text, shown, diag);
    errno = 0;
    value = strtoll(text, NULL, 10);
    if (errno != 0 || value < min || value > max)
        return ls_fail(diag, LS_ERANGE, "%s is out of range: %" PRId64 " to %" PRId64, shown, min,
                       max);
    *out = value;
    return LS_OK;
}

static enum ls_err parse_unsigned(const char *text, const char *shown, uint64_t max, uint64_t *out,
                                  struct ls_diag *diag)
{
    unsigned long long value;

    if (!is_integer(text))
        return fail_integer(text, shown, diag);
    if (*text == '-')
        return ls_fail(diag, LS_ERANGE, "%s is negative: 0 to %" PRIu64, shown, max);
    errno = 0;
    value = strtoull(text, NULL, 10);
    if (errno != 0 || value > max)
        return ls_fail(diag, LS_ERANGE, "%s is out of range: 0 to %" PRIu64, shown, max);
    *out = value;
    return LS_OK;
}

static enum ls_err parse_real(const char *text, const char *shown, double *out,
                              struct ls_diag *diag)
{
    double value;

    if (!is_decimal(text))
        return ls_fail(diag, LS_EINVAL, "'%s' is not a number", shown);
    value = strtod(text, NULL);
    if (!isfinite(value))
        return ls_fail(diag, LS_ERANGE, "%s is too large", shown);
    *out = value;
    return LS_OK;
}

static enum ls_err parse_bool(const char *text, const char *shown, protobuf_c_boolean *out,
                              struct ls_diag *diag)
{
    static const char *const yes[] = { "yes", "on", "y", "1", "true" };
    static const char *const no[] = { "no", "off", "n", "0", "false" };

    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        *out = *text == 't';
        return LS_OK;
    }
    for (size_t i = 0; i < LS_ARRAY_LEN(yes); i++) {
        if (strcasecmp(text, yes[i]) == 0)
            return ls_fail(diag, LS_EINVAL, "'%s' is not true or false: write true", shown);
        if (strcasecmp(text, no[i]) == 0)
            return ls_fail(diag, LS_EINVAL, "'%s' is not true or false: write false", shown);
    }
    return ls_fail(diag, LS_EINVAL, "'%s' is not true or false", shown);
}

/* ---- words, bytes, units ----------------------------------------------------------------------
 */

static const char *list_words(const ProtobufCEnumDescriptor *type, char *out, size_t out_bytes)
{
    char word[LS_MSG_WORD_MAX];
    size_t used = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < type->n_values && used < out_bytes; i++) {
        const char *w = ls_msg_enum_word(type, type->values[i].value, word);
        int n =
            snprintf(out + used, out_bytes - used, "%s%s", i == 0 ? "" : ", ", w == NULL ? "?" : w);

        used += n < 0 ? 0 : (size_t)n;
    }
    return out;
}

static enum ls_err parse_enum(const ProtobufCEnumDescriptor *type, const char *text,
                              const char *shown, int *out, struct ls_diag *diag)
{
    char words[LS_MSG_MAX_FIELDS][LS_MSG_WORD_MAX];
    const char *candidates[LS_MSG_MAX_FIELDS];
    char list[160];
    size_t count = 0;
    const char *close;

    if (ls_msg_enum_value(type, text, out))
        return LS_OK;
    for (unsigned i = 0; i < type->n_values && count < LS_MSG_MAX_FIELDS; i++) {
        candidates[count] = ls_msg_enum_word(type, type->values[i].value, words[count]);
        count += candidates[count] != NULL;
    }
    (void)list_words(type, list, sizeof(list));
    close = ls_closest(text, candidates, count);
    if (close != NULL)
        return ls_fail(diag, LS_EINVAL, "'%s' is none of %s: did you mean '%s'?", shown, list,
                       close);
    return ls_fail(diag, LS_EINVAL, "'%s' is none of %s", shown, list);
}

static enum ls_err parse_base64(struct ls_bytes text, ProtobufCBinaryData *out,
                                struct ls_diag *diag)
{
    struct ls_buf buf;
    size_t len;
    enum ls_err rc;

    ls_buf_init(&buf, text.len);
    rc = ls_base64_decode(&buf, text);
    len = buf.len;
    if (rc == LS_OK) {
        out->data = (uint8_t *)ls_buf_detach(&buf);
        out->len = len;
        if (out->data == NULL)
            rc = LS_ENOMEM;
    }
    ls_buf_fini(&buf);
    if (rc == LS_ENOMEM)
        return ls_fail(diag, rc, "no memory for %zu bytes", text.len);
    return rc == LS_OK ? LS_OK : ls_fail(diag, rc, "is not base64");
}

static enum ls_err parse_string(struct ls_bytes text, const char *shown, char **out,
                                struct ls_diag *diag)
{
    char *copy;

    if (text.len > 0 && memchr(text.data, '\0', text.len) != NULL)
        return ls_fail(diag, LS_EINVAL, "'%s' holds a NUL byte, which no text may", shown);
    copy = malloc(text.len + 1);
    if (copy == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory for %zu bytes", text.len);
    if (text.len > 0)
        (void)memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    *out = copy;
    return LS_OK;
}

static enum ls_err fail_unit(const ProtobufCFieldDescriptor *field, enum ls_err code,
                             const char *text, const char *shown, struct ls_diag *diag)
{
    char expected[LS_MSG_EXPECTED_MAX];
    enum ls_msg_unit unit = ls_msg_unit(field->descriptor);

    if (code == LS_ERANGE)
        return ls_fail(diag, code, "%s is out of range", shown);
    if (unit == LS_MSG_UNIT_DURATION && is_integer(text))
        return ls_fail(diag, code, "%s has no unit: write %ss or %sms", shown, shown, shown);
    if (unit == LS_MSG_UNIT_RATE && is_decimal(text))
        return ls_fail(diag, code, "%s has no unit: write %s/s", shown, shown);
    if (unit == LS_MSG_UNIT_SHARE && is_decimal(text))
        return ls_fail(diag, code, "%s has no unit: write %s%%", shown, shown);
    return ls_fail(diag, code, "'%s' is not %s", shown, ls_msg_expected(field, expected));
}

static enum ls_err parse_unit(const ProtobufCFieldDescriptor *field, const char *text,
                              const char *shown, ProtobufCMessage **out, struct ls_diag *diag)
{
    const ProtobufCMessageDescriptor *type = field->descriptor;
    union unit_value value = { 0 };
    enum ls_err rc = LS_EINVAL;
    ProtobufCMessage *message;

    switch (ls_msg_unit(type)) {
    case LS_MSG_UNIT_DURATION:
        rc = ls_parse_duration(text, &value.ns, NULL);
        break;
    case LS_MSG_UNIT_RATE:
        rc = ls_parse_rate(text, &value.per_s, NULL);
        break;
    case LS_MSG_UNIT_COUNT:
        rc = ls_parse_count(text, &value.n, NULL);
        break;
    case LS_MSG_UNIT_SIZE:
        rc = ls_parse_size(text, &value.n, NULL);
        break;
    case LS_MSG_UNIT_SHARE:
        rc = ls_parse_share(text, &value.share, NULL);
        break;
    case LS_MSG_UNIT_NONE:
    case LS_MSG_UNIT_COUNT_OF:
        assert(0 && "not a unit");
    }
    if (rc != LS_OK)
        return fail_unit(field, rc, text, shown, diag);
    message = ls_msg_new(type);
    if (message == NULL)
        return ls_fail(diag, LS_ENOMEM, "no memory");
    static_assert(sizeof(value) == 8, "each unit is one number of 8 bytes");
    (void)memcpy((unsigned char *)message + type->fields[0].offset, &value, sizeof(value));
    *out = message;
    return LS_OK;
}

const char *ls_msg_format_unit(const ProtobufCMessage *message, char *out)
{
    union unit_value value;

    (void)memcpy(&value, (const unsigned char *)message + message->descriptor->fields[0].offset,
                 sizeof(value));
    switch (ls_msg_unit(message->descriptor)) {
    case LS_MSG_UNIT_DURATION:
        return ls_format_duration(value.ns, out, LS_MSG_WORD_MAX);
    case LS_MSG_UNIT_RATE:
        return ls_format_rate(value.per_s, out, LS_MSG_WORD_MAX);
    case LS_MSG_UNIT_COUNT:
        return ls_format_count(value.n, out, LS_MSG_WORD_MAX);
    case LS_MSG_UNIT_SIZE:
        return ls_format_size(value.n, out, LS_MSG_WORD_MAX);
    case LS_MSG_UNIT_SHARE:
        return ls_format_share(value.share, out, LS_MSG_WORD_MAX);
    case LS_MSG_UNIT_NONE:
    case LS_MSG_UNIT_COUNT_OF:
        break;
    }
    assert(0 && "not a unit");
    return out;
}

/* ---- any of them ------------------------------------------------------------------------------
 */

static enum ls_err parse_number(const ProtobufCFieldDescriptor *field, const char *text,
                                const char *shown, void *out, struct ls_diag *diag)
{
    enum ls_err rc;
    int64_t i = 0;
    uint64_t u = 0;
    double d = 0;

    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        rc = parse_signed(text, shown, INT32_MIN, INT32_MAX, &i, diag);
        *(int32_t *)out = (int32_t)i;
        return rc;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return parse_signed(text, shown, INT64_MIN, INT64_MAX, out, diag);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        rc = parse_unsigned(text, shown, UINT32_MAX, &u, diag);
        *(uint32_t *)out = (uint32_t)u;
        return rc;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return parse_unsigned(text, shown, UINT64_MAX, out, diag);
    case PROTOBUF_C_TYPE_FLOAT:
        rc = parse_real(text, shown, &d, diag);
        *(float *)out = (float)d;
        return rc;
    default:
        return parse_real(text, shown, out, diag);
    }
}

enum ls_err ls_msg_parse(const ProtobufCFieldDescriptor *field, struct ls_bytes text, void *out,
                         struct ls_diag *diag)
{
    char shown[LS_EXCERPT_MAX];
    char *copy = NULL;
    enum ls_err rc;

    (void)ls_excerpt(text, shown);
    if (field->type == PROTOBUF_C_TYPE_BYTES)
        return parse_base64(text, out, diag);
    rc = parse_string(text, shown, &copy, diag);
    if (rc != LS_OK)
        return rc;
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        *(char **)out = copy;
        return LS_OK; /* the copy is the caller's */
    case PROTOBUF_C_TYPE_MESSAGE:
        rc = parse_unit(field, copy, shown, out, diag);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        rc = parse_enum(field->descriptor, copy, shown, out, diag);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        rc = parse_bool(copy, shown, out, diag);
        break;
    default:
        rc = parse_number(field, copy, shown, out, diag);
    }
    free(copy);
    return rc;
}

const char *ls_msg_expected(const ProtobufCFieldDescriptor *field, char *out)
{
    static const char *const units[] = { "a mapping",
                                         "a duration such as 10s or 250ms",
                                         "a rate such as 500/s or 20k/s",
                                         "a number such as 1000 or 50k",
                                         "a size such as 512 or 64KiB",
                                         "a percentage such as 0.1% or 5%" };
    char words[200];
    static_assert(LS_ARRAY_LEN(units) == LS_MSG_UNIT_COUNT_OF, "a sentence for each unit");

    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        (void)snprintf(out, LS_MSG_EXPECTED_MAX, "a text");
        break;
    case PROTOBUF_C_TYPE_BYTES:
        (void)snprintf(out, LS_MSG_EXPECTED_MAX, "bytes in base64");
        break;
    case PROTOBUF_C_TYPE_BOOL:
        (void)snprintf(out, LS_MSG_EXPECTED_MAX, "true or false");
        break;
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
        (void)snprintf(out, LS_MSG_EXPECTED_MAX, "a number");
        break;
    case PROTOBUF_C_TYPE_ENUM:
        (void)snprintf(out, LS_MSG_EXPECTED_MAX, "one of %s",
                       list_words(field->descriptor, words, sizeof(words)));
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        (void)snprintf(out, LS_MSG_EXPECTED_MAX, "%s", units[ls_msg_unit(field->descriptor)]);
        break;
    default:
        (void)snprintf(out, LS_MSG_EXPECTED_MAX, "a whole number");
    }
    return out;
}

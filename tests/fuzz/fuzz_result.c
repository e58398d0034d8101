/* tests/fuzz/fuzz_result.c - a result.json that somebody else wrote, judged, summed up and rendered
 * in every format. Input that begins with '{' is JSON, all other a packed Result. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/msg_json.h"
#include "coordinator/result/report.h"
#include "coordinator/result/summary.h"
#include "coordinator/run/verdict.h"

enum { REPORT_MAX = 8 << 20, TRIALS_MAX = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* JSON has no other numbers than finite ones, the packed form has. */
static bool is_finite(const ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *d = message->descriptor;

    for (unsigned f = 0; f < d->n_fields; f++) {
        const ProtobufCFieldDescriptor *field = &d->fields[f];
        const char *at = (const char *)message + field->offset;
        const ProtobufCMessage *child = NULL, *const *children = NULL;
        double number = 0;
        size_t n = 1;

        if (field->type == PROTOBUF_C_TYPE_DOUBLE && field->label != PROTOBUF_C_LABEL_REPEATED)
            (void)memcpy(&number, at, sizeof(number));
        if (!isfinite(number))
            return false;
        if (field->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            (void)memcpy(&children, at, sizeof(children));
            (void)memcpy(&n, (const char *)message + field->quantifier_offset, sizeof(n));
        } else {
            (void)memcpy(&child, at, sizeof(child));
            children = &child;
        }
        for (size_t i = 0; i < n; i++) {
            if (children[i] != NULL && !is_finite(children[i]))
                return false;
        }
    }
    return true;
}

static Ls__Result *read_result(const uint8_t *data, size_t size)
{
    ProtobufCMessage *message = NULL;

    if (size > 0 && data[0] == '{') {
        struct ls_bytes text = { .data = data, .len = size };

        if (ls_msg_from_json(&ls__result__descriptor, text, &message, NULL) != LS_OK)
            return NULL;
    } else {
        message = protobuf_c_message_unpack(&ls__result__descriptor, NULL, size, data);
    }
    if (message != NULL && !is_finite(message)) {
        protobuf_c_message_free_unpacked(message, NULL);
        return NULL;
    }
    return (Ls__Result *)message;
}

static void render(const Ls__Result *result, enum coord_report_format format, unsigned columns)
{
    const struct coord_report_options options = { .columns = columns };
    struct ls_buf out;
    enum ls_err rc;

    ls_buf_init(&out, REPORT_MAX);
    rc = coord_report(result, format, &options, &out, NULL);
    require(rc == LS_OK || rc == LS_ENOMEM);
    for (size_t i = 0; format == COORD_REPORT_TEXT && i < out.len; i++)
        require(out.data[i] == '\n' || (out.data[i] >= 0x20 && out.data[i] != 0x7f));
    ls_buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct coord_verdict_input input = { .server_cpus = 1 };
    Ls__Result *result = read_result(data, size);

    if (result == NULL || result->n_trials > TRIALS_MAX) {
        ls__result__free_unpacked(result, NULL);
        return 0;
    }
    for (int f = 0; f < COORD_REPORT_FORMAT_COUNT; f++) {
        if (f != COORD_REPORT_JSON)
            render(result, (enum coord_report_format)f, (unsigned)(size % 200));
    }
    for (size_t i = 0; i < result->n_trials; i++) {
        Ls__Verdict before = result->trials[i]->verdict;

        coord_verdict_judge(result->trials[i], &input);
        require(result->trials[i]->verdict >= before);
    }
    if (coord_summary_build(result) == LS_OK)
        render(result, COORD_REPORT_TEXT, 80);
    ls__result__free_unpacked(result, NULL);
    return 0;
}

/* JSON into messages; the first byte chooses which. The oracle: what is accepted is written, and
 * reads back as the same text. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/msg_json.h"
#include "proto/plan.pb-c.h"
#include "proto/result.pb-c.h"
#include "proto/wire.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const ProtobufCMessageDescriptor *const types[] = {
        &ls__plan__descriptor,
        &ls__result__descriptor,
        &ls__envelope__descriptor,
    };
    const ProtobufCMessageDescriptor *type;
    ProtobufCMessage *message = NULL;
    ProtobufCMessage *again = NULL;
    struct ls_diag diag = { .text = "" };
    char *first;
    char *second;

    if (size == 0)
        return 0;
    type = types[data[0] % LS_ARRAY_LEN(types)];
    if (ls_msg_from_json(type, (struct ls_bytes){ data + 1, size - 1 }, &message, &diag) != LS_OK) {
        demand(message == NULL && diag.text[0] != '\0');
        return 0;
    }
    first = ls_msg_to_json(message, data[0] / LS_ARRAY_LEN(types) % 3);
    demand(first != NULL);
    demand(ls_msg_from_json(type, (struct ls_bytes){ (const unsigned char *)first, strlen(first) },
                            &again, &diag) == LS_OK);
    second = ls_msg_to_json(again, data[0] / LS_ARRAY_LEN(types) % 3);
    demand(second != NULL && strcmp(first, second) == 0);
    free(first);
    free(second);
    protobuf_c_message_free_unpacked(message, NULL);
    protobuf_c_message_free_unpacked(again, NULL);
    return 0;
}

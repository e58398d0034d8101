#include "coordinator/result/message.h"

#include <stdlib.h>
#include <string.h>

#include "common/msg_model.h"

void *coord_message_new(const ProtobufCMessageDescriptor *descriptor)
{
    ProtobufCMessage *message = malloc(descriptor->sizeof_message);

    if (message != NULL)
        protobuf_c_message_init(descriptor, message);
    return message;
}

void *coord_message_copy(const void *message)
{
    return ls_msg_copy(message);
}

void coord_message_free(void *message)
{
    if (message != NULL)
        protobuf_c_message_free_unpacked(message, NULL);
}

bool coord_message_string(char **field, const char *text)
{
    char *copy;

    if (text == NULL)
        text = "";
    copy = strdup(text);
    if (copy == NULL)
        return false;
    if (*field != NULL && *field != protobuf_c_empty_string)
        free(*field);
    *field = copy;
    return true;
}

/* items points to a field of type T**: it is read and written as bytes, for T differs. */
static void **items_get(const void *items)
{
    void **array;

    (void)memcpy(&array, items, sizeof(array));
    return array;
}

static void items_set(void *items, void **array)
{
    (void)memcpy(items, &array, sizeof(array));
}

void *coord_message_append(size_t *n, void *items, const ProtobufCMessageDescriptor *descriptor)
{
    void *message = coord_message_new(descriptor);
    void **array;

    if (message == NULL)
        return NULL;
    array = realloc(items_get(items), (*n + 1) * sizeof(*array));
    if (array == NULL) {
        free(message);
        return NULL;
    }
    array[(*n)++] = message;
    items_set(items, array);
    return message;
}

void coord_message_clear(size_t *n, void *items)
{
    void **array = items_get(items);

    for (size_t i = 0; i < *n; i++)
        coord_message_free(array[i]);
    free(array);
    *n = 0;
    items_set(items, NULL);
}

bool coord_message_add_string(size_t *n, char ***texts, const char *text)
{
    char **grown = realloc(*texts, (*n + 1) * sizeof(char *));

    if (grown == NULL)
        return false;
    *texts = grown;
    grown[*n] = strdup(text);
    if (grown[*n] == NULL)
        return false;
    (*n)++;
    return true;
}

/* agent/host/spawner_image.h - the spawner's binary, carried along: made by agent/CMakeLists.txt.
 */
#ifndef LS_AGENT_HOST_SPAWNER_IMAGE_H
#define LS_AGENT_HOST_SPAWNER_IMAGE_H

#include <stddef.h>

extern const unsigned char host_spawner_image[];
extern const size_t host_spawner_image_bytes;

#endif

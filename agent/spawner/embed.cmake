# cmake -DIN=FILE -DOUT=FILE.c -P embed.cmake: a file as the array that spawner_image.h declares.
file(READ ${IN} hex HEX)
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE ${OUT} "#include \"agent/host/spawner_image.h\"\n\n"
    "const unsigned char host_spawner_image[] = {\n${bytes}\n};\n"
    "const size_t host_spawner_image_bytes = sizeof(host_spawner_image);\n")

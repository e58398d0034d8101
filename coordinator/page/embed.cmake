# cmake -DFILES="name=path;name=path" -DOUT=assets.c -P embed.cmake
#
# Writes each file as coord_asset_NAME (assets.h), byte by byte. Without a path: nothing is in it.
set(code "#include \"coordinator/page/assets.h\"\n")
foreach(file IN LISTS FILES)
    string(REGEX MATCH "^([a-z_]+)=(.*)$" unused "${file}")
    set(name ${CMAKE_MATCH_1})
    set(path "${CMAKE_MATCH_2}")
    set(bytes "")
    set(len 0)
    if(path)
        file(READ ${path} hex HEX)
        string(LENGTH "${hex}" len)
        math(EXPR len "${len} / 2")
        string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    endif()
    string(APPEND code "\nstatic const unsigned char ${name}[] = {${bytes} 0};\n"
        "const struct coord_asset coord_asset_${name} = { ${name}, ${len} };\n")
endforeach()
file(WRITE ${OUT} "${code}")

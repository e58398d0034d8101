# A build for arm64 on another Debian: cmake --preset release --toolchain deploy/aarch64.cmake. Needs gcc-aarch64-linux-gnu
# and the libraries of the group build of packages.txt for arm64 (dpkg --add-architecture arm64); tests/e2e/cross.sh
# shows all of it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_STRIP aarch64-linux-gnu-strip)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)

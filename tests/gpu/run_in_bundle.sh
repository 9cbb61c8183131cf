#!/bin/sh
# Runs the program in libexec that has this file's name with the bundle's libraries, and with the bundle's C
# library if the host's is older.
bundle=$(cd "$(dirname "$0")/.." && pwd)
program=$bundle/libexec/$(basename "$0")
. "$bundle/env.sh"
: "${TESSERA_CUDA_LIBRARIES:=$(cuda_libraries)}"
export TESSERA_CUDA_LIBRARIES
libraries=$bundle/lib:$TESSERA_CUDA_LIBRARIES${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

needs=$(cat "$bundle/glibc/version")
has=$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d' ' -f2)
if [ "$(printf '%s\n' "$needs" "${has:-0}" | sort -V | head -n 1)" = "$needs" ]; then
  LD_LIBRARY_PATH=$libraries exec "$program" "$@"
fi
exec "$bundle/glibc/ld-linux-x86-64.so.2" --argv0 "$program" --library-path "$bundle/glibc:$libraries" "$program" "$@"

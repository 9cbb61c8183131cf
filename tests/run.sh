#!/usr/bin/env bash
# Builds and runs all tests: the optimised build, then what AddressSanitizer, UBSan and ThreadSanitizer
# see. With --quick only the optimised build.
set -euo pipefail
cd "$(dirname "$0")/.."
. launch/set_up.sh

install_missing "${packages[@]}"
cores=$(nproc)
export GTEST_COLOR=no

build cpu
ctest --preset cpu -j "$cores"
[ "${1:-}" = --quick ] && exit 0

# Open MPI itself is not clean under the sanitizers, so ranks are threads here.
folders=(core parallel models launch equivalence)
build asan "${folders[@]/%/_tests}"
ctest --preset asan -j "$cores" -LE 'mpi' -R "^($(IFS='|'; echo "${folders[*]}"))/"

# OpenMP's barriers are unknown to ThreadSanitizer; the thread communicator uses none.
build tsan parallel_tests
ctest --preset tsan -j "$cores" -L threads -R '^parallel/'

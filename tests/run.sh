#!/usr/bin/env bash
# Builds and runs all tests: the optimised build, then what AddressSanitizer, UBSan and ThreadSanitizer
# see, then each parser for some seconds on what a fuzzer makes, then compiles for GPUs where nvcc is found.
# With --quick only the optimised build.
set -euo pipefail
cd "$(dirname "$0")/.."
. launch/set_up.sh

install_missing "${packages[@]}"
cores=$(nproc)
export GTEST_COLOR=no

build cpu
ctest --preset cpu -j "$cores"
[ "${1:-}" = --quick ] && exit 0

# Open MPI itself is not clean under the sanitizers, so ranks are threads here. Tests of ops run on
# an emulated GPU too (gpu/), and the emulator's own (emulator/).
folders=(core parallel models launch equivalence)
build asan "${folders[@]/%/_tests}" emulator_tests parallel_mpi_tests gpu_cli_tests
ctest --preset asan -j "$cores" -LE 'mpi' -R "^($(IFS='|'; echo "${folders[*]}")|emulator|gpu|gpu_reverse|gpu_cudnn|gpu_nccl)/"
# But for those with emulated GPUs, which only such a build has.
ctest --preset asan -R '^(parallel/mpi/.*_on_.*gpus?|gpu_cli/.*)$'

# OpenMP's barriers are unknown to ThreadSanitizer; the thread communicator, `prepare`, and what saves
# and loads in the background use none.
build tsan parallel_tests prepare_tests background_tests
TSAN_OPTIONS="suppressions=$PWD/tests/tsan_suppressions.txt" ctest --preset tsan -j "$cores" -L threads -R '^(parallel|prepare|background)/'

tests/fuzz.sh

# Without a GPU, what is for one can be compiled and linked.
nvcc=$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc || true)
if [ -n "$nvcc" ]; then
  build compile_cuda tessera kernel_times
  if grep -q cudnn_support_tests build/compile_cuda/build.ninja; then
    build compile_cuda cudnn_support_tests
    ctest --preset compile_cuda -R '^cuda/'
  fi
else
  echo "nvcc was not found: whether the code for NVIDIA GPUs compiles and links was NOT checked"
fi

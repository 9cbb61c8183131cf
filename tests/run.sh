#!/usr/bin/env bash
# Builds and runs the tests: the optimized build with all its tests, on the CPU, on emulated GPUs and
# under mpirun. With --all also AddressSanitizer, UBSan and ThreadSanitizer, some seconds of fuzzing for
# each parser and, if nvcc is found, a build for GPUs with checks of its inline PTX and of the registers and
# spills of its kernels. --ci is --all without what takes longest: the emulated GPU under AddressSanitizer, although
# the emulator itself checks each access of a kernel, and linking the program for GPUs. docs/testing.md lists how
# long each part takes.
set -euo pipefail
cd "$(dirname "$0")/.."
. launch/set_up.sh

install_missing "${packages[@]}" iproute2 python3
export GTEST_COLOR=no

case "${1:-}" in
  "" | --all | --ci) ;;
  *) echo "unknown option $1: choose --all, --ci or nothing" >&2; exit 2 ;;
esac

# build_and_test PRESET [OPTION...]: options of CMake.
build_and_test() {
  local preset=$1
  shift
  configure "$preset" "$@"
  cmake --build --preset "$preset"
  ctest --preset "$preset" -j "$(nproc)"
}

build_and_test emulated
[ -n "${1:-}" ] || exit 0

if [ "$1" = --ci ]; then
  gpu=OFF seconds=5 for_gpus=(tessera_parallel cuda_tests)
else
  gpu=EMULATED seconds=10 for_gpus=(tessera kernel_times cuda_tests)
fi
build_and_test asan -DTESSERA_CUDA="$gpu"
build_and_test tsan
tests/fuzz.sh "$seconds"

# Verbose, for notes about kernels and about what was not compared.
nvcc=$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc || true)
if [ -n "$nvcc" ]; then
  build compile_cuda "${for_gpus[@]}"
  ctest --preset compile_cuda -R '^cuda/' --verbose
  if ! grep -q cudnn_support_tests build/compile_cuda/build.ninja; then
    echo "cuDNN or its frontend's headers were not found: the code that calls cuDNN was NOT compiled"
  fi
else
  echo "nvcc was not found: whether the code for NVIDIA GPUs compiles and links was NOT checked," \
    "nor its inline PTX, nor the registers and spills of its kernels"
fi

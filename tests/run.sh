#!/usr/bin/env bash
# Builds and runs the tests: the optimized build with all its tests, on the CPU, on emulated GPUs and
# under mpirun. With --all also AddressSanitizer, UBSan and ThreadSanitizer, some seconds of fuzzing for
# each parser and, if nvcc is found, a build for GPUs with checks of its inline PTX and of the registers and
# spills of its kernels. docs/testing.md lists how long each part takes.
set -euo pipefail
cd "$(dirname "$0")/.."
. launch/set_up.sh

install_missing "${packages[@]}" iproute2 python3
export GTEST_COLOR=no

# build_and_test PRESET
build_and_test() {
  build "$1"
  ctest --preset "$1" -j "$(nproc)"
}

build_and_test emulated
[ "${1:-}" = --all ] || exit 0

build_and_test asan
build_and_test tsan
tests/fuzz.sh

# Verbose, for notes about kernels and about what was not compared.
nvcc=$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc || true)
if [ -n "$nvcc" ]; then
  build compile_cuda tessera kernel_times cuda_tests
  ctest --preset compile_cuda -R '^cuda/' --verbose
  if ! grep -q cudnn_support_tests build/compile_cuda/build.ninja; then
    echo "cuDNN or its frontend's headers were not found: the code that calls cuDNN was NOT compiled"
  fi
else
  echo "nvcc was not found: whether the code for NVIDIA GPUs compiles and links was NOT checked," \
    "nor its inline PTX, nor the registers and spills of its kernels"
fi

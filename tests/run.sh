#!/usr/bin/env bash
# Builds and runs the tests:
#
#     tests/run.sh [--all | PART...]
#
#     emulated   the optimized build with all its tests, on the CPU, on emulated GPUs and under mpirun;
#                what runs without an argument
#     asan       AddressSanitizer and UBSan on the CPU
#     asan_gpu   the same, and on emulated GPUs
#     tsan       ThreadSanitizer
#     fuzz       some seconds of fuzzing for each parser
#     cuda       if nvcc is found, a build for GPUs with checks of its inline PTX and of the registers and
#                spills of its kernels
#
# --all is all of them. docs/testing.md lists how long each part takes.
set -euo pipefail
cd "$(dirname "$0")/.."
. launch/set_up.sh

parts=("${@:-emulated}")
[ "${parts[*]}" != --all ] || parts=(emulated asan_gpu tsan fuzz cuda)

install_missing "${packages[@]}" iproute2 python3 python3-jinja2 python3-numpy
export GTEST_COLOR=no

# build_and_test PRESET [OPTION...]: options of CMake.
build_and_test() {
  local preset=$1
  shift
  configure "$preset" "$@"
  cmake --build --preset "$preset"
  ctest --preset "$preset" -j "$(nproc)"
}

# Verbose, for notes about kernels and about what was not compared.
build_for_gpus() {
  if ! PATH=$PATH:/usr/local/cuda/bin command -v nvcc >/dev/null; then
    echo "nvcc was not found: whether the code for NVIDIA GPUs compiles and links was NOT checked," \
      "nor its inline PTX, nor the registers and spills of its kernels"
    return
  fi
  # launch/ calls no CUDA; preset `emulated` compiles what it has for GPUs.
  build compile_cuda kernel_times cuda_tests
  ctest --preset compile_cuda -R '^cuda/' --verbose
  if ! grep -q cudnn_support_tests build/compile_cuda/build.ninja; then
    echo "cuDNN or its frontend's headers were not found: the code that calls cuDNN was NOT compiled"
  fi
}

for part in "${parts[@]}"; do
  case $part in
    emulated | tsan) build_and_test "$part" ;;
    asan) build_and_test asan -DTESSERA_CUDA=OFF ;;
    asan_gpu) build_and_test asan -DTESSERA_CUDA=EMULATED ;;
    fuzz) tests/fuzz.sh ;;
    cuda) build_for_gpus ;;
    *) echo "$part is no part: choose --all, emulated, asan, asan_gpu, tsan, fuzz or cuda" >&2; exit 2 ;;
  esac
done

# shellcheck shell=bash
# Sourced by check.sh: the versions, and the tests that run on a GPU.

part_versions() {
  "$tessera" --version || return 1
  nvidia-smi || note 'there is no nvidia-smi'
}
part_ops() { TESSERA_TEST_DEVICE=cuda CUDA_LAUNCH_BLOCKING=1 "$(program core_tests)" --gtest_brief=1; }
part_models() { TESSERA_TEST_DEVICE=cuda CUDA_LAUNCH_BLOCKING=1 "$(program models_tests)" --gtest_brief=1; }
part_communicators() { ranks 2 "$(program parallel_mpi_tests)" --gtest_filter='*Gpu*' --gtest_brief=1; }

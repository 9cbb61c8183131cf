# shellcheck shell=bash
# Sourced by check.sh: the versions, and the tests that run on a GPU.

part_versions() {
  "$tessera" --version || return 1
  nvidia-smi || note 'there is no nvidia-smi'
  # Ranks of one host talk through it, and hosts without a network may have left it down.
  ip link set lo up 2>/dev/null || true
}
# The emulator wants a thread to choose among several GPUs, which these tests do not.
on_one_gpu() { (if emulated; then export TESSERA_EMULATOR_DEVICES=1; fi; TESSERA_TEST_DEVICE=cuda CUDA_LAUNCH_BLOCKING=1 "$@"); }
# Attention last, for which cuDNN compiles some fifty plans.
part_ops() {
  local status=0 filter
  for filter in '-*Attention*' '*Attention*'; do
    on_one_gpu "$(program core_tests)" --gtest_brief=1 --gtest_filter="$filter" || status=1
  done
  return $status
}
part_models() { on_one_gpu "$(program models_tests)" --gtest_brief=1; }
part_communicators() { ranks 2 "$(program parallel_mpi_tests)" --gtest_filter='*Gpu*' --gtest_brief=1; }

# shellcheck shell=bash
# Sourced by check.sh: the versions, and the tests that run on a GPU.

part_versions() {
  "$tessera" --version || return 1
  nvidia-smi || note 'there is no nvidia-smi'
  # Ranks on one host communicate through the loopback interface, which may be down on hosts without a network.
  ip link set lo up 2>/dev/null || true
}
# With several GPUs, the emulator requires each thread to select one, which these tests do not.
on_one_gpu() { (if emulated; then export TESSERA_EMULATOR_DEVICES=1; fi; TESSERA_TEST_DEVICE=cuda CUDA_LAUNCH_BLOCKING=1 "$@"); }
# Attention comes last, because cuDNN compiles about fifty plans for it.
part_ops() {
  local status=0 filter
  for filter in '-*Attention*' '*Attention*'; do
    on_one_gpu "$(program core_tests)" --gtest_brief=1 --gtest_filter="$filter" || status=1
  done
  return $status
}
part_models() { on_one_gpu "$(program models_tests)" --gtest_brief=1; }
part_communicators() { ranks 2 "$(program parallel_mpi_tests)" --gtest_filter='*Gpu*' --gtest_brief=1; }

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
part_ops() { on_one_gpu "$(program core_tests)" --gtest_brief=1; }
part_models() { on_one_gpu "$(program models_tests)" --gtest_brief=1; }
part_communicators() {
  local status=0 n
  ranks 2 "$(program parallel_mpi_tests)" --gtest_filter='*Gpu*' --gtest_brief=1 || status=1
  for n in 2 4; do
    can_run $n || { note "no $n GPUs for NCCL"; continue; }
    ranks $n "$(program parallel_mpi_tests)" --gtest_filter='*GpuTensorsWithNccl*' --gtest_brief=1 || status=1
  done
  return $status
}
# Small runs of each kind of model, against the CPU, with CUDA graphs, and of tensor ranks that share the GPU.
part_kinds() {
  local filter='*OnDevices*:Graphs.*:*EachKind.Recomput*:*KindsOnLayouts.*_tensor2_data2*:*Bf16OnLayouts.*tensor2_data2*'
  on_one_gpu "$(program equivalence_tests)" --gtest_brief=1 --gtest_filter="$filter"
}

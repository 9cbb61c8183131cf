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
# in_shards NAME PROGRAM [OPTION...]: tests in several processes, because most of their time is the CPU's.
in_shards() {
  local name=$1 tests status=0 shards shard pids=()
  tests=$(program "$2")
  shift 2
  shards=$(($(cores) / 4))
  shards=$((shards < 1 ? 1 : shards > 4 ? 4 : shards))
  for ((shard = 0; shard < shards; ++shard)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard on_one_gpu "$tests" --gtest_brief=1 "$@" >"$out/logs/$name-$shard.txt" 2>&1 &
    pids+=($!)
  done
  for shard in "${!pids[@]}"; do
    wait "${pids[$shard]}" || { status=1; cat "$out/logs/$name-$shard.txt"; }
  done
  note "$(cat "$out/logs/$name"-*.txt | sed -n 's/.*\[==========\][^0-9]*\([0-9]*\) tests\{0,1\} from.*/\1/p' | awk '{n += $1} END {print n + 0}') tests in $shards processes"
  return $status
}
part_ops() { in_shards ops core_tests; }
part_models() { on_one_gpu "$(program models_tests)" --gtest_brief=1; }
part_communicators() { ranks 2 "$(program parallel_mpi_tests)" --gtest_filter='*Gpu*' --gtest_brief=1; }
# Small runs of each kind of model, against the CPU, with CUDA graphs, and of tensor ranks that share the GPU.
part_kinds() {
  local filter='*OnDevices*:Graphs.*:*EachKind.Recomput*:*KindsOnLayouts.*_tensor2_data2*:*Bf16OnLayouts.*tensor2_data2*'
  in_shards kinds equivalence_tests --gtest_filter="$filter"
}

# shellcheck shell=bash
# Sourced by check.sh: compute-sanitizer on the tests of ops.

# sanitize TOOL FILTER...: runs groups of tests, each in its share of the remaining time. Checked kernels take
# ten to a hundred times as long, so each group has few and small kernels.
sanitize() {
  local tool=$1 filter status=0 finished=0 ended limit log
  shift
  local groups=$# tests
  tests=$(program core_tests)
  for filter in "$@"; do
    [[ $("$tests" --gtest_list_tests --gtest_filter="$filter") == *$'\n  '* ]] || { note "no test is called $filter"; return 1; }
  done
  emulated && note "$tool is for a real GPU" && return 77
  PATH=$PATH:/usr/local/cuda/bin
  command -v compute-sanitizer >/dev/null || { note 'compute-sanitizer is not installed'; return 77; }
  for filter in "$@"; do
    limit=$((($(seconds_left) - 2) / groups))
    groups=$((groups - 1))
    if [ $limit -lt 3 ]; then
      note "no time was left for $filter"
      continue
    fi
    log=$out/logs/$tool-$groups.txt
    # Libraries query the driver for optional features; our own calls check their results.
    local options=(--target-processes all --error-exitcode 1)
    [ "$tool" = memcheck ] && options+=(--report-api-errors no)
    # racecheck does not follow the barriers of cuDNN's kernels, whose warps have different tasks.
    [ "$tool" = racecheck ] && options+=(--kernel-name-exclude kernel_substring=cudnn)
    TESSERA_TEST_DEVICE=cuda CUDA_LAUNCH_BLOCKING=1 timeout -k 1 $limit compute-sanitizer --tool "$tool" \
      "${options[@]}" "$tests" --gtest_filter="$filter" >"$log" 2>&1
    ended=$?
    cat "$log"
    finished=$((finished + $(grep -c '^\[       OK' "$log")))
    case $ended in
      0) ;;
      124 | 137)
        if grep -qE '^=+ (Error|Warning|Invalid|Race|Hazard|Program hit)|^\[  FAILED' "$log"; then
          note "$filter: FAILED, and out of time"
          status=1
        else
          note "$filter: out of time after $(grep -c '^\[       OK' "$log") tests, with no error until then"
        fi
        ;;
      *) note "$filter: FAILED"; status=1 ;;
    esac
  done
  [ $status = 0 ] && [ $finished = 0 ] && note 'no test finished' && return 77
  return $status
}
part_memcheck() {
  sanitize memcheck '*/Attention.*MatchesReference*:AttentionProperties.*' '*LayerNorm*:KernelRows.*:Rows.*:AdamW*:Lion*:Muon*:StochasticRounding*' \
    'KeyValues*:Rotary*:*/Matmul.*/3x5x7_*:*/Matmul.*/65x33x129_*' 'Elementwise*:Activations*:Embedding*:CrossEntropy*:Dropout*:Reduce*' \
    '*/AttentionMasks.MatchReference*'
}
# Without products, whose kernels belong to cuBLASLt.
part_racecheck() {
  sanitize racecheck '*/Attention.*MatchesReference*:AttentionProperties.*' '*LayerNorm*:KernelRows.*:CrossEntropy*:Reduce*' \
    'KeyValues*:Rotary*:Embedding*' '*/AttentionMasks.MatchReference*'
}

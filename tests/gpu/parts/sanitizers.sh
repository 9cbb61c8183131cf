# shellcheck shell=bash
# Sourced by check.sh: compute-sanitizer on the tests of ops.

# sanitize TOOL FILTER...: groups of tests, each in its share of the time that is left. What is checked takes
# ten to a hundred times as long, so that each group is of few and small kernels.
sanitize() {
  local tool=$1 filter status=0 limit
  shift
  local groups=$#
  emulated && note "$tool is for a real GPU" && return 77
  command -v compute-sanitizer >/dev/null || { note 'compute-sanitizer is not here'; return 77; }
  for filter in "$@"; do
    limit=$((($(seconds_left) - 2) / groups))
    groups=$((groups - 1))
    if [ $limit -lt 3 ]; then
      note "no time was left for $filter"
      continue
    fi
    TESSERA_TEST_DEVICE=cuda CUDA_LAUNCH_BLOCKING=1 timeout -k 1 $limit compute-sanitizer --tool "$tool" \
      --target-processes all --error-exitcode 1 "$(program core_tests)" --gtest_brief=1 --gtest_filter="$filter"
    case $? in
      0) ;;
      124 | 137) note "$filter: out of time, with no error until then" ;;
      *) note "$filter: FAILED"; status=1 ;;
    esac
  done
  return $status
}
attention_tests='Attention*IsTheTextbooks*:AttentionProperties.*-AttentionReference*'
part_memcheck() {
  sanitize memcheck 'KeyValues*:Rotary*:*Matmul*-*AnyNumberOfKinds*' 'AdamW*:StochasticRounding*:LayerNorm*:Rows*' \
    "$attention_tests" 'Elementwise*:Gelu*:Embedding*:CrossEntropy*:Dropout*' 'AttentionMasks*AreTheTextbooks*'
}
part_racecheck() {
  sanitize racecheck 'KeyValues*:Rotary*:*Matmul*-*AnyNumberOfKinds*' "$attention_tests" \
    'LayerNorm*:CrossEntropy*:ColumnSum*:Reduce*' 'Embedding*' 'AttentionMasks*AreTheTextbooks*'
}

#!/usr/bin/env bash
# Plants each bug of mutants.tsv in a copy of the source and builds it. Then `tessera prove` must fail for one of the
# configurations below, or, where the table names tests, one of these must fail. Prints a line per bug, and fails if
# one was not found. About a minute per bug.
#
#     tests/mutants/run.sh [NAME...]
set -euo pipefail
cd "$(dirname "$0")/../.."
. launch/set_up.sh
copy=build/mutants/source
mkdir -p "$copy"

# Each is a configuration with overrides. Dropout, a window and few layers make more bugs visible.
runs=(
  'configs/gpt2_124m.yaml --set model.dropout=0.1 --set model.attention_dropout=0.1 --set model.attention_window=256 --set model.window_pattern=GL'
  'configs/bert_large.yaml'
)

# Without files that the source no longer has.
update_copy() {
  find "$copy" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
  git ls-files -z | xargs -0 cp --parents -t "$copy"
}
# build_copy TARGET
build_copy() {
  (cd "$copy" && configure cpu -DCMAKE_UNITY_BUILD=ON -DCMAKE_CXX_FLAGS_RELEASE='-O1 -DNDEBUG' \
    -DTESSERA_BENCH=OFF -DTESSERA_WERROR=OFF && cmake --build --preset cpu --target "$1") \
    >build/mutants/build.log 2>&1 || { tail -n 20 build/mutants/build.log; exit 1; }
}
# passes [FILTER]: whether `tessera prove` passes for all runs, or the tests of the filter.
passes() {
  local run
  if [ -n "${1:-}" ]; then
    timeout 300 "$copy/build/cpu/tests/equivalence_tests" --gtest_brief=1 --gtest_fail_fast --gtest_filter="$1" \
      >build/mutants/found.log 2>&1
    return
  fi
  for run in "${runs[@]}"; do
    # shellcheck disable=SC2086 # words
    timeout 300 "$copy/build/cpu/tessera" prove $run >build/mutants/found.log 2>&1 || return 1
  done
}
# build_and_pass [FILTER]
build_and_pass() {
  build_copy "$([ -z "${1:-}" ] && echo tessera || echo equivalence_tests)"
  passes "${1:-}"
}

update_copy
declare -A checked # what passes without a bug
found=0 all=0
while IFS=$'\t' read -r name file command tests; do
  case $name in '#'* | '') continue ;; esac
  if [ $# -gt 0 ] && ! printf '%s\n' "$@" | grep -qx "$name"; then continue; fi
  if [ -z "${checked["prove$tests"]:-}" ]; then
    build_and_pass "$tests" || { cat build/mutants/found.log; echo "${tests:-prove} fails without a bug"; exit 1; }
    checked["prove$tests"]=yes
  fi
  sed "$command" "$file" >"$copy/$file"
  if cmp -s "$file" "$copy/$file"; then
    echo "$name: the command changes nothing in $file"
    exit 1
  fi
  all=$((all + 1))
  if build_and_pass "$tests"; then
    echo "$name: NOT found"
  else
    found=$((found + 1))
    echo "$name: found: $(grep -A 1 FAILED build/mutants/found.log | head -n 2 | tr -s ' \n' ' ' | cut -c 1-150)"
  fi
  cp "$file" "$copy/$file"
done <tests/mutants/mutants.tsv
echo "$found of $all bugs found"
[ "$found" -eq "$all" ]

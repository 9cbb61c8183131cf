#!/usr/bin/env bash
# Plants each bug of mutants.tsv in a copy of the source, builds it, and runs `tessera prove`, which must fail for
# one of the configurations below. Prints a line per bug, and fails if one was not found. About a minute per bug.
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

update_copy() {
  git ls-files -z | xargs -0 cp --parents -t "$copy"
}
build_copy() {
  (cd "$copy" && configure cpu -DCMAKE_UNITY_BUILD=ON -DCMAKE_CXX_FLAGS_RELEASE='-O1 -DNDEBUG' \
    -DTESSERA_TESTS=OFF -DTESSERA_BENCH=OFF -DTESSERA_WERROR=OFF && cmake --build --preset cpu --target tessera) \
    >build/mutants/build.log 2>&1 || { tail -n 20 build/mutants/build.log; exit 1; }
}
# Whether `tessera prove` passes for all runs.
passes() {
  local run
  for run in "${runs[@]}"; do
    # shellcheck disable=SC2086 # words
    timeout 300 "$copy/build/cpu/tessera" prove $run >build/mutants/prove.log 2>&1 || return 1
  done
}

update_copy
build_copy
passes || { cat build/mutants/prove.log; echo 'prove fails without a bug'; exit 1; }
found=0 all=0
while IFS=$'\t' read -r name file command; do
  case $name in '#'* | '') continue ;; esac
  if [ $# -gt 0 ] && ! printf '%s\n' "$@" | grep -qx "$name"; then continue; fi
  sed "$command" "$file" >"$copy/$file"
  if cmp -s "$file" "$copy/$file"; then
    echo "$name: the command changes nothing in $file"
    exit 1
  fi
  build_copy
  all=$((all + 1))
  if passes; then
    echo "$name: NOT found"
  else
    found=$((found + 1))
    echo "$name: found: $(grep -A 1 FAILED build/mutants/prove.log | head -n 2 | tr -s ' \n' ' ' | cut -c 1-150)"
  fi
  cp "$file" "$copy/$file"
done <tests/mutants/mutants.tsv
echo "$found of $all bugs found"
[ "$found" -eq "$all" ]

#!/usr/bin/env bash
# Writes docs/roofline.md and the table in docs/gpu.md from `tessera plan --roofline`, for each configuration in
# bf16, on the ranks and with the settings of the command in its first lines:
#
#     docs/write_roofline.sh build/cpu/tessera
#     docs/write_roofline.sh --check build/cpu/tessera    # fails if they would change
set -euo pipefail
check=0
[ "${1:-}" != --check ] || { check=1; shift; }
[ $# = 1 ] || { sed -n 's/^# \{0,1\}//p' "$0" | sed 1d; exit 2; }
tessera=$(realpath "$1")
cd "$(dirname "$0")/.."
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
mkdir "$new/runs"

mapfile -t configs < <(grep -l '^ *precision: bf16' configs/*.yaml)
for config in "${configs[@]}"; do
  # "#   build/cpu/tessera run -np 8 train configs/gpt2_774m.yaml --set parallel.tensor=2"
  command=$(sed -n "s|^# *[^ ]*tessera run -np \([0-9]*\) train $config|\1|p" "$config")
  [ -n "$command" ] || { echo "$config: no line says how to run it on several ranks" >&2; exit 1; }
  read -r ranks settings <<<"$command"
  # shellcheck disable=SC2086 # several words
  "$tessera" plan "$config" --ranks "$ranks" $settings --roofline --markdown >"$new/runs/$(basename "$config" .yaml)"
done

{
  cat <<'END'
# Roofline

<!-- Written by docs/write_roofline.sh. -->

The least time of a training step on a GPU, by part and op, to compare the first measurements with. **These are bounds
from data sheets, not measurements.** `tessera plan CONFIG --ranks N --roofline` prints one for any run
([plan.md](plan.md#roofline) says what is counted).

A row in bold is a part of the step: the sum of the ops below it. Parts and ops have the names of the ranges that
NVIDIA's profilers show. FLOPs, bytes and calls are of one rank and one step. Times are in milliseconds; F marks an op
that is bound by FLOPs rather than by memory. Of an exchange, the time in parentheses is not hidden behind ops.

A short step can beat a line: where tensors are small, an op finds in the L2 cache (50 MB on an H100) what the op before
has written.

| SXM | matrix products, bf16 | other FLOPs | memory | NVLink, one way |
|---|--:|--:|--:|--:|
END
  for gpu in A100 H100 H200 B200; do
    "$tessera" plan "${configs[0]}" --ranks 2 --roofline --gpu $gpu | sed -nE "
      /^peaks/ {
        s/^peaks +(.*) of matrix products in bf16, (.*) of other kinds, (.*) of memory$/| $gpu | \1 | \2 | \3 |/; h
      }
      /sent to tensor ranks/ {s/^ *(.*) sent to .*/\1/; H; g; s/\n(.*)/ \1 |/p}"
  done
  for config in "${configs[@]}"; do
    name=$(basename "$config" .yaml)
    printf '\n## %s\n\n' "$name"
    cat "$new/runs/$name"
  done
} >"$new/roofline.md"

# The table in gpu.md: a row for each run.
{
  printf '| run | ranks | TFLOP of products | GB | A100 | H100 | H200 | B200 |\n|---|---|--:|--:|--:|--:|--:|--:|\n'
  for config in "${configs[@]}"; do
    name=$(basename "$config" .yaml)
    awk -F ' *[|] *' -v link="[$name](roofline.md#${name//./})" '
      NR == 1 {split($0, sentences, /\. /)}
      $2 == "**all ops**" {printf "| %s | %s | %.1f | %s |", link, sentences[2], $5 / 1e3, $7}
      $2 == "**whole step**" {for (i = 8; i < NF; ++i) time[i] = $i}
      $2 == "**MFU at most**" {for (i = 8; i < NF; ++i) printf " %.1f ms, %s |", time[i], $i; print ""}' "$new/runs/$name"
  done
} >"$new/table"
awk -v table="$new/table" '
  {if (!inside) print}
  /^<!-- roofline: / {inside = 1; while ((getline line < table) > 0) print line}
  /^<!-- end of roofline/ {inside = 0; print}' docs/gpu.md >"$new/gpu.md"

for page in roofline.md gpu.md; do
  if [ $check = 0 ]; then
    cp "$new/$page" "docs/$page"
  elif ! diff -u "docs/$page" "$new/$page"; then
    echo "docs/$page does not match what the code counts. Write it again: docs/write_roofline.sh $tessera" >&2
    exit 1
  fi
done

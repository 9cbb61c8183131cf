#!/usr/bin/env bash
# Plants changes in a small table of kernels and expects kernel_resources.sh to report them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
table=$folder/table new=$folder/new failures=0

{
  head -n 2 tests/cuda/kernel_resources.tsv
  printf 'a.cu\tplain_kernel<1, float>\tsm_80\t32\t0\t0\t0\t0\t-\t-\n'
  printf 'a.cu\tplain_kernel<1, float>\tsm_90a\t40\t0\t0\t0\t0\t-\t-\n'
  printf 'b.cu\tbounded_kernel\tsm_80\t64\t8\t4\t4\t128\t256\t16384\n'
} >"$table"

# Expects a status and a line of output for the table whose row ROW, from 1, is edited by an expression of awk.
expect() { # STATUS LINE [ROW EDIT]
  awk -F '\t' -v OFS='\t' "NR == 2 + ${3:-0} { ${4:-} } { print }" "$table" >"$new"
  check "$1" "$2"
}

# Expects a status and a line of output for the new table.
check() { # STATUS LINE
  local status=0 output
  output=$(tests/cuda/kernel_resources.sh --compare "$table" "$new") || status=$?
  if [ $status != "$1" ] || ! grep -qxF "$2" <<<"$output"; then
    printf 'expected status %s and:\n%s\nfound status %s and:\n%s\n\n' "$1" "$2" $status "$output"
    failures=$((failures + 1))
  fi
}

plain='a.cu: plain_kernel<1, float> on sm_80' bounded='b.cu: bounded_kernel on sm_80'
expect 0 'no kernel uses more than the table says'
expect 1 "rise: $plain: registers 32 → 40" 1 '$4 = 40'
expect 1 "rise: $plain: stack 0 → 8" 1 '$5 = 8'
expect 1 "rise: $plain: spill stores 0 → 4, spill loads 0 → 4" 1 '$6 = $7 = 4'
expect 1 "rise: $plain: shared 0 → 1024" 1 '$8 = 1024'
expect 1 "rise: $bounded: threads 256 → 512, registers x threads 16384 → 32768" 3 '$9 = 512; $10 = 32768'
expect 1 "rise: $bounded: threads 256 → -, registers x threads 16384 → -" 3 '$9 = $10 = "-"'
expect 1 "rise: $bounded: stack 8 → 16" 3 '$4 = 48; $5 = 16'
expect 0 "note: $bounded: registers 64 → 9" 3 '$4 = 9'
expect 1 "missing: $plain" 1 next
sed '3p; 3s/plain/other/' "$table" >"$new"
check 1 "new: ${plain/plain/other}"

# A compiler that only prints a message, as ptxas words it.
compile() { # MESSAGE
  tests/cuda/save_ptxas_report.sh sh -c 'echo "$0" >&2' "$1" -o "$folder/object" 2>/dev/null
}
kernel="wgmma.mma_async instructions are serialized due to ill formed pipeline stage in the function 'kernel'"
compile "ptxas info    : Used 40 registers, 0 bytes smem" || { echo "a plain report failed"; failures=$((failures + 1)); }
if compile "ptxas info    : (C7510) Potential Performance Loss: $kernel"; then
  echo "serialized wgmma instructions were accepted"
  failures=$((failures + 1))
fi

[ $failures = 0 ]

#!/usr/bin/env bash
# save_ptxas_report.sh NVCC ARGUMENT...: compiles, and keeps the report of `-Xptxas -v` in OBJECT.ptxas for
# kernel_resources.sh. Prints all other messages.
set -uo pipefail

object='' previous=''
for argument in "$@"; do
  [ "$previous" = -o ] && object=$argument
  previous=$argument
done

"$@" 2>"$object.ptxas"
status=$?
grep -vE '^ptxas info|^ +[0-9]+ bytes (stack frame|cumulative)' "$object.ptxas" >&2
exit $status

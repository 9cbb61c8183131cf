#!/usr/bin/env bash
# save_ptxas_report.sh NVCC ARGUMENT...: compiles, and keeps the report of `-Xptxas -v` in OBJECT.ptxas for
# kernel_resources.sh. Prints all other messages. Fails if ptxas serialized wgmma instructions or ignored setmaxnreg,
# which it calls information (C7508 to C7512): such a kernel is several times slower than it looks.
set -uo pipefail

object='' previous=''
for argument in "$@"; do
  [ "$previous" = -o ] && object=$argument
  previous=$argument
done

"$@" 2>"$object.ptxas"
status=$?
grep -vE '^ptxas info|^ +[0-9]+ bytes (stack frame|cumulative)' "$object.ptxas" >&2
if grep -E '\(C75[0-9]{2}\)' "$object.ptxas" >&2; then
  echo "$object: a note of ptxas on serialized or ignored instructions is an error" >&2
  status=1
fi
exit $status

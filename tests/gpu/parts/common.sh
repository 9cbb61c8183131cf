# shellcheck shell=bash
# Sourced by check.sh: what all parts use.

program() { if [ -x "$bin/$1" ]; then echo "$bin/$1"; else echo "$bin/tests/$1"; fi; }
tessera=$(program tessera)
mpirun=mpirun
[ -x "$bin/mpirun" ] && mpirun=$bin/mpirun
ranks() { # ranks N PROGRAM...; one needs no mpirun
  local n=$1
  shift
  [ "$n" != 1 ] || { "$@"; return; }
  "$mpirun" --allow-run-as-root --oversubscribe --bind-to none -np "$n" "$@"
}
note() { echo "note: $*"; }
emulated() { [ -n "${TESSERA_SIMT_DEVICES:-}" ]; }
seconds_left() { echo $((${PART_SECONDS:-60} - SECONDS)); } # of the part that this is

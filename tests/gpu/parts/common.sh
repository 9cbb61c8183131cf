# shellcheck shell=bash
# Sourced by check.sh: helpers of all parts.

program() { if [ -x "$bin/$1" ]; then echo "$bin/$1"; else echo "$bin/tests/$1"; fi; }
tessera=$(program tessera)
mpirun=mpirun
[ -x "$bin/mpirun" ] && mpirun=$bin/mpirun
start_ranks() { # start_ranks N: sets $launcher to what starts N ranks; one needs no mpirun
  launcher=()
  [ "$1" = 1 ] && return
  # mpirun kills the remaining ranks without a delay.
  launcher=("$mpirun" --allow-run-as-root --oversubscribe --bind-to none --mca odls_base_sigkill_timeout 0 -np "$1")
}
ranks() { # ranks N PROGRAM...
  start_ranks "$1"
  shift
  "${launcher[@]}" "$@"
}
note() { echo "note: $*"; }
emulated() { [ -n "${TESSERA_EMULATOR_DEVICES:-}" ]; }
gpus() { # how many there are
  if emulated; then
    echo "$TESSERA_EMULATOR_DEVICES"
  elif [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
    tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | wc -l
  else
    nvidia-smi -L 2>/dev/null | grep -c '^GPU'
  fi
}
can_run() { [ "$(gpus)" -ge "$1" ] || [ "$share" = 1 ]; } # can_run N: whether N ranks can use NCCL
seconds_left() { echo $((${PART_SECONDS:-60} - SECONDS)); } # of the current part

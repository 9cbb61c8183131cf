#!/usr/bin/env bash
# Checks Tessera on a machine with NVIDIA GPUs, then measures it. Takes less than nine minutes on one GPU.
#
#   tests/gpu/check.sh [--tiny] [--share] [--out FOLDER] [--only PARTS] [--seconds N] [BIN]
#
# BIN contains tessera and the tests: the bin folder of a bundle (bundle.sh), otherwise build/cuda, which is
# built first. Every part has its own time limit; after a failure the next part runs. Writes results.json,
# results.md and a log of each part to FOLDER (gpu-check). --tiny is for trying this script: fewer steps, small
# models and an hour of time. It also runs on emulated GPUs (TESSERA_EMULATOR_DEVICES=4), where unsupported
# parts are skipped with a note and times, which mean nothing, are left out of results.md. PARTS are names from the
# table below, separated by spaces. --share runs the parts of several ranks with NCCL, and only these unless PARTS are
# given: where there are fewer GPUs than ranks, these share one, which NCCL refuses outside of tests
# (parallel/communicators/nccl/nccl_environment.h). --seconds ends all parts after N seconds, instead of 530 or, with
# several GPUs, 850. PYTHON is a Python that has torch.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
self=$here/$(basename "${BASH_SOURCE[0]}")

tiny=0 share=0 out=gpu-check only='' bin='' part='' most=''
while [ $# -gt 0 ]; do
  case $1 in
    --tiny) tiny=1 ;;
    --share) share=1 ;;
    --out) out=$2; shift ;;
    --only) only=" $2 "; shift ;;
    --part) part=$2; shift ;;
    --seconds) most=$2; shift ;;
    -*) sed -n '2,16s/^# \{0,1\}//p' "$self"; exit 2 ;;
    *) bin=$1 ;;
  esac
  shift
done

if [ -e "$here/env.sh" ] && [ -d "$here/libexec" ]; then
  root=$here bin=${bin:-$here/bin}
else
  root=$(cd "$here/../.." && pwd)
  if [ -z "$bin" ]; then
    (cd "$root" && . launch/set_up.sh && build cuda tessera core_tests models_tests equivalence_tests parallel_mpi_tests kernel_times) || exit 1
    bin=$root/build/cuda
  fi
fi
mkdir -p "$out" && out=$(cd "$out" && pwd)
bin=$(cd "$bin" && pwd)
data=$out/data
steps=50 slower=1
[ $tiny = 1 ] && steps=10 slower=8
if [ $share = 1 ]; then
  export TESSERA_TEST_NCCL_SHARES_GPU=1
  only=${only:-' versions communicators nccl repeated long faults '}
fi

for file in "$here"/parts/*.sh; do
  # shellcheck source=/dev/null
  . "$file"
done

if [ -n "$part" ]; then
  "part_$part"
  exit
fi

# part | maximum seconds | whether it may run beside others. With 8 cores or more, such parts run at the same time,
# since most of their time is the CPU's. measure, profile, scaling, pytorch, memcheck and racecheck stop when their
# time is up and report what they left out; run them again with --only and another --out.
parts='versions 20
data 60
ops 150 beside
models 120 beside
kinds 150 beside
communicators 90 beside
gpt 90 beside
bert 90 beside
layouts 90 beside
resume 90 beside
bitwise 90 beside
answers 60 beside
nccl 120
repeated 120
long 90
faults 180
kernels 60
measure 220
profile 60
scaling 200
pytorch 110
memcheck 60
racecheck 60'
[ -n "$most" ] || most=$([ "$(gpus)" -ge 2 ] && echo 850 || echo 530)
began=$SECONDS
rm -rf "$out/logs" "$out/runs"
mkdir -p "$out/logs" "$out/runs"
: >"$out/parts.txt"

run_part() { # run_part NAME LIMIT
  local name=$1 limit=$(($2 * slower)) left=$((most * slower - (SECONDS - began))) start=$SECONDS status outcome options=()
  [ $left -lt $limit ] && limit=$((left > 0 ? left : 0))
  if [ $limit -eq 0 ]; then
    echo 'note: no time was left' >"$out/logs/$name.log"
    status=77
  else
    [ $tiny = 1 ] && options+=(--tiny)
    [ $share = 1 ] && options+=(--share)
    PART_SECONDS=$limit timeout -k 5 "$limit" bash "$self" "${options[@]}" --out "$out" --part "$name" "$bin" >"$out/logs/$name.log" 2>&1 </dev/null
    status=$?
  fi
  case $status in
    0) outcome=passed ;;
    77) outcome=skipped ;;
    124 | 137) outcome='out of time' ;;
    *) outcome=FAILED ;;
  esac
  echo "$name|$outcome|$((SECONDS - start))" >"$out/logs/$name.outcome"
}
report_part() { # report_part NAME
  local name outcome seconds
  IFS='|' read -r name outcome seconds <"$out/logs/$1.outcome"
  cat "$out/logs/$1.outcome" >>"$out/parts.txt"
  printf '%-14s %-12s %4d s\n' "$name" "$outcome" "$seconds"
  grep '^note: ' "$out/logs/$name.log"
  [ "$outcome" = FAILED ] && tail -n 12 "$out/logs/$name.log" | sed 's/^/    /'
}
running=()
end_running() {
  local name
  wait
  for name in ${running[@]+"${running[@]}"}; do report_part "$name"; done
  running=()
}
while read -r name limit beside; do
  if [ -n "$only" ] && [ "$name" != data ] && [[ "$only" != *" $name "* ]]; then continue; fi
  if [ -n "$beside" ] && [ "$(nproc)" -ge 8 ]; then
    OMP_NUM_THREADS=$(($(nproc) / 4)) run_part "$name" "$limit" &
    running+=("$name")
  else
    end_running
    run_part "$name" "$limit"
    report_part "$name"
  fi
done <<<"$parts"
end_running

. "$here/report.sh"
describe_machine
results_json >"$out/results.json"
results_md >"$out/results.md"
echo "$((SECONDS - began)) s in all; $out/results.md"
! grep -qE 'FAILED|out of time' "$out/parts.txt"

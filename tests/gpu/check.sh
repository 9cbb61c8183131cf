#!/usr/bin/env bash
# Checks Tessera on a machine with NVIDIA GPUs, then measures it. Takes less than nine minutes on one GPU.
#
#   tests/gpu/check.sh [--tiny] [--out FOLDER] [--only PARTS] [BIN]
#
# BIN contains tessera and the tests: the bin folder of a bundle (bundle.sh), otherwise build/cuda, which is
# built first. Every part has its own time limit; after a failure the next part runs. Writes results.json,
# results.md and a log of each part to FOLDER (gpu-check). --tiny is for trying this script: fewer steps, small
# models and an hour of time. It also runs on emulated GPUs (TESSERA_EMULATOR_DEVICES=4), where unsupported
# parts are skipped with a note and times, which mean nothing, are left out of results.md. PYTHON is a Python
# that has torch.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
self=$here/$(basename "${BASH_SOURCE[0]}")

tiny=0 out=gpu-check only='' bin='' part=''
while [ $# -gt 0 ]; do
  case $1 in
    --tiny) tiny=1 ;;
    --out) out=$2; shift ;;
    --only) only=" $2 "; shift ;;
    --part) part=$2; shift ;;
    -*) sed -n '2,12s/^# \{0,1\}//p' "$self"; exit 2 ;;
    *) bin=$1 ;;
  esac
  shift
done

if [ -e "$here/env.sh" ] && [ -d "$here/libexec" ]; then
  root=$here bin=${bin:-$here/bin}
else
  root=$(cd "$here/../.." && pwd)
  if [ -z "$bin" ]; then
    (cd "$root" && . launch/set_up.sh && build cuda tessera core_tests models_tests parallel_mpi_tests kernel_times) || exit 1
    bin=$root/build/cuda
  fi
fi
mkdir -p "$out" && out=$(cd "$out" && pwd)
bin=$(cd "$bin" && pwd)
data=$out/data
steps=50 slower=1
[ $tiny = 1 ] && steps=10 slower=8

for file in "$here"/parts/*.sh; do
  # shellcheck source=/dev/null
  . "$file"
done

if [ -n "$part" ]; then
  "part_$part"
  exit
fi

# part | maximum seconds. All parts together end within 530 s, or 850 s with several GPUs. Estimated times on one
# H200 if nothing fails: versions 3, data 15, ops 40, models 25, communicators 10, gpt and bert 25 each, layouts
# 30, nccl 12, resume 25, bitwise 20, answers 12, kernels 20, together 262 s; measure, 8 models of 15 s, 120 s.
# That leaves 148 s for pytorch, memcheck and racecheck. These, measure, and scaling on several GPUs stop when
# their time is up and report what they left out; run them again with --only and another --out.
parts='versions 20
data 60
ops 150
models 60
communicators 30
gpt 40
bert 40
layouts 60
nccl 60
resume 40
bitwise 40
repeated 60
long 60
answers 40
kernels 40
measure 160
scaling 200
pytorch 110
memcheck 60
racecheck 60'
most=530
[ "$(gpus)" -ge 2 ] && most=850
began=$SECONDS
rm -rf "$out/logs" "$out/runs"
mkdir -p "$out/logs"
: >"$out/parts.txt"
while read -r name limit; do
  if [ -n "$only" ] && [ "$name" != data ] && [[ "$only" != *" $name "* ]]; then continue; fi
  limit=$((limit * slower))
  left=$((most * slower - (SECONDS - began)))
  [ $left -lt $limit ] && limit=$((left > 0 ? left : 0))
  log=$out/logs/$name.log
  start=$SECONDS
  if [ $limit -eq 0 ]; then
    echo 'note: no time was left' >"$log"
    status=77
  else
    options=()
    [ $tiny = 1 ] && options=(--tiny)
    PART_SECONDS=$limit timeout -k 5 "$limit" bash "$self" "${options[@]}" --out "$out" --part "$name" "$bin" >"$log" 2>&1 </dev/null
    status=$?
  fi
  case $status in
    0) outcome=passed ;;
    77) outcome=skipped ;;
    124 | 137) outcome='out of time' ;;
    *) outcome=FAILED ;;
  esac
  echo "$name|$outcome|$((SECONDS - start))" >>"$out/parts.txt"
  printf '%-14s %-12s %4d s\n' "$name" "$outcome" $((SECONDS - start))
  grep '^note: ' "$log"
  [ "$outcome" = FAILED ] && tail -n 12 "$log" | sed 's/^/    /'
done <<<"$parts"

. "$here/report.sh"
describe_machine
results_json >"$out/results.json"
results_md >"$out/results.md"
echo "$((SECONDS - began)) s in all; $out/results.md"
! grep -qE 'FAILED|out of time' "$out/parts.txt"

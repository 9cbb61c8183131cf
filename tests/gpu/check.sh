#!/usr/bin/env bash
# Checks Tessera on a machine with one NVIDIA GPU or several, then measures it; in less than nine minutes on one:
#
#   tests/gpu/check.sh [--tiny] [--out FOLDER] [--only PARTS] [BIN]
#
# BIN holds tessera and the tests: in a bundle (bundle.sh) its bin, else build/cuda, which is built first.
# Every part has a time limit of its own and the next goes on when one fails. FOLDER (gpu-check) gets
# results.json, results.md and a log of each part. --tiny takes fewer steps, measures small models and has
# an hour: for trying this script out, also on emulated GPUs (TESSERA_EMULATOR_DEVICES=4), where what they can
# not do is skipped with a note, and its times, which mean nothing, are left out of results.md. PYTHON is
# the one with torch.
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

# part | seconds at most. By design all are done in 530 s, or 730 s where there are several GPUs: where all goes
# well, parts are thought to take, on one H200, versions 3, data 15, ops 40, models 25, communicators 10, gpt and
# bert 25 each, layouts 30, nccl 12, resume 25, bitwise 20, answers 12, kernels 15, which are 257 s; measure, 7
# models of 15 s, 105; then 168 are left for pytorch, memcheck and racecheck. These four, and scaling where there
# are several GPUs, stop by themselves when their time is up and say what they left out; --only, and another
# --out, goes on with it.
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
answers 40
kernels 40
measure 150
scaling 200
pytorch 110
memcheck 60
racecheck 60'
most=530
[ "$(gpus)" -ge 2 ] && most=730
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

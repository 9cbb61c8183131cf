#!/bin/bash
# Trains a small GPT on the ranks of several hosts (README.md).
#
#     docs/examples/two_hosts/run.sh HOST:RANKS HOST:RANKS... [-- OPTION...]     # options of mpirun
#
# Start it on the first host. All hosts have this folder at the same path, with the program and runs/two_hosts, as on a
# network file system. TESSERA is the program, build/cpu/tessera by default.
set -euo pipefail
tessera=$(realpath "${TESSERA:-build/cpu/tessera}")
here=$(dirname "$0")
hosts=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    hosts+=("$1")
    shift
done
if [ ${#hosts[@]} = 0 ]; then
    sed -n 2,7p "$0"
    exit 64
fi
out=$PWD/runs/two_hosts
rm -rf "$out"
"$tessera" prepare --append-eod --input docs/*.md --output "$out/text"

list=$(IFS=,; echo "${hosts[*]}")
"$tessera" run --hosts "$list" --mpirun "mpirun ${*:2}" train "$here/two_hosts.yaml" \
    --set "data.train=$out/text" --set "run.dir=$out/run"
"$tessera" generate "$out/run" --prompt 'The ' --max-tokens 60

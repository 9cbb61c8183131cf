#!/bin/bash
# Trains on one layout of ranks, stops, and resumes twice on others (README.md).
#
#     docs/examples/layouts/run.sh [FOLDER]     # default runs/layouts
#
# TESSERA is the program, build/cpu/tessera by default. On a machine with fewer than four cores, four ranks share them.
set -euo pipefail
tessera=${TESSERA:-build/cpu/tessera}
out=${1:-runs/layouts}
here=$(dirname "$0")
rm -rf "$out"
"$tessera" prepare --append-eod --input docs/*.md --output "$out/text"

# train RUN RANKS OPTION...
train() {
    local run=$1 ranks=$2
    shift 2
    "$tessera" run -np "$ranks" train "$here/layouts.yaml" --set "data.train=$out/text" \
        --set "run.dir=$out/$run" "$@"
}

train whole 1
train moved 4 --set parallel.tensor=2 --set parallel.zero=1 --stop-at 100
train moved 2 --set parallel.tensor=1 --stop-at 200
train moved 3 --set parallel.tensor=3 --set parallel.sequence=true

# The losses of both at the same steps differ in the last digits, because sums have another order.
losses() {
    sed -n 's/.*"loss":\([0-9.]*\).*"step":\([0-9]*\),.*/\2 \1/p' "$out/$1/metrics.jsonl" | sort
}
echo "step  one rank            several layouts"
join <(losses whole) <(losses moved) | sort -n | column -t
"$tessera" report "$out/whole" "$out/moved" --output "$out/report.html"

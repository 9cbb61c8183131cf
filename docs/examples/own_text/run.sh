#!/bin/bash
# Trains a GPT on your own text within some minutes (README.md).
#
#     docs/examples/own_text/run.sh MINUTES FOLDER FILES...    # FOLDER must not exist
#
# RANKS is the number of ranks, 1 by default. TESSERA is the program, build/cpu/tessera by default.
set -euo pipefail
if [ $# -lt 3 ]; then
    sed -n 2,6p "$0"
    exit 64
fi
tessera=${TESSERA:-build/cpu/tessera}
minutes=$1 out=$2
shift 2
start=("$tessera")
if [ "${RANKS:-1}" -gt 1 ]; then start=("$tessera" run -np "$RANKS"); fi

"${start[@]}" design --text "$@" --minutes "$minutes" --output "$out"
time "${start[@]}" train "$out/train.yaml"
"$tessera" eval "$out/run"
"$tessera" generate "$out/run" --prompt $'\n' --max-tokens 120 --temperature 0.8
"$tessera" report "$out/run" --output "$out/report.html"

#!/bin/bash
# Trains an encoder-decoder that translates verses from English to Spanish (README.md).
#
#     docs/examples/translation/run.sh [FOLDER [OPTION...]]     # default runs/translation; options of tessera train
#
# TESSERA is the program, build/cpu/tessera by default. Needs python3.
set -euo pipefail
tessera=${TESSERA:-build/cpu/tessera}
out=${1:-runs/translation}
here=$(dirname "$0")

python3 "$here/verses.py" "$out"
[ -e "$out/bpe" ] || "$tessera" tokenizer train --kind bpe --vocab-size 4000 --input "$out/text.txt" --output "$out/bpe"
time "$tessera" train "$here/translation.yaml" --set "run.dir=$out/run" --set "data.tokenizer=bpe:$out/bpe" \
    --set "data.train=$out/train.tsv" --set "data.eval=$out/eval.tsv" "${@:2}"
"$tessera" generate "$out/run" --input "$out/eval.tsv" --output "$out/tessera.tsv"

#!/bin/bash
# Trains a BERT on sequences whose best possible loss is known, and prints how close it comes (README.md).
#
#     docs/examples/tree_grammar/run.sh [FOLDER [OPTION...]]     # default runs/tree_grammar; options of tessera train
#
# TESSERA is the program, build/cpu/tessera by default. Needs python3 with numpy.
set -euo pipefail
tessera=${TESSERA:-build/cpu/tessera}
out=${1:-runs/tree_grammar}
here=$(dirname "$0")

python3 "$here/tree_grammar.py" write "$out"
for part in train eval; do
    "$tessera" prepare --input "$out/$part.txt" --tokenizer none --vocab-size 8 --documents line \
        --output "$out/$part" --overwrite
done
time "$tessera" train "$here/tree_grammar.yaml" --set "run.dir=$out/run" \
    --set "data.train=$out/train" --set "data.eval=$out/eval" "${@:2}"
python3 "$here/tree_grammar.py" compare "$out"

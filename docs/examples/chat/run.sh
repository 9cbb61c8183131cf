#!/bin/bash
# Trains a small Llama on a text, then a chat model from it, with low-rank adapters (README.md).
#
#     docs/examples/chat/run.sh TEXT [FOLDER]     # default runs/chat; needs python3
#
# TESSERA is the program, build/cpu/tessera by default.
set -euo pipefail
if [ $# -lt 1 ]; then
    sed -n 2,6p "$0"
    exit 64
fi
tessera=${TESSERA:-build/cpu/tessera}
text=$1
out=${2:-runs/chat}
here=$(dirname "$0")
mkdir -p "$out"

python3 "$here/conversations.py" "$text" "$out"
if [ ! -e "$out/text.idx" ]; then
    "$tessera" tokenizer train --kind bpe --vocab-size 2002 --special '<|im_start|>' --special '<|im_end|>' \
        --input "$text" --output "$out/bpe" --overwrite
    "$tessera" prepare --tokenizer "bpe:$out/bpe" --documents paragraph --append-eod --input "$text" --output "$out/text"
fi
data=(--set "data.train=$out/text")
time "$tessera" train "$here/trunk.yaml" --set "run.dir=$out/trunk" "${data[@]}"
time "$tessera" train "$here/branch.yaml" --set "run.dir=$out/branch" --set "checkpoint.from=$out/trunk" "${data[@]}"
time "$tessera" train "$here/chat.yaml" --set "run.dir=$out/chat" --set "checkpoint.from=$out/branch" \
    --set "data.train=$out/train.jsonl" --set "data.eval=$out/eval.jsonl"

"$tessera" generate "$out/chat" --input "$out/questions.txt" --output "$out/replies.tsv" --chat auto --temperature 0 \
    --max-tokens 40
tail -n +2 "$out/replies.tsv" | paste - "$out/answers.txt" | awk -F '\t' '
    { kind = $2 ~ /plus/ ? "sums" : "names"; right[kind] += $1 == $2; all[kind]++ }
    END { for (kind in all) printf "%s: %d of %d right\n", kind, right[kind], all[kind] }'

"$tessera" export "$out/chat" --to "$out/merged" --overwrite
"$tessera" export "$out/chat" --to "$out/adapter" --adapter --overwrite
"$tessera" export "$out/branch" --to "$out/base" --overwrite
"$tessera" report "$out/trunk" "$out/branch" "$out/chat" --output "$out/report.html"

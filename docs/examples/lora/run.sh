#!/bin/bash
# Trains a small Llama on the descriptions of Debian's packages, then low-rank adapters that answer messages (README.md).
#
#     docs/examples/lora/run.sh [FOLDER]     # default runs/lora; needs `apt-get update` to have run once
#
# TESSERA is the program, build/cpu/tessera by default.
set -euo pipefail
tessera=${TESSERA:-build/cpu/tessera}
out=${1:-runs/lora}
here=$(dirname "$0")
mkdir -p "$out"

# A line for each package: description and section, separated by a tab. Nothing that JSON would have to escape.
LC_ALL=C apt-cache dumpavail | awk '
    function flush() { if (text != "" && section != "" && !seen[text]++) print text "\t" section; text = section = "" }
    /^$/ { flush() }
    /^Description: / { text = substr($0, 14); gsub(/["\\\t]/, "", text) }
    /^Section: / { section = $2; sub(".*/", "", section) }
    END { flush() }' > "$out/packages.tsv"
awk -F '\t' -v out="$out" '{
        line = "{\"messages\": [{\"role\": \"user\", \"content\": \"" $1 "\"}, {\"role\": \"assistant\", \"content\": \"" $2 "\"}]}"
        if (NR % 50 == 0) {
            print line > (out "/eval.jsonl"); print $1 > (out "/questions.txt"); print $2 > (out "/answers.txt")
        } else {
            print line > (out "/train.jsonl"); print $1 > (out "/text.txt")
        }
    }' "$out/packages.tsv"

if [ ! -e "$out/text.idx" ]; then
    "$tessera" tokenizer train --kind bpe --vocab-size 4000 --special '<|im_start|>' --special '<|im_end|>' \
        --input "$out/text.txt" --output "$out/bpe"
    "$tessera" prepare --tokenizer "bpe:$out/bpe" --documents line --append-eod --input "$out/text.txt" --output "$out/text"
fi
"$tessera" train "$here/base.yaml" --set "run.dir=$out/base" --set "data.train=$out/text"

# tune NAME KEY=VALUE...: fine-tunes the base, answers the held-out questions, and counts the right answers.
tune() {
    local name=$1 set=()
    shift
    for key in "$@"; do set+=(--set "$key"); done
    time "$tessera" train "$here/lora.yaml" --set "run.dir=$out/$name" --set "data.train=$out/train.jsonl" \
        --set "data.eval=$out/eval.jsonl" --set "checkpoint.from=$out/base" "${set[@]}"
    "$tessera" generate "$out/$name" --input "$out/questions.txt" --output "$out/$name.tsv" --chat auto \
        --temperature 0 --max-tokens 8
    tail -n +2 "$out/$name.tsv" | paste - "$out/answers.txt" |
        awk -F '\t' -v name="$name" '{ right += $1 == $2 } END { printf "%s: %d of %d right, %.1f%%\n", name, right, NR, 100 * right / NR }'
}

tune lora
tune lora_without_new_tokens optimizer.trained='[]'
tune full model.lora_rank=0 optimizer.trained='[]' optimizer.lr=1.0e-3
"$tessera" export "$out/lora" --to "$out/adapter" --adapter --overwrite
"$tessera" export "$out/lora" --to "$out/merged" --overwrite

#!/bin/bash
# Fine-tunes each head of an encoder on data that every Debian has: the one-line descriptions of its packages.
#
#     docs/examples/heads/run.sh [FOLDER]     # default runs/heads; needs `apt-get update` to have run once
#
# Trains a tokenizer and a small BERT on all descriptions, then five heads from it, each in less than half a minute on two cores.
# README.md shows the results. TESSERA is the program, build/cpu/tessera by default.
set -euo pipefail
tessera=${TESSERA:-build/cpu/tessera}
out=${1:-runs/heads}
mkdir -p "$out"

# A line for each package: name, source, description, section, size, tags, separated by tabs.
LC_ALL=C apt-cache dumpavail | awk '
    function flush() {
        if (name != "" && text != "" && !seen[text]++) print name "\t" source "\t" text "\t" section "\t" size "\t" tags
        name = source = text = section = tags = ""; size = 0; in_tags = 0
    }
    { gsub("\t", " ") }
    /^$/ { flush(); next }
    /^ / { if (in_tags) tags = tags $0; next }
    { in_tags = 0 }
    /^Package: / { name = $2; source = $2 }
    /^Source: / { source = $2 }
    /^Description: / { text = substr($0, 14) }
    /^Section: / { section = $2; sub(".*/", "", section) }
    /^Installed-Size: / { size = $2 }
    /^Tag: / { tags = substr($0, 6); in_tags = 1 }
    END { flush() }' > "$out/packages.tsv"
cut -f 3 "$out/packages.tsv" > "$out/text.txt"

# Pairs of descriptions: of the same section or not.
awk -F '\t' 'BEGIN { srand(1); print "text\ttext_pair\tlabel" }
    $4 ~ /^(python|games|javascript|science|doc|utils|net|sound|perl|fonts)$/ {
        same = rand() < 0.5; other = ""
        for (section in last) if (section != $4 && rand() < 0.3) other = section
        pair = same ? last[$4] : other == "" ? "" : last[other]
        if (pair != "") print $3 "\t" pair "\t" (same ? "same" : "other")
        last[$4] = $3
    }' "$out/packages.tsv" > "$out/pairs.tsv"

# Sets of labels: tags that debtags gives to a package.
awk -F '\t' 'BEGIN { print "text\tlabels" } $6 != "" {
        count = split($6, all, /, */); labels = ""
        for (i = 1; i <= count; ++i) {
            tag = all[i]; gsub(" ", "", tag)
            if (tag !~ /^(role::(program|shared-lib|devel-lib|documentation|app-data|plugin)|interface::(commandline|x11|web|graphical)|implemented-in::(c|c\+\+|python|perl|java|ruby|haskell|php))$/) continue
            labels = labels (labels == "" ? "" : "|") tag
        }
        print $3 "\t" labels
    }' "$out/packages.tsv" > "$out/tags.tsv"

# A number: the logarithm of the installed size in KiB.
awk -F '\t' 'BEGIN { print "text\tlabel" } $5 > 0 { printf "%s\t%.3f\n", $3, log($5) / log(2) }' \
    "$out/packages.tsv" > "$out/sizes.tsv"

# Labels of words: the name of the source package within the description.
awk -F '\t' '{
        count = split($3, words, / +/); found = 0
        for (i = 1; i <= count; ++i) if (tolower(words[i]) == tolower($2)) found = 1
        if (!found || $2 ~ /^[a-z]$/) next
        for (i = 1; i <= count; ++i) print words[i] "\t" (tolower(words[i]) == tolower($2) ? "B-NAME" : "O")
        print ""
    }' "$out/packages.tsv" > "$out/names.tsv"

# Texts that belong together: the words of a package's name, and its description.
awk -F '\t' 'BEGIN { print "anchor\tpositive" } { gsub("-", " ", $1); print $1 "\t" $3 }' OFS='\t' \
    "$out/packages.tsv" > "$out/search.tsv"

if [ ! -e "$out/vocab.txt" ]; then
    "$tessera" tokenizer train --kind wordpiece --vocab-size 8000 --input "$out/text.txt" --output "$out/vocab.txt"
    "$tessera" prepare --tokenizer "wordpiece:$out/vocab.txt" --documents line --input "$out/text.txt" --output "$out/data"
fi

# train NAME STEPS BATCH LR KEY=VALUE...: a run with a held-out tenth, of which it evaluates 1000 samples or so.
train() {
    local name=$1 steps=$2 batch=$3 lr=$4
    shift 4
    printf 'train: {steps: %s}\n' "$steps" > "$out/$name.yaml"
    printf 'data: {eval_fraction: 0.1, train: %s}\n' "$data" >> "$out/$name.yaml"
    local set=()
    for key in "$@"; do set+=(--set "$key"); done
    echo "--- $name"
    time "$tessera" train "$out/$name.yaml" --set "run.dir=$out/$name" --set run.precision=bf16 \
        --set "batch.global=$batch" --set "optimizer.lr=$lr" --set "eval.interval=$steps" \
        --set "eval.batches=$((1024 / batch))" --set optimizer.warmup_steps=$((steps / 10)) "${set[@]}"
}

shape=(model.kind=bert model.token_types=2 model.hidden_size=128 model.num_layers=2 model.num_heads=4 model.seq_length=64)
head=("checkpoint.from=$out/pretrained" data.truncate=true)
data="$out/data" train pretrained 600 64 2e-3 "${shape[@]}" data.short_samples=pack
data="$out/pairs.tsv" train pairs 500 64 1e-3 "${head[@]}"
data="$out/tags.tsv" train tags 1000 64 2e-3 "${head[@]}" model.problem_type=multi_label_classification
data="$out/sizes.tsv" train sizes 1000 64 2e-3 "${head[@]}" model.problem_type=regression
data="$out/names.tsv" train names 500 64 1e-3 "${head[@]}" model.head=token_classification
data="$out/search.tsv" train search 500 128 1e-3 "${head[@]}"

#!/usr/bin/env bash
# Trains a small GPT on this repository's own sources and documentation: on two tensor ranks, stopped
# halfway, resumed on one rank from the sharded checkpoint. Then generates text and draws a report of the run.
set -euo pipefail
cd "$(dirname "$0")/.."
. launch/set_up.sh

say() {
  if [ -t 1 ]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi
}

say "1/5  Installing missing packages and building (takes minutes the first time)"
install_missing "${packages[@]}"
# A first build compiles several sources as one, which is faster. Later builds keep what build/cpu has.
[ -d build/cpu ] || configure cpu -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=24
build cpu tessera
tessera=build/cpu/tessera

say "2/5  Training a tokenizer on the repository's text and preparing a dataset (in a new runs/quickstart)"
rm -rf runs/quickstart
mapfile -t texts < <(find core parallel models launch tests configs docs README.md CMakeLists.txt \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.md' -o -name '*.yaml' -o -name '*.sh' \) | LC_ALL=C sort)
"$tessera" tokenizer train --kind bpe --vocab-size 2000 --input "${texts[@]}" --output runs/quickstart/data/bpe
"$tessera" prepare --tokenizer bpe:runs/quickstart/data/bpe --append-eod --input "${texts[@]}" \
  --output runs/quickstart/data/text

say "3/5  Training on 2 tensor ranks (parallel.tensor=2), stopping at step 500"
"$tessera" run -np 2 train configs/gpt_quickstart.yaml \
  --set parallel.tensor=2 --stop-at 500

say "4/5  Resuming from the sharded checkpoint on 1 rank"
"$tessera" train configs/gpt_quickstart.yaml --set checkpoint.resume=required

say "5/5  Generating text after '/// Returns the', and drawing a report of the run"
"$tessera" generate runs/quickstart/run --prompt '/// Returns the' --max-tokens 150 --temperature 0.7
"$tessera" report runs/quickstart/run --output runs/quickstart/report.html

say "Done: runs/quickstart/run contains config.yaml, metrics.jsonl and the checkpoints. Open runs/quickstart/report.html."

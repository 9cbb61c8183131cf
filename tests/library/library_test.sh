#!/usr/bin/env bash
# library_test.sh BUILD TESSERA MPIRUN...: installs the libraries of a build, builds docs/examples/library with them,
# trains on two ranks and generates text from the checkpoint. Also trains without data: an error on all ranks.
set -euo pipefail
build=$1 tessera=$2
shift 2
example=$(cd "$(dirname "$0")/../../docs/examples/library" && pwd)
folder=$build/library_test
rm -rf "$folder"
mkdir "$folder"
cmake --install "$build" --component development --prefix "$folder/prefix" >"$folder/install.log"
cmake -G Ninja -S "$example" -B "$folder/build" -DCMAKE_PREFIX_PATH="$folder/prefix" -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" >"$folder/configure.log"
cmake --build "$folder/build"

cd "$folder"
for i in $(seq 400); do echo "The $((i % 7))th day of the week is followed by day $(((i + 1) % 7))."; done >text.txt
"$tessera" prepare --input text.txt --append-eod --output text
export OMP_NUM_THREADS=1
"$@" 2 build/train_gpt text run | tee log
grep -q "^step 100: loss [01]\." log || { echo "expected a loss below 2 (chance is 5.5)"; exit 1; }
"$tessera" generate run --prompt "The 3th day" --max-tokens 30 --temperature 0 | tee generated
grep -q "of the week" generated || { echo "expected a text like those of the data"; exit 1; }

if "$@" 2 build/train_gpt missing other 2>error; then
  echo "expected an error: there is no data"
  exit 1
fi
[ "$(grep -c "^error: .*missing" error)" = 1 ] || { cat error; echo "expected one error that names the data"; exit 1; }
[ ! -e other ]

#!/bin/bash
# Trains a vision transformer on Debian's Fashion-MNIST, and shows what it looks at (README.md).
#
#     apt-get install dataset-fashion-mnist
#     docs/examples/images/run.sh [FOLDER [OPTION...]]     # default runs/images; options of tessera train
#
# TESSERA is the program, build/cpu/tessera by default.
set -euo pipefail
tessera=${TESSERA:-build/cpu/tessera}
out=${1:-runs/images}
images=/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz

time "$tessera" train configs/vit_fashion_mnist.yaml --set "run.dir=$out/run" "${@:2}"
"$tessera" eval "$out/run"
"$tessera" classify "$out/run" --input "$images" --output "$out/predictions.tsv"
head -n 6 "$out/predictions.tsv"
"$tessera" report "$out/run" --output "$out/report.html"

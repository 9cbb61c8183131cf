#!/usr/bin/env bash
# Nobody includes upward: launch → models → parallel → core. And the libraries that only one place may
# know are known only there.
set -euo pipefail
cd "$(dirname "$0")/.."
bad=0

# forbid FOLDER PATTERN EXCEPT WHY
forbid() {
  local found
  found=$(grep -rnE --include='*.h' --include='*.cpp' --include='*.cu' "#include [<\"]$2" $1 | grep -vE "$3" || true)
  if [ -n "$found" ]; then
    printf '%s:\n%s\n' "$4" "$found"
    bad=1
  fi
}

none='^$'
forbid core '(parallel|models|launch)/' "$none" 'core includes from above'
forbid parallel '(models|launch)/' "$none" 'parallel includes from above'
forbid models 'launch/' "$none" 'models includes from above'
forbid 'core parallel models launch' 'tests/' "$none" 'a test is included'
forbid 'core parallel models launch' 'mpi\.h' '^parallel/mpi_' 'only the MPI communicator includes MPI'
forbid 'core parallel models launch' '(cuda|cublas|cudnn)' '^core/(ops/)?cuda/|^parallel/nccl/' \
  'only core/cuda, core/ops/cuda and parallel/nccl include CUDA'
forbid 'core parallel models launch' 'nccl\.h' '^parallel/nccl/' 'only the NCCL communicator includes NCCL'
forbid 'core parallel models launch' '(oneapi/)?dnnl' '^core/ops/cpu/matmul' 'only matmul includes oneDNN'
forbid 'core parallel models launch' 'yaml-cpp/' '^launch/config/' 'only launch/config includes yaml-cpp'
forbid 'core parallel models launch' 'unicode/' '^launch/tokenizer/(bert_text|byte_level_words|printable_text)\.cpp' \
  'only bert_text, byte_level_words and printable_text include ICU'
forbid 'core parallel models launch' 'sentencepiece_(processor|trainer)\.h' \
  '^launch/tokenizer/sentencepiece_' 'only sentencepiece_* include SentencePiece'
forbid 'core parallel models launch' '(zlib|zstd)' '^launch/files/decompressor\.cpp' 'only decompressor includes zlib and zstd'
exit $bad

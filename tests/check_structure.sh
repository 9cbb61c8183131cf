#!/usr/bin/env bash
# Checks that includes follow the order of the folders, that only one place includes each external library, and that no
# two types have the same name.
set -euo pipefail
cd "$(dirname "$0")/.."
bad=0

# forbid FOLDERS PATTERN EXCEPT WHY: no file in FOLDERS includes PATTERN, unless its path matches EXCEPT.
forbid() {
  local found
  found=$(grep -rnE --include='*.h' --include='*.cpp' --include='*.cu' "#include [<\"]$2" $1 | grep -vE "$3" || true)
  if [ -n "$found" ]; then
    printf '%s:\n%s\n' "$4" "$found"
    bad=1
  fi
}

# in_order PREFIX FOLDER...: a folder includes only itself and those before it.
in_order() {
  local prefix=$1 below=() folder
  shift
  while [ $# -gt 0 ]; do
    folder=$1
    shift
    [ $# -eq 0 ] || forbid "$prefix$folder" "$prefix($(IFS='|'; echo "$*"))/" '^$' "$prefix$folder includes from above"
  done
}

in_order '' core parallel models launch tests
in_order launch/ support tokenizers config data checkpoint metrics logging devices generation train huggingface tools cli

forbid models/layers 'models/(model|transformer)\.h' '^$' 'models/layers includes what is built of its layers'

# Folders inside a folder of launch/ must not include each other in a circle; tsort names them.
circle=$(grep -rHoE --include='*.h' --include='*.cpp' '#include "launch/[^"]+/' launch |
  sed -nE 's|^launch/([a-z]+)/([a-z_]+)/[^:]*:#include "launch/\1/([a-z_]+)/$|\1/\2 \1/\3|p' | sort -u | tsort 2>&1 >/dev/null || true)
if [ -n "$circle" ]; then
  printf 'folders in launch/ include each other in a circle:\n%s\n' "$circle"
  bad=1
fi

# Two types of one name are undefined behavior in C++, which no compiler or linker reports.
twice=$(git ls-files '*.h' | grep -v '^tests/emulator/' | xargs awk '
  /^namespace .*\{$/ { space = $2 }
  /^(struct|class|enum class|union) [A-Za-z_]+/ && !/[A-Za-z_];$/ {
    type = space "::" $($1 == "enum" ? 3 : 2)
    if (type in where) print type ": " where[type] ", " FILENAME
    where[type] = FILENAME
  }')
if [ -n "$twice" ]; then
  printf 'two headers define a type of the same name:\n%s\n' "$twice"
  bad=1
fi

all='core parallel models launch'
forbid "$all" 'mpi\.h' '^parallel/communicators/mpi/' 'only the MPI communicator includes MPI'
forbid "$all" '(cuda|cublas|cudnn)' '^core/(ops/)?cuda/|^parallel/communicators/nccl/' \
  'only core/cuda, core/ops/cuda and the NCCL communicator include CUDA'
forbid "$all" 'nccl\.h' '^parallel/communicators/nccl/' 'only the NCCL communicator includes NCCL'
forbid "$all" '(oneapi/)?dnnl' '^core/ops/cpu/matmul/' 'only matmul includes oneDNN'
forbid "$all" 'yaml-cpp/' '^launch/config/' 'only launch/config includes yaml-cpp'
forbid "$all" 'unicode/' '^launch/tokenizers/text/([a-z_]*\.cpp|unicode\.h)|/printable_text\.cpp' \
  'only launch/tokenizers/text and printable_text include ICU'
forbid "$all" 'sentencepiece_(processor|trainer)\.h' '^launch/tokenizers/(sentencepiece|training)/sentencepiece_' \
  'only sentencepiece_* include SentencePiece'
forbid "$all" 'protozero/' '/(sentencepiece_model|tensorboard_log)\.cpp' \
  'only sentencepiece_model and tensorboard_log include protozero'
forbid "$all" '(arrow|parquet)/' '^launch/support/input/parquet_texts\.cpp' 'only parquet_texts includes Arrow'
forbid "$all" '(png|jpeglib)\.h' '^launch/data/images/(png|jpeg)_decoder\.cpp|/heat_png\.cpp' \
  'only the decoders of images and heat_png include libpng and libjpeg'
forbid "$all" '(zlib|zstd)' '^launch/support/files/decompressor\.cpp' 'only decompressor includes zlib and zstd'

# use_only PATTERN EXCEPT WHY: no line in launch matches PATTERN, unless its path matches EXCEPT.
use_only() {
  local found
  found=$(grep -rnE --include='*.h' --include='*.cpp' "$1" launch | grep -vE "$2" || true)
  if [ -n "$found" ]; then
    printf '%s:\n%s\n' "$3" "$found"
    bad=1
  fi
}
use_only '(fmt::|[^a-z_:])(print|printf|fprintf|puts|fputs)\(std(out|err)|fmt::print\(|std::c(out|err)\b' '^launch/cli/launcher\.cpp' \
  'print with launch/support/text/print.h'
use_only 'Json::(sax_)?parse\(|std::ofstream' '^launch/support/(text/json|input/json_lines)\.cpp' \
  'read JSON with parse_json() or for_each_json_line(), and write files with StagedFile, StagedFolder or AppendedFile'
use_only 'require\(::' '^$' 'errno is an argument of require(), which may be read before a call in its condition: call first'
exit $bad

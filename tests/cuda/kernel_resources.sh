#!/usr/bin/env bash
# Compares registers, spills, stack and static shared memory of every kernel, as compiled for each GPU
# architecture, with kernel_resources.tsv:
#
#   tests/cuda/kernel_resources.sh [--accept] [BUILD]
#   tests/cuda/kernel_resources.sh --compare TABLE NEW
#
# BUILD is build/compile_cuda unless given; its tessera_core must be built. A rise is an error, and so is a kernel
# that is missing from or new to the table. A fall is a note. --accept rewrites the table. The numbers depend on
# the version of nvcc: with any other than the table's, nothing is compared and the exit status is 77. --compare
# compares two tables, and needs no build.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
table=tests/cuda/kernel_resources.tsv

columns=$'file\tkernel\tarchitecture\tregisters\tstack\tspill stores\tspill loads\tshared\tthreads\tregisters x threads'

# Compares a table with the rows of another one.
compare() { # TABLE ROWS
  tail -n +3 "$1" | awk -F '\t' -v columns="$columns" '
    BEGIN { split(columns, names, FS) }
    { key = $1 ": " $2 " on " $3 }
    FILENAME == "-" { old[key] = $0; next }
    !(key in old) { print "new: " key; ++bad; next }
    {
      split(old[key], was)
      delete old[key]
      rises = falls = ""
      for (i = 4; i <= NF; ++i) {
        change = names[i] " " was[i] " → " $i
        # A launch bound that is gone is a rise.
        if ($i == was[i]) continue
        if (was[i] != "-" && ($i == "-" || $i + 0 > was[i] + 0)) rises = rises (rises ? ", " : "") change
        else falls = falls (falls ? ", " : "") change
      }
      if (rises) { print "rise: " key ": " rises; ++bad }
      if (falls) notes = notes "note: " key ": " falls "\n"
    }
    END {
      for (key in old) { print "missing: " key; ++bad }
      printf "%s", notes
      if (bad || notes) print "To accept these changes: tests/cuda/kernel_resources.sh --accept"
      if (!bad) print "no kernel uses more than the table says"
      exit bad > 0
    }' - "$2"
}

if [ "${1:-}" = --compare ]; then
  compare "$2" <(tail -n +3 "$3")
  exit
fi

accept=0
[ "${1:-}" = --accept ] && { accept=1; shift; }
build=${1:-build/compile_cuda}

version=$(sed -nE 's/^set\(CMAKE_CUDA_COMPILER_VERSION "(.*)"\)/\1/p' "$build"/CMakeFiles/*/CMakeCUDACompiler.cmake | tail -n 1)

# Prints a row of the table for each kernel in an object, with its mangled name.
rows_of() { # SOURCE
  local object=$build/CMakeFiles/tessera_core.dir/$1.o
  if [ ! -e "$object" ] || [ ! -e "$object.ptxas" ]; then
    echo "$object.ptxas is missing: build preset compile_cuda first" >&2
    return 1
  fi
  # The object contains PTX, whose .maxntid is the launch bound.
  { grep -aoE '\.(entry|maxntid) [^(]*' "$object" || true; cat "$object.ptxas"; } | awk -v file="$1" '
    function number_before(unit) { return match($0, "[0-9]+ " unit) ? substr($0, RSTART) + 0 : 0 }
    /^\.entry/ { entry = $2; next }
    /^\.maxntid/ {
      threads[entry] = 1
      for (i = 2; i <= NF; ++i) threads[entry] *= $i
      next
    }
    /Compiling entry function/ { split($0, quoted, "\047"); name = quoted[2]; arch = quoted[4] }
    /bytes stack frame/ {
      stack = number_before("bytes stack frame")
      stores = number_before("bytes spill stores")
      loads = number_before("bytes spill loads")
    }
    /: Used/ {
      registers = number_before("registers")
      bound = name in threads ? threads[name] : "-"
      product = name in threads ? registers * bound : "-"
      printf "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", file, name, arch, registers, stack, stores, loads,
        number_before("bytes smem"), bound, product
    }'
}

# Demangles names and removes return types, our namespaces and parameters.
shorten() {
  c++filt | sed -E 's/\tvoid /\t/; s/tessera::|cuda::|\(anonymous namespace\):://g' | awk -F '\t' -v OFS='\t' '{
    depth = 0
    for (i = 1; i <= length($2); ++i) {
      c = substr($2, i, 1)
      depth += c == "<" ? 1 : c == ">" ? -1 : 0
      if (c == "(" && depth == 0) break
    }
    $2 = substr($2, 1, i - 1)
    print
  }'
}

new=$(mktemp)
trap 'rm -f "$new"' EXIT
find core/ops/cuda -name '*.cu' | sort | while read -r source; do rows_of "$source"; done | shorten | sort >"$new"
twice=$(cut -f 1-3 "$new" | uniq -d)
if [ ! -s "$new" ] || [ -n "$twice" ]; then
  printf 'no kernels, or kernels with the same name in one file:\n%s\n' "$twice" >&2
  exit 1
fi

if [ $accept = 1 ]; then
  { echo "# nvcc $version"; echo "$columns"; cat "$new"; } >"$table"
  echo "$table: $(wc -l <"$new") rows for nvcc $version"
  exit
fi

of_table=$(sed -n '1s/^# nvcc //p' "$table")
if [ "$version" != "$of_table" ]; then
  echo "Registers and spills of the kernels were NOT compared: $table is for nvcc $of_table, and this is $version"
  exit 77
fi
compare "$table" "$new"

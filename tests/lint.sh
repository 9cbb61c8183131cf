#!/usr/bin/env bash
# Checks formatting and the include order of the folders, and runs clang-tidy on the libraries; with --all
# also on the tests, which takes many minutes. Uses version 14 of the tools, because others format and warn
# differently.
set -euo pipefail
cd "$(dirname "$0")/.."
. launch/set_up.sh
install_missing "${packages[@]}" clang-format-14 clang-tidy-14 libomp-14-dev

mapfile -t sources < <(git ls-files '*.h' '*.cpp' '*.cu')
clang-format-14 --dry-run --Werror "${sources[@]}"
tests/check_structure.sh

# tidy PRESET FOLDERS: FOLDERS is a regular expression.
tidy() {
  configure "$1"
  # GCC's options mean nothing to clang.
  run-clang-tidy-14 -quiet -extra-arg=-Wno-unused-command-line-argument -p "build/$1" \
    "^$PWD/(build/$1/CMakeFiles/|$2)" >build/tidy.log 2>&1 ||
    { grep -E 'error:|warning:' build/tidy.log | sort -u; exit 1; }
}
tidy tidy 'core|parallel|models|launch' # several files in one, which saves two thirds of the time
[ "${1:-}" != --all ] || tidy cpu tests

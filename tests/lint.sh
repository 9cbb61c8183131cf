#!/usr/bin/env bash
# Formatting, the order of the folders, and clang-tidy on core, parallel and models; with --all on
# launch and tests too, which takes many minutes. Versions 14 of clang's tools, as others format and
# warn differently.
set -euo pipefail
cd "$(dirname "$0")/.."
. launch/set_up.sh
install_missing "${packages[@]}" clang-format-14 clang-tidy-14 libomp-14-dev

mapfile -t sources < <(git ls-files '*.h' '*.cpp' '*.cu')
clang-format-14 --dry-run --Werror "${sources[@]}"
tests/check_layers.sh

configure cpu
folders='core|parallel|models'
[ "${1:-}" = --all ] && folders="$folders|launch|tests"
run-clang-tidy-14 -quiet -p build/cpu "^$PWD/($folders)/" >build/tidy.log 2>&1 ||
  { grep -E 'error:|warning:' build/tidy.log | sort -u; exit 1; }

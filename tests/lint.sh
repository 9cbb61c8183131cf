#!/usr/bin/env bash
# Formatting, lint and the order of the folders. Needs clang-format and clang-tidy 14.
set -euo pipefail
cd "$(dirname "$0")/.."
. launch/set_up.sh
install_missing clang-format-14 clang-tidy-14

mapfile -t sources < <(git ls-files '*.h' '*.cpp')
clang-format-14 --dry-run --Werror "${sources[@]}"
tests/check_layers.sh

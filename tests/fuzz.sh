#!/usr/bin/env bash
# Builds the fuzz targets of tests/fuzz and runs each for SECONDS (10), two at a time, from the seeds
# in tests/fuzz/seeds. Fails if one crashes, hangs, or allocates too much for its input, and prints the
# command that repeats it.
#
#     tests/fuzz.sh [SECONDS] [TARGET...]      such as tests/fuzz.sh 600 fuzz_config
set -euo pipefail
cd "$(dirname "$0")/.."
. launch/set_up.sh
install_missing "${packages[@]}" clang-14 libclang-rt-14-dev libomp-14-dev
seconds=${1:-10}
targets=("${@:2}")

build fuzz
bin=build/fuzz/tests/fuzz
found=build/fuzz/found
mkdir -p "$found"
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(cd tests/fuzz && ls fuzz_*.cpp | sed 's/\.cpp$//' | grep -v '^fuzz_input$')

# Damaged inputs find bugs, large ones do not: inputs stay small, and no allocation may reach 64 MiB.
limits=(-max_len=20000 -timeout=20 -rss_limit_mb=1024 -malloc_limit_mb=64)

# run_target NAME: keeps the inputs it found in build/fuzz/corpus for the next run.
run_target() {
  local name=$1 seeds=tests/fuzz/seeds/${1#fuzz_} corpus=build/fuzz/corpus/${1#fuzz_}
  mkdir -p "$corpus"
  # These read compressed files: a few bytes of zstd may legitimately request a window of 2 GiB, as `zstd --long=31`
  # does; little of it is touched. An image may also have 100 million pixels of three bytes.
  [[ ! $name =~ ^fuzz_(compressed|images)$ ]] || limits+=(-malloc_limit_mb=2200 -rss_limit_mb=3000)
  if "$bin/$name" "${limits[@]}" -max_total_time="$seconds" -artifact_prefix="$found/$name-" \
      -print_final_stats=1 "$corpus" "$seeds" >"$found/$name.log" 2>&1; then
    printf '%-30s %s runs, no crash\n' "$name" \
      "$(sed -n 's/^stat::number_of_executed_units: *//p' "$found/$name.log")"
  else
    tail -n 40 "$found/$name.log"
    printf '%s failed. To run it again:\n    %s %s %s\n' "$name" "$bin/$name" "${limits[*]}" \
      "$(ls -t "$found/$name"-* 2>/dev/null | head -n 1)"
    return 1
  fi
}
export -f run_target
export bin found seconds
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=0
declare -p limits >"$found/limits.sh"
printf '%s\n' "${targets[@]}" |
  xargs -P 2 -I NAME bash -euo pipefail -c '. "$found/limits.sh"; run_target NAME'

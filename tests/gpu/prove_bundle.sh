#!/usr/bin/env bash
# Proves that a bundle runs without the packages it was built with: in a root folder that has only a shell,
# coreutils, a C library and CUDA's libraries, and once more as if that C library were too old. Needs no GPU.
#
#   tests/gpu/prove_bundle.sh FOLDER
#
# Needs root, or user namespaces.
set -euo pipefail
bundle=$(readlink -f "$1")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

# The tools that the bundle's scripts call, with their own libraries.
tools=(sh bash env cat ls sed awk grep sort head cut tr paste basename dirname readlink mktemp mkdir rm cp date seq sleep timeout
  getconf uname kill tail wc find nproc)
mkdir -p "$root"/{bin,lib64,proc,sys,dev,tmp,etc,bundle}
for tool in "${tools[@]}"; do
  path=$(readlink -f "$(type -P "$tool")")
  cp "$path" "$root/bin/$tool"
  ldd "$path" | awk '$3 ~ /^\// {print $3} $1 ~ /^\// {print $1}'
done | sort -u | while read -r library; do
  mkdir -p "$root$(dirname "$library")"
  cp -L "$library" "$root$library"
done
c_library=$(ldd "$(type -P sh)" | awk '$1 == "libc.so.6" {print $3}')
cp -L "$(dirname "$c_library")"/lib{dl,m,pthread,rt}.so.[0-9] "$root$(dirname "$c_library")"
echo 'root:x:0:0:root:/tmp:/bin/sh' >"$root/etc/passwd"
cp -r "$bundle"/. "$root/bundle"

if find "$root" -path "$root/bundle" -prune -o -name 'libmpi*' -print -o -name 'libdnnl*' -print -o -name 'libfmt*' -print | grep .; then
  echo "the root folder contains libraries that the bundle should bring" >&2
  exit 1
fi

# CUDA's libraries are large, so they are mounted only while this runs.
mkdir "$root/cuda"
ldd "$bundle"/libexec/* | awk '/libcu|libnv|libnccl/ && $3 ~ /^\// {print $1, $3}' | sort -u >"$root/cuda_libraries"
while read -r name _; do touch "$root/cuda/$name"; done <"$root/cuda_libraries"

cat >"$root/prove.sh" <<'PROOF'
set -eu
export PATH=/bin HOME=/tmp TESSERA_CUDA_LIBRARIES=/cuda
echo "== tessera --version"; /bundle/bin/tessera --version
echo "== ops on the CPU";    /bundle/bin/core_tests --gtest_brief=1
echo "== models on the CPU"; /bundle/bin/models_tests --gtest_brief=1
echo "== communicators of 2 MPI ranks"; /bundle/bin/mpirun -np 2 /bundle/bin/parallel_mpi_tests --gtest_brief=1
echo "== training on 2 ranks"
cd /tmp
seq 1 20000 | tr '\n' ' ' >text
/bundle/bin/tessera prepare --tokenizer byte --append-eod --input text --output data
cat >run.yaml <<'YAML'
run: {dir: /tmp/run, device: cpu}
model: {num_layers: 2, hidden_size: 32, num_heads: 4, seq_length: 32, vocab_size: 257}
data: {train: /tmp/data}
parallel: {tensor: 2}
batch: {global: 8, micro: 4}
train: {steps: 5}
log: {interval: 1}
YAML
/bundle/bin/mpirun -np 2 /bundle/bin/tessera train run.yaml | grep '^step'
PROOF

cat >"$root/old.sh" <<'OLD'
set -eu
export PATH=/bin TESSERA_CUDA_LIBRARIES=/cuda
echo "== with the bundle's own C library"
/bundle/bin/mpirun -np 2 /bundle/bin/tessera --version
OLD

in_root() { # in_root SCRIPT
  unshare --mount --pid --fork "${map[@]}" bash -euc '
    mount -t proc proc "$0/proc"
    mount --rbind /dev "$0/dev"
    mount --rbind /sys "$0/sys"
    while read -r name path; do mount --bind "$path" "$0/cuda/$name"; done <"$0/cuda_libraries"
    exec chroot "$0" /bin/sh "$1"' "$root" "$1"
}
map=()
[ "$(id -u)" -eq 0 ] || map=(--map-root-user)
in_root /prove.sh
rm "$root/bin/getconf" # a host whose C library has no known version: the bundle's must do
in_root /old.sh
echo "the bundle runs"

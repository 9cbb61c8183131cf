#!/usr/bin/env bash
# Builds the packages and tries each in a root folder that has only a minimal Debian, of this machine's release:
#
#   tests/package.sh [deb] [tarball] [wheel]      # all without arguments
#
# Each is installed, trains on 2 ranks as an ordinary user, and the Debian package is removed without a trace.
# Needs Debian, root and its package mirror; the wheel also Python's package index. Takes minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
. launch/set_up.sh
[ $# -gt 0 ] || set -- deb tarball wheel
install_missing "${packages[@]}" dpkg-dev file gzip lintian mmdebstrap python3-pip qemu-user
[ -d build/package ] || configure package
cmake --build --preset package
version=$(sed -nE 's/.*kVersion = "(.*)".*/\1/p' core/version.h)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { printf '\n== %s\n' "$*"; }
fail() { echo "FAILED: $*" >&2; exit 1; }

# root PACKAGE...: a new minimal Debian with these packages in $root.
root() {
  mkdir -p build/roots
  [ -f build/roots/base.tar ] || mmdebstrap --quiet --variant=minbase "$(. /etc/os-release && echo "$VERSION_CODENAME")" build/roots/base.tar
  root=$work/root
  rm -rf "$root"
  mkdir "$root"
  tar -C "$root" -xf build/roots/base.tar
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  inside "useradd --create-home someone; apt-get -qq update"
  [ $# -eq 0 ] || inside "DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends $* >/dev/null 2>&1"
}

# inside COMMANDS: runs them in $root.
inside() {
  # shellcheck disable=SC2016 # expanded by the inner shell
  unshare --mount --pid --fork sh -c '
    mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount --rbind /sys "$1/sys" &&
    exec chroot "$1" /bin/bash -euo pipefail -c "$2"' sh "$root" "$1"
}

# What a user does; $tessera is the command.
# shellcheck disable=SC2016
use='
cd ~
"$tessera" --version
seq 1 20000 | tr "\n" " " >text
"$tessera" prepare --tokenizer byte --append-eod --input text --output data
cat >run.yaml <<YAML
run: {dir: run}
model: {num_layers: 2, hidden_size: 32, num_heads: 4, seq_length: 32}
data: {train: data}
parallel: {tensor: 2}
batch: {global: 8, micro: 4}
train: {steps: 5}
log: {interval: 1}
YAML
mpirun --oversubscribe -np 2 "$tessera" train run.yaml | grep -E "^(tessera|step)"
"$tessera" generate run --prompt 12 --max-tokens 8
rm -r run data.* text run.yaml
'

say "A processor without AVX2"
{ qemu-x86_64 -cpu Nehalem build/package/bin/tessera --version 2>&1 || true; } | tee "$work/old"
grep -q 'this processor has no AVX2' "$work/old" || fail "an old processor is not reported"

say "Two variants in one run"
read -r -a best < <(build/package/bin/tessera --version | tr -d '()')
if [ "${best[1]}" != x86-64-v3 ]; then
  cd build/package/libexec/tessera
  both=(-np 1 x86-64-v3/tessera train none.yaml : -np 1 "${best[1]}/tessera" train none.yaml)
  { mpirun --allow-run-as-root --oversubscribe "${both[@]}" 2>&1 || true; } | tee "$work/mixed"
  cd - >/dev/null
  grep -q "tessera's variant is x86-64-v3 on rank 0, but ${best[1]} on rank 1" "$work/mixed" || fail "variants are mixed"
fi

(cd build/package && cpack -G "DEB;TGZ")

for package in "$@"; do
  case $package in
    deb)
      say "Debian package"
      file=build/package/tessera_${version}_amd64.deb
      dpkg-deb --info "$file" | grep -E '^ (Depends|Installed-Size|Description)'
      lintian --fail-on error "$file"
      root
      inside 'find / -xdev -not -path "/var/*" -not -path "/etc/*" | sort >/before'
      cp "$file" "$root/tessera.deb"
      inside 'DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends /tessera.deb >/dev/null 2>&1'
      inside "su someone -c 'tessera=tessera; $use'"
      # shellcheck disable=SC2016
      inside '. /usr/share/bash-completion/completions/tessera && complete -p tessera
        for file in man/man1/tessera-train.1.gz zsh/vendor-completions/_tessera doc/tessera/examples/gpt2_124m.yaml; do
          test -f /usr/share/$file
        done
        dpkg -L tessera >/files; apt-get -qq purge tessera >/dev/null
        while read -r file; do [ ! -f "$file" ] || echo "left: $file"; done </files >/left
        find / -xdev -name "*tessera*" -not -path /tessera.deb >>/left'
      cat "$root/left"
      [ ! -s "$root/left" ] || fail "uninstalling leaves files"
      ;;
    tarball)
      say "tarball"
      root openmpi-bin libopenmpi3
      mkdir "$root/home/someone/a place"
      tar -C "$root/home/someone/a place" --strip-components 1 -xf "build/package/tessera-$version-linux-x86_64.tar.gz"
      # shellcheck disable=SC2016
      inside 'for program in /home/someone/a\ place/libexec/tessera/*/tessera; do
          ldd "$program" | grep "not found" && exit 1
          ldd "$program" | awk "/a place/ {print \$1}" | sort | xargs echo "with it:"
        done'
      inside "su someone -c 'tessera=\"\$HOME/a place/bin/tessera\"; $use'"
      ;;
    wheel)
      say "Python wheel"
      cmake --build --preset package --target wheel
      python3 -m pip download -q -d "$work/wheels" numpy
      cp "build/package/tessera-$version-py3-none-linux_x86_64.whl" "$work/wheels"
      root openmpi-bin libopenmpi3 python3-venv
      cp -r "$work/wheels" tests/python/module_test.py "$root/home/someone"
      # shellcheck disable=SC2016
      inside "su someone -c 'cd ~; python3 -m venv venv; venv/bin/pip install -q --no-index --find-links wheels tessera
        PATH=\$PWD/venv/bin:\$PATH; venv/bin/python module_test.py installed mpirun --oversubscribe
        tessera=tessera; $use'"
      ;;
    *) fail "there is no package $package: choose deb, tarball or wheel" ;;
  esac
done
say "All of $* work"

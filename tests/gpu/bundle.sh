#!/usr/bin/env bash
# Puts everything that tests/gpu/check.sh needs into one folder, for machines where nothing can be installed:
# programs, their libraries, Open MPI and configs. CUDA's libraries, cuDNN and NCCL are left out, because a
# machine with GPUs has them.
#
#   tests/gpu/bundle.sh [FOLDER [BUILD]]
#
# Recreates FOLDER (build/bundle) and FOLDER.tar.xz, which may have at most 45 MiB. BUILD is a build folder; by
# default one for any x86-64-v3 processor and the GPUs in ARCHITECTURES (90a-real, which is Hopper; each of the
# programs has code for all of them) is built, which must have cuDNN unless WITHOUT_CUDNN=1.
set -euo pipefail
cd "$(dirname "$0")/../.."
. launch/set_up.sh

out=${1:-build/bundle}
from=${2:-}
programs=(tessera tests/core_tests tests/models_tests tests/equivalence_tests tests/parallel_mpi_tests tests/kernel_times)
if [ -z "$from" ]; then
  from=build/portable
  mkdir -p "$from"
  cmake --preset cuda -B "$from" -DTESSERA_NATIVE=OFF -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=12 \
    -DCMAKE_CUDA_ARCHITECTURES="${ARCHITECTURES:-90a-real}" >"$from.log" 2>&1 || { cat "$from.log"; exit 1; }
  if ! grep '^-- cuDNN for attention' "$from.log" && [ -z "${WITHOUT_CUDNN:-}" ]; then
    grep -i 'cudnn' "$from.log" >&2 || true
    echo "$0: a bundle without cuDNN cannot measure the shipped configs. WITHOUT_CUDNN=1 builds it nevertheless." >&2
    exit 1
  fi
  cmake --build "$from" --target "${programs[@]##*/}"
  if grep -q '^CUPTI_LIBRARY:[A-Z]*=/' "$from/CMakeCache.txt"; then cmake --build "$from" --target kernel_profile; fi
fi

rm -rf "$out"
mkdir -p "$out"/{bin,libexec,lib,glibc,configs,tests/parity} "$out"/openmpi/{bin,etc,lib/openmpi,lib/pmix,share}

for program in "${programs[@]}"; do
  cp "$from/$program" "$out/libexec/"
  cp tests/gpu/run_in_bundle.sh "$out/bin/${program##*/}"
done
[ ! -e "$from/tests/libkernel_profile.so" ] || cp "$from/tests/libkernel_profile.so" "$out/libexec/"
cp tests/gpu/run_in_bundle.sh "$out/bin/mpirun"
cp -r tests/gpu/{env.sh,check.sh,parts,report.sh,peer_pytorch.py,cut_connections.py} "$out/"
cp configs/gpt2_{124m,350m,1.5b}.yaml configs/bert_{base,large}.yaml "$out/configs/"
cp tests/parity/*_golden.safetensors "$out/tests/parity/"

# Open MPI for ranks of one host, without the plugins for cluster networks.
mpirun=$(readlink -f "$(command -v mpirun)")
plugins=$(ompi_info --path pkglibdir --parsable | cut -d: -f3)
[ -d "$plugins/openmpi3" ] && plugins=$plugins/openmpi3
cp "$mpirun" "$out/libexec/mpirun"
cp "$(command -v orted)" "$out/openmpi/bin/"
find "$plugins" -name 'mca_*.so' | grep -Ev 'ucx|ofi|openib|psm|usnic|ugni|spml|scoll|sshmem|memheap|monitoring' |
  xargs -I{} cp {} "$out/openmpi/lib/openmpi/"
cp -r "$(ompi_info --path pkgdatadir --parsable | cut -d: -f3)" "$out/openmpi/share/openmpi"
pmix=$(ldd "$out"/openmpi/lib/openmpi/mca_pmix_ext*.so 2>/dev/null | awk '/libpmix/ {print $3}' | head -n 1)
if [ -n "$pmix" ]; then
  cp "$(dirname "$(readlink -f "$pmix")")"/pmix/*.so "$out/openmpi/lib/pmix/"
fi

# All libraries that these need. The C library is separate, for hosts with an older one.
find "$out/libexec" "$out/openmpi" -type f \( -perm -u+x -o -name '*.so*' \) -print0 | xargs -0 ldd 2>/dev/null |
  awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u >"$out/libraries"
while read -r library; do
  case ${library##*/} in
    libcu* | libnv* | libnccl*) ;; # CUDA's
    libc.so.* | libm.so.* | libpthread.so.* | libdl.so.* | librt.so.* | libutil.so.* | libresolv.so.*)
      cp -L "$library" "$out/glibc/" ;;
    *) cp -L "$library" "$out/lib/" ;;
  esac
done <"$out/libraries"
rm "$out/libraries"
cp -L /lib64/ld-linux-x86-64.so.2 "$out/glibc/"
getconf GNU_LIBC_VERSION | cut -d' ' -f2 >"$out/glibc/version"
find "$out" -type f \( -path '*/libexec/*' -o -name '*.so*' \) -exec strip --strip-unneeded {} + 2>/dev/null || true
find "$out" -name '*.sh' -exec chmod +x {} +
chmod +x "$out"/bin/*

# The programs contain the same kernels; a dictionary larger than a program stores these once.
tar -C "$(dirname "$out")" -c "$(basename "$out")" | xz --lzma2=preset=4,dict=256MiB >"$out.tar.xz"
bytes=$(stat -c %s "$out.tar.xz")
echo "$out: $(du -sm "$out" | cut -f1) MiB; $out.tar.xz: $((bytes >> 20)) MiB"
if [ "$bytes" -gt $((45 << 20)) ]; then
  echo "the bundle is larger than 45 MiB" >&2
  exit 1
fi

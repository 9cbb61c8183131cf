# Sourced by launch/quickstart.sh and tests/run.sh: installs what is missing, builds, and makes mpirun
# work for root, in a container and with more ranks than cores.

packages=(g++ cmake ninja-build git ca-certificates
  libopenmpi-dev openmpi-bin libdnnl-dev libyaml-cpp-dev libcli11-dev libfmt-dev
  nlohmann-json3-dev libxxhash-dev libicu-dev zlib1g-dev libzstd-dev libsentencepiece-dev
  libgtest-dev libgmock-dev libbenchmark-dev)

# Installs those of the given packages that are missing. Says which; needs root or sudo only then.
install_missing() {
  local missing=() package
  if ! command -v apt-get >/dev/null; then
    echo "This is not Debian or Ubuntu: install the equivalents of these packages yourself if the" \
      "build does not find them: $*"
    return
  fi
  for package in "$@"; do
    if ! dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed'; then
      missing+=("$package")
    fi
  done
  [ ${#missing[@]} -eq 0 ] && return
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "These packages are missing, and there is no sudo to install them with: ${missing[*]}" >&2
      exit 1
    fi
    as_root=(sudo)
  fi
  echo "Installing with apt-get: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# configure PRESET: makes build/PRESET ready.
configure() {
  local launcher=()
  command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
  mkdir -p build
  cmake --preset "$1" "${launcher[@]}" >"build/$1.log" 2>&1 || { cat "build/$1.log"; exit 1; }
}

# build PRESET [TARGET...]: configures and builds in build/PRESET.
build() {
  local preset=$1
  shift
  configure "$preset"
  cmake --build --preset "$preset" ${1:+--target "$@"}
}

# mpirun refuses root and more ranks than cores, binds a rank's threads to one core, and in many
# containers may not copy between processes; these turn all that off.
mpi_run=(mpirun --allow-run-as-root --oversubscribe --bind-to none)
export OMPI_MCA_btl_vader_single_copy_mechanism=none

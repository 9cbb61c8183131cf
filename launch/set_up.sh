# Sourced by launch/quickstart.sh and tests/run.sh: installs missing packages, builds, and makes MPI work in containers.

packages=(g++ cmake ninja-build git ca-certificates
  libopenmpi-dev openmpi-bin libdnnl-dev libyaml-cpp-dev libcli11-dev libfmt-dev
  nlohmann-json3-dev libxxhash-dev libicu-dev zlib1g-dev libzstd-dev
  libpng-dev libjpeg-dev libstb-dev libsentencepiece-dev
  libprotozero-dev libedit-dev libgtest-dev libgmock-dev libbenchmark-dev)

# Lists and installs those of the given packages that are missing; only then it needs root or sudo.
install_missing() {
  local missing=() package
  if ! command -v apt-get >/dev/null; then
    echo "This is not Debian or Ubuntu: if the build does not find a library, install the equivalent" \
      "of one of these packages: $*"
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
      echo "These packages are missing, and sudo is not available to install them: ${missing[*]}" >&2
      exit 1
    fi
    as_root=(sudo)
  fi
  echo "Installing with apt-get: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# configure PRESET [OPTION...]: configures build/PRESET, with ccache if it is installed.
configure() {
  local preset=$1 launcher=()
  shift
  command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
  mkdir -p build
  cmake --preset "$preset" "${launcher[@]}" "$@" >"build/$preset.log" 2>&1 || { cat "build/$preset.log"; exit 1; }
}

# build PRESET [TARGET...]: configures and builds in build/PRESET.
build() {
  local preset=$1
  shift
  configure "$preset"
  cmake --build --preset "$preset" ${1:+--target "$@"}
}

# By default MPI copies between processes, which many containers forbid.
export OMPI_MCA_btl_vader_single_copy_mechanism=none

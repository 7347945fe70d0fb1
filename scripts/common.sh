# Shared by scripts/quickstart and scripts/test: step output, packages, build.
# Sourced, not run.

set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
build=${MLAC_BUILD_DIR:-build}
started=$SECONDS

# What a Debian 12 machine needs; MLIR 22 is in Debian's own archive.
packages=(
  build-essential cmake ninja-build ccache pkg-config
  clang-22 lld-22 llvm-22-dev liblld-22-dev libmlir-22-dev mlir-22-tools
  libzstd-dev zlib1g-dev libminizip-dev
  libflatbuffers-dev flatbuffers-compiler nlohmann-json3-dev
  libgtest-dev libbenchmark-dev
  python3 python3-numpy python3-pytest python3-pip python3-venv
)

step() { printf '\n[%3ds] == %s\n' "$((SECONDS - started))" "$*"; }

fail() {
  printf '\nFAILED after %d s: %s\n' "$((SECONDS - started))" "$*" >&2
  exit 1
}

install_packages() {
  local missing=() name
  for name in "${packages[@]}"; do
    dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null | grep -qx installed ||
      missing+=("$name")
  done
  if [ "${#missing[@]}" -eq 0 ]; then
    echo "all ${#packages[@]} packages are installed"
    return
  fi
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "needs root or sudo to install: ${missing[*]}"
    sudo=(sudo)
  fi
  echo "installing: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  "${sudo[@]}" apt-get update -qq || fail "apt-get update"
  "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    fail "apt-get install ${missing[*]}"
}

# A CUDA assembler: an installed toolkit's, else a pinned package from the Python
# package index, kept inside the build folder. Without one everything but cubins
# works: `assembler` says whether there is one.
find_assembler() {
  assembler=yes
  scripts/get-assembler.sh --if-missing "$build/assembler" && return
  assembler=no
  echo "no CUDA assembler: going on without cubins"
}

# What to do about it, for the end of a script, where it is read.
explain_assembler() {
  cat <<EOF
No CUDA assembler (ptxas 12.9 or later) was found, and none could be installed (see above).
To get one: run scripts/get-assembler.sh with a network that reaches the Python package
index, or install a CUDA toolkit and set CUDA_HOME; then run this script again.
EOF
}

# Where a cache entry of the build folder points.
read_cache() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }

# A build folder remembers absolute paths: moved or copied, it would go on building
# (or not building) the checkout that it came from.
is_of_this_checkout() {
  [ "$(read_cache CMAKE_HOME_DIRECTORY)" -ef . ] &&
    [ "$(read_cache CMAKE_CACHEFILE_DIR)" -ef "$build" ]
}

configure() { # options for cmake
  cmake --preset release -B "$build" "$@" >"$build.configure.log" 2>&1 || {
    tail -30 "$build.configure.log"
    fail "cmake --preset release (all of its output: $build.configure.log)"
  }
  rm -f "$build.configure.log"
}

configure_and_build() { # targets; none: everything
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
  if [ -f "$build/CMakeCache.txt" ] && ! is_of_this_checkout; then
    echo "$build was configured in $(read_cache CMAKE_CACHEFILE_DIR)" \
      "for $(read_cache CMAKE_HOME_DIRECTORY); configuring anew"
    rm -f "$build/build.ninja" # else a failure now would leave the other's in use
    configure --fresh
  elif [ ! -f "$build/CMakeCache.txt" ] || [ ! -f "$build/build.ninja" ]; then
    configure
  fi
  cmake --build "$build" ${1:+--target "$@"} || fail "cmake --build $build"
}

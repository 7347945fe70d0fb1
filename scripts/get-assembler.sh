#!/usr/bin/env bash
# Installs NVIDIA's PTX assembler from the Python package index, for machines
# without a CUDA toolkit. The compiler looks for it in <build>/assembler.
#
#   scripts/get-assembler.sh [--all] [--if-missing] [--force] [DIR]
#   scripts/get-assembler.sh --find [DIR]
#
# Default: the `ptxas` program (37 MB to download) into DIR (build/assembler).
# --all adds both libraries, nvPTXCompiler (linked here from its static archive)
# and nvJitLink. --if-missing: only if no toolkit's ptxas (12.9 or later) is where
# mla-compile looks. --find installs nothing: it prints the ptxas that mla-compile
# will take, and fails if there is none. Without --force nothing happens if DIR
# already has what is asked for.
# Versions and sizes are pinned: the assembler shapes the machine code, and the
# same compiler must make the same package everywhere.
set -euo pipefail

version=13.0.88
all=0 force=0 if_missing=0 find=0 dir=
for argument in "$@"; do
  case "$argument" in
    --all) all=1 ;;
    --force) force=1 ;;
    --if-missing) if_missing=1 ;;
    --find) find=1 ;;
    -h | --help) sed -n '2,16s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "get-assembler: unknown option '$argument'" >&2; exit 2 ;;
    *) dir=$argument ;;
  esac
done
dir=${dir:-$(cd "$(dirname "$0")/.." && pwd)/build/assembler}
root=$dir/nvidia/cu13

# PTX 8.8, which the compiler writes, needs the ptxas of CUDA 12.9 or later.
is_new_enough() {
  local release
  release=$("$1" --version 2> /dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')
  [[ -n $release && $(printf '%s\n' 12.9 "$release" | sort -V | head -n 1) == 12.9 ]]
}

# The places of lib/Target/Nvptx/Assembler.cpp, in its order; like there, the
# first that runs is taken.
find_toolkit_ptxas() {
  local path
  for path in "${CUDA_HOME:-}/bin/ptxas" "${CUDA_PATH:-}/bin/ptxas" \
    "$(command -v ptxas || true)" /usr/local/cuda/bin/ptxas; do
    if [[ -x $path ]] && "$path" --version > /dev/null 2>&1; then
      echo "$path"
      is_new_enough "$path"
      return
    fi
  done
  return 1
}

if [[ $find == 1 ]]; then
  if [[ -x $root/bin/ptxas ]]; then
    echo "$root/bin/ptxas"
  else
    installed=$(find_toolkit_ptxas) || { echo "get-assembler: no ptxas" >&2; exit 1; }
    echo "$installed"
  fi
  exit 0
fi

if [[ $if_missing == 1 && ! -x $root/bin/ptxas ]] && installed=$(find_toolkit_ptxas); then
  echo "get-assembler: $installed is there; nothing to install"
  exit 0
fi

# Hash of each wheel, by machine, as the index publishes it.
case "$(uname -m)" in
  x86_64)
    declare -A hash=(
      [nvidia-cuda-nvcc]=56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03
      [nvidia-nvptxcompiler]=7579fc2d9928030ee45626694a9062e02a691594c481bf2bbd46cdd090b33fa3
      [nvidia-nvjitlink]=13a74f429e23b921c1109976abefacc69835f2f433ebd323d3946e11d804e47b) ;;
  *) echo "get-assembler: no pinned packages for $(uname -m); install a CUDA toolkit" >&2; exit 1 ;;
esac

packages=(nvidia-cuda-nvcc) files=(bin/ptxas)
if [[ $all == 1 ]]; then
  packages+=(nvidia-nvptxcompiler nvidia-nvjitlink)
  files+=(lib/libnvptxcompiler_static.a lib/libnvJitLink.so.13)
fi
missing=0
for file in "${files[@]}"; do
  [[ -e $root/$file ]] || missing=1
done

if [[ $missing == 1 || $force == 1 ]]; then
  if ! python3 -m pip --version > /dev/null 2>&1; then
    echo "get-assembler: python3 has no pip; on Debian: apt-get install python3-pip" >&2
    exit 1
  fi
  echo "get-assembler: installing ${packages[*]} $version into $dir"
  requirements=$(mktemp)
  trap 'rm -f "$requirements"' EXIT
  for package in "${packages[@]}"; do
    echo "$package==$version --hash=sha256:${hash[$package]}" >> "$requirements"
  done
  # All in one go: the packages share a folder, which a later --target install
  # would replace instead of extending it.
  mkdir -p "$dir"
  PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check \
    --no-deps --only-binary :all: --require-hashes --upgrade --target "$dir" \
    --requirement "$requirements"
  chmod +x "$root"/bin/*
fi

# The library form exists as an archive only: make a shared object of it that
# shows nothing but the interface.
if [[ $all == 1 && ( $force == 1 || ! -e $root/lib/libnvptxcompiler.so ) ]]; then
  map=$root/lib/nvptxcompiler.map
  echo '{ global: nvPTX*; local: *; };' > "$map"
  "${CC:-cc}" -shared -o "$root/lib/libnvptxcompiler.so" -Wl,--version-script="$map" \
    -Wl,--whole-archive "$root/lib/libnvptxcompiler_static.a" -Wl,--no-whole-archive \
    -lpthread -ldl -lm
fi

"$root/bin/ptxas" --version | tail -n 2
echo "get-assembler: ready in $dir"

#!/usr/bin/env bash
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# cmake --install, then the tree is moved: the programs of docs/examples are built against it by
# find_package and by pkg-config, and an engine's loop runs. Nothing internal is installed, and
# a version that the headers are not is refused.
#
#   install.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() {
  echo "FAIL: $1" >&2
  [ ! -f "$work/log" ] || sed 's/^/  | /' "$work/log" >&2
  exit 1
}
run() { "$@" >"$work/log" 2>&1 || die "$*"; }

for component in runtime devel; do
  run cmake --install "$build" --prefix "$work/first" --component $component
done
mv "$work/first" "$work/moved"
prefix=$work/moved
lib=$(dirname "$(find "$prefix" -name libmla_runtime.so)")
[ -x "$prefix/bin/mla-run" ] || die "component runtime has no mla-run"
run "$prefix/bin/mla-run" --version
extra=$(cd "$prefix" && find . -type f -o -type l | grep -vE \
  '^\./(bin/mla-run|share/bash-completion/completions/mla-run|include/mla_runtime(/[a-z_]+)?\.h|lib[^ ]*/(libmla_runtime\.so[.0-9]*|pkgconfig/mlac\.pc|cmake/mlac/mlac[A-Za-z-]*\.cmake))$' || true)
[ -z "$extra" ] || die "installed and not known: $extra"
internal=$(grep -rl libMLAC --include=cmake_install.cmake "$build" || true)
[ -z "$internal" ] || die "installs of internal archives: $internal"

# find_package, as a project of the user's has it.
mkdir "$work/project"
cat >"$work/project/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.20)
project(user LANGUAGES C)
set(CMAKE_C_STANDARD 99)
find_package(mlac ${WANTED} REQUIRED)
foreach(name cache engine)
  add_executable(${name} ${EXAMPLES}/${name}.c)
  target_link_libraries(${name} PRIVATE mlac::runtime m)
endforeach()
CMAKE
version=$("$prefix/bin/mla-run" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)
user() { # version, build folder
  cmake -G Ninja -S "$work/project" -B "$2" -DWANTED="$1" -DEXAMPLES="$source/docs/examples" \
    -DCMAKE_PREFIX_PATH="$prefix"
}
run user "$version" "$work/user"
run cmake --build "$work/user"
run "$work/user/cache" "$work/snapshot"
if user 99.0 "$work/refused" >"$work/log" 2>&1; then die "version 99.0 was found"; fi
grep -qF "requested version \"99.0\"" "$work/log" || die "version 99.0 is refused, but not by name"

# pkg-config.
export PKG_CONFIG_PATH=$lib/pkgconfig
flags=$(pkg-config --cflags --libs mlac)
[[ $flags == *"$prefix/"* ]] || die "pkg-config names another prefix: $flags"
# shellcheck disable=SC2086
run cc -std=c99 "$source/docs/examples/engine.c" $flags -lm \
  -Wl,-rpath,"$(pkg-config --variable=libdir mlac)" -o "$work/engine"

if [ -x "$build/bin/mla-compile" ]; then
  layer=$source/test/data/golden/deepseek_v3_tiny_attention.safetensors
  run "$build/bin/mla-compile" "$layer" --dtype=f32 --target=cpu --quiet -o "$work/layer.mlac"
  for engine in "$work/engine" "$work/user/engine"; do
    run "$engine" "$work/layer.mlac" "$layer" layers.0.self_attn/weights/
    grep -q "step 4: request 2 leaves with 5 tokens" "$work/log" || die "$engine: other steps"
  done
fi
echo "OK: installed, moved, found by CMake and pkg-config, run"

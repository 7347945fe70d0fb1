#!/usr/bin/env bash
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# scripts/freeze says what differs from another commit, here the checkout's own: what it
# compiles to is planted, so that no second compiler is built.
#
#   freeze.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source=$1 build=$2
git -C "$source" rev-parse HEAD >/dev/null 2>&1 || exit 0 # an archive without a history
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin"
ln -s "$build/bin/mla-compile" "$work/bin/mla-compile"
commit=$(git -C "$source" rev-parse HEAD)
kept="$work/freeze/${commit:0:12}"
freeze() { python3 -B "$source/scripts/freeze" "$commit" --build-dir "$work" "$@" >"$work/log" 2>&1; }

die() {
  echo "FAIL: $1" >&2
  sed 's/^/  | /' "$work/log" >&2
  exit 1
}

freeze --list || die "list"
grep -q "^deepseek_v3-tp8-ptx: --target=sm_90a --emit=ptx --tp=8$" "$work/log" || die "expected V3 as a rank's"
! freeze --only no_such_case || die "an unknown case passed"
! python3 -B "$source/scripts/freeze" no-such-commit --build-dir "$work" >"$work/log" 2>&1 ||
  die "an unknown commit passed"

# This build stands for the other commit's: nothing differs.
mkdir -p "$kept/build/bin" "$kept/tree"
ln -s "$build/bin/mla-compile" "$kept/build/bin/mla-compile"
freeze --only minicpm3_4b-cpu minicpm3_4b-ptx || die "the same compiler differs from itself"
grep -q "^3 of 3 outputs are those of" "$work/log" || die "expected PTX, LLVM IR and a package"

# A byte less in what it kept is found, shown, and fails.
text="$kept/outputs/minicpm3_4b-ptx.txt"
sed -i '0,/\.reg/s//.reh/' "$text"
python3 - "$kept/hashes.json" "$text" <<'PYTHON'
import hashlib, json, sys
hashes = json.load(open(sys.argv[1]))
hashes["minicpm3_4b-ptx"] = hashlib.sha256(open(sys.argv[2], "rb").read()).hexdigest()
json.dump(hashes, open(sys.argv[1], "w"))
PYTHON
! freeze --only minicpm3_4b-ptx --diff || die "a changed output passed"
grep -q "^differs: minicpm3_4b-ptx$" "$work/log" || die "expected the case's name"
grep -q "^  -.*\.reh" "$work/log" || die "expected the lines that differ"

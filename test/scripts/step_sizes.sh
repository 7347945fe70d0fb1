#!/usr/bin/env bash
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# scripts/step_sizes.py on a copy of what it reads and writes: a size or an array that
# only the list has, or that only a file has, is found, and written where it belongs.
#
#   step_sizes.sh SOURCE_DIR
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$source"
files="runtime/schema/StepSizes.def docs/design.md runtime/include/mla_runtime/step.h python/mlac/_step_sizes.py"
cp --parents $files "$work"

die() {
  echo "FAIL: $1" >&2
  sed 's/^/  | /' "$work/log" >&2
  exit 1
}
step_sizes() { python3 -B scripts/step_sizes.py "$@" "$work" >"$work/log" 2>&1; }

step_sizes --check || die "the copy of a checkout that agrees is refused"
sed -i 's/^STEP_SIZE(NumSms.*/&\nSTEP_SIZE(NumDice, "num_dice", Machine, Graph, "dice, of six sides")/' \
  "$work/runtime/schema/StepSizes.def"
step_sizes --check && die "a size that only the list has is taken"
for file in docs/design.md runtime/include/mla_runtime/step.h python/mlac/_step_sizes.py; do
  grep -qF "$file: disagrees" "$work/log" || die "$file is not named"
done
step_sizes || die "the files are not written"
grep -qF '| num_dice | Machine | dice, of six sides |' "$work/docs/design.md" || die "no row of the table"
step_sizes --check || die "what was written is refused"
sed -i 's/^| seq_lens |.*/| seq_lens | nobody | |/' "$work/docs/design.md"
step_sizes --check && die "a changed row is taken"
grep -qF "docs/design.md: disagrees" "$work/log" || die "the changed file is not named"
sed -i '/^<!-- end -->/d' "$work/docs/design.md"
step_sizes && die "a file without the marks is taken"
grep -qF "docs/design.md: a line that marks" "$work/log" || die "the file without the marks is not named"

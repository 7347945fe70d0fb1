#!/usr/bin/env bash
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The commands of docs/tutorial.md, as they stand there, in an empty folder.
#
#   tutorial.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source=$1 build=$2
[[ -x $build/bin/mla-run && -x $build/bin/mla-compile ]] || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
awk '/^```sh$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$source/docs/tutorial.md" >commands
[ "$(grep -c '^mla-' commands)" -ge 7 ] || { echo "FAIL: few commands in docs/tutorial.md" >&2; exit 1; }
PATH=$build/bin:$PATH PYTHONPATH=$source/python MLAC_RUNTIME_LIBRARY=$build/lib/libmla_runtime.so \
  bash -euo pipefail commands >log 2>&1 || { cat log >&2; exit 1; }
expect() { grep -qE "$1" log || { echo "FAIL: nothing like '$1'" >&2; cat log >&2; exit 1; }; }
# What the text says of them.
expect '^config.json:2:3: error: model_type = "acme_mla": it is not known; --like=TYPE reads it as one that is:$'
expect '^refused, as it should be$'
expect '^PASS: every step'
expect '^prefill 40 '
expect '^decode 42 '
expect '^4,1024,1,"decode",'
grep -q '<title>mla-run bench' bench.html
grep -q '<title>mla-compile: deepseek_v3' report.html
[ -s acme-tp8.mlac ]

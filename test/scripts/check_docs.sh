#!/usr/bin/env bash
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# scripts/check_docs.py on tiny checkouts: what it must refuse, and what it must not.
#
#   check_docs.sh SOURCE_DIR
set -euo pipefail
prepare() {
  rm -rf "$work/docs"
  mkdir -p "$work/docs"
  printf '# Index\n\n[a](a.md#it-is-a)\n' >"$work/docs/README.md"
  printf '# A page\n\n## It is `a`\n\n```\n[code](gone.md)\n## no heading\n```\n' >"$work/docs/a.md"
}
check=check_docs.py below=docs
source "$(dirname "$0")/support/expect.sh" "$1"

expect 0 "3 pages, 0 problems" sub/b.md '[up](../a.md#a-page) [out](https://example.org/x#y) `[code](gone.md)` [here](#)'
expect 1 "docs/sub/b.md:1: no file gone.md" sub/b.md '[up](../gone.md)'
expect 1 "docs/sub/b.md:1: a.md has no heading #no-heading" sub/b.md '[up](../a.md#no-heading)'
expect 1 "docs/README.md: does not lead to b.md" b.md 'nobody knows me'

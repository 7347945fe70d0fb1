#!/usr/bin/env bash
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# scripts/wheels on this checkout: both wheels, audited, installed into an empty environment and
# run. Skipped (77) where the Python package index cannot be reached or no compiler is built.
#
#   wheels.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
if [ ! -x "$2/bin/mla-compile" ]; then
  echo "SKIPPED: $2 has no mla-compile"
  exit 77
fi
MLAC_BUILD_DIR=$2 exec "$1/scripts/wheels"

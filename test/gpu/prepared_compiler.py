#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stands in for mla-compile (MLAC_COMPILE) where it cannot run: tests that compile what they need
get what the same command line and input gave elsewhere.

MLAC_PREPARED is the folder of those results. With MLAC_REAL_COMPILE, they are made.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys


def main():
    words = sys.argv[1:]
    output = pathlib.Path(words[words.index("-o") + 1])
    source = pathlib.Path(words[0])
    key = hashlib.sha256(source.read_bytes())
    for word in words[1:]:
        if word != str(output):
            key.update(b"\0" + word.encode())
    result = pathlib.Path(os.environ["MLAC_PREPARED"]) / f"{key.hexdigest()[:16]}.mlac"
    if real := os.environ.get("MLAC_REAL_COMPILE"):
        subprocess.run([real, *words], check=True)
        shutil.copy(output, result)
    elif not result.exists():
        sys.exit(f"prepared_compiler: nobody compiled {source.name} with {' '.join(words[1:])}")
    else:
        shutil.copy(result, output)


if __name__ == "__main__":
    main()

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which versions of transformers the patch was written for and measured with."""

from __future__ import annotations

import importlib.metadata

from .._errors import Unsupported

# Since 5.17 `Cache.crop` takes what to remove; 6 may move anything.
MINIMUM, BELOW = (5, 17), (6,)
MEASURED = "5.17.0 with torch 2.11.0, 5.24.0 with torch 2.15.0"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def check_versions() -> None:
    """Raises Unsupported, naming the version, where transformers is another one."""
    try:
        version = importlib.metadata.version("transformers")
    except importlib.metadata.PackageNotFoundError:
        raise ImportError("mlac.transformers needs transformers, which is not installed") from None
    if not MINIMUM <= _numbers(version) < BELOW:
        raise Unsupported(
            f"transformers {version}: expected {'.'.join(map(str, MINIMUM))} or later, below "
            f"{'.'.join(map(str, BELOW))} (measured: {MEASURED})")

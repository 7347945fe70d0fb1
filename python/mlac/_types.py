# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Names for what signatures take and give."""

from __future__ import annotations

import os
from collections.abc import Sequence as List
from typing import Any, Union

# Anything with DLPack, an array interface or the buffer protocol (see _arrays.py): the
# protocols have no common type.
Array = Any

# The address of a CUDA stream, a torch.cuda.Stream, or None: the default stream.
Stream = Any

Path = Union[str, bytes, "os.PathLike[str]"]

# What the library describes itself by.
Info = dict[str, Any]

# Lists and tuples of numbers, array.array, NumPy arrays on the host.
Ints = List[int]

__all__ = ["Array", "Info", "Ints", "List", "Path", "Stream"]

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays of f32, f16 and bf16 as engines take them; NumPy has no bf16, so it is uint16 bits."""

import numpy as np


def narrow(values, dtype):
    """"f32", "f16" or "bf16" of numbers, rounded to nearest even."""
    values = np.asarray(values, np.float32)
    if dtype == "f32":
        return values
    if dtype == "f16":
        return values.astype(np.float16)
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def widen(stored):
    """The numbers of what `narrow` gives, in float64."""
    if stored.dtype != np.uint16:
        return stored.astype(np.float64)
    return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays of f32, f16, bf16 and e4m3 codes as engines take them; NumPy has neither of the latter, so
they are uint16 bits and uint8 bytes."""

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


def to_codes(values, scale):
    """e4m3 of numbers divided by a scale, in float32 as engines divide (paged-cache.md section 3)."""
    from mlac import reference

    quotient = np.asarray(values, np.float32) / np.float32(scale)
    magnitudes = reference.e4m3_values()[:127]
    code = np.searchsorted(magnitudes, np.abs(reference.round_e4m3(quotient.astype(np.float64))))
    return (code + np.where(np.signbit(quotient), 128, 0)).astype(np.uint8)


def of_codes(codes, scale, dtype):
    """What codes stand for, rounded to a type as readers round it."""
    from mlac import reference

    return narrow(reference.e4m3_values().astype(np.float32)[codes] * np.float32(scale), dtype)


def widen(stored):
    """The numbers of what `narrow` gives, in float64."""
    if stored.dtype != np.uint16:
        return stored.astype(np.float64)
    return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers of DeepSeek-V4 for tests: the three golden ones and random ones of each kind."""

import numpy as np

import sparse_layers as layers
from narrow_floats import narrow, widen

GOLDEN = layers.DATA / "golden/deepseek_v4_attention.safetensors"
WINDOW_ONLY, SELECTED, ALL = range(3)  # kinds, and the golden file's layers


def read_golden(layer):
    """Configuration, weights, input, output, selection and entries (or None) of a layer."""
    config, _, tensors = layers.read_golden(GOLDEN)
    module = f"layers.{layer}.self_attn"
    weights = layers.read_weights(GOLDEN, module)
    hidden = tensors[f"{module}/arg0"][0].astype(np.float64)
    selected = tensors.get(f"{module}.compressor.indexer/output")
    entries = tensors.get(f"{module}.compressor/output.0")
    return (config, weights, hidden, tensors[f"{module}/output.0"][0],
            None if selected is None else selected[0].astype(np.int32),
            None if entries is None else entries[0, 0])

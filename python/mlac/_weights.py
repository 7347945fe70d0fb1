# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights of engines, and checkpoints that they come from."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Mapping
from ctypes import c_char_p, c_int64, c_void_p
from pathlib import Path as FilePath
from typing import Any

from . import _arrays
from ._checked import integers, length_of, path as path_of
from ._errors import InvalidArgument
from ._handle import Handle
from ._library import ALLOW_EXTRA_TENSORS, Progress, Tensor, call, call_out
from ._rope_fields import rope_differences
from ._types import Array, Info, Path


class Checkpoint(Handle):
    """A safetensors file, or a folder as Hugging Face publishes models: config.json, and
    model.safetensors or its index and shards. Engine.bind_checkpoint takes it."""

    _release = "mla_checkpoint_close"

    def __init__(self, path: Path):
        super().__init__(call_out("mla_checkpoint_open", c_void_p, path_of("path", path)))
        self._path = path

    def _describe(self):
        return f"{os.fsdecode(self._path)!r}, {len(self.attentions)} attentions"

    @property
    def attentions(self) -> list[str]:
        """Prefixes of the model's attentions, in its order."""
        return self._info["attentions"]

    @property
    def metadata(self) -> dict[str, str]:
        """The strings in a single file's header (a dict)."""
        return self._info["metadata"]

    @property
    def _info(self) -> Info:
        return json.loads(call_out("mla_checkpoint_info", c_char_p, self._value))


def _has_fours(engine):
    """Whether the package's weights may be NVFP4: bytes of two numbers each."""
    scales = engine.package_info["weight_scales"]
    return scales is not None and scales["block"] == [1, 16]


def _describe(name, array, has_fours):
    if not isinstance(name, str):
        raise InvalidArgument(f"weights: expected names of type str, got {name!r}")
    view = _arrays.view(name, array)
    if view.is_cuda:
        raise InvalidArgument(f"weight '{name}': expected host memory, got CUDA")
    # No weight but NVFP4's is of bytes: they are codes, whose type NumPy lacks.
    is_code = view.dtype == "u8" and not (has_fours and not name.endswith("_scale"))
    dtype = "e4m3" if is_code else view.dtype
    shape = (c_int64 * len(view.shape))(*view.shape)
    tensor = Tensor(name.encode(), _arrays.DTYPES.index(dtype), len(shape), shape, view.address)
    return tensor, view


def bind(engine, weights, layer):
    """Engine.bind."""
    if not isinstance(weights, Mapping):
        raise InvalidArgument("weights: expected a mapping of names to arrays, got "
                              f"{type(weights).__name__}")
    has_fours = _has_fours(engine)
    described = [_describe(name, array, has_fours) for name, array in weights.items()]
    tensors = (Tensor * len(described))(*(tensor for tensor, _ in described))
    call("mla_engine_bind_tensors", engine._value, layer, tensors, len(tensors))


def _show_bar(done, total):
    width = 40
    filled = done * width // total
    end = "\n" if done == total else ""
    print(f"\rbinding weights [{'#' * filled}{'.' * (width - filled)}] {100 * done // total:3d} %",
          end=end, file=sys.stderr, flush=True)


def _steps(progress, failures):
    """`progress` as a C function; what it raises goes to `failures`."""
    if not progress:
        return Progress()
    report = _show_bar if progress is True else progress

    def call_back(_, done, total):
        try:
            if not failures:
                report(done, total)
        except BaseException as error:  # an interrupt, too, would be lost in the library
            failures.append(error)
    return Progress(call_back)


def _rope_of_folder(engine, path):
    """What the folder's configuration says of rope otherwise than that of the package, in words."""
    compiled = engine.package_info["model"].get("config")
    file = FilePath(os.fsdecode(path), "config.json")
    if not compiled or not file.is_file():
        return []
    try:
        config = json.loads(file.read_text())
    except ValueError:  # who reads it for its weights' scales says so
        return []
    heads = "num_attention_heads"  # of a model's part, which its attention is in
    parts = [config, *config.values()] if isinstance(config, Mapping) else []
    config = next((part for part in parts if isinstance(part, Mapping) and heads in part), {})
    return [f"{name} = {ours} (compiled: {theirs})"
            for name, theirs, ours in rope_differences(json.loads(compiled), config)]


def bind_checkpoint(engine, checkpoint, attention, layer, allow_extra, progress):
    """Engine.bind_checkpoint."""
    path = checkpoint._path if isinstance(checkpoint, Checkpoint) else checkpoint
    path_of("checkpoint", path)
    if progress and progress is not True and not callable(progress):
        raise TypeError("progress: expected True or a function of done and total, got "
                        f"{progress!r}")
    if differences := _rope_of_folder(engine, path):
        warnings.warn(f"{os.fsdecode(path)}/config.json: {', '.join(differences)}: tokens are "
                      "rotated as the package was compiled to, whatever the checkpoint says",
                      stacklevel=3)  # who called the engine's
    if isinstance(checkpoint, Checkpoint):
        return _bind_checkpoint(engine, checkpoint, attention, layer, allow_extra, progress)
    with Checkpoint(checkpoint) as opened:
        _bind_checkpoint(engine, opened, attention, layer, allow_extra, progress)


def _bind_checkpoint(engine, checkpoint, attention, layer, allow_extra, progress):
    first = 0 if layer is None else layer
    count = engine.info["options"]["num_layers"] if layer is None else 1
    attention = first if attention is None else attention
    failures = []
    steps = _steps(progress, failures)
    call("mla_engine_bind_checkpoint", engine._value, first, count, checkpoint._value, attention,
         ALLOW_EXTRA_TENSORS if allow_extra else 0, steps, None)
    for bound in range(first, first + count):
        engine.prepare(bound)
    if failures:
        raise failures[0]


def quantize(values: Array, block: tuple[int, int] = (0, 0)) -> tuple[Any, Any]:
    """e4m3 codes (uint8) and scales (f32) of a matrix, as checkpoints have them: a scale for each
    `block` of rows and columns; 0: all of them. (128, 128) is DeepSeek's, (1, 0) a scale
    for each output channel, (0, 0) one for the tensor."""
    import numpy

    values = numpy.ascontiguousarray(values, numpy.float32)
    if values.ndim != 2:
        raise InvalidArgument(f"values: expected a matrix, got shape {list(values.shape)}")
    if length_of("block", block) != 2 or min(sizes := list(integers("block", c_int64, block))) < 0:
        raise InvalidArgument(f"block: expected rows and columns, each at least 0, got {block!r}")
    rows, columns = (-(-extent // size) if size else 1
                     for extent, size in zip(values.shape, sizes))
    codes = numpy.empty(values.shape, numpy.uint8)
    scales = numpy.empty((rows, columns), numpy.float32)
    call("mla_quantize_weight", values.ctypes.data, *values.shape, *sizes, codes.ctypes.data,
         scales.ctypes.data)
    return codes, scales

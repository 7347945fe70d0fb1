# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a running library tells: the log of its calls, and counters (operation.h)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from ctypes import c_char_p
from typing import TYPE_CHECKING, Any

from ._checked import path as path_of
from ._handle import require
from ._library import LogFunction, call, call_out

if TYPE_CHECKING:
    from ._runtime import Device, Package

_LEVELS = ("off", "errors", "calls", "steps")
# What the library calls; it lives until it is replaced.
_function = LogFunction()


def set_log(level: str, function: Callable[[str, str], object] | None = None) -> None:
    """Logs the library's calls up to `level`: "off", "errors" (those that fail), "calls" (all,
    with their time) or "steps" (and what each planned step is).

    function(level, message) gets each message, from any thread; it must call nothing of this
    package, and what it raises is printed. None: MLAC_LOG_FILE, or standard error. Before
    the first call the environment decides (MLAC_LOG). Raises ValueError for another level, and
    TypeError for what cannot be called."""
    global _function
    if level not in _LEVELS:
        raise ValueError(f"level: expected one of {', '.join(_LEVELS)}, got {level!r}")
    if function is not None and not callable(function):
        raise TypeError(f"function: expected one to call, got {function!r}")
    new = LogFunction(lambda _, number, message: function(
        _LEVELS[number], message.decode("utf-8", "replace")) and None) if function else LogFunction()
    call("mla_set_log", _LEVELS.index(level), new, None)
    _function = new


def metrics() -> str:
    """Counters of this process in the text format of Prometheus: steps, requests and tokens
    planned by function, layers run, calls failed by status, pages of every engine's pools."""
    return call_out("mla_metrics", c_char_p).decode()


def replay(package: Package, device: Device, path: str | os.PathLike[str]) -> dict[str, Any]:
    """Runs the step again that MLAC_RECORD wrote to `path`: function, layer, target, reason,
    launches (each with its kernel, and how many NaN what it wrote has) and outputs (each with
    how many NaN it has, and whether it differs from the recorded one)."""
    from ._runtime import Device as device_class, Package as package_class  # which import much

    require("package", package, package_class)
    require("device", device, device_class)
    text = call_out("mla_step_replay", c_char_p, package._value, device._value,
                    path_of("path", path))
    result: dict[str, Any] = json.loads(text)
    return result

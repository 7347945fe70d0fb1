# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What ``python -m mlac`` reports, as plain data.

A part that cannot be had holds ``error`` and the reason instead: the report is what a user
sends when something does not work.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from . import __version__
from ._errors import Error, NoDevice
from ._find_compiler import find_compiler

# Python packages that mlac plugs into or exchanges tensors with.
_PACKAGES = ("mlac", "mlac-compiler", "numpy", "torch", "transformers", "vllm", "sglang",
             "nvidia-cuda-nvcc")

# Variables, beside every MLAC_*, that decide which file or device is taken.
_VARIABLES = ("CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "PYTHONPATH")

# Where NVIDIA's kernel module says which version it is.
_DRIVER_FILE = Path("/proc/driver/nvidia/version")


def _runtime() -> dict[str, Any]:
    try:
        from ._library import library
    except ImportError as error:
        return {"error": str(error)}
    # A name without a folder was left to the loader.
    return {"version": library.mla_runtime_version().decode(), "path": library._name}


def _compiler() -> dict[str, Any]:
    try:
        path = find_compiler()
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60,
                              check=True)
    except (Error, OSError, subprocess.SubprocessError) as error:
        return {"error": str(error)}
    return {"version": done.stdout.strip(), "path": path}


def _devices() -> list[dict[str, Any]]:
    """The CPU, then every CUDA device, or why there is none."""
    from ._runtime import Device

    devices = [Device("cpu").info]
    while True:
        name = f"cuda:{len(devices) - 1}"
        try:
            devices.append(Device(name).info)
        except NoDevice as error:
            # Behind the last one this is no news.
            return devices if len(devices) > 1 else [*devices, {"kind": "cuda", "error": str(error)}]
        except Error as error:
            return [*devices, {"kind": name, "error": str(error)}]


def _driver() -> dict[str, Any]:
    try:
        return {"version": _DRIVER_FILE.read_text().splitlines()[0]}
    except (OSError, IndexError):
        return {"error": f"no NVIDIA kernel module: cannot read {_DRIVER_FILE}"}


def _installed() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def collect() -> dict[str, Any]:
    """The report: a dict of JSON's types."""
    runtime = _runtime()
    return {
        "mlac": {"version": __version__, "path": str(Path(__file__).resolve().parent)},
        "runtime": runtime,
        "compiler": _compiler(),
        "devices": [] if "error" in runtime else _devices(),
        "driver": _driver(),
        "python": {"version": platform.python_version(), "path": sys.executable},
        "platform": {"system": platform.platform(), "libc": "-".join(platform.libc_ver())},
        "packages": _installed(),
        "environment": {name: value for name, value in sorted(os.environ.items())
                        if name.startswith("MLAC_") or name in _VARIABLES},
    }


def _line(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    if "error" in value:
        prefix = f"{value['kind']}: " if "kind" in value else ""
        return f"{prefix}not there: {value['error']}"
    return ", ".join(f"{key} {part}" for key, part in value.items())


def format_text(report: dict[str, Any]) -> str:
    """The report for people: a line a part, lists and tables indented."""
    lines = []
    for name, value in report.items():
        if name in ("packages", "environment"):
            lines.append(f"{name}:" if value else f"{name}: none")
            lines += [f"  {key} = {part}" for key, part in value.items()]
        elif isinstance(value, list):
            lines.append(f"{name}:" if value else f"{name}: none")
            lines += [f"  {_line(part)}" for part in value]
        else:
            lines.append(f"{name}: {_line(value)}")
    return "\n".join(lines)

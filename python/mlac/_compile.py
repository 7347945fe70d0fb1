# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packages made from Python: one run of mla-compile."""

from __future__ import annotations

import difflib
import json
import os
import re
import subprocess
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ._checked import path as path_of
from ._errors import CompileError, InvalidArgument
from ._find_compiler import COMPILER, find_compiler
from ._runtime import Package

# Options of mla-compile that ask for something else than a package.
_NO_PACKAGE = ("emit", "help", "help_list", "help_hidden", "simulate", "version", "o")

# --dtype for a model's parameters, by torch's names.
_DTYPES = {"torch.float32": "f32", "torch.bfloat16": "bf16", "torch.float16": "f16"}


def _argument(name: str, value: Any) -> list[str]:
    """`value` of an option as mla-compile takes it."""
    flag = "--" + name.replace("_", "-")
    if value is None or value is False:
        return []
    if value is True:
        return [flag]
    # These may be repeated, and their values hold commas or colons of their own.
    if name in ("kernel_schedule", "schedule_option") and not isinstance(value, str):
        return [f"{flag}={item}" for item in value]
    if isinstance(value, Iterable) and not isinstance(value, str):
        value = ",".join(str(item) for item in value)
    return [f"{flag}={value}"]


def _config_text(config: Any) -> str:
    """A transformers configuration as JSON; of a model with parts, the language model's, with what
    the whole says of all weights."""
    part = config.get_text_config() if hasattr(config, "get_text_config") else config
    text: str = part.to_json_string(use_diff=False)
    weights = getattr(config, "quantization_config", None)
    fields = json.loads(text) if weights is not None else {}
    if weights is None or fields.get("quantization_config") is not None:
        return text
    fields["quantization_config"] = weights if isinstance(weights, Mapping) else weights.to_dict()
    return json.dumps(fields)


def _model_dtype(model: Any) -> str:
    dtype = str(model.dtype)
    if dtype not in _DTYPES:
        raise InvalidArgument(f"model: expected parameters of {' or '.join(_DTYPES)}, got {dtype}")
    return _DTYPES[dtype]


def _number(value: Any) -> Any:
    """Of a dict's values what JSON does not know: NumPy's numbers are what Python's are."""
    if callable(getattr(value, "item", None)):
        return value.item()
    raise InvalidArgument(f"source: expected what JSON holds, got {value!r} of "
                          f"{type(value).__name__} in the dict")


def _input_file(source: Any, folder: Path, options: dict[str, Any]) -> Path:
    """What mla-compile reads for `source`: the caller's file, or one in `folder`."""
    if isinstance(source, str) and source.lstrip().startswith("{"):
        raise InvalidArgument("source: expected a path, got JSON: json.loads() makes it a dict")
    if isinstance(source, (str, os.PathLike)):
        path = Path(_named("source", source))
        return _no_option(path / "config.json" if path.is_dir() else path)
    if isinstance(source, Mapping):
        text = json.dumps(source, default=_number)
    elif hasattr(source, "to_json_string"):
        text = _config_text(source)
    elif hasattr(source, "config") and hasattr(source.config, "to_json_string"):
        text = _config_text(source.config)
        options.setdefault("dtype", _model_dtype(source))
    else:
        raise InvalidArgument("source: expected a path, a dict, or a configuration or model of "
                              f"transformers, got {type(source).__name__}")
    path = folder / "config.json"
    path.write_text(text)
    return path


def _named(what: str, path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """`path`, unless it is empty, which pathlib takes for the current folder."""
    if path_of(what, path):
        return path
    raise InvalidArgument(f"{what}: expected a path, got an empty one")


def _no_option(path: Path) -> Path:
    """The same file under a name that no program takes for an option, or for standard output."""
    return Path.cwd() / path if str(path).startswith("-") else path


def compile(source: Any, target: str | Iterable[str] | None = None, *,
            output: str | os.PathLike[str] | None = None, compiler: str | None = None,
            **options: Any) -> Package:
    """Compiles an attention layer and returns its package.

    source: a path (config.json, a folder that holds one, layer.safetensors, module.mlir),
    a configuration as a dict, or a configuration or model of transformers. A model's dtype
    is taken where none is given.
    target: "cpu", "sm_90a", or several; default: mla-compile's.
    output: where the package is kept; default: in memory only.
    compiler: the path of mla-compile (default: find_compiler()).
    Options are mla-compile's, with underscores: dtype="f32", tp=8, page_size=64,
    functions=["prefill", "decode"], dequantised_weights=True. Reports (cost_report=True,
    schedule_report=True) are printed.

    Raises CompileError with the compiler's diagnostics; its warnings are Python's.
    """
    return _compile(source, {"target": target, **options}, output, compiler)


def _compile(source: Any, options: dict[str, Any], output: str | os.PathLike[str] | None = None,
             compiler: str | None = None, hidden: str = "") -> Package:
    """compile(), called by what users call; `hidden`: a folder that messages do not name."""
    for name in _NO_PACKAGE:
        if name in options:
            raise InvalidArgument(f"option '{name}' makes no package: run {COMPILER} itself")
    with tempfile.TemporaryDirectory(prefix="mlac-") as name:
        folder = Path(name)
        options = {"quiet": True, **options}
        path = _input_file(source, folder, options)
        package = folder / "package.mlac"
        if output is not None:
            package = _no_option(Path(_named("output", output)))
        command = [compiler or find_compiler(), str(path), "-o", str(package)]
        for option, value in options.items():
            command += _argument(option, value)
        _run(command, options, (name, hidden or name))
        if not package.is_file():
            raise CompileError(f"{command[0]} wrote no package: is it mla-compile?")
        return Package(package if output is not None else package.read_bytes())


# What mla-compile says of an option that it has not.
_UNKNOWN = re.compile(r"Unknown command line argument '--([^'=]+)")
_SIMILAR = re.compile(r"Did you mean '--([\w-]{2,})")


def _unknown_option(text: str, options: Iterable[str]) -> str | None:
    """What the compiler says of an option that it has not, by its name in Python."""
    unknown, similar = _UNKNOWN.search(text), _SIMILAR.search(text)
    names = {name.replace("_", "-"): name for name in options}
    if not unknown or unknown.group(1) not in names:
        return None
    flag = unknown.group(1)
    # The compiler always names its nearest option, however far that is.
    if similar and difflib.get_close_matches(flag, [similar.group(1)]):
        hint = f", did you mean {similar.group(1).replace('-', '_')}?"
    else:
        hint = f"; {COMPILER} --help lists what it has"
    return f"unknown option '{names[flag]}': {COMPILER} has no --{flag}{hint}"


def _run(command: list[str], options: Iterable[str], folders: Iterable[str]) -> None:
    """Runs the compiler; its messages do not name the temporary folders."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    except OSError as error:
        raise CompileError(f"cannot run {command[0]}: {error.strerror}") from None
    text = done.stderr
    for folder in folders:
        text = text.replace(folder + os.sep, "")
    text = text.strip()
    if done.returncode != 0:
        raise CompileError(_unknown_option(text, options) or text
                           or f"{command[0]} ended with {done.returncode}")
    if done.stdout:  # a report that was asked for
        print(done.stdout, end="")
    if text:
        warnings.warn(text, stacklevel=4)  # who called compile() or export()

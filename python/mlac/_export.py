# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packages of what a PyTorch module computes: torch.export, then mla-compile."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ._compile import _DTYPES, _compile, _config_text, _named
from ._errors import InvalidArgument, NotFound
from ._graph_nodes import without_einsum
from ._mask_inputs import LayerMasks
from ._rope_inputs import check_tables as check_rope
from ._runtime import Package


def _config_of(module: Any, config: Any) -> str:
    """The text of a configuration: the caller's, or the module's own."""
    config = getattr(module, "config", None) if config is None else config
    if isinstance(config, (str, os.PathLike)):
        path = Path(_named("config", config))
        path = path / "config.json" if path.is_dir() else path
        try:
            return path.read_text()
        except OSError as error:
            raise NotFound(f"config: cannot read '{path}': {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise InvalidArgument(f"config: '{path}' is no text: {error}") from None
    if isinstance(config, Mapping):
        return json.dumps(config)
    if hasattr(config, "to_json_string"):
        return _config_text(config)
    raise InvalidArgument("config: the module has none of transformers; expected a path, a dict or "
                          f"a configuration, got {type(config).__name__}")


def _any_weight(program: Any) -> Any:
    """One of the type that most numbers of the weights have, which attention is computed in: others
    are a router's biases, say, and integers are no weights. None: there is none."""
    sizes: dict[Any, int] = {}
    for value in program.state_dict.values():
        if value.is_floating_point():
            sizes[value.dtype] = sizes.get(value.dtype, 0) + value.numel()
    kept = max(sizes, key=lambda dtype: sizes[dtype], default=None)
    return next((value for value in program.state_dict.values() if value.dtype == kept), None)


def _dtype_of(program: Any) -> str | None:
    """--dtype of the module's weights; None where mla-compile has none for them."""
    weight = _any_weight(program)
    if weight is None:
        return None
    dtype = str(weight.dtype)
    if dtype == "torch.float64":  # no package has it, and nobody asked for less
        raise InvalidArgument("module: weights of float64, expected bfloat16, float16 or float32: "
                              "convert it, as module.float() does")
    return _DTYPES.get(dtype)


# A part of torch's errors that says nothing of the model, and what the model does.
_REASONS = (
    ("Cache'> in output", "it returns a cache, which is no tensor: give use_cache=False, or set it in "
                          "module.config and in its text_config"),
    ("data-dependent", "it chooses by numbers that are known when it runs, as rope of type 'dynamic' "
                       "and 'longrope', and experts in loops do"),
)


def _explain(error: Exception) -> str:
    """The first line of an error of torch's, which has many, behind what is known of it."""
    text = str(error).strip()
    reasons = [reason for part, reason in _REASONS if part in text]
    first = f"{type(error).__name__}: {text.splitlines()[0] if text else 'no reason'}"
    return f"{reasons[0]} ({first})" if reasons else first


def _program_of(module: Any, example: Any, dynamic_shapes: Any) -> Any:
    """What torch.export records of a module in eval mode, which stays in the mode it is in."""
    import torch

    if isinstance(module, torch.export.ExportedProgram):
        return module
    if not isinstance(module, torch.nn.Module):
        raise InvalidArgument("module: expected a torch.nn.Module or a torch.export.ExportedProgram, "
                              f"got {type(module).__name__}")
    args, kwargs = ((), dict(example)) if isinstance(example, Mapping) else (tuple(example), {})
    trained = [part for part in module.modules() if part.training]
    try:
        with torch.no_grad():
            return torch.export.export(module.eval(), args, kwargs,
                                       dynamic_shapes=dynamic_shapes, strict=False)
    except Exception as error:  # of as many classes as torch has parts
        raise InvalidArgument(f"module: torch.export does not take it: {_explain(error)}") from error
    finally:
        for part in trained:
            part.training = True


def export(module: Any, example: Any = (), *, config: Any = None, dynamic_shapes: Any = None,
           archive: str | os.PathLike[str] | None = None,
           weights: str | os.PathLike[str] | None = None, check_masks: bool = True,
           check_tables: bool = True, **options: Any) -> Package:
    """Exports an attention module of PyTorch, compiles what it computes, and returns the package.

    module: a torch.nn.Module, as transformers has it, or a torch.export.ExportedProgram.
    example: its arguments, a tuple, or a dict of named ones; the number of tokens is open in
    the package, whatever it is here.
    config: the model's configuration (a path, also of a folder, a dict, or transformers'), which says how many
    positions there are and what rope's tables hold; default: the module's.
    dynamic_shapes: torch.export's.
    archive, weights: where the .pt2 archive and the layer's weights are kept (safetensors, for
    Engine.bind_safetensors with the prefix "self_attn."); default: nowhere.
    check_masks: whether a mask that is an input must hold in the example what the package computes,
    which does not read it: causal, with the window that the configuration says.
    check_tables: whether rope's cosines and sines that are inputs must hold in the example what the
    package has instead of them: those of the configuration, at consecutive positions.
    The other options are those of mlac.compile.

    Needs torch. Raises CompileError where the graph is not understood, by its node, or computes
    something else than the configuration says, and InvalidArgument where the example's mask or
    tables do.
    """
    import torch

    program = without_einsum(_program_of(module, example, dynamic_shapes))
    options.setdefault("dtype", _dtype_of(program))
    with tempfile.TemporaryDirectory(prefix="mlac-") as folder:
        path = Path(archive) if archive is not None else Path(folder) / "layer.pt2"
        torch.export.save(program, path, extra_files={"config.json": _config_of(module, config)})
        if weights is not None:
            options["write_weights"] = os.fspath(weights)
        options.setdefault("mask_inputs", os.path.join(folder, "inputs.json"))
        output, compiler = options.pop("output", None), options.pop("compiler", None)
        package = _compile(path, {"graph_checked": True, **options}, output, compiler,
                           hidden=folder)
        found = json.loads(Path(options["mask_inputs"]).read_text())
        if check_masks:
            LayerMasks(program, found["masks"]).check_example()
        if check_tables:
            check_rope(program, found["tables"])
    return package

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cosines and sines of rope that are inputs of a layer. Its package does not read them: it has those
of the configuration. So what the example holds must be these.

Scores depend on the distance of two tokens alone, so rows are compared as turns from the first one:
an example may begin at any position."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ._errors import InvalidArgument

if TYPE_CHECKING:
    import torch

# Frequencies and their angles are of f32 (2^-24, twice), in a package as in transformers.
_ANGLE_ERROR = 3e-7
# Of a turn between rows at positions of some thousands, in f32; other types round more.
_TURN_ERROR = 1e-3


def _describe(place: Mapping[str, Any]) -> str:
    cos, sin = place["cos"], place["sin"]
    inputs = f"input '{cos}'" if cos == sin else f"inputs '{cos}' and '{sin}'"
    module = f" in {place['module']}" if place["module"] else ""
    return (f"the cosines and sines of rope, {inputs} of the attention before node '{place['node']}'"
            f"{module},")


def _find_turns(cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Of each row from the first, as complex numbers [sequences, tokens, columns], times the square
    of the tables' factor; and what rounding the tables may have changed, of a factor of 1."""
    import torch

    error = _TURN_ERROR
    if cos.is_complex():
        rows = cos.to(torch.complex128)
    else:
        error = max(error, 4 * torch.finfo(cos.dtype).eps)
        rows = torch.complex(cos.double(), sin.double())
    rows = rows.reshape(-1, *rows.shape[-2:]) if rows.dim() > 1 else rows[None, None]
    return rows * rows[:, :1].conj(), error


def _find_difference(turns: torch.Tensor, error: float, frequencies: list[float],
                     multiplier: float) -> str:
    """Where they are not those of the configuration, in words; empty: nowhere."""
    import torch

    columns, pairs = turns.shape[-1], len(frequencies)
    one = torch.tensor(frequencies, dtype=torch.float64, device=turns.device)
    angles = torch.arange(turns.shape[1], device=turns.device)[:, None] * one.repeat(columns // pairs)
    square = multiplier ** 2
    wrong = (turns - torch.polar(torch.full_like(angles, square), angles)).abs()
    wrong = ~(wrong <= square * (error + _ANGLE_ERROR * angles))  # what is no number, too
    if not wrong.any():
        return ""
    sequence, token, column = wrong.nonzero()[0].tolist()
    turn = complex(turns[sequence, token, column])
    if not abs(abs(turn) - square) <= 2 * square * error:
        return (f"at token {token} the root of cos² + sin² of column {column} is "
                f"{math.sqrt(abs(turn)):.6g}, expected {multiplier:.6g}")
    angle = math.remainder(float(angles[token, column]), math.tau)
    turned = math.atan2(turn.imag, turn.real)
    return (f"from token 0 to token {token} column {column} turns by {turned:.6g}, expected "
            f"{angle:.6g}, of the frequency {frequencies[column % pairs]:.6g}")


def _check(place: Mapping[str, Any], cos: torch.Tensor, sin: torch.Tensor) -> None:
    turns, error = _find_turns(cos, sin)
    found = [_find_difference(turns, error, place[name], place["multiplier"])
             for name in ("frequencies", "long_frequencies") if place[name]]
    if all(found):
        raise InvalidArgument(
            f"{_describe(place)} are not the configuration's in the example: {found[0]}. The package "
            "has the configuration's, whatever the tables hold: give the configuration the layer's "
            "rope_theta and scaling, an example with the tables of consecutive positions, or "
            "check_tables=False")
    if turns.shape[1] < 2:
        warnings.warn(f"{_describe(place)} are of one token in the example, which does not show the "
                      "frequencies: those of the package are the configuration's",
                      stacklevel=4)  # who called export()


def check_tables(program: Any, tables: Iterable[Mapping[str, Any]]) -> None:
    """Raises InvalidArgument where the example's cosines and sines are others than the package's."""
    from torch.utils import _pytree

    names = [spec.arg.name for spec in program.graph_signature.input_specs
             if spec.kind.name == "USER_INPUT"]
    places = {(place["cos"], place["sin"]): place for place in reversed(list(tables))}
    for inputs, place in places.items():
        if program.example_inputs is None:
            raise InvalidArgument("module: the exported program has no example inputs, which say what "
                                  f"{_describe(place)} are: check_tables=False takes them as the "
                                  "configuration's")
        leaves = _pytree.tree_leaves(program.example_inputs)
        cos, sin = (leaves[names.index(name)] for name in inputs)
        _check(place, cos, sin)

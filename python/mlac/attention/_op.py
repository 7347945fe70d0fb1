# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators and their shape twins, which tell what an operator returns without running it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple


class Spec(NamedTuple):
    """Shape and type of an array. A size is a name where the step's data decide it; one name is one
    size."""

    shape: tuple[int | str, ...]
    dtype: Any


def spec_of(array: Any) -> Spec:
    return Spec(tuple(array.shape), array.dtype)


@dataclasses.dataclass(frozen=True)
class Op:
    """function: on arrays of NumPy or tensors of torch. twin: on anything with a shape and a dtype,
    the same operands; returns a Spec, or a tuple of them. schema: torch's, with what is written."""

    name: str
    function: Callable[..., Any]
    twin: Callable[..., Any]
    schema: str

    def __call__(self, *operands: Any, **named: Any) -> Any:
        return self.function(*operands, **named)

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What tells rotary embeddings of two configurations apart, that have the same sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NAMES = ("rope_theta", "factor", "beta_fast", "beta_slow", "original_max_position_embeddings")


def _rope_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a configuration says about rotary frequencies, in the old or the new place."""
    fields = dict(config.get("rope_scaling") or {})
    fields.update(config.get("rope_parameters") or {})
    fields.setdefault("rope_theta", config.get("rope_theta"))
    return {name: fields[name] for name in _NAMES if fields.get(name) is not None}


def rope_differences(compiled: Mapping[str, Any],
                     config: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Name and both values of what differs; what only one of them says is not compared."""
    theirs, ours = _rope_fields(compiled), _rope_fields(config)
    return [(name, theirs[name], ours[name]) for name in _NAMES
            if name in theirs and name in ours and theirs[name] != ours[name]]

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The back end CUSTOM: vLLM 0.26 has one name for everybody else's, so what it stands for is
decided when vLLM looks it up, by the model of the engine that is being made."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "Backend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vllm.config import get_current_vllm_config_or_none

    config = get_current_vllm_config_or_none()
    model = None if config is None else config.model_config
    if model is not None and getattr(model.hf_text_config, "index_topk", None):
        from .sparse import Backend as chosen
    else:
        from .backend import Backend as chosen  # type: ignore[assignment]
    return chosen

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mlac as a decode back end of SGLang: over SGLang's own pool of MLA rows.

Installing mlac is enough: SGLang finds ``register`` by its entry point. Then::

    python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --page-size 64 \\
        --decode-attention-backend mlac --prefill-attention-backend fa3

SGLang keeps the pool, its slots, the projections and every prefill. The package is compiled when
the server starts, by mla-compile, or is the one that MLAC_VLLM_PACKAGE names
(``mlac.vllm.package_for`` makes it: both engines' rows are alike).
"""

from __future__ import annotations

import logging
from typing import Any

# The version whose Python this was tested against; SGLang promises nothing about others.
TESTED = (0, 5, 23)

NAME = "mlac"  # of the back end, on SGLang's command line

__all__ = ["register"]


def unsupported_version(version: str) -> str | None:
    """Why this version of SGLang is not taken; None if it is."""
    try:
        numbers = tuple(int(part) for part in version.split(".")[:3])
    except ValueError:
        numbers = ()
    if numbers == TESTED:
        return None
    expected = ".".join(map(str, TESTED))
    return f"SGLang {version}: expected {expected}, which mlac.sglang was tested with"


def make_backend(runner: Any) -> Any:
    """SGLang's way to make a back end: by the runner of a model."""
    from .backend import Backend

    return Backend(runner)


def register() -> None:
    """SGLang's entry point: makes the back end known. May be called again.

    It never raises: SGLang calls the plugins of everything that is installed. What is wrong is
    logged, and the name stays unknown.
    """
    import importlib.metadata

    problem = unsupported_version(importlib.metadata.version("sglang"))
    if problem is not None:
        logging.getLogger("mlac").warning("not registered: %s", problem)
        return
    from sglang.srt.arg_groups.choices import (
        ATTENTION_BACKEND_CHOICES,
        add_attention_backend_choices,
    )
    from sglang.srt.layers.attention.attention_registry import register_attention_backend

    register_attention_backend(NAME)(make_backend)
    if NAME not in ATTENTION_BACKEND_CHOICES:
        add_attention_backend_choices([NAME])

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mlac as attention back ends of vLLM: over vLLM's own paged MLA cache.

Installing mlac is enough: vLLM finds ``register`` by its entry point. Then::

    LLM(model, attention_config={"backend": "CUSTOM"})
    LLM(model, attention_config={"backend": "CUSTOM", "mla_prefill_backend": "CUSTOM"})

vLLM keeps the cache, the block tables and the projections; mlac's kernels attend for every decode
(``mlac.vllm.backend``), by the second line for every prefill, too, and for all tokens of models with
an indexer (``mlac.vllm.sparse``). Their package is compiled when the engine starts, by mla-compile, or
is the one that MLAC_VLLM_PACKAGE names: ``package_for`` makes it ahead of time. With
``additional_config={"mlac_layers": "whole"}`` mlac is the whole layer (``mlac.vllm.layer``, whose
package ``layer_package`` makes).
"""

from __future__ import annotations

import logging

from ._module import Shape, layer_package, package_for

# The versions whose Python this was tested against, and those between them; vLLM promises nothing
# about others.
OLDEST, NEWEST = (0, 26), (0, 33)

BACKEND = "mlac.vllm.choice.Backend"  # mlac.vllm.backend's, or mlac.vllm.sparse's
PREFILL_BACKEND = "mlac.vllm.prefill.Prefill"

__all__ = ["Shape", "layer_package", "package_for", "register"]


def unsupported_version(version: str) -> str | None:
    """Why this version of vLLM is not taken; None if it is."""
    try:
        numbers = tuple(int(part) for part in version.split(".")[:2])
    except ValueError:
        numbers = ()
    if OLDEST <= numbers <= NEWEST:
        return None
    spelled = ["{}.{}".format(*bound) for bound in (OLDEST, NEWEST)]
    expected = spelled[0] if OLDEST == NEWEST else f"{spelled[0]} to {spelled[1]}"
    return f"vLLM {version}: expected {expected}, the first and last of which mlac.vllm was tested with"


def register() -> None:
    """vLLM's entry point: makes mlac the back ends CUSTOM. May be called again.

    It never raises: vLLM calls the plugins of everything that is installed, for users of other
    back ends, too. What is wrong is logged, and CUSTOM stays free.
    """
    import vllm

    problem = unsupported_version(vllm.__version__)
    if problem is not None:
        logging.getLogger("mlac").warning("not registered: %s", problem)
        return
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    from vllm.v1.attention.backends.mla.prefill.registry import (
        MLAPrefillBackendEnum,
        register_mla_prefill_backend,
    )

    from . import layer

    layer.register()
    register_backend(AttentionBackendEnum.CUSTOM, BACKEND)
    register_mla_prefill_backend(MLAPrefillBackendEnum.CUSTOM, PREFILL_BACKEND)

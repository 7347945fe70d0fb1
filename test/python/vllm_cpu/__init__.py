# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What vLLM's wheel for CUDA lacks on a machine without a GPU, in plain torch: a platform, a few
operators, and prefills. Decodes are mlac's, and prefills where VLLM_CPU_PREFILL is "mlac"."""

import os


def platform_plugin():
    """vLLM's entry point for platforms."""
    import torch

    return None if torch.cuda.is_available() else "vllm_cpu.platform.Platform"


def register():
    """vLLM's entry point for plugins: the prefill back end CUSTOM, in the place of mlac's."""
    if os.environ.get("VLLM_CPU_CODES"):
        from .codes import take_codes

        take_codes()
    if os.environ.get("VLLM_CPU_PREFILL") == "mlac":
        return
    from vllm.v1.attention.backends.mla.prefill.registry import (
        MLAPrefillBackendEnum,
        register_mla_prefill_backend,
    )

    register_mla_prefill_backend(MLAPrefillBackendEnum.CUSTOM, "vllm_cpu.prefill.Prefill")

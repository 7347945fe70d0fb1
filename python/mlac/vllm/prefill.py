# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The prefill back end that vLLM loads by its dotted path.

vLLM's interface hands expanded keys and values of one piece of context at a time to a prefill
back end, and merges what it gives. mlac's kernels expand, attend and merge in one run, over the
cache itself, so this class stands for a choice: where it is chosen, mlac.vllm.backend attends
for prefills, too, and none of its run functions is called.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from vllm.v1.attention.backends.mla.prefill.base import MLAPrefillBackend

_ALONE = "mla_prefill_backend CUSTOM (mlac) needs mlac's attention backend: set backend to CUSTOM"


class Prefill(MLAPrefillBackend):
    """Prefills by the attention back end."""

    supported_dtypes: ClassVar[list[torch.dtype]] = [torch.bfloat16, torch.float16, torch.float32]

    @staticmethod
    def get_name() -> str:
        return "CUSTOM"

    @classmethod
    def supports_compute_capability(cls, device_capability: Any) -> bool:
        return bool(device_capability.major == 9)

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        chosen = self.vllm_config.attention_config.backend
        if getattr(chosen, "name", None) != "CUSTOM":
            raise ValueError(f"{_ALONE}, got {getattr(chosen, 'name', chosen)}")
        context = self.vllm_config.parallel_config.decode_context_parallel_size
        if context != 1:
            raise ValueError("mla_prefill_backend CUSTOM (mlac): expected a "
                             f"decode_context_parallel_size of 1, got {context}")
        if self.vllm_config.attention_config.use_prefill_query_quantization:
            raise ValueError("mla_prefill_backend CUSTOM (mlac): queries stay as they are, "
                             "use_prefill_query_quantization is not served")

    def run_prefill_new_tokens(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(_ALONE)

    def run_prefill_context_chunk(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(_ALONE)

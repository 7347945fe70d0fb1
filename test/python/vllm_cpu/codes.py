# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checkpoints of e4m3 codes, whose linear layers vLLM has no kernel for on most CPUs: they hold
codes and scales as ever, and are never called where mlac is the whole layer."""


class NoKernel:
    def process_weights_after_loading(self, layer):
        pass


def take_codes():
    import torch
    from vllm.model_executor.layers.quantization import fp8

    fp8.init_fp8_linear_kernel = lambda *args, **kwargs: NoKernel()
    fp8.Fp8Config.get_supported_act_dtypes = lambda self: [torch.bfloat16, torch.float16,
                                                           torch.float32]

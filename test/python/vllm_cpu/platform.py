# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A platform that runs any back end on the CPU, and the operators that it needs."""

import importlib.util

import torch
from vllm.platforms.cpu import CpuPlatform
from vllm.platforms.interface import DeviceCapability


def _slot_mapping(query_start_loc, positions, block_table, slot_mapping, block_size):
    slot_mapping.fill_(-1)
    starts = query_start_loc.tolist()
    for request, (begin, end) in enumerate(zip(starts, starts[1:])):
        at = positions[begin:end]
        slot_mapping[begin:end] = block_table[request, at // block_size].long() * block_size \
            + at % block_size


def to_codes(rows):
    largest = torch.finfo(torch.float8_e4m3fn).max
    return rows.clamp(-largest, largest).to(torch.float8_e4m3fn).view(torch.uint8)


def _cache_rows(kv_c, k_pe, kv_cache, slot_mapping, kv_cache_dtype, scale, *_):
    kept = slot_mapping >= 0
    rows = torch.cat([kv_c, k_pe.flatten(1)], -1)[:len(slot_mapping)]
    if kv_cache_dtype.startswith("fp8"):
        kv_cache = kv_cache.view(torch.uint8)
        rows = to_codes(rows / scale)
    kv_cache.view(-1, kv_cache.shape[-1])[slot_mapping[kept]] = rows[kept]


def _gather_rows(src_cache, dst, block_table, cu_seq_lens, token_to_seq, num_tokens,
                 kv_cache_dtype, scale, seq_starts=None, *_):
    block_size = src_cache.shape[1]
    if kv_cache_dtype.startswith("fp8"):
        src_cache = src_cache.view(torch.float8_e4m3fn).to(dst.dtype) * scale
    for token in range(int(num_tokens)):
        request = int(token_to_seq[token])
        at = token - int(cu_seq_lens[request])
        at += 0 if seq_starts is None else int(seq_starts[request])
        dst[token] = src_cache[block_table[request, at // block_size], at % block_size]


def _requests_of_tokens(query_start_loc, out, num_mapped_tokens, num_tokens):
    out[:num_tokens] = 0
    requests = torch.arange(len(query_start_loc) - 1, dtype=out.dtype)
    found = requests.repeat_interleave(query_start_loc.diff())[:num_mapped_tokens]
    out[:len(found)] = found
    return out[:num_tokens]


# Pages cannot be pinned without a driver.
_with_pins = {name: getattr(torch, name) for name in ("empty", "zeros")}
for _name, _make in _with_pins.items():
    setattr(torch, _name, lambda *sizes, pin_memory=False, _make=_make, **options:
            _make(*sizes, **options))

_common = torch.library.Library("_C", "FRAGMENT")
_common.define("init_cpu_memory_env(int[] nodes) -> ()")
_common.define("init_cpu_threads_env(str ids) -> str")
_common.define("compute_slot_mapping_kernel_impl(Tensor q, Tensor p, Tensor b, Tensor(a!) s, int n)"
               " -> ()")
_common.define("greedy_argmax(Tensor logits) -> Tensor")  # vLLM 0.33
_common.impl("greedy_argmax", lambda logits: logits.argmax(-1), "CPU")
# Of vLLM 0.33, too, which warms it up; nothing here is sampled.
_common.define("fused_gumbel_argmax(Tensor logits, Tensor seeds) -> Tensor")
_common.impl("fused_gumbel_argmax", lambda logits, seeds: logits.argmax(-1), "CPU")
_common.impl("init_cpu_memory_env", lambda nodes: None, "CompositeExplicitAutograd")
_common.impl("init_cpu_threads_env", lambda ids: "", "CompositeExplicitAutograd")
_common.impl("compute_slot_mapping_kernel_impl", _slot_mapping, "CPU")
_kept = [_common]


class Platform(CpuPlatform):
    @classmethod
    def get_attn_backend_cls(cls, selected_backend, attn_selector_config, num_heads=None):
        # What vLLM's platform for CUDA does with a back end that a user named.
        reasons = selected_backend.get_class().validate_configuration(
            device_capability=cls.get_device_capability(), **attn_selector_config._asdict())
        if reasons:
            raise ValueError(f"Selected backend {selected_backend} is not valid for this "
                             f"configuration. Reason: {reasons}")
        return selected_backend.get_path()

    @classmethod
    def import_kernels(cls):
        import vllm._C_stable_libtorch  # noqa: F401  the schemas: the kernels are CUDA's
        from vllm.v1.attention.backends.mla.prefill import registry, selector

        # vLLM 0.33 has one back end for prefills on CPUs, whatever a user names.
        selector._auto_select_mla_prefill_backend = lambda *_: (
            registry.MLAPrefillBackendEnum.CUSTOM.get_class())
        if importlib.util.find_spec("vllm.v1.attention.ops.metadata"):  # vLLM 0.33
            from vllm.v1.attention.ops import metadata

            metadata.compute_token_to_req_indices = _requests_of_tokens

        if len(_kept) == 1:  # vLLM calls this more than once
            _kept.append(torch.library.Library("_C_cache_ops", "IMPL"))
            _kept[1].impl("concat_and_cache_mla", _cache_rows, "CPU")
            _kept[1].impl("gather_and_maybe_dequant_cache", _gather_rows, "CPU")

    @classmethod
    def get_device_capability(cls, device_id=0):
        return DeviceCapability(9, 0)

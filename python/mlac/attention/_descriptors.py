# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The descriptors of the operators that there are."""

from __future__ import annotations

import numpy as np

from ..sequence_info import SequenceInfo
from . import _grouped, _latent, _memory, _metadata
from ._config import AttentionInfo, check
from ._op import Op
from ._registry import AttentionDescriptor, AttentionRegistry, Constant, GetInfo, Initializer

# A table has so many positions for each of the longest sequence's.
_TABLE_SEQUENCES = 2


def angles(theta: float, dim: int, length: int) -> np.ndarray:
    """Of positions [length] and pairs [dim / 2], in float64."""
    return np.outer(np.arange(length), theta**(-np.arange(0, dim, 2) / dim))


def _check_unscaled(info: AttentionInfo) -> None:
    scale = info.pos_embd_config.rope_scale
    check(scale == 1, f"rope_scale is {scale}, expected 1")


def _check_plain(info: AttentionInfo, name: str) -> None:
    """The operator has no constants to say more by."""
    for field, value in (("window", info.window), ("softcap", info.softcap)):
        check(value == 0, f"{name}: {field} is {value}, expected 0")
    expected = info.head_dim**-0.5
    check(info.softmax_scale == expected,
          f"{name}: scale is {info.softmax_scale}, expected head_dim^(-1/2), {expected}")


def _check_no_decoupled_rope(info: AttentionInfo, name: str) -> None:
    check(info.rope_dim == 0, f"{name}: rope_dim is {info.rope_dim}, expected 0: heads have one rope")


def _cache_name(kind: str) -> str:
    return f"{kind}_cache"


class _GroupedDescriptor(AttentionDescriptor):
    """Keys and values in caches of their own."""

    @classmethod
    def check_info(cls, info: AttentionInfo) -> None:
        """Raises InvalidArgument for what the operator does not do."""
        _check_no_decoupled_rope(info, cls.__name__)

    @classmethod
    def get_cache_initializers(cls, get_info: GetInfo) -> dict[str, Initializer]:
        def make(columns: int) -> Initializer:
            def initialize(sequences: SequenceInfo):
                info = get_info()
                cls.check_info(info)
                check(cls.is_paged() or not sequences.is_paged,
                      f"{cls.__name__} has no pages: page_size is {sequences.page_size}, expected "
                      f"max_seq_len, {sequences.max_seq_len}")
                return _memory.zeros((sequences.num_pages, sequences.page_size, info.num_kv_heads,
                                      columns), info.cache_dtype, sequences.device)
            return initialize
        info = get_info()
        value_dim = info.head_dim if info.value_dim is None else info.value_dim
        return {_cache_name("k"): make(info.head_dim), _cache_name("v"): make(value_dim)}


def _freqs_initializers(get_info: GetInfo) -> dict[str, Initializer]:
    """Cosine and sine beside each other, [positions, pairs, 2]; empty: no rope."""
    info = get_info()
    config = info.pos_embd_config
    name = f"freqs_cis_{config.mode}_{config.rope_theta}_{config.rope_scale}".replace(".", "_")

    def initialize(sequences: SequenceInfo):
        _check_unscaled(info)
        if config.mode is None:
            return _memory.zeros((0,), "f32", sequences.device)
        check(info.head_dim % 2 == 0, f"head_dim is {info.head_dim}, rope needs an even one")
        phi = angles(config.rope_theta, info.head_dim, _TABLE_SEQUENCES * sequences.max_seq_len)
        table = _memory.zeros((*phi.shape, 2), "f32", sequences.device)
        table[...] = _memory.like(table, np.stack([np.cos(phi), np.sin(phi)], -1)
                                  .astype(np.float32))
        return table
    return {name: initialize}


@AttentionRegistry.register("MultiHead")
class MultiHead(_GroupedDescriptor):
    """Contiguous caches; rope, if any, is the graph's. Scale, window and softcap are constants."""

    @classmethod
    def is_paged(cls) -> bool:
        return False

    @classmethod
    def check_info(cls, info: AttentionInfo) -> None:
        super().check_info(info)
        mode = info.pos_embd_config.mode
        check(mode is None, f"MultiHead: mode is {mode!r}, expected None: it does not rotate")

    @classmethod
    def get_attention_op(cls) -> tuple[Op, int]:
        return _grouped.flattened_mha_with_cache, 3

    @classmethod
    def get_prepare_metadata_op(cls) -> tuple[Op, int]:
        return _metadata.prepare_fused_mha_metadata, 4

    @classmethod
    def get_constants(cls, info: AttentionInfo) -> list[Constant]:
        cls.check_info(info)
        return [info.softmax_scale, info.window, info.softcap]


@AttentionRegistry.register("TritonWithFlattenedInputs")
class FlattenedMultiHead(_GroupedDescriptor):
    """Contiguous caches, and rope inside the operator."""

    @classmethod
    def is_paged(cls) -> bool:
        return False

    @classmethod
    def check_info(cls, info: AttentionInfo) -> None:
        super().check_info(info)
        _check_plain(info, cls.__name__)

    @classmethod
    def get_attention_op(cls) -> tuple[Op, int]:
        return _grouped.fused_flattened_mha_with_cache, 3

    @classmethod
    def get_prepare_metadata_op(cls) -> tuple[Op, int]:
        return _metadata.prepare_fused_mha_metadata, 4

    @classmethod
    def rope_order(cls) -> str | None:
        return "half"

    @classmethod
    def get_global_buffer_initializers(cls, get_info: GetInfo) -> dict[str, Initializer]:
        return _freqs_initializers(get_info)


@AttentionRegistry.register("PagedMultiHead")
class PagedMultiHead(_GroupedDescriptor):
    """Caches by pages, and rope inside the operator. The metadata has the page table."""

    @classmethod
    def is_paged(cls) -> bool:
        return True

    @classmethod
    def get_attention_op(cls) -> tuple[Op, int]:
        return _grouped.paged_mha_with_cache, 3

    @classmethod
    def get_prepare_metadata_op(cls) -> tuple[Op, int]:
        return _metadata.prepare_paged_metadata, 5

    @classmethod
    def rope_order(cls) -> str | None:
        return "half"

    @classmethod
    def get_global_buffer_initializers(cls, get_info: GetInfo) -> dict[str, Initializer]:
        return _freqs_initializers(get_info)

    @classmethod
    def get_constants(cls, info: AttentionInfo) -> list[Constant]:
        cls.check_info(info)
        return [info.softmax_scale, info.window, info.softcap]


@AttentionRegistry.register("MultiHeadLatent")
class MultiHeadLatent(AttentionDescriptor):
    """One cache of latents and rope keys. Of AttentionInfo, a head is a row of the cache: rope_dim
    of its head_dim channels are the rope key. The scale must be said."""

    @classmethod
    def is_paged(cls) -> bool:
        return True

    @classmethod
    def check_info(cls, info: AttentionInfo) -> None:
        """Raises InvalidArgument for what the operator does not do."""
        name = cls.__name__
        check(info.num_kv_heads == 1, f"{name}: num_kv_heads is {info.num_kv_heads}, expected 1")
        check(0 < info.rope_dim < info.head_dim, f"{name}: rope_dim is {info.rope_dim}, expected 2 "
              f"to {info.head_dim - 1}, below head_dim")
        rank = info.head_dim - info.rope_dim
        check(info.value_dim in (None, rank), f"{name}: value_dim is {info.value_dim}, expected the "
              f"latent's {rank}")
        check(info.scale is not None, f"{name}: scale is None; a row's width does not say it")
        for field, value in (("window", info.window), ("softcap", info.softcap)):
            check(value == 0, f"{name}: {field} is {value}, expected 0")

    @classmethod
    def get_attention_op(cls) -> tuple[Op, int]:
        return _latent.mla_with_cache, 4

    @classmethod
    def get_prepare_metadata_op(cls) -> tuple[Op, int]:
        return _metadata.prepare_paged_metadata, 5

    @classmethod
    def rope_order(cls) -> str | None:
        return "interleaved"

    @classmethod
    def is_latent(cls) -> bool:
        return True

    @classmethod
    def get_cache_initializers(cls, get_info: GetInfo) -> dict[str, Initializer]:
        def initialize(sequences: SequenceInfo):
            info = get_info()
            cls.check_info(info)
            return _memory.zeros((sequences.num_pages, sequences.page_size, info.head_dim),
                                 info.cache_dtype, sequences.device)
        return {_cache_name("kv"): initialize}

    @classmethod
    def get_global_buffer_initializers(cls, get_info: GetInfo) -> dict[str, Initializer]:
        info = get_info()
        config = info.pos_embd_config

        def make(function):
            def initialize(sequences: SequenceInfo):
                _check_unscaled(info)
                if config.mode is None:
                    return _memory.zeros((0,), "f32", sequences.device)
                phi = angles(config.rope_theta, info.rope_dim,
                             _TABLE_SEQUENCES * sequences.max_seq_len)
                table = _memory.zeros(phi.shape, "f32", sequences.device)
                table[...] = _memory.like(table, function(phi).astype(np.float32))
                return table
            return initialize
        ending = f"{config.mode}_{config.rope_theta}_{config.rope_scale}".replace(".", "_")
        return {f"cos_{ending}": make(np.cos), f"sin_{ending}": make(np.sin)}

    @classmethod
    def get_constants(cls, info: AttentionInfo) -> list[Constant]:
        """Scale, rank of the latent, and what a row of the cache is."""
        cls.check_info(info)
        return [info.softmax_scale, info.head_dim - info.rope_dim,
                _latent.CACHE_FORMATS[info.cache_dtype]]

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Descriptors of attention operators, and where they are found by name (paged-cache.md section 12)."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, Union

from .._errors import InvalidArgument, NotFound
from ..sequence_info import SequenceInfo
from ._config import AttentionInfo
from ._op import Op

Constant = Union[int, float, str, None]
# The AttentionInfo of the node at hand.
GetInfo = Callable[[], AttentionInfo]
# Makes a cache or buffer for these sequences.
Initializer = Callable[[SequenceInfo], Any]
_Descriptor = TypeVar("_Descriptor", bound="type[AttentionDescriptor]")


class AttentionDescriptor(abc.ABC):
    """What a graph needs to know to put an operator over caches in the place of an attention.

    The operator takes the node's own inputs (query, key, value), what the metadata operator
    returns, caches, buffers and constants, in this order, and returns one array."""

    @classmethod
    @abc.abstractmethod
    def is_paged(cls) -> bool:
        """Whether sequences may have several pages."""

    @classmethod
    @abc.abstractmethod
    def get_attention_op(cls) -> tuple[Op, int]:
        """The operator, and how many inputs of the node it takes."""

    @classmethod
    @abc.abstractmethod
    def get_prepare_metadata_op(cls) -> tuple[Op, int]:
        """The operator that runs once a step, and how many arrays it returns. It takes
        SequenceInfo.args and the page size."""

    @classmethod
    @abc.abstractmethod
    def get_cache_initializers(cls, get_info: GetInfo) -> dict[str, Initializer]:
        """Caches of a node by name, in the operator's order."""

    @classmethod
    def get_global_buffer_initializers(cls, get_info: GetInfo) -> dict[str, Initializer]:
        """Buffers by name, in the operator's order; nodes that return one name share it."""
        return {}

    @classmethod
    def rope_order(cls) -> str | None:
        """How pairs lie that the operator rotates where pos_embd_config says so: "half" or
        "interleaved", of all channels of a head, or of a shared rope key. None: it never does."""
        return None

    @classmethod
    def is_latent(cls) -> bool:
        """Whether it takes folded queries, their rope parts, latents and shared rope keys, in the
        place of query, key and value."""
        return False

    @classmethod
    def get_constants(cls, info: AttentionInfo) -> list[Constant]:
        """What the operator takes last."""
        return []


class AttentionRegistry:
    """Descriptors by name."""

    _descriptors: ClassVar[dict[str, type[AttentionDescriptor]]] = {}

    @classmethod
    def register(cls, name: str) -> Callable[[_Descriptor], _Descriptor]:
        """A decorator of descriptors. Raises InvalidArgument where the name is taken."""
        def add(descriptor: _Descriptor) -> _Descriptor:
            if name in cls._descriptors:
                raise InvalidArgument(f"attention '{name}' is registered already, as "
                                      f"{cls._descriptors[name].__name__}")
            cls._descriptors[name] = descriptor
            return descriptor
        return add

    @classmethod
    def get(cls, name: str) -> type[AttentionDescriptor]:
        """Raises NotFound where there is none of that name."""
        if name not in cls._descriptors:
            raise NotFound(f"no attention '{name}' is registered, expected one of "
                           f"{', '.join(cls._descriptors)}")
        return cls._descriptors[name]

    @classmethod
    def has(cls, name: str) -> bool:
        return name in cls._descriptors

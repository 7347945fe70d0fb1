# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The attention nodes of a graph: caches of each, buffers of all, metadata of a step."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .._errors import WrongState
from ..sequence_info import SequenceInfo
from ._config import AttentionInfo, check
from ._op import Op
from ._registry import AttentionDescriptor, Constant


class AttentionNodes:
    """What the operators of a graph take besides their own inputs.

        nodes = AttentionNodes(AttentionRegistry.get("PagedMultiHead"), sequences)
        first, second = nodes.add(info), nodes.add(info)
        nodes.initialize()                       # caches and buffers, once
        nodes.prepare()                          # metadata, once a step
        output = nodes.run(first, q, k, v)
    """

    def __init__(self, descriptor: type[AttentionDescriptor], sequences: SequenceInfo):
        check(descriptor.is_paged() or not sequences.is_paged,
              f"{descriptor.__name__} has no pages: page_size is {sequences.page_size}, expected "
              f"max_seq_len, {sequences.max_seq_len}")
        self.descriptor, self.sequences = descriptor, sequences
        self.caches: dict[str, Any] = {}  # name and number of the node
        self.buffers: dict[str, Any] = {}
        self.metadata: tuple[Any, ...] | None = None
        self._infos: list[AttentionInfo | Callable[[], AttentionInfo]] = []
        self._names: list[tuple[list[str], list[str]]] = []  # of caches and buffers, by node
        self._constants: list[list[Constant]] = []

    def add(self, info: AttentionInfo | Callable[[], AttentionInfo]) -> int:
        """A node's number. A function is asked when caches are made."""
        self._infos.append(info)
        return len(self._infos) - 1

    def initialize(self) -> None:
        """Makes the caches of each node that has none yet, and the buffers that no node had."""
        for node in range(len(self._names), len(self._infos)):
            given = self._infos[node]
            get_info = functools.partial(lambda info: info() if callable(info) else info, given)
            caches = {f"{name}_{node}": make for name, make in
                      self.descriptor.get_cache_initializers(get_info).items()}
            buffers = self.descriptor.get_global_buffer_initializers(get_info)
            constants = self.descriptor.get_constants(get_info())
            new = {name: make(self.sequences) for name, make in buffers.items()
                   if name not in self.buffers}
            self.caches.update({name: make(self.sequences) for name, make in caches.items()})
            self.buffers.update(new)
            self._names.append((list(caches), list(buffers)))
            self._constants.append(constants)

    @property
    def op(self) -> Op:
        return self.descriptor.get_attention_op()[0]

    def prepare(self) -> tuple[Any, ...]:
        """Makes the metadata of the step that `sequences` describes."""
        self.sequences.check_capacity()
        op, count = self.descriptor.get_prepare_metadata_op()
        made = tuple(op(*self.sequences.args, self.sequences.page_size))
        check(len(made) == count, f"{op.name} made {len(made)} arrays, its descriptor says {count}")
        self.metadata = made
        return made

    def operands(self, node: int, *inputs: Any) -> tuple[Any, ...]:
        """Inputs, metadata, caches, buffers, constants."""
        expected = self.descriptor.get_attention_op()[1]
        check(len(inputs) == expected, f"node {node} has {len(inputs)} inputs, {self.op.name} takes "
              f"{expected}")
        check(0 <= node < len(self._infos), f"node {node}, expected 0 to {len(self._infos) - 1}")
        if node >= len(self._names):
            raise WrongState(f"node {node} has no caches: call initialize()")
        if self.metadata is None:
            raise WrongState("there is no metadata: call prepare() for the step")
        caches, buffers = self._names[node]
        return (*inputs, *self.metadata, *(self.caches[name] for name in caches),
                *(self.buffers[name] for name in buffers), *self._constants[node])

    def run(self, node: int, *inputs: Any) -> Any:
        """The node's output."""
        return self.op(*self.operands(node, *inputs))

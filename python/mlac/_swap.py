# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sequences that wait in host memory."""

from __future__ import annotations

from ctypes import byref, c_int64, c_uint64, c_void_p
from typing import TYPE_CHECKING

from ._handle import Handle, address_of, require
from ._library import SwapStats, call, call_out
from ._types import Stream

if TYPE_CHECKING:
    from ._runtime import Engine, Sequence


def _id_of(sequence):
    from ._runtime import Sequence  # which imports this module

    require("sequence", sequence, Sequence)
    return sequence._id


class SwapSpace(Handle):
    """Sequences of an engine in pinned host memory.

    Copies are asynchronous on the stream (None: the default one), which must be that of
    the sequences' steps; byte for byte the same comes back, in other pages.
    """

    _release = "mla_swap_destroy"

    def __init__(self, engine: Engine, num_pages: int):
        from ._runtime import Engine as engine_class  # which imports this module

        require("engine", engine, engine_class)
        super().__init__(call_out("mla_swap_create", c_void_p, engine._value, num_pages))
        self._engine = engine

    def _describe(self):
        stats = self.stats
        return (f"{stats['num_tickets']} tickets, {stats['free_pages']} of "
                f"{stats['num_pages']} pages free")

    def swap_out(self, sequence: Sequence, stream: Stream = None) -> int:
        """Moves the sequence's rows to the host and gives its pages back; it is empty
        then, in all pools. Returns a ticket. OutOfPages (the swap space is full) changes
        nothing."""
        return call_out("mla_swap_out", c_uint64, self._value, _id_of(sequence),
                        address_of(stream))

    def swap_in(self, ticket: int, sequence: Sequence | None = None,
                stream: Stream = None) -> Sequence:
        """Gives an empty sequence (default: a new one) the rows of a ticket, which is
        used up; returns it. OutOfPages (the pool is full) changes nothing."""
        target = self._engine.sequence() if sequence is None else sequence
        call("mla_swap_in", self._value, ticket, _id_of(target), address_of(stream))
        return target

    def drop(self, ticket: int) -> None:
        """Forgets the rows of a ticket."""
        call("mla_swap_drop", self._value, ticket)

    def length(self, ticket: int) -> int:
        """Tokens of a ticket."""
        return call_out("mla_swap_length", c_int64, self._value, ticket)

    @property
    def stats(self) -> dict[str, int]:
        """num_pages, free_pages, num_tickets (a dict)."""
        stats = SwapStats()
        call("mla_swap_get_stats", self._value, byref(stats))
        return {name: getattr(stats, name) for name, *_ in SwapStats._fields_}

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A cache of transformers over an engine's sequences."""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache as HuggingFaceCache

from .._errors import InvalidArgument, OutOfPages, Unsupported
from .._runtime import Sequence
from ._step import Runner, Step


class Cache(HuggingFaceCache):
    """The keys of a batch, as sequences of an engine; made by Patched.cache().

    Columns are transformers' count of tokens, with padding; a sequence holds what is not
    padding. Reordering beams forks sequences, whose pages are shared until one of them is
    written; cropping truncates them. copy.deepcopy forks all of them, for prompts that many
    calls begin with. The pages are given back when the cache dies.
    """

    def __init__(self, runner: Runner):
        super().__init__(layers=[])
        runner.check_live()
        self._runner = runner
        self._sequences: list[Sequence] = []
        # [batch, columns] on the host: what is not padding; and by how much each row's
        # positions lie ahead of its sequence's (a rotation of all by the same angle).
        self._is_real = torch.zeros(0, 0, dtype=torch.bool)
        self._shifts = torch.zeros(0, dtype=torch.int64)

    def __repr__(self) -> str:
        return (f"<mlac.transformers.Cache {len(self._sequences)} sequences, "
                f"{self.get_seq_length()} columns>")

    def __len__(self) -> int:
        return self._runner.num_layers

    def __copy__(self) -> Cache:
        raise TypeError("a cache owns its sequences: share it, or copy.deepcopy forks it")

    def __deepcopy__(self, memo: dict[int, Any]) -> Cache:
        forked = Cache(self._runner)
        forked._sequences = [sequence.fork() for sequence in self._sequences]
        forked._is_real, forked._shifts = self._is_real, self._shifts
        return forked

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self._is_real.shape[1]

    def get_max_length(self, layer_idx: int | None = None) -> int:
        return self._runner.options["max_seq_len"]

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        return self.get_seq_length() + query_length, 0

    @property
    def batch_size(self) -> int:
        return len(self._sequences) or -1

    @property
    def is_compileable(self) -> bool:
        return False

    @property
    def is_initialized(self) -> bool:
        return bool(self._sequences)

    @property
    def is_croppable(self) -> bool:
        return True

    @property
    def is_sliding(self) -> list[bool]:
        return [False] * self._runner.num_layers

    @property
    def is_linear(self) -> list[bool]:
        return [False] * self._runner.num_layers

    def update(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsupported("this cache holds rows that mlac's kernels write: an attention layer "
                          "that was not patched cannot use it")

    def reset(self) -> None:
        self._select([])
        self._is_real = self._is_real[:, :0]

    def crop(self, tokens_to_remove: int) -> None:
        """Forgets the last columns: their number, negative; or, positive, how many stay (as
        transformers took it before 5.18)."""
        self._runner.check_live()
        columns = self.get_seq_length()
        kept = min(tokens_to_remove, columns) if tokens_to_remove > 0 \
            else max(columns + tokens_to_remove, 0)
        self._is_real = self._is_real[:, :kept]
        for sequence, length in zip(self._sequences, self._is_real.sum(1).tolist()):
            if length < len(sequence):
                sequence.truncate(length)

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        self._select(beam_idx.tolist())

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        indices = indices.nonzero().flatten() if indices.dtype == torch.bool else indices
        self._select(indices.tolist())

    def batch_repeat_interleave(self, repeats: int) -> None:
        if repeats < 0:  # range() would take it for none, and every row would be gone
            raise InvalidArgument(f"repeats: expected at least 0, got {repeats}")
        self._select([row for row in range(len(self._sequences)) for _ in range(repeats)])

    def _select(self, rows: list[int]) -> None:
        """Makes the batch these rows; one that is wanted again gets a fork."""
        self._runner.check_live()
        if not self._sequences:
            return
        count = len(self._sequences)
        for row in rows:
            if not -count <= row < count:
                raise InvalidArgument(f"row {row}: the cache has {count}")
        rows = [row % count for row in rows]  # negative ones are counted from the end
        seen: set[int] = set()
        chosen = []
        for row in rows:
            chosen.append(self._sequences[row].fork() if row in seen else self._sequences[row])
            seen.add(row)
        self._sequences = chosen  # what is in neither list any more gives its pages back
        self._is_real, self._shifts = self._is_real[rows], self._shifts[rows]

    def _extend(self, is_real: torch.Tensor, positions: torch.Tensor) -> Step:
        """Plans a step of new columns [batch, query]; refused, it has changed nothing."""
        batch, query = is_real.shape
        if self._sequences and len(self._sequences) != batch:
            raise InvalidArgument(f"past_key_values: expected a batch of {len(self._sequences)} "
                                  f"rows, got {batch}")
        is_new = not self._sequences
        sequences = [self._runner.engine.sequence() for _ in range(batch)] if is_new \
            else self._sequences
        past = torch.zeros(batch, 0, dtype=torch.bool) if is_new else self._is_real
        shifts = self._check_positions(past.sum(1), is_real, positions,
                                       torch.zeros(batch, dtype=torch.int64) if is_new
                                       else self._shifts)
        self._check_lengths(past.sum(1) + is_real.sum(1))
        try:
            step = self._runner.fill(sequences, is_real)
        except OutOfPages:
            raise self._full(is_real) from None
        self._sequences, self._shifts = sequences, shifts
        self._is_real = torch.cat([past, is_real], 1)
        return step

    def _check_lengths(self, lengths: torch.Tensor) -> None:
        limit = self._runner.options["max_seq_len"]
        longest = int(lengths.max()) if lengths.numel() else 0
        if longest > limit:
            raise InvalidArgument(f"row {int(lengths.argmax())}: {longest} tokens, the limit is "
                                  f"max_seq_len = {limit}; patch(model, max_seq_len=...) sets it")

    @staticmethod
    def _check_positions(past: torch.Tensor, is_real: torch.Tensor, positions: torch.Tensor,
                         shifts: torch.Tensor) -> torch.Tensor:
        """What positions lie ahead of the rows' tokens, counted; refuses gaps."""
        ahead = positions - (past[:, None] + is_real.cumsum(1) - 1)
        if ahead.shape[1]:
            first = ahead.gather(1, is_real.int().argmax(1, keepdim=True)).flatten()
            shifts = torch.where((past == 0) & is_real.any(1), first, shifts)
        wrong = ((ahead != shifts[:, None]) & is_real).nonzero()
        if len(wrong):
            row, token = wrong[0].tolist()
            expected = int(positions[row, token] - ahead[row, token] + shifts[row])
            raise Unsupported(f"position_ids: row {row}, token {token} is at position "
                              f"{int(positions[row, token])}, expected {expected}: tokens that are "
                              "not padding must follow one another")
        return shifts

    def _full(self, is_real: torch.Tensor) -> OutOfPages:
        """What a step would have taken; pages that forks share and write come on top."""
        stats = self._runner.engine.cache_stats
        page = stats["page_size"]
        before = [len(sequence) for sequence in self._sequences] or [0] * len(is_real)
        needed = sum(-(-(old + new) // page) - -(-old // page)
                     for old, new in zip(before, is_real.sum(1).tolist()))
        return OutOfPages(
            f"the cache is full: a step of {int(is_real.sum())} tokens for {len(is_real)} rows "
            f"with {sum(before)} cached tokens takes at least {needed} pages of {page} tokens, and "
            f"{stats['free_pages']} of {stats['num_pages']} are free ({stats['num_sequences']} "
            "sequences live): drop other caches, or patch(model, num_pages=...)")

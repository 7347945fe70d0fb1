# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A package on a device: sequences of given lengths over pages in random order."""

import random

import mlac

# New tokens of one `advance` step; bounds the step metadata of every plan.
ADVANCE_TOKENS = 1 << 16

SCRAMBLED_PIECES = 512


class Session:
    """An engine whose cache rows are written from outside.

    total_tokens: room of the pool, in tokens of all sequences together.
    padding: unused rows behind every page (tests strides).
    """

    def __init__(self, path, spec, arrays, max_requests, max_seq_len, total_tokens, padding=0,
                 num_sms=0, seed=1):
        self.spec, self.arrays, self.padding = spec, arrays, padding
        # A sequence wastes less than a page.
        pages = total_tokens // spec.page + max_requests + 1
        self.device = mlac.Device(arrays.device)
        self.engine = mlac.Engine(
            mlac.Package(str(path)), self.device, max_num_requests=max_requests,
            max_num_tokens=ADVANCE_TOKENS, max_seq_len=max_seq_len, num_pages=pages,
            workspace_tokens=max_requests * spec.page, page_padding_tokens=padding,
            num_sms=num_sms)
        self.engine.prepare()
        self.max_requests = max_requests
        self.stride = spec.page + padding
        self.pool = arrays.rows_at(self.engine.cache_data(), pages * self.stride, *spec.row)
        self.advancing = self.engine.plan()
        self._scramble(pages, random.Random(seed))

    def _scramble(self, pages, generator):
        """Takes the pool's pages in pieces and gives them back in random order, so that
        tables are no ranges."""
        limit = self.engine.info["options"]["max_seq_len"] // self.spec.page
        share = max(1, min(pages // SCRAMBLED_PIECES, limit))
        holders = [self.engine.sequence() for _ in range(min(pages // share, SCRAMBLED_PIECES))]
        for holder in holders:
            holder.reserve(min(share, max(limit, 1)) * self.spec.page)
        generator.shuffle(holders)
        for holder in holders:
            holder.free()

    def sequences(self, lengths, shared=0, sharing=0):
        """New sequences with so many tokens (their cache rows unwritten); the first
        `sharing` ones begin with the same `shared` tokens, which fill whole pages."""
        sequences = [self.engine.sequence() for _ in lengths]
        if sharing:
            self._grow([(sequences[0], shared)])
            sequences[1:sharing] = [sequences[0].fork(shared) for _ in range(1, sharing)]
        self._grow([(sequence, length - shared * (index < sharing))
                    for index, (sequence, length) in enumerate(zip(sequences, lengths))])
        return sequences

    def _grow(self, growing):
        """Makes each sequence so many tokens longer, in steps as large as they may be."""
        step, tokens = [], 0
        for sequence, length in [*self._pieces(growing), (None, 0)]:
            if step and (sequence is None or tokens + length > ADVANCE_TOKENS
                         or len(step) == self.max_requests):
                self.advancing.fill([s for s, _ in step], [n for _, n in step], "advance")
                step, tokens = [], 0
            if length:
                step.append((sequence, length))
                tokens += length

    @staticmethod
    def _pieces(growing):
        """No piece is longer than a step, and no step has two of one sequence: all but
        the last piece fill a step."""
        for sequence, length in growing:
            while length > ADVANCE_TOKENS:
                yield sequence, ADVANCE_TOKENS
                length -= ADVANCE_TOKENS
            yield sequence, length

    def step(self, sequences, query_lens, plan=None):
        """A filled plan of the next step."""
        plan = plan or self.engine.plan()
        plan.fill(sequences, query_lens)
        return plan

    def rows(self, plan, lengths):
        """Physical rows in the pool of every token, request after request."""
        arrays = self.arrays
        table = arrays.ints(plan.metadata_view("block_table")).reshape(len(lengths), -1)
        counts = arrays.i64(lengths)
        request = arrays.repeat(arrays.arange(len(lengths)), counts)
        starts = counts.cumsum(0) - counts
        position = arrays.arange(sum(lengths)) - starts[request]
        page = table[request, position // self.spec.page]
        return page * self.stride + position % self.spec.page

    def split_query(self, query):
        """The inputs of a step by name, of queries [T, N, rank + rope]."""
        rank = self.spec.rank
        inputs = {"q_lat": self.arrays.contiguous(query[..., :rank])}
        if self.spec.rope:
            inputs["q_pe"] = self.arrays.contiguous(query[..., rank:])
        return inputs

    def outputs(self, tokens):
        """NaN-filled outputs of a step."""
        heads = self.spec.heads
        return {"output": self.arrays.nan((tokens, heads, self.spec.rank), self.spec.dtype),
                "lse": self.arrays.nan((tokens, heads), "f32")}

    def close(self):
        self.engine.close()

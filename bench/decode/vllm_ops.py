# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""FlashMLA and FlashAttention-3 as engines install them: torch operators of two libraries.

An operator is called as vLLM's own layers do it. Metadata is made ahead, as an engine
makes it once a step for all layers; `metadata()` makes it again. Everything may be
captured in a CUDA graph.
"""

import dataclasses
import importlib
import importlib.util
import os
import pathlib

import torch

RANK, ROPE = 512, 64
FLASHMLA_PAGE = 64


@dataclasses.dataclass(frozen=True)
class Peer:
    variable: str  # names a library or a package
    library: str  # in vLLM's package
    namespaces: tuple  # that may have the operators
    package: str = ""  # that is taken before vLLM's library


# SGLang's build ties with upstream 9241ae3; vLLM 0.26's takes 1.1 to 1.4 times as long (24 batches
# of 128, 64 and 16 heads in one process).
FLASHMLA = Peer("MLAC_FLASHMLA", "_flashmla_C.abi3.so", ("_flashmla_C", "flash_mla_legacy"),
                "flash_mla")
FA3 = Peer("MLAC_FA3", "vllm_flash_attn/_vllm_fa3_C.abi3.so", ("_vllm_fa3_C",))
# One operator by which a namespace is known to be there.
OPERATORS = ("dense_decode_fwd", "get_scheduler_metadata")


def installed(peer):
    """A package that is there, or the library in an installed vLLM, without importing vLLM."""
    if peer.package and importlib.util.find_spec(peer.package):
        return peer.package
    vllm = importlib.util.find_spec("vllm")
    path = vllm and vllm.origin and pathlib.Path(vllm.origin).parent / peer.library
    return path if path and path.exists() else None


def load(peer, given=None):
    """The operators of `given`, of what the variable names or of what is installed, or None.

    A name that ends in .so is a library, any other a package whose import registers them.
    What was named and cannot be loaded is an error; what is not installed is not.
    """
    source = given or os.environ.get(peer.variable) or installed(peer)
    if not source:
        return None
    if str(source).endswith(".so"):
        torch.ops.load_library(str(pathlib.Path(source).resolve()))
    else:
        importlib.import_module(str(source))
    for namespace in peer.namespaces:
        operators = getattr(torch.ops, namespace)
        if any(hasattr(operators, operator) for operator in OPERATORS):
            return operators
    raise RuntimeError(f"{source}: registers no operators in {' or '.join(peer.namespaces)}")


def valid_table(table, pages):
    """Entries behind a request's pages are out of range on purpose; peers may read them."""
    return torch.where((table < 0) | (table >= pages), torch.zeros_like(table), table).contiguous()


class FlashMlaBatch:
    """FlashMLA's dense decode of one batch: pages of 64 tokens."""

    def __init__(self, ops, query, pool, seq_lens, table, scale):
        """query [batch, query_len, heads, 576], pool [rows, 576]."""
        self.ops, self.query, self.seq_lens, self.scale = ops, query, seq_lens, scale
        self.cache = pool.view(-1, FLASHMLA_PAGE, 1, RANK + ROPE)
        self.table = valid_table(table, self.cache.shape[0])
        self.output = torch.full((*query.shape[:-1], RANK), float("nan"), dtype=query.dtype,
                                 device="cuda")
        self.lse = None  # [batch, query_len, heads], of the last call
        schema = ops.dense_decode_fwd.default._schema
        self.takes_output = schema.arguments[-1].name == "out_"
        self.metadata()

    def _call(self, *metadata):
        batch, query_len, heads, _ = self.query.shape
        # Other releases than vLLM's take no output.
        out = (self.output.view(batch, 1, query_len * heads, RANK),) if self.takes_output else ()
        output, lse, *made = self.ops.dense_decode_fwd(
            self.query, self.cache, RANK, self.seq_lens, self.table, self.scale, query_len > 1,
            *metadata, *out)
        if not out:
            self.output = output
        self.lse = lse.transpose(1, 2)
        return made

    def metadata(self):
        """It has no operator of its own: a step makes it where none is given."""
        self.made = self._call(None, None)

    def decode(self):
        self._call(*self.made)

    def decode_with_metadata(self):
        self._call(None, None)


class FlashMlaLists:
    """FlashMLA's decode over lists of rows of codes; with `far`, a second pool, also over lists of its rows."""

    def __init__(self, ops, query, cache, scale, lengths=None, sink=None, far=None, far_lengths=None,
                 model=None):
        """query [batch, 1, heads, width], cache and far [pages, page, 1, bytes]; lengths of lists [batch]."""
        self.ops, self.query, self.cache, self.far = ops, query, cache, far
        self.lengths, self.far_lengths, self.sink = lengths, far_lengths, sink
        self.scale, self.model = scale, model
        self.metadata = (None, None)  # of the first call

    def decode(self, rows, far_rows=None):
        """rows, far_rows int32 [batch, 1, entries]; returns [batch, 1, heads, RANK]."""
        output, _, *made = self.ops.sparse_decode_fwd(
            self.query, self.cache, rows, self.lengths, self.sink, *self.metadata, self.far,
            far_rows, self.far_lengths, RANK, self.scale, self.model)
        self.metadata = made[:2]
        return output


class Fa3Decode:
    """FA3's decode of one batch: K is the rope columns, V the latent columns of the same rows."""

    # How many pieces a request may have: vLLM's setting in graphs, its heuristic, none,
    # and what suits some shapes better.
    SPLITS = (32, 0, 1, 8)

    def __init__(self, ops, query, pool, seq_lens, table, scale, page, longest, splits=32,
                 is_dense=False):
        """query [batch, query_len, heads, 576]; is_dense: a query of four dimensions instead
        of rows with their starts."""
        self.ops, self.seq_lens, self.scale = ops, seq_lens, scale
        self.batch, self.query_len, self.heads, _ = query.shape
        self.page, self.longest, self.splits = page, longest, splits
        cache = pool.view(-1, page, 1, RANK + ROPE)
        self.values, self.keys = cache[..., :RANK], cache[..., RANK:]
        self.table = valid_table(table, cache.shape[0])
        rows = query if is_dense else query.flatten(0, 1)
        # Only the last dimension must be dense; what engines hand over is.
        self.latent, self.rope = rows[..., :RANK].contiguous(), rows[..., RANK:].contiguous()
        self.starts = None if is_dense else torch.arange(
            0, (self.batch + 1) * self.query_len, self.query_len, dtype=torch.int32, device="cuda")
        self.result = torch.full_like(self.latent, float("nan"))
        self.output = self.result.view(self.batch, self.query_len, self.heads, RANK)
        self.lse = None  # [batch, query_len, heads], of the last call
        self.metadata()

    def metadata(self):
        self.made = self.ops.get_scheduler_metadata(
            self.batch, self.query_len, self.longest, self.heads, 1, ROPE, RANK, torch.bfloat16,
            self.seq_lens, self.starts, None, None, None, None, self.page, 0, True, -1, -1, False,
            self.splits, None, 0)

    def decode(self):
        lse = fa3_forward(self.ops, self.rope, self.keys, self.values, self.result, self.scale,
                          query_latent=self.latent, query_starts=self.starts,
                          seq_lens=self.seq_lens, query_len=self.query_len,
                          longest=self.longest, table=self.table, made=self.made,
                          splits=self.splits)
        if self.starts is None:
            self.lse = lse.transpose(1, 2)
        else:
            self.lse = lse.transpose(0, 1).view(self.batch, self.query_len, self.heads)


def fa3_forward(ops, query, keys, values, output, scale, *, query_latent=None, query_starts=None,
                key_starts=None, seq_lens=None, query_len=None, longest=None, table=None,
                made=None, splits=0, window=0, is_causal=True):
    """The attention, causal unless told; returns the LSE, [heads, rows] or [batch, heads, rows]."""
    left, right = (window - 1, 0) if window else (-1, -1)
    results = ops.fwd(
        query, keys, values, None, None, query_latent, output, query_starts, key_starts, None, None,
        seq_lens, query_len, longest, table, None, None, None, None, None, None, None, None, scale,
        is_causal, left, right, 0.0, True, made, splits, None, 0, None, 1, 0, None)
    return results[1]


class Fa3Prefill:
    """FA3's attention over rows that lie request after request: causal over new tokens, or with
    `key_starts` over all keys of a chunk."""

    def __init__(self, ops, query, keys, values, starts, longest, scale, key_starts=None,
                 longest_keys=None):
        """query [tokens, heads, 192], keys [keys, heads, 192], values [keys, heads, 128]."""
        self.ops, self.query, self.keys, self.values = ops, query, keys, values
        self.starts, self.longest, self.scale = starts, longest, scale
        self.key_starts, self.longest_keys = key_starts, longest_keys
        self.output = values.new_full((*query.shape[:2], values.shape[-1]), float("nan"))
        self.lse = None  # [tokens, heads]

    def launch(self):
        is_causal = self.key_starts is None
        lse = fa3_forward(self.ops, self.query, self.keys, self.values, self.output, self.scale,
                          query_starts=self.starts, query_len=self.longest, is_causal=is_causal,
                          key_starts=self.starts if is_causal else self.key_starts,
                          longest=self.longest if is_causal else self.longest_keys)
        self.lse = lse.transpose(0, 1)

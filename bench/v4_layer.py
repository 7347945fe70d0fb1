#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times whole DeepSeek-V4 layers of all three kinds, decode, next to torch and FlashMLA.

    python3 bench/v4_layer.py build DIR                        # packages; needs mla-compile, no GPU
    python3 bench/v4_layer.py run DIR --flashmla LIBRARY       # needs a GPU and torch

A step is one CUDA graph from hidden states to output; contestants alternate in one process. Request i has i + 1 tokens fewer than the
context, so that one token of 4 and one of 128 closes an entry, as in an engine. The composition has torch.mm for the projections, joined as engines join them (latents; those of
both compressors and of the indexer's weights), one norm, scores, torch.topk (unsorted), FlashMLA's decode over V4's records with its metadata made
beforehand, torch.bmm for the groups of heads and torch.mm for the output. `torch` leaves out the norm of each head,
RoPE and its inverse, appends and quantisation and compressors behind their products, which mlac's step includes: ratios to it are lower bounds. `torch whole` has
these as kernels in Triton (fused.py). Both get lists of windows and of all entries that were made before. mlac's kernel of scores stands in for DeepGEMM's, in the composition too. mlac reads rows of bf16, 1024 bytes,
FlashMLA records of 584 bytes. "two streams" have compressors and indexer beside the queries, on both sides.
"""

import compositions  # which knows the folders of the others
import formats
import layer_points
import program
import scores

HIDDEN, HEADS, WIDTH, Q_RANK, PAGE = 4096, 64, 512, 1024, 64
ROPE, GROUPS, O_RANK, WINDOW, TOP_K = 64, 8, 1024, 128, 512
# A layer of each kind, and tokens of an entry.
KINDS = {"window": (0, 0), "ratio4": (2, 4), "ratio128": (3, 128)}
INDEX_FACTOR = (scores.HEADS * scores.WIDTH) ** -0.5
INDEX_ROPE_AT = 64
MODES = {"mlac": ["--overlap-tokens=0"], "mlac, two streams": [f"--overlap-tokens={compositions.OVERLAP_TOKENS}"]}


def lengths_of(context, batch):
    return [context - 1 - request for request in range(batch)]


def file_of(kind, mode):
    return f"{kind}_{'one' if mode == 'mlac' else 'two'}"


def build(options):
    for kind in options.kinds:
        for mode, more in MODES.items():
            compositions.compile_package(
                options, compositions.CONFIGS / "deepseek_v4.json", file_of(kind, mode),
                "--functions=decode", f"--layer={KINDS[kind][0]}", *more)
    layer_points.build_scores(options)


class Records:
    """Entries of requests as FlashMLA's decode reads them."""

    def __init__(self, requests, rows, device):
        import torch

        self.pages_each = -(-rows // PAGE)
        pages = requests * self.pages_each
        self.memory = torch.empty(pages, PAGE * formats.RECORD_BYTES, dtype=torch.uint8,
                                  device=device)
        for piece in self.memory.split(1 << 11):
            formats.fill_records(torch, piece, PAGE)
        self.pages = self.memory.view(torch.float8_e4m3fn).view(pages, PAGE, 1,
                                                                formats.RECORD_BYTES)
        self.order = torch.randperm(pages, device=device)

    def table_of(self, requests):
        return self.order[:requests * self.pages_each].view(requests, -1)

    def rows_of(self, positions):
        """Of positions of each request [requests, entries]: int32 [requests, 1, entries]."""
        pages = self.table_of(len(positions)).gather(1, positions // PAGE)
        return (pages * PAGE + positions % PAGE).int()[:, None].contiguous()


class V4Composition(compositions.Composition):
    """The step by torch and FlashMLA."""

    def __init__(self, kind, layer, weights, index, near, far, hidden, kernels, peer, fused=None):
        import torch
        import vllm_ops

        self.torch, self.hidden, self.kernels, self.fused = torch, hidden, kernels, fused
        self.batch, device, w = len(hidden), hidden.device.type, weights
        self.w_down = torch.cat([w["q_a_proj.weight"], w["kv_proj.weight"]]).T
        self.gamma, self.w_q = w["q_a_norm.weight"], w["q_b_proj.weight"].T
        self.w_groups = w["o_a_proj.weight"].view(GROUPS, O_RANK, -1).transpose(1, 2)
        self.w_o = w["o_b_proj.weight"].T
        make = lambda *shape: compositions.empty(device, self.batch, *shape)
        self.row, self.latent = make(Q_RANK + WIDTH), make(Q_RANK)
        self.query, self.grouped = make(HEADS * WIDTH), make(GROUPS * O_RANK)
        self.output = make(HIDDEN)
        self.make_side(device)
        aside = [tensor for name, tensor in w.items()
                 if name.startswith("compressor.") and tensor.dim() == 2 and
                 tensor.shape[1] == HIDDEN]
        self.w_aside = torch.cat(aside).T if aside else None
        self.row_aside = make(self.w_aside.shape[1]) if aside else None
        self.index, entries, every = index, None, KINDS[kind][1]
        self.has_side = bool(aside)  # a window alone has nothing beside
        table = None
        if index:
            self.w_index_q = w["compressor.indexer.q_b_proj.weight"].T
            self.index_query = make(self.w_index_q.shape[1])
            table = scores.random_table(torch, index.pages, self.batch, index.keys)
            self.scores = index.scores_of(self.batch)
            self.score = index.launch_of("decode", table, scores=self.scores)
            entries = min(TOP_K, index.keys)
            self.largest = (torch.empty(self.batch, entries, device=device),
                            torch.empty(self.batch, entries, dtype=torch.int64, device=device))
        lengths = torch.tensor(lengths_of(layer.context, self.batch), device=device)
        self.make_lists(layer.context, every, entries, near, far, device)
        self.attention = None
        if peer:
            count = lambda n: torch.full((self.batch,), n, dtype=torch.int32, device=device)
            self.attention = vllm_ops.FlashMlaLists(
                peer, self.query.view(self.batch, 1, HEADS, WIDTH), near.pages, WIDTH ** -0.5,
                count(WINDOW), w["sinks"].float(), far.pages if far else None,
                self.count_entries(lengths, every) if far else None, "V4")
        if fused:
            self.make_places(layer, w, table, near, far, every, lengths - 1)

    def count_entries(self, lengths, every):
        return (lengths // every).clamp(max=self.far_rows.shape[2]).int()

    def make_places(self, layer, w, table, near, far, every, positions):
        """What kernels between products read and write."""
        torch, fused, batch, device = self.torch, self.fused, self.batch, self.hidden.device.type
        self.token, self.every = fused.Token(positions), every
        make = lambda *shape: torch.zeros(batch, *shape, device=device)
        self.window, self.window_slots = fused.Pages(near.memory), self.near_rows[:, 0, -1].long()
        self.key_gamma, self.scratch, self.compressors = w["kv_norm.weight"], make(WIDTH), []
        self.touched = []
        if every:
            entry = positions[:, None] // every
            self.add_compressor(w, "compressor", fused.Pages(far.memory),
                                far.rows_of(entry)[:, 0, 0].long())
        if self.index:
            self.table = far.table_of(batch).int().contiguous()
            pages = table.to(device).long().gather(1, entry // PAGE)[:, 0]
            slots, self.touched = pages * PAGE + entry[:, 0] % PAGE, [("index", pages)]
            self.add_compressor(w, "compressor.indexer", fused.Pages(layer.pools["index"]), slots)
            self.codes = self.index.query[:batch].view(torch.float8_e4m3fn)
            self.factors = self.index.weights[:batch]

    def add_compressor(self, w, prefix, pages, slots):
        """Its columns of the joined product begin behind those of the one before."""
        bias, gamma = w[f"{prefix}.position_bias"], w[f"{prefix}.kv_norm.weight"]
        columns = bias.shape[1]
        rows = self.every * columns // gamma.numel()
        offset = sum(one["width"] for one in self.compressors)
        make = lambda *shape: self.torch.zeros(self.batch, *shape, device=slots.device)
        self.compressors.append({
            "offset": offset, "width": 2 * columns, "bias": bias, "gamma": gamma, "pages": pages,
            "slots": slots, "states": make(rows, 2, columns).normal_(), "scratch": make(gamma.numel())})

    def compress(self, index):
        one = self.compressors[index]
        self.fused.compress(self.token, self.row_aside, one["offset"], one["bias"], one["states"],
                            one["gamma"], one["scratch"], one["pages"], one["slots"],
                            compositions.EPS, self.every, is_key=index == 1)

    def make_lists(self, context, every, selected, near, far, device):
        """The window of each request; of its entries those that torch.topk selects of random scores, or all."""
        torch, batch = self.torch, self.batch
        self.near_rows = near.rows_of(
            torch.randint(0, PAGE, (batch, 1), device=device) + torch.arange(WINDOW, device=device))
        self.far_rows = None
        if every:
            entries = torch.arange(context // every, device=device).expand(batch, -1)
            if selected:
                random = torch.rand(entries.shape, device=device)
                entries = torch.topk(random, selected, dim=1, sorted=False).indices
            self.far_rows = far.rows_of(entries)

    def down(self):
        self.torch.mm(self.hidden, self.w_down, out=self.row)
        compositions.rms_norm(self.kernels, self.row[:, :Q_RANK], self.gamma, self.latent)

    def beside(self):
        torch = self.torch
        if self.w_aside is not None:
            torch.mm(self.hidden, self.w_aside, out=self.row_aside)
            if self.fused:
                for index in reversed(range(len(self.compressors))):
                    self.compress(index)
        if self.index:
            self.select()

    def select(self):
        torch, fused = self.torch, self.fused
        torch.mm(self.latent, self.w_index_q, out=self.index_query)
        if fused:
            offset = sum(one["width"] for one in self.compressors)
            fused.index_query(self.token, self.index_query, self.row_aside, offset, self.codes,
                              self.factors, INDEX_FACTOR, scores.HEADS, INDEX_ROPE_AT, fused.INTERLEAVED)
        self.score()
        torch.topk(self.scores[:, :self.index.keys], self.far_rows.shape[2], dim=1, sorted=False,
                   out=self.largest)
        if fused:
            fused.rows_of(self.largest[1], self.table, self.far_rows)

    def queries(self):
        self.torch.mm(self.latent, self.w_q, out=self.query)
        if self.fused:
            self.fused.heads_and_key(self.token, self.query, self.row, Q_RANK, self.key_gamma,
                                     self.scratch, self.window, self.window_slots,
                                     compositions.EPS, HEADS)

    def attend(self):
        means = self.query.view(self.batch, HEADS, WIDTH)
        if self.attention:
            means = self.attention.decode(self.near_rows, self.far_rows)
        if self.fused:
            self.fused.rotate(self.token, means, means, HEADS, WIDTH, WIDTH - ROPE, WIDTH, WIDTH - ROPE,
                              inverse=True)
        groups = means.view(self.batch, GROUPS, HEADS // GROUPS * WIDTH).transpose(0, 1)
        self.torch.bmm(groups, self.w_groups,
                       out=self.grouped.view(self.batch, GROUPS, O_RANK).transpose(0, 1))
        self.torch.mm(self.grouped, self.w_o, out=self.output)


def run_point(kind, layers, parts, weights, batch, kernels, peer, options):
    import torch

    hidden = torch.randn(batch, HIDDEN, device=options.device).bfloat16()
    for layer in layers.values():
        layer.begin(hidden, lengths_of(layer.context, batch))
    layer = layers["mlac"]

    def make(fused):
        return V4Composition(kind, layer, weights, *parts, hidden, kernels, peer, fused)

    def describe(times):
        return f"{kind:8} {layer.context:7} x {batch:3}", ""

    return layer_points.run_point({"kind": kind, "context": layer.context, "batch": batch}, layers,
                                  make, kernels, options, describe)


def run_kind(kind, context, device, kernels, peer, options):
    import mlac

    paths = {mode: options.directory / f"{file_of(kind, mode)}.mlac" for mode in MODES}
    weights = compositions.random_weights(mlac.Package(str(paths["mlac"])), options.device)
    host, most, every = compositions.on_host(weights), max(options.batch), KINDS[kind][1]
    layers = {mode: compositions.FilledLayer(path, device, host, most, context)
              for mode, path in paths.items()}
    near = Records(most, WINDOW + PAGE, options.device)
    far = Records(most, context // every, options.device) if every else None
    index = None
    if "index" in layers["mlac"].pools:
        index = scores.IndexSteps(options.directory / "scores.mlac", device,
                                  layers["mlac"].pools["index"], most, context // every)
    rows = [run_point(kind, layers, (index, near, far), weights, batch, kernels, peer, options)
            for batch in options.batch]
    layer_points.close(layers, index, options)
    return rows


def run(options):
    def rows_of(context, device, kernels, peer):
        return [row for kind in options.kinds
                for row in run_kind(kind, context, device, kernels, peer, options)]

    return layer_points.run(options, rows_of)


def add_options(parser):
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))


if __name__ == "__main__":
    program.run(lambda: layer_points.main(__doc__, build, run, add_options))

#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times a whole DeepSeek-V3.2 layer, decode over rows of 656 bytes, next to torch and FlashMLA.

    python3 bench/sparse_layer.py build DIR                        # packages; needs mla-compile, no GPU
    python3 bench/sparse_layer.py run DIR --flashmla LIBRARY       # needs a GPU and torch

A step is one CUDA graph from hidden states to output; contestants alternate in one process. The composition has
torch.mm for the projections, joined as engines join them (latents; keys and weights of the indexer), one norm,
torch.bmm for the absorbed products, scores, torch.topk (unsorted) and FlashMLA's sparse decode with its metadata
made beforehand. `torch` leaves out RoPE, both norms of keys, both appends, the quantisation of queries and of rows and the conversion
of positions to rows, which mlac's step includes: FlashMLA gets lists that were made before, and ratios to it are lower bounds. `torch whole` has these as
kernels in Triton (fused.py). DeepGEMM is not run: mlac's kernel of
scores stands in for it, which also runs alone so that published times can be put in its place. "two streams" have the indexer beside the queries,
on both sides. `dense` is DeepSeek-V3's layer over as many tokens.
"""

import compositions  # which knows the folders of the others
import formats
import layer_points
import program
import scores

HIDDEN, HEADS, NOPE, ROPE, VALUE, Q_RANK, KV_RANK, PAGE = 7168, 128, 128, 64, 128, 1536, 512, 64
TOP_K, WIDTH = 2048, KV_RANK + ROPE
CODES = "fp8_ds_mla"
INDEX_FACTOR = (scores.HEADS * scores.WIDTH) ** -0.5
SPARSE = ("deepseek_v32.json", f"--cache-format={CODES}")
PACKAGES = {"mlac": SPARSE,
            "mlac, two streams": (*SPARSE, f"--overlap-tokens={compositions.OVERLAP_TOKENS}"),
            "dense": ("deepseek_v3.json",),
            "dense, codes": ("deepseek_v3.json", f"--cache-format={CODES}")}
# DeepGEMM's published times of scores on an H200, us, of so many requests of 131072 tokens.
DEEPGEMM = {1: 7.7, 16: 73.0, 128: 546.0}
DEEPGEMM_CONTEXT = 131072


def file_of(name):
    return name.replace(", ", "_").replace(" ", "_")


def build(options):
    for name, (config, *more) in PACKAGES.items():
        compositions.compile_package(options, compositions.CONFIGS / config, file_of(name),
                                     "--functions=decode", *more)
    layer_points.build_scores(options)


class SparseComposition(compositions.Composition):
    """The step by torch and FlashMLA, over the pools of a mlac layer."""

    def __init__(self, layer, weights, index, hidden, kernels, peer, fused=None):
        import torch
        import vllm_ops

        self.torch, self.hidden, self.kernels, self.fused = torch, hidden, kernels, fused
        batch, device = len(hidden), hidden.device.type
        self.batch, w = batch, {name: tensor for name, tensor in weights.items()}
        self.w_down = torch.cat([w["q_a_proj.weight"], w["kv_a_proj_with_mqa.weight"]]).T
        self.w_index = torch.cat([w["indexer.wk.weight"], w["indexer.weights_proj.weight"]]).T
        self.gamma, self.w_q = w["q_a_layernorm.weight"], w["q_b_proj.weight"].T
        self.w_index_q, self.w_o = w["indexer.wq_b.weight"].T, w["o_proj.weight"].T
        kv_b = w["kv_b_proj.weight"].view(HEADS, NOPE + VALUE, KV_RANK)
        self.w_uk = kv_b[:, :NOPE].contiguous()
        self.w_uv = kv_b[:, NOPE:].contiguous().transpose(1, 2)
        make = lambda *shape: compositions.empty(device, batch, *shape)
        self.row, self.latent = make(Q_RANK + WIDTH), make(Q_RANK)
        self.query, self.index_row = make(HEADS * (NOPE + ROPE)), make(self.w_index.shape[1])
        self.index_query = make(self.w_index_q.shape[1])
        self.value, self.output = make(HEADS * VALUE), make(HIDDEN)
        # Without RoPE these columns are as they would come.
        self.absorbed = torch.randn(batch, 1, HEADS, WIDTH, device=device).bfloat16()
        self.make_side(device)
        pages = min(len(pool) for pool in layer.pools.values())
        table = scores.random_table(torch, pages, batch, layer.context)
        self.scores = index.scores_of(batch)
        self.score = index.launch_of("decode", table, scores=self.scores)
        width = min(TOP_K, layer.context)
        self.largest = (torch.empty(batch, width, device=device),
                        torch.empty(batch, width, dtype=torch.int64, device=device))
        self.rows = list_rows(layer, table, width, device)
        rows = layer.pools["cache"].view(-1, formats.ROW_BYTES[CODES])
        self.attention = peer and vllm_ops.FlashMlaLists(
            peer, self.absorbed, rows.view(torch.float8_e4m3fn).view(-1, PAGE, 1, rows.shape[1]),
            (NOPE + ROPE) ** -0.5)

        if fused:
            self.make_places(layer, weights, index, table, rows)

    def make_places(self, layer, weights, index, table, rows):
        """What kernels between products read and write."""
        torch, device, last = self.torch, self.hidden.device.type, layer.context - 1
        self.token = self.fused.Token(torch.full((self.batch,), last, device=device))
        self.table = table.to(device)
        self.touched = [(name, self.table[:, -1].long()) for name in ("cache", "index")]
        self.slots = self.table[:, -1].long() * PAGE + last % PAGE
        self.latents, self.keys = self.fused.Pages(rows), self.fused.Pages(layer.pools["index"])
        self.scratch = torch.empty(self.batch, scores.WIDTH, device=device)
        self.norms = [weights[name] for name in ("kv_a_layernorm.weight", "indexer.k_norm.weight",
                                                 "indexer.k_norm.bias")]
        self.codes = index.query[:self.batch].view(torch.float8_e4m3fn)
        self.factors = index.weights[:self.batch]

    def down(self):
        self.torch.mm(self.hidden, self.w_down, out=self.row)
        compositions.rms_norm(self.kernels, self.row[:, :Q_RANK], self.gamma, self.latent)

    def beside(self):
        torch, fused = self.torch, self.fused
        torch.mm(self.hidden, self.w_index, out=self.index_row)
        if fused:
            fused.append_key(self.token, self.index_row, *self.norms[1:], self.scratch, self.keys,
                             self.slots, compositions.EPS)
        torch.mm(self.latent, self.w_index_q, out=self.index_query)
        if fused:
            fused.index_query(self.token, self.index_query, self.index_row, scores.WIDTH, self.codes,
                              self.factors, INDEX_FACTOR, scores.HEADS, 0, fused.HALVES)
        self.score()
        torch.topk(self.scores, self.rows.shape[2], dim=1, sorted=False, out=self.largest)
        if fused:
            fused.rows_of(self.largest[1], self.table, self.rows)

    def queries(self):
        if self.fused:
            self.fused.append_latent(self.token, self.row, Q_RANK, self.norms[0], self.latents,
                                     self.slots, compositions.EPS)
        self.torch.mm(self.latent, self.w_q, out=self.query)
        if self.fused:
            self.fused.rotate(self.token, self.query, self.absorbed, HEADS, NOPE + ROPE, NOPE, WIDTH,
                              KV_RANK)
        nope = self.query.view(self.batch, HEADS, NOPE + ROPE)[..., :NOPE]
        self.torch.bmm(nope.transpose(0, 1), self.w_uk,
                       out=self.absorbed[:, 0, :, :KV_RANK].transpose(0, 1))

    def attend(self):
        means = self.absorbed[..., :KV_RANK]
        if self.attention:
            means = self.attention.decode(self.rows)
        self.torch.bmm(means[:, 0].transpose(0, 1), self.w_uv,
                       out=self.value.view(self.batch, HEADS, VALUE).transpose(0, 1))
        self.torch.mm(self.value, self.w_o, out=self.output)


def list_rows(layer, table, width, device):
    """Rows that torch.topk of random scores selects, in its order: int32 [requests, 1, width]."""
    import torch

    random = torch.rand(len(table), layer.context, device=device)
    positions = torch.topk(random, width, dim=1, sorted=False).indices
    pages = table.to(device).long().gather(1, positions // PAGE)
    return (pages * PAGE + positions % PAGE).int()[:, None].contiguous()


def at_published(times, batch, context):
    """The composition with DeepGEMM's published time for scores, over mlac's: text."""
    if context != DEEPGEMM_CONTEXT or batch not in DEEPGEMM:
        return ""
    text = f"  with DeepGEMM's published {DEEPGEMM[batch]} us"
    for peers in layer_points.PEERS:
        if peers[0] in times:
            peer = times[peers[0]].cool - times["scores"].cool + DEEPGEMM[batch]
            text += f", {peers[0]} {peer:.1f}: " + ", ".join(f"{peer / times[name].cool:.2f}"
                                                           for name in layer_points.OWN)
    return text


def run_point(layers, index, weights, batch, kernels, peer, options):
    import torch

    hidden = torch.randn(batch, HIDDEN, device=options.device).bfloat16()
    for layer in layers.values():
        layer.begin(hidden)
    layer = layers["mlac"]

    def make(fused):
        return SparseComposition(layer, weights, index, hidden, kernels, peer, fused)

    def describe(times):
        return (f"{layer.context:7} x {batch:3}",
                f"  dense / mlac {times['dense'].cool / times['mlac'].cool:.2f}"
                f"{at_published(times, batch, layer.context)}")

    return layer_points.run_point({"context": layer.context, "batch": batch}, layers, make, kernels,
                                  options, describe)


def run(options):
    import mlac

    paths = {name: options.directory / f"{file_of(name)}.mlac" for name in PACKAGES}
    drawn = {}

    def rows_of(context, device, kernels, peer):
        if not drawn:
            drawn["weights"] = compositions.random_weights(mlac.Package(str(paths["mlac"])),
                                                           options.device)
            drawn["host"] = compositions.on_host(drawn["weights"])
        most = max(options.batch)
        layers = {name: compositions.FilledLayer(path, device, drawn["host"], most, context)
                  for name, path in paths.items()}
        index = scores.IndexSteps(options.directory / "scores.mlac", device,
                                  layers["mlac"].pools["index"], most, context)
        rows = [run_point(layers, index, drawn["weights"], batch, kernels, peer, options)
                for batch in options.batch]
        layer_points.close(layers, index, options)
        return rows

    return layer_points.run(options, rows_of)


if __name__ == "__main__":
    program.run(lambda: layer_points.main(__doc__, build, run))

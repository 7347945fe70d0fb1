#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times a whole DeepSeek-V3 layer, decode, next to torch's products and FlashMLA.

    python3 bench/layer.py build DIR     # the package; needs mla-compile, no GPU
    python3 bench/layer.py run DIR       # needs a GPU and torch; FlashMLA if vLLM is installed

A step is one CUDA graph from hidden states to output; contestants alternate in one process.
The composition has torch.matmul for each projection, torch.bmm for the absorbed products,
rms_norm and FlashMLA's decode with its metadata made beforehand. It leaves out RoPE and the
append, which mlac's step includes. The floor is the bytes of weights and cache rows over
the read stream of the same run, or the FLOPs over the matrix product where those take longer,
product by product.
"""

import json
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "python"), str(ROOT / "bench"), str(ROOT / "bench/decode")]

import compositions  # noqa: E402
import program  # noqa: E402

HIDDEN, HEADS, NOPE, ROPE, VALUE, Q_RANK, KV_RANK, PAGE = 7168, 128, 128, 64, 128, 1536, 512, 64
WIDTH = KV_RANK + ROPE
# (out, in) of what is multiplied per token, and of how many heads.
PRODUCTS = {"q_a": (Q_RANK, HIDDEN, 1), "q_b": (HEADS * (NOPE + ROPE), Q_RANK, 1),
            "kv_a": (WIDTH, HIDDEN, 1), "w_uk": (KV_RANK, NOPE, HEADS),
            "w_uv": (VALUE, KV_RANK, HEADS), "o": (HIDDEN, HEADS * VALUE, 1)}


def build(options):
    compositions.compile_package(options, compositions.CONFIGS / "deepseek_v3.json", "layer",
                                 *options.option)
    compositions.copy_runtime(options)


class Layer:
    """mlac's step and torch's on the same weights and the same cache."""

    def __init__(self, package, batch, context, weights):
        import mlac
        import torch
        from arrays import TorchArrays

        self.batch, self.context = batch, context
        pages = batch * (context // PAGE + 1) + 1
        self.engine = mlac.Engine(mlac.Package(str(package)), mlac.Device("cuda"),
                                  max_num_requests=max(batch, 1), max_num_tokens=context,
                                  max_seq_len=context + PAGE, num_pages=pages)
        self.engine.bind(compositions.on_host(weights))
        self.engine.prepare()
        self.pool = TorchArrays().rows_at(self.engine.cache_data(), pages * PAGE, WIDTH, "bf16")
        self.pool.normal_().mul_(0.1)
        sequences = [self.engine.sequence() for _ in range(batch)]
        filling = self.engine.plan()
        for sequence in sequences:  # makes them longer; the rows are random already
            filling.fill([sequence], [context - 1])
        self.sequences, self.plan = sequences, self.engine.plan()
        self.plan.fill(sequences, [1] * batch)
        make = lambda: torch.randn(batch, HIDDEN, device="cuda").bfloat16()
        self.hidden, self.output = make(), make().fill_(float("nan"))

    def launch(self):
        import torch

        self.plan.run_bound(stream=torch.cuda.current_stream(), hidden=self.hidden,
                            output=self.output)


class Composition:
    """The same step by torch and FlashMLA."""

    def __init__(self, layer, weights, peer):
        import torch
        import vllm_ops

        self.torch, self.layer = torch, layer
        self.w = {name.split(".")[0]: tensor for name, tensor in weights.items()}
        kv_b = self.w["kv_b_proj"].view(HEADS, NOPE + VALUE, KV_RANK)
        self.w_uk, self.w_uv = kv_b[:, :NOPE].contiguous(), kv_b[:, NOPE:].contiguous()
        table = torch.frombuffer(layer.plan.metadata_view("block_table"), dtype=torch.int32)
        table = table.reshape(layer.batch, -1).cuda()
        seq_lens = torch.full((layer.batch,), layer.context, dtype=torch.int32, device="cuda")
        self.query = torch.zeros(layer.batch, 1, HEADS, WIDTH, dtype=torch.bfloat16, device="cuda")
        self.attention = peer and vllm_ops.FlashMlaBatch(
            peer, self.query, layer.pool, seq_lens, table, (NOPE + ROPE) ** -0.5)

    def launch(self):
        torch, w, batch = self.torch, self.w, self.layer.batch
        norm = torch.nn.functional.rms_norm
        latent = norm(self.layer.hidden @ w["q_a_proj"].T, (Q_RANK,), w["q_a_layernorm"])
        query = (latent @ w["q_b_proj"].T).view(batch, HEADS, NOPE + ROPE)
        row = self.layer.hidden @ w["kv_a_proj_with_mqa"].T
        norm(row[:, :KV_RANK], (KV_RANK,), w["kv_a_layernorm"])
        absorbed = torch.bmm(query[..., :NOPE].transpose(0, 1), self.w_uk)
        self.query[:, 0, :, :KV_RANK] = absorbed.transpose(0, 1)
        self.query[:, 0, :, KV_RANK:] = query[..., NOPE:]
        out = self.query[:, 0, :, :KV_RANK]
        if self.attention:
            self.attention.decode()
            out = self.attention.output.view(batch, HEADS, KV_RANK)
        value = torch.bmm(out.transpose(0, 1), self.w_uv.transpose(1, 2))
        value.transpose(0, 1).reshape(batch, HEADS * VALUE) @ w["o_proj"].T


def floor_seconds(batch, context, limits):
    """Sum over the layer's steps of the larger of bytes and FLOPs over their ceilings."""
    read, matmul = limits["read_bytes_per_s"], limits["matmul_flops_per_s"]
    seconds = lambda bytes_, flops: max(bytes_ / read, flops / matmul)
    total = sum(seconds(2 * n * k * heads, 2 * batch * n * k * heads)
                for n, k, heads in PRODUCTS.values())
    return total + seconds(2 * batch * context * WIDTH,
                           2 * batch * context * HEADS * (WIDTH + KV_RANK))


def random_weights():
    import torch

    torch.manual_seed(1)
    make = lambda *shape: (torch.randn(*shape, device="cuda") / shape[-1] ** 0.5).bfloat16()
    ones = lambda n: torch.ones(n, dtype=torch.bfloat16, device="cuda")
    return {"q_a_proj.weight": make(Q_RANK, HIDDEN), "q_a_layernorm.weight": ones(Q_RANK),
            "q_b_proj.weight": make(HEADS * (NOPE + ROPE), Q_RANK),
            "kv_a_proj_with_mqa.weight": make(WIDTH, HIDDEN),
            "kv_a_layernorm.weight": ones(KV_RANK),
            "kv_b_proj.weight": make(HEADS * (NOPE + VALUE), KV_RANK),
            "o_proj.weight": make(HIDDEN, HEADS * VALUE)}


def run(options):
    compositions.use_runtime(options)
    import ceilings
    import torch
    import vllm_ops
    from turns import Contestant, run_rounds, sustain

    peer = vllm_ops.load(vllm_ops.FLASHMLA, options.flashmla)
    limits = ceilings.measure_ceilings(ceilings.ReadStream())
    print(f"read stream {limits['read_bytes_per_s'] / 1e9:.0f} GB/s, bf16 product "
          f"{limits['matmul_flops_per_s'] / 1e12:.0f} TFLOP/s, "
          f"{'FlashMLA' if peer else 'no attention'} in the composition", flush=True)
    weights, rows = random_weights(), []
    packages = {"layer": options.directory / "layer.mlac", **{str(p): p for p in options.also}}
    for batch in options.batch:
        layers = [Layer(path, batch, options.context, weights) for path in packages.values()]
        composition = Composition(layers[0], weights, peer)
        torch.cuda.synchronize()
        contestants = [Contestant(name, [launch]) for name, launch in
                       [(name, layer.launch) for name, layer in zip(packages, layers)]
                       + [("torch", composition.launch)]]
        run_rounds(contestants, options.rounds)
        if options.sustain:
            sustain(contestants, options.sustain)
        floor = floor_seconds(batch, options.context, limits)
        times = {one.name: one.median * 1e6 for one in contestants}
        sustained = {one.name: statistics.median(one.sustained) * 1e6 for one in contestants
                     if one.sustained}
        isright = bool(layers[0].output.isfinite().all())
        rows.append({"batch": batch, "floor_us": floor * 1e6, "us": times, "sustained_us": sustained,
                     "finite": isright})
        print(f"batch {batch:4} floor {floor * 1e6:7.1f} us  "
              + "  ".join(f"{name} {value:7.1f} us" for name, value in times.items())
              + f"  {floor * 1e6 / times['layer']:.3f} of the floor, "
              f"{times['torch'] / times['layer']:.3f}x torch "
              + (f"({sustained['torch'] / sustained['layer']:.3f}x sustained) " if sustained else "")
              + f"{'' if isright else 'NOT FINITE'}",
              flush=True)
        if options.profile:
            compositions.profile_launches(layers[0], composition)
        contestants = composition = None
        for layer in layers:
            layer.engine.close()
        torch.cuda.empty_cache()
    if options.out:
        options.out.write_text(json.dumps({"ceilings": limits, "rows": rows}, indent=1))


def main():
    parser = program.make_parser(__doc__)
    parser.add_argument("--flashmla", metavar="LIBRARY",
                        help="vLLM's _flashmla_C.abi3.so or a package (default: MLAC_FLASHMLA, "
                        "the installed one)")
    parser.add_argument("--sustain", type=float, default=0.8, metavar="SECONDS",
                        help="that each contestant runs in turns without a pause; 0: not at all")
    parser.add_argument("--option", action="append", default=[], help="for mla-compile")
    parser.add_argument("--also", nargs="*", type=pathlib.Path, default=[],
                        help="packages of other builds, in the same rounds")
    parser.add_argument("--batch", nargs="*", type=int, default=[1, 16, 64, 128])
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, help="raw numbers as JSON")
    options = parser.parse_args()
    build(options) if options.command == "build" else run(options)


if __name__ == "__main__":
    program.run(main)

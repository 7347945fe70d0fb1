#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times a prefill of new tokens on cached ones next to torch's products and cuDNN's attention.

    python3 bench/chunked.py build DIR    # packages; needs mla-compile, no GPU
    python3 bench/chunked.py run DIR      # needs a GPU and torch

A step is a DeepSeek-V3 layer from hidden states to output: 4096 new tokens on 65536 cached, in
one chunk or in those that `--workspace` tokens make, with 128 heads and with the 16 of one rank
in eight; `--also` lets another compiler's packages run by turns with them. The composition has torch.matmul
for each projection, rms_norm, an index of the cache's pages, torch.matmul for keys and values of
the chunk, cuDNN's attention over the chunk and over the new tokens with LSEs, and their merge. It
leaves out RoPE and the append, which mlac's step includes. Then: both forms of the attention on
both sides of their crossover, beside the cost model's choice, with 128 and with 16 heads, and the
merge's bandwidth.
"""

import itertools
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "python"), str(ROOT / "bench/decode")]

import module  # noqa: E402
import program  # noqa: E402
from turns import race  # noqa: E402

CONFIG = ROOT / "test/data/configs/deepseek_v3.json"
HIDDEN, NOPE, ROPE, VALUE, Q_RANK, KV_RANK, PAGE = 7168, 128, 64, 128, 1536, 512, 64
WIDTH, HEAD = KV_RANK + ROPE, NOPE + ROPE
# YaRN's factor of 40 enters the softmax's scale (docs/spec/mla.md section 4).
SCALE = HEAD ** -0.5 * (0.1 * math.log(40) + 1) ** 2
NEW, CACHED = 4096, 65536
# New and cached tokens of one request; the model's crossover is at about 171 new ones.
CROSSOVER = ((64, 4096), (128, 4096), (192, 4096), (256, 4096),
             (64, 32768), (128, 32768), (256, 32768), (512, 32768))
# Few tiles of queries, so that keys of a chunk are split.
RANK_CROSSOVER = ((128, 4096), (256, 4096), (512, 4096), (128, 16384), (256, 16384), (512, 16384),
                  (1024, 16384), (1536, 16384), (256, 65536), (512, 65536))
POINTS = {128: CROSSOVER, 16: RANK_CROSSOVER}
MERGE_TOKENS = (512, 2048, 8192)
FORMS = ("expanded", "absorbed")
ALLOWED = 0.02  # of the norm, between two computations with bf16 intermediates

MERGE = """\
!partial = tensor<?x128x128xf32>
!result = tensor<?x128x128xbf16>
!lse = tensor<?x128xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @merge(%a: !partial {mla.input = "a"}, %a_lse: !lse {mla.input = "a_lse"},
                 %b: !partial {mla.input = "b"}, %b_lse: !lse {mla.input = "b_lse"})
    -> (!result {mla.output = "output"}) {
  %output = mla.merge %a, %a_lse with %b, %b_lse : !partial, !lse with !partial, !lse -> !result
  return %output : !result
}
"""


def build(options):
    folder = options.directory
    program.make_folder(folder, options.build_dir)
    merge, rank = folder / "merge.mlir", folder / "rank.json"
    merge.write_text(module.PLACEHOLDER + MERGE)
    config = json.loads(CONFIG.read_text())
    config.update(num_attention_heads=16, num_key_value_heads=16)
    rank.write_text(json.dumps(config))
    jobs = {"h128": (CONFIG,), "h16": (rank,), "merge": (merge,)}
    jobs |= {f"h{heads}-{form}": (source, f"--form={form}")
             for heads, source in ((128, CONFIG), (16, rank)) for form in FORMS}
    for name, (source, *words) in jobs.items():
        if source != merge:
            words.append("--functions=prefill")
        subprocess.run([options.build_dir / "bin/mla-compile", source, "--target=sm_90a", "--quiet",
                        *words, "-o", folder / f"{name}.mlac"], check=True)
    merge.unlink()
    rank.unlink()
    shutil.copy(options.build_dir / "lib/libmla_runtime.so", folder)


def random_weights(heads, has_rope=True):
    """Without RoPE's rows a query's RoPE part is 0, and rotating it changes nothing."""
    import torch

    torch.manual_seed(1)
    make = lambda *shape: (torch.randn(*shape, device="cuda") / shape[-1] ** 0.5).bfloat16()
    ones = lambda n: torch.ones(n, dtype=torch.bfloat16, device="cuda")
    weights = {"q_a_proj.weight": make(Q_RANK, HIDDEN), "q_a_layernorm.weight": ones(Q_RANK),
               "q_b_proj.weight": make(heads * HEAD, Q_RANK),
               "kv_a_proj_with_mqa.weight": make(WIDTH, HIDDEN),
               "kv_a_layernorm.weight": ones(KV_RANK),
               "kv_b_proj.weight": make(heads * (NOPE + VALUE), KV_RANK),
               "o_proj.weight": make(HIDDEN, heads * VALUE)}
    if not has_rope:
        weights["q_b_proj.weight"].view(heads, HEAD, Q_RANK)[:, NOPE:] = 0
    return weights


class Layer:
    """mlac's prefill of `new` tokens of one request with `cached` ones."""

    def __init__(self, package, weights, new, cached, workspace=None):
        import mlac
        import torch
        from arrays import TorchArrays

        pages = (new + cached) // PAGE + 3
        self.engine = mlac.Engine(mlac.Package(str(package)), mlac.Device("cuda"),
                                  max_num_requests=1, max_num_tokens=max(new, 4096),
                                  max_seq_len=new + cached, num_pages=pages,
                                  workspace_tokens=workspace or cached)
        self.engine.bind({name: tensor.cpu().view(torch.uint16).numpy()
                          for name, tensor in weights.items()})
        self.engine.prepare()
        self.pool = TorchArrays().rows_at(self.engine.cache_data(), pages * PAGE, WIDTH, "bf16")
        generator = torch.Generator("cuda").manual_seed(2)  # two layers have the same rows
        self.pool.normal_(generator=generator).clamp_(-3, 3)
        self.sequence, self.plan, filling = self.engine.sequence(), self.engine.plan(), \
            self.engine.plan()
        for first in range(0, cached, 4096):  # makes it longer; the rows are random already
            filling.fill([self.sequence], [min(4096, cached - first)])
        self.pages = torch.tensor(self.sequence.pages[:cached // PAGE], device="cuda")
        self.plan.fill([self.sequence], [new])
        self.hidden = torch.randn(new, HIDDEN, device="cuda", generator=generator).bfloat16()
        self.output = torch.full((new, HIDDEN), float("nan"), dtype=torch.bfloat16, device="cuda")

    def launch(self):
        import torch

        self.plan.run_bound(stream=torch.cuda.current_stream(), hidden=self.hidden,
                            output=self.output)

    def close(self):
        self.sequence.free()
        self.engine.close()


class Composition:
    """The same step by torch and cuDNN."""

    def __init__(self, layer, weights, heads):
        self.layer, self.heads = layer, heads
        self.w = {name.split(".")[0]: tensor for name, tensor in weights.items()}

    def attend(self, query, latents, rope, is_causal):
        """Output [1, heads, tokens, value] and LSE of cuDNN's attention."""
        import torch

        keys_values = (latents @ self.w["kv_b_proj"].T).view(-1, self.heads, NOPE + VALUE)
        keys = torch.empty(len(latents), self.heads, HEAD, dtype=torch.bfloat16, device="cuda")
        keys[..., :NOPE] = keys_values[..., :NOPE]
        keys[..., NOPE:] = rope[:, None]
        query, keys, values = (t.transpose(0, 1)[None]
                               for t in (query, keys, keys_values[..., NOPE:]))
        output, lse = torch.ops.aten._scaled_dot_product_cudnn_attention(
            query, keys, values, None, True, 0.0, is_causal, False, scale=SCALE)[:2]
        return output, lse.reshape(1, self.heads, -1, 1)

    def launch(self):
        import torch

        w, layer, norm = self.w, self.layer, torch.nn.functional.rms_norm
        latent = norm(layer.hidden @ w["q_a_proj"].T, (Q_RANK,), w["q_a_layernorm"])
        query = (latent @ w["q_b_proj"].T).view(-1, self.heads, HEAD)
        row = layer.hidden @ w["kv_a_proj_with_mqa"].T
        own = norm(row[:, :KV_RANK], (KV_RANK,), w["kv_a_layernorm"])
        rows = layer.pool.view(-1, PAGE * WIDTH).index_select(0, layer.pages).view(-1, WIDTH)
        far, far_lse = self.attend(query, rows[:, :KV_RANK], rows[:, KV_RANK:], False)
        near, near_lse = self.attend(query, own, row[:, KV_RANK:], True)
        both = torch.logaddexp(far_lse, near_lse)
        merged = far * (far_lse - both).exp() + near * (near_lse - both).exp()
        flat = merged[0].transpose(0, 1).reshape(-1, self.heads * VALUE).bfloat16()
        self.output = flat @ w["o_proj"].T


def ratio(seconds, other):
    return statistics.median(b / a for a, b in zip(seconds, other))


def flops_of(heads):
    pairs = NEW * CACHED + NEW * (NEW + 1) // 2
    own = HIDDEN * (Q_RANK + WIDTH) + heads * (Q_RANK * HEAD + VALUE * HIDDEN)
    return 2 * (NEW * own + (NEW + CACHED) * KV_RANK * heads * (NOPE + VALUE)
                + pairs * heads * (HEAD + VALUE))


def check(directory, heads, chunks, new=768, cached=4096):
    """Relative difference to the composition, where RoPE makes none."""
    weights = random_weights(heads, has_rope=False)
    layer = Layer(directory / f"h{heads}.mlac", weights, new, cached, cached // chunks)
    composition = Composition(layer, weights, heads)
    composition.launch()
    layer.launch()
    expected = composition.output.double()
    off = float((layer.output.double() - expected).norm() / expected.norm())
    layer.close()
    return off


def run_chunked(options, heads, workspace):
    import torch

    name, chunks = f"h{heads}.mlac", -(-CACHED // workspace)
    off = check(options.directory, heads, chunks)
    weights = random_weights(heads)
    layers = {"mlac": Layer(options.directory / name, weights, NEW, CACHED, workspace)}
    for other in options.also:
        layers[str(other)] = Layer(other / name, weights, NEW, CACHED, workspace)
    layer = layers["mlac"]
    composition = Composition(layer, weights, heads)
    launches = {key: one.launch for key, one in layers.items()}
    seconds = race({**launches, "torch": composition.launch}, options.rounds)
    median = {key: statistics.median(values) for key, values in seconds.items()}
    good = off <= ALLOWED and bool(layer.output.isfinite().all())
    print(f"{heads:4} heads, {NEW} new on {CACHED} in {chunks} chunks: mlac "
          f"{median['mlac'] * 1e3:.2f} ms "
          f"({flops_of(heads) / median['mlac'] / 1e12:.0f} TFLOP/s), torch + cuDNN "
          f"{median['torch'] * 1e3:.2f} ms: {ratio(seconds['mlac'], seconds['torch']):.3f}x; "
          f"difference {off:.1e} {'ok' if good else 'FAIL'}", flush=True)
    for other in list(layers)[1:]:
        print(f"     {other}: {median[other] * 1e3:.2f} ms, "
              f"{ratio(seconds['mlac'], seconds[other]):.4f} of mlac's", flush=True)
    if options.profile:
        profile(*layers.values(), composition)
    for one in layers.values():
        one.close()
    composition = None
    torch.cuda.empty_cache()
    return good, {"heads": heads, "workspace": workspace, "seconds": seconds, "difference": off}


def run_crossover(options, heads, new, cached):
    weights = random_weights(heads)
    layers = {form: Layer(options.directory / f"h{heads}-{form}.mlac", weights, new, cached)
              for form in FORMS}
    for other in options.also:
        layers[str(other)] = Layer(other / f"h{heads}-expanded.mlac", weights, new, cached)
    composition = Composition(layers["expanded"], weights, heads)
    launches = {form: layer.launch for form, layer in layers.items()}
    seconds = race({**launches, "torch": composition.launch}, options.rounds)
    median = {form: statistics.median(values) for form, values in seconds.items()}
    pairs = new * cached + new * (new + 1) // 2
    chosen = "expanded" if cached * KV_RANK * (NOPE + VALUE) <= \
        (2 * KV_RANK - NOPE - VALUE) * pairs else "absorbed"
    won = min(FORMS, key=median.get)
    both = ", ".join(f"{form} {median[form] * 1e6:8.1f} us" for form in FORMS)
    print(f"{heads:4} heads, {new:5} new on {cached:6}: {both}: {won}; the model takes {chosen} "
          f"({median[chosen] / median[won]:.2f} of the faster one's time), torch + cuDNN "
          f"{median['torch'] * 1e6:8.1f} us", flush=True)
    for other in list(layers)[2:]:
        print(f"     {other}: expanded {median[other] * 1e6:8.1f} us, "
              f"{ratio(seconds['expanded'], seconds[other]):.3f} of it", flush=True)
    for layer in layers.values():
        layer.close()
    return {"heads": heads, "new": new, "cached": cached, "seconds": seconds, "chosen": chosen,
            "won": won}


def run_merge(options, tokens):
    import mlac
    import torch

    engine = mlac.Engine(mlac.Package(str(options.directory / "merge.mlac")), mlac.Device("cuda"),
                         max_num_requests=1, max_num_tokens=tokens, max_seq_len=tokens,
                         num_pages=tokens // PAGE + 2)
    engine.prepare()
    sequence, plan = engine.sequence(), engine.plan()
    plan.fill([sequence], [tokens], "merge")
    make = lambda *shape: torch.randn(*shape, device="cuda")
    a, b, a_lse, b_lse = (make(tokens, 128, 128), make(tokens, 128, 128), make(tokens, 128),
                          make(tokens, 128))
    output = torch.full((tokens, 128, 128), float("nan"), dtype=torch.bfloat16, device="cuda")
    both = torch.logaddexp(a_lse, b_lse)[..., None]
    expected = a * (a_lse[..., None] - both).exp() + b * (b_lse[..., None] - both).exp()
    launch = lambda: plan.run_bound(stream=torch.cuda.current_stream(), a=a, b=b, a_lse=a_lse,
                                    b_lse=b_lse, output=output)
    bytes_ = 10 * a.numel() + 8 * a_lse.numel()
    source = torch.empty(bytes_ // 2, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    seconds = race({"merge": launch, "copy": lambda: target.copy_(source)}, options.rounds)
    off = float((output - expected).abs().max() / expected.abs().max())
    rate = bytes_ / statistics.median(seconds["merge"])
    print(f"merge of {tokens} x 128 x 128, {bytes_ / 2 ** 20:.0f} MiB read and written: "
          f"{rate / 1e9:.0f} GB/s, {ratio(seconds['merge'], seconds['copy']):.2f} of torch's copy; "
          f"error {off:.1e}", flush=True)
    sequence.free()
    engine.close()
    return {"tokens": tokens, "bytes": bytes_, "seconds": seconds, "error": off}


def profile(*contestants):
    """Time of each kernel in one launch."""
    import torch

    for one in contestants:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as result:
            one.launch()
            torch.cuda.synchronize()
        for event in sorted(result.key_averages(), key=lambda e: -e.device_time_total):
            if event.device_time_total:
                print(f"    {event.device_time_total:8.1f} us {event.count:3}x {event.key[:70]}",
                      flush=True)


def run(options):
    library = options.directory / "libmla_runtime.so"
    os.environ.setdefault("MLAC_RUNTIME_LIBRARY", str(library.resolve()))
    import torch

    results = {"chunked": [], "crossover": [], "merge": []}
    isgood = True
    if "chunked" in options.part:
        for heads, workspace in itertools.product(options.heads, options.workspace):
            good, row = run_chunked(options, heads, workspace)
            isgood &= good
            results["chunked"].append(row)
    if "crossover" in options.part:
        results["crossover"] = [run_crossover(options, heads, *point)
                                for heads in options.heads for point in POINTS[heads]]
    if "merge" in options.part:
        results["merge"] = [run_merge(options, tokens) for tokens in MERGE_TOKENS]
    torch.cuda.synchronize()
    if options.out:
        options.out.write_text(json.dumps(results, indent=1))
    print("PASS" if isgood else "FAIL: the layer differs from the composition")
    return 0 if isgood else 1


def main():
    parser = program.make_parser(__doc__)
    parser.add_argument("--part", nargs="*", default=("chunked", "crossover", "merge"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--heads", nargs="+", type=int, choices=POINTS, default=tuple(POINTS))
    parser.add_argument("--workspace", nargs="+", type=int, default=(CACHED,),
                        help="cached tokens of a chunk")
    parser.add_argument("--also", nargs="*", type=pathlib.Path, default=[],
                        help="folders with packages of the same names to time by turns")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, help="raw numbers as JSON")
    options = parser.parse_args()
    return build(options) if options.command == "build" else run(options)


if __name__ == "__main__":
    program.run(lambda: program.leave(main()))

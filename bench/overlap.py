#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""V4-41: decodes of layers with an indexer, on one stream and on two.

    python3 bench/overlap.py build DIR     # packages; needs mla-compile, no GPU
    python3 bench/overlap.py run DIR       # needs a GPU and torch

Both packages of a layer have the same weights and are fed the same tokens, and their outputs must be
the same to the bit; steps alternate in one process, captured as graphs, and, as *eager*, launched by
the host one behind the other.
"""

import json
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "python"), str(ROOT / "bench"), str(ROOT / "bench/decode")]

import compositions  # noqa: E402
import program  # noqa: E402

LAYERS = {"v32_tp8": ["deepseek_v32.json", "--tp=8"], "v32_tp1": ["deepseek_v32.json"],
          "v4_window": ["deepseek_v4.json", "--layer=0"],
          "v4_selected": ["deepseek_v4.json", "--layer=2"],
          "v4_all": ["deepseek_v4.json", "--layer=3"]}
MODES = {"one": ["--overlap-tokens=0"], "two": [f"--overlap-tokens={compositions.OVERLAP_TOKENS}"]}


def build(options):
    for name in options.layers:
        config, *more = LAYERS[name]
        for mode, extra in MODES.items():
            compositions.compile_package(options, compositions.CONFIGS / config, f"{name}.{mode}",
                                         "--functions=decode", *more, *extra)
    compositions.copy_runtime(options)


class Layer:
    """Sequences of one package that have decoded `context` tokens."""

    def __init__(self, path, weights, hidden, batch, context):
        import mlac
        import torch

        self.package = mlac.Package(str(path))
        self.engine = mlac.Engine(self.package, mlac.Device("cuda"), max_num_requests=batch,
                                  max_num_tokens=batch, max_seq_len=context + 64)
        self.engine.bind(weights)
        self.engine.prepare()
        self.hidden, self.plan = hidden, self.engine.plan()
        self.output = torch.full_like(hidden, float("nan"))
        sequences = [self.engine.sequence() for _ in range(batch)]
        for _ in range(context):
            self.plan.fill(sequences, [1] * batch)
            self.launch()
        torch.cuda.synchronize()

    def launch(self):
        import torch

        self.plan.run_bound(stream=torch.cuda.current_stream(), hidden=self.hidden,
                            output=self.output)


def time_eager(layers, rounds, steps=50):
    """Seconds of a step that the host launches, by mode: the median of turns of `steps`."""
    import torch

    times = {mode: [] for mode in layers}
    for _ in range(rounds):
        for mode, layer in layers.items():
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(steps):
                layer.launch()
            torch.cuda.synchronize()
            times[mode].append((time.perf_counter() - begin) / steps)
    return {mode: statistics.median(turns) for mode, turns in times.items()}


def run(options):
    compositions.use_runtime(options)
    import mlac
    import torch
    from turns import Contestant, run_rounds

    rows = []
    print(torch.cuda.get_device_name(), flush=True)
    for name in options.layers:
        paths = {mode: options.directory / f"{name}.{mode}.mlac" for mode in MODES}
        package = mlac.Package(str(paths["one"]))
        weights = compositions.on_host(compositions.random_weights(package))
        width = package.info["model"]["hidden_size"]
        for batch in options.batch:
            hidden = torch.randn(batch, width, device="cuda").bfloat16()
            layers = {mode: Layer(path, weights, hidden, batch, options.context)
                      for mode, path in paths.items()}
            for layer in layers.values():
                layer.launch()
            torch.cuda.synchronize()
            one, two = (layer.output.view(torch.int16) for layer in layers.values())
            same, finite = bool((one == two).all()), bool(layers["one"].output.isfinite().all())
            contestants = [Contestant(mode, [layer.launch]) for mode, layer in layers.items()]
            run_rounds(contestants, options.rounds)
            replayed = bool((layers["two"].output.view(torch.int16) == one).all())
            times = {c.name: c.median * 1e6 for c in contestants}
            eager = {m: t * 1e6 for m, t in time_eager(layers, options.rounds).items()}
            rows.append({"layer": name, "batch": batch, "context": options.context, "us": times,
                         "eager_us": eager, "same": same, "replayed": replayed, "finite": finite})
            print(f"{name:12} batch {batch:4} one stream {times['one']:7.1f} us  two "
                  f"{times['two']:7.1f} us  {times['one'] / times['two']:.3f}  eager "
                  f"{eager['one']:7.1f} {eager['two']:7.1f} {eager['one'] / eager['two']:.3f}  "
                  f"{'same bits' if same and replayed else 'OTHER BITS'}"
                  f"{'' if finite else ' NOT FINITE'}", flush=True)
            contestants = None
            for layer in layers.values():
                layer.engine.close()
            torch.cuda.empty_cache()
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1))


def main():
    parser = program.make_parser(__doc__)
    parser.add_argument("--layers", nargs="*", choices=LAYERS, default=list(LAYERS))
    parser.add_argument("--batch", nargs="*", type=int, default=[1, 16, 64, 128, 256])
    parser.add_argument("--context", type=int, default=2100, help="beyond index_topk")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=pathlib.Path, help="raw numbers as JSON")
    options = parser.parse_args()
    build(options) if options.command == "build" else run(options)


if __name__ == "__main__":
    program.run(main)

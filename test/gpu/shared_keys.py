#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""DeepSeek-V4's layers of every kind on a GPU, against float64.

    shared_keys.py build DIR [--build-dir build] [--target sm_90a] [--records]   # needs NumPy, no GPU
    shared_keys.py run DIR [--device cuda]                           # the standard library will do
    shared_keys.py replay DIR                                        # needs torch

`build` compiles the layers of test_shared_keys.DeviceTest and stores their
weights, the hidden states of a story and the outputs of float64. `run` serves four requests of
the story in steps of every kind over pools and workspaces that hold NaN, and compares every row
whose selection no rounding can change. `replay` (V4-31) captures one decode of each layer in a CUDA graph
and replays it over the same buffers while requests grow, end and make room for others.
Exit code: 0 all within the bounds of bf16, 1 not.
With `--records` keys are kept in records of 584 bytes, and bounds are those of codes.
"""

import argparse
import array
import ctypes
import json
import math
import os
import pathlib
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path += [str(ROOT / "python"), str(ROOT / "test/python")]
REQUESTS, MOST_TOKENS, LONGEST = 8, 512, 512
# Of replays: tokens of requests before, and of those that take the places of others later.
STARTS, LATER, REPLAYS = (2, 61, 126, 230), (19, 125, 3, 254), 16


# ---------------------------------------------------------------------------
# Here
# ---------------------------------------------------------------------------


def describe(kind, given, more, rounding, stored):
    """A case: its configuration, weights, story, expected outputs and clear rows."""
    import numpy as np
    import shared_key_layers as shared
    import sparse_layers as layers
    from mlac import reference

    config, (quantise, slack) = shared.config(kind, **more), rounding
    rng = np.random.default_rng(17)  # the same for all: what is stored twice packs to one
    weights = shared.random_weights(rng, config, kind)
    shape = reference.shared_keys_from_hf(config, 0)
    story = layers.widen(layers.narrow(rng.standard_normal((300, config["hidden_size"])), "bf16"))
    selected, clear = None, np.ones(len(story), bool)
    if shape.indexer:
        scores = reference.shared_key_scores(shape, weights, story, quantise)
        selected = reference.top_k(scores, (np.arange(len(story)) + 1) // shape.every,
                                   shape.indexer.topk)
        if not given:
            clear = shared.clear_rows(shape, scores, np.arange(len(story)), slack)
    expected, _ = reference.shared_key_layer(shape, weights, story, selected, stored)
    return config, weights, story, expected, selected if given else None, clear


def write_weights(path, package, weights):
    import sparse_layers as layers
    from test_weights import write_shard

    write_shard(path, [(tensor["name"], {"bf16": "BF16", "f32": "F32"}[tensor["dtype"]],
                        tensor["shape"],
                        layers.narrow(weights[tensor["name"]], tensor["dtype"]).tobytes())
                       for tensor in package.info["weights"]])


def build(options):
    os.environ.setdefault("MLAC_RUNTIME_LIBRARY",
                          str(options.build_dir.resolve() / "lib/libmla_runtime.so"))
    os.environ["MLAC_COMPILE"] = str(options.build_dir.resolve() / "bin/mla-compile")
    import subprocess

    import mlac
    import numpy as np
    import sparse_layers as layers
    import shared_key_layers as shared
    from mlac import reference
    from test_shared_keys import DEVICE_CASES, STEPS, index_rounding

    stored, format_options, widths = reference.as_they_are, [], {}
    allowed = {"wmape": layers.ALLOWED_WMAPE, "cosine": layers.ALLOWED_COSINE}
    if options.records:
        stored, format_options = shared.records, ["--cache-format=fp8"]
        widths = {"head_dim": 512, "qk_rope_head_dim": 64}
        allowed = {"wmape": layers.ALLOWED_WMAPE_CODES, "cosine": layers.ALLOWED_COSINE_CODES}
    options.folder.mkdir(parents=True, exist_ok=True)
    cases = []
    for name, (kind, given, more, *more_options) in DEVICE_CASES.items():
        config, weights, story, expected, selected, clear = describe(
            kind, given, {**more, **widths}, index_rounding(more_options, "bf16"), stored)
        place = options.folder / name
        place.mkdir(exist_ok=True)
        (place / "config.json").write_text(json.dumps(config))
        subprocess.run([os.environ["MLAC_COMPILE"], place / "config.json", "--dtype=bf16",
                        f"--target={options.target}", "--functions=prefill,decode,step",
                        *(["--indexer=shared"] if given else []), *format_options, *more_options,
                        "--quiet", "-o",
                        place / "layer.mlac"], check=True)
        write_weights(place / "weights.safetensors", mlac.Package(place / "layer.mlac"), weights)
        (place / "story.bf16").write_bytes(layers.narrow(story, "bf16").tobytes())
        (place / "expected.f32").write_bytes(expected.astype(np.float32).tobytes())
        if given:
            (place / "selected.i32").write_bytes(np.ascontiguousarray(selected, np.int32).tobytes())
        cases.append({"name": name, "clear": clear.tolist(), "given": given,
                      "topk": config["index_topk"], "steps": STEPS})
    (options.folder / "cases.json").write_text(json.dumps({"cases": cases, "allowed": allowed}))
    return 0


# ---------------------------------------------------------------------------
# On the machine with a GPU
# ---------------------------------------------------------------------------


class Buffer:
    """Memory of the device."""

    def __init__(self, device, data):
        from mlac._library import call, call_out

        self.call, self.device, self.size = call, device, len(data)
        self.address = call_out("mla_device_malloc", ctypes.c_void_p, device._value, self.size)
        call("mla_device_upload", device._value, self.address, data, self.size)

    def read(self):
        data = ctypes.create_string_buffer(self.size)
        self.call("mla_device_download", self.device._value, data, self.address, self.size)
        return data.raw

    def free(self):
        self.call("mla_device_free", self.device._value, self.address)


def widen(data):
    return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]


class Case:
    """A layer on the device whose requests follow one story."""

    def __init__(self, folder, case, device):
        import mlac

        self.case, self.device, place = case, device, folder / case["name"]
        self.engine = mlac.Engine(mlac.Package(place / "layer.mlac"), device,
                                  max_num_requests=REQUESTS, max_num_tokens=MOST_TOKENS,
                                  max_seq_len=LONGEST)
        self.engine.bind_safetensors(place / "weights.safetensors")
        self.engine.prepare()
        self.engine.poison_cache()
        self.plan, self.hidden = self.engine.plan(), self.engine.hidden_size
        self.story = (place / "story.bf16").read_bytes()
        self.expected = array.array("f", (place / "expected.f32").read_bytes())
        self.selected = (place / "selected.i32").read_bytes() if case["given"] else b""

    def step(self, sequences, function, counts):
        """Rows of the story, and what the layer makes of them."""
        from mlac._library import Binding, call

        rows = [row for sequence, count in zip(sequences, counts)
                for row in range(len(sequence), len(sequence) + count)]
        width, list_bytes = 2 * self.hidden, 4 * self.case["topk"]
        content = {"hidden": b"".join(self.story[r * width:(r + 1) * width] for r in rows),
                   "output": b"\xff" * (width * len(rows))}
        if self.selected:
            content["selected"] = b"".join(self.selected[r * list_bytes:(r + 1) * list_bytes]
                                           for r in rows)
        buffers = {name: Buffer(self.device, data) for name, data in content.items()}
        self.plan.fill(sequences, counts, function)
        self.engine.poison_workspace()
        bindings = (Binding * len(buffers))(*[
            Binding(name.encode(), buffer.address, buffer.size)
            for name, buffer in buffers.items()])
        call("mla_step_run_bound", self.plan._value, 0, bindings, len(bindings), None)
        self.device.synchronize()
        output = widen(buffers["output"].read())
        for buffer in buffers.values():
            buffer.free()
        return rows, output

    def measure(self, rows, output):
        """Weighted error and cosine difference of the clear rows; their number."""
        error = norm = product = squares = 0.0
        count = 0
        for place, row in enumerate(rows):
            got = output[place * self.hidden:(place + 1) * self.hidden]
            if not all(map(math.isfinite, got)):
                return math.inf, math.inf, count
            if not self.case["clear"][row]:
                continue
            count += 1
            for a, b in zip(got, self.expected[row * self.hidden:(row + 1) * self.hidden]):
                error, norm = error + abs(a - b), norm + abs(b)
                product, squares = product + a * b, squares + a * a + b * b
        return (error / norm, 1 - 2 * product / squares, count) if count else (0.0, 0.0, 0)

    def run(self, allowed):
        sequences = [self.engine.sequence() for _ in self.case["steps"][0][1]]
        compared, passed = 0, True
        for function, counts in self.case["steps"]:
            rows, output = self.step(sequences, function, counts)
            wmape, cosine, count = self.measure(rows, output)
            good = wmape <= allowed["wmape"] and cosine <= allowed["cosine"]
            passed, compared = passed and good, compared + count
            print(f"{self.case['name']:18} {function:8} {str(counts):20} rows {count:4} of "
                  f"{len(rows):4}  wmape {wmape:.2e}  cosine {cosine:.2e}  "
                  f"{'ok' if good else 'TOO FAR'}", flush=True)
        return passed and compared > 0


    def replay(self, allowed):
        """A refill that the graph cannot serve is refused; most must be taken."""
        import mlac
        import torch

        places = len(STARTS)
        sequences = [self.engine.sequence() for _ in STARTS]
        self.step(sequences, "prefill", STARTS)
        make = lambda width, dtype: torch.zeros((places, width), dtype=dtype, device="cuda")
        buffers = {"hidden": make(self.hidden, torch.bfloat16),
                   "output": make(self.hidden, torch.bfloat16)}
        sources = {"hidden": self.story}
        if self.selected:
            buffers["selected"] = make(self.case["topk"], torch.int32)
            sources["selected"] = self.selected
        plan, graph, worst, compared, taken = self.engine.plan(), None, (0.0, 0.0), 0, 0
        for turn in range(REPLAYS):
            if turn % 4 == 2:  # another request, in other pages
                place = turn // 4
                sequences[place].free()
                sequences[place] = self.engine.sequence()
                self.step([sequences[place]], "prefill", [LATER[place]])
            rows = [len(sequence) for sequence in sequences]
            try:
                plan.fill(sequences, [1] * places, "decode")
            except mlac.WrongState:
                self.step(sequences, "decode", [1] * places)
                continue
            taken += 1
            for name, source in sources.items():
                target = buffers[name]
                row_bytes = target.shape[1] * target.element_size()
                content = b"".join(source[r * row_bytes:(r + 1) * row_bytes] for r in rows)
                target.copy_(torch.frombuffer(bytearray(content),
                                              dtype=target.dtype).view(places, -1))
            torch.cuda.synchronize()
            self.engine.poison_workspace()
            if not graph:
                launch = lambda: plan.run_bound(stream=torch.cuda.current_stream(), **buffers)
                launch()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    launch()
            buffers["output"].fill_(float("nan"))
            graph.replay()
            torch.cuda.synchronize()
            wmape, cosine, count = self.measure(rows, buffers["output"].float().flatten().tolist())
            worst = max(worst[0], wmape), max(worst[1], cosine)
            compared += count
        good = worst[0] <= allowed["wmape"] and worst[1] <= allowed["cosine"]
        good &= compared > 0 and taken > REPLAYS / 2
        print(f"{self.case['name']:18} {taken} of {REPLAYS} refills taken by one graph, rows "
              f"{compared:4}  wmape {worst[0]:.2e}  cosine {worst[1]:.2e}  "
              f"{'ok' if good else 'TOO FAR'}", flush=True)
        return good


def run(options):
    import mlac

    content = json.loads((options.folder / "cases.json").read_text())
    device = mlac.Device(options.device)
    print(f"allowed: wmape {content['allowed']['wmape']}, cosine {content['allowed']['cosine']}")
    check = Case.replay if options.command == "replay" else Case.run
    results = {case["name"]: check(Case(options.folder, case, device), content["allowed"])
               for case in content["cases"]}
    failed = [name for name, passed in results.items() if not passed]
    print(f"FAIL: {', '.join(failed)}" if failed else f"PASS: {len(results)} layers")
    return int(bool(failed))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("build", "run", "replay"):
        command = commands.add_parser(name)
        command.add_argument("folder", type=pathlib.Path)
        if name == "build":
            command.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build")
            command.add_argument("--target", default="sm_90a")
            command.add_argument("--records", action="store_true")
        else:
            command.add_argument("--device", default="cuda")
    options = parser.parse_args()
    return build(options) if options.command == "build" else run(options)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks and times the kernels that write and read rows of the paged cache.

    python3 bench/cache build DIR                # packages; needs mla-compile, no GPU
    python3 bench/cache run DIR [--out FILE]     # bit-exactness and bandwidth; needs a GPU
    python3 bench/cache run DIR --device cpu     # the harness itself, few values

Every byte that append writes and every bit that gather reads is compared with the
runtime's conversion on the host (mlac.CacheLayout), which has the specification's golden
bytes as tests. Rows are random bit patterns: all exponents, subnormals, infinities, NaN
and, for the scale of a layer, quotients next to ties.
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench")]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import layer  # noqa: E402
import program  # noqa: E402

LATENT, ROPE, PAGE = 512, 64, 64
WIDTH = LATENT + ROPE

# name: attributes of the cache type, arguments of CacheLayout, bytes of a row
FORMATS = {
    "bf16": ("", {"format": "mla_16"}, 1152),
    "split": (', format = "split_ckv_kpe"', {"format": "split_ckv_kpe"}, 1152),
    "fp8-tensor": (', format = "mla_fp8_tensor"', {"format": "mla_fp8_tensor"}, 576),
    "fp8-rows": (', format = "fp8_ds_mla"', {"format": "fp8_ds_mla"}, 656),
    "fp8-rows-power": (', format = "fp8_ds_mla", scale_rule = power_of_two',
                       {"format": "fp8_ds_mla", "scale_rule": "power_of_two"}, 656),
}
# Formats whose packages have the kernels of bench/cache/layer.py, too.
PLAIN = ("bf16", "split")
# Scales of layers; quotients by the second lie next to many ties of e4m3.
LAYER_SCALES = (0.37, 1.0625, 0.0078125)
# Values per format and direction. e4m3 codes of 10^8 values are compared in all.
VALUES = 1 << 25

MODULE = """\
!cache = !mla.cache<page_size = {page}, fields = [latent: {latent}, rope: {rope}],
                    element = bf16, rope_order = interleaved{format}>
!c = tensor<?x{latent}xbf16>
!k = tensor<?x{rope}xbf16>
func.func @append(%c: !c {{mla.input = "latent"}}, %k: !k {{mla.input = "k_pe"}},
                  %batch: !mla.batch, %cache: !cache) -> !cache {{
  %new = "mla.append"(%c, %k, %cache, %batch) : (!c, !k, !cache, !mla.batch) -> !cache
  return %new : !cache
}}
func.func @gather(%batch: !mla.batch, %cache: !cache)
    -> (!c {{mla.output = "latent"}}, !k {{mla.output = "k_pe"}}) {{
  %chunk = arith.constant 0 : index
  %c, %k = "mla.gather"(%cache, %batch, %chunk) : (!cache, !mla.batch, index) -> (!c, !k)
  return %c, %k : !c, !k
}}
func.func @advance(%batch: !mla.batch, %cache: !cache) -> !cache {{
  return %cache : !cache
}}
func.func @copy_pages(%batch: !mla.batch, %cache: !cache) -> !cache {{
  %new = mla.copy_pages %cache to %cache, %batch : !cache, !mla.batch
  return %new : !cache
}}
func.func @swap_out(%batch: !mla.batch, %cache: !cache, %host: !cache {{mla.output = "host"}})
    -> !cache {{
  %new = mla.copy_pages %cache to %host, %batch : !cache, !mla.batch
  return %new : !cache
}}
func.func @swap_in(%batch: !mla.batch, %cache: !cache, %host: !cache {{mla.input = "host"}})
    -> !cache {{
  %new = mla.copy_pages %host to %cache, %batch : !cache, !mla.batch
  return %new : !cache
}}
"""


HEADS, SCALE = 16, 192 ** -0.5
DECODE = """\
!q = tensor<?x{heads}x{latent}xbf16>
!r = tensor<?x{heads}x{rope}xbf16>
func.func @decode(%q: !q {{mla.input = "q_lat"}}, %r: !r {{mla.input = "q_pe"}},
                  %batch: !mla.batch<query_len = 1>, %cache: !cache)
    -> (!q {{mla.output = "output"}}) {{
  %o = mla.absorbed_attention query(%q, %r : !q, !r)
      over %cache, %batch : !cache, !mla.batch<query_len = 1> scale {scale!r} -> !q
  return %o : !q
}}
"""


def build_command(options):
    program.make_folder(options.directory, options.build_dir)
    for name, (attributes, _, _) in FORMATS.items():
        source, package = (options.directory / f"{name}{suffix}" for suffix in (".mlir", ".mlac"))
        text = MODULE + DECODE + (layer.MODULE if name in PLAIN else "")
        source.write_text(text.format(page=PAGE, latent=LATENT, rope=ROPE, format=attributes,
                                      heads=HEADS, scale=SCALE, width=WIDTH, **layer.SIZES))
        subprocess.run([options.build_dir / "bin/mla-compile", source, "--quiet",
                        f"--target={options.target}", "-o", package], check=True)
        source.unlink()
    shutil.copy(options.build_dir / "lib/libmla_runtime.so", options.directory)
    return 0


def make_engine(options, name):
    """A function that makes prepared engines of a format, given their sizes."""
    def make(**sizes):
        import mlac

        engine = mlac.Engine(mlac.Package(str(options.directory / f"{name}.mlac")),
                             mlac.Device(options.device), **sizes)
        if name in PLAIN:
            layer.bind_weights(engine)
        engine.prepare()
        return engine
    return make


class Rows:
    """Sequences in an engine of one format, all of one length."""

    def __init__(self, options, name, tokens, requests):
        import mlac

        self.name, self.requests = name, requests
        _, self.arguments, self.row_bytes = FORMATS[name]
        self.length = tokens // requests
        pages = -(-self.length // PAGE) * requests + 2 * requests
        self.device = options.device
        self.engine = make_engine(options, name)(
            max_num_requests=requests, max_num_tokens=max(tokens, 1),
            max_seq_len=self.length + PAGE, num_pages=pages,
            workspace_tokens=requests * (self.length // PAGE + 1) * PAGE)
        self.layout = mlac.CacheLayout(num_pages=pages, **self.arguments)
        self.pages, self.scale = pages, 1.0

    def set_scale(self, scale):
        import mlac

        self.engine.set_cache_scale(scale)
        self.scale = scale
        self.layout = mlac.CacheLayout(num_pages=self.pages, layer_scale=scale, **self.arguments)

    def random_rows(self, seed, distinct=None):
        """Random bits of bf16 (uint16), a third of the rows numbers of ordinary size; after
        `distinct` rows the same again."""
        import numpy

        generator = numpy.random.default_rng(seed)
        count = self.length * self.requests
        if distinct and count > distinct:
            assert count % distinct == 0
            return numpy.tile(self._bits(generator, distinct), (count // distinct, 1))
        return self._bits(generator, count)

    @staticmethod
    def _bits(generator, count):
        import numpy

        bits = generator.integers(0, 1 << 16, (count, WIDTH), numpy.uint16)
        ordinary = generator.standard_normal((len(bits[::3]), WIDTH), numpy.float32)
        bits[::3] = ordinary.view(numpy.uint32) >> 16
        bits[1::7, :128] = 0  # whole groups of zeros
        return bits

    def to_device(self, bits):
        if self.device == "cpu":
            return bits.copy()
        import numpy
        import torch

        return torch.from_numpy(bits.view(numpy.int16)).to(self.device).view(torch.bfloat16)

    def to_host(self, array):
        """The bits of an array of bf16 (uint16)."""
        if self.device == "cpu":
            return array
        import numpy
        import torch

        return array.view(torch.int16).cpu().numpy().view(numpy.uint16)

    def stream(self):
        if self.device == "cpu":
            return None
        import torch

        return torch.cuda.current_stream()

    def appended(self, rows):
        """New sequences with these rows, the step's plan and its inputs."""
        sequences = [self.engine.sequence() for _ in range(self.requests)]
        plan = self.engine.plan()
        plan.fill(sequences, [self.length] * self.requests, "append")
        parts = {"latent": self.to_device(rows[:, :LATENT].copy()),
                 "k_pe": self.to_device(rows[:, LATENT:].copy())}
        plan.run_bound(stream=self.stream(), **parts)
        return sequences, plan, parts

    def gathered(self, sequences):
        """A filled gather of all rows, and its outputs (NaN before)."""
        import numpy

        plan = self.engine.plan()
        plan.fill(sequences, [1] * self.requests, "gather")
        count = self.length * self.requests
        assert plan.dim("num_chunks") == 1 and plan.dim("chunk_tokens") == count
        outputs = {name: self.to_device(numpy.full((count, width), 0xFFFF, numpy.uint16))
                   for name, width in (("latent", LATENT), ("k_pe", ROPE))}
        return plan, outputs

    def pool(self):
        """The pool's bytes on the host."""
        bytes_ = self.pages * PAGE * self.row_bytes
        if self.device == "cpu":
            import ctypes

            return bytearray((ctypes.c_uint8 * bytes_).from_address(self.engine.cache_data()))
        import torch

        torch.cuda.synchronize()
        memory = _DeviceMemory(self.engine.cache_data(), bytes_)
        return bytearray(torch.as_tensor(memory, device=self.device).cpu().numpy().tobytes())


class _DeviceMemory:
    def __init__(self, address, count):
        self.__cuda_array_interface__ = {"data": (address, False), "shape": (count,),
                                         "typestr": "|u1", "version": 3}


def differing(got, expected):
    """Elements of bf16 bits that differ, where not both are NaN."""
    both_nan = ((got & 0x7FFF) > 0x7F80) & ((expected & 0x7FFF) > 0x7F80)
    return int(((got != expected) & ~both_nan).sum())


def check(options, name, values):
    """Bytes that differ from the host's, of append and of gather."""
    import numpy

    requests = 8
    rows = Rows(options, name, values // WIDTH // requests * requests, requests)
    results = []
    for index, scale in enumerate(LAYER_SCALES if name == "fp8-tensor" else (1.0,)):
        if name == "fp8-tensor":
            rows.set_scale(scale)
        data = rows.random_rows(index)
        sequences, plan, _ = rows.appended(data)
        slots = plan.metadata("slot_mapping")
        got = rows.pool()
        expected = bytearray(got)  # rows of no token stay as they are
        rows.layout.encode(data, expected, slots)
        wrong = int((numpy.frombuffer(got, numpy.uint8)
                     != numpy.frombuffer(expected, numpy.uint8)).sum())
        reading, outputs = rows.gathered(sequences)
        reading.run_bound(stream=rows.stream(), **outputs)
        decoded = numpy.empty_like(data)
        rows.layout.decode(expected, decoded, slots)
        read = numpy.concatenate([rows.to_host(outputs[part]) for part in ("latent", "k_pe")], 1)
        wrong_read = differing(read, decoded)
        results.append({"format": name, "scale": scale, "values": data.size,
                        "wrong_bytes": wrong, "wrong_values_read": wrong_read})
        for sequence in sequences:
            sequence.free()
        print(f"  {name:16} scale {scale:<10} {data.size:>10} values: {wrong} bytes and "
              f"{wrong_read} values read differ from the host", flush=True)
    return results


def attend(query, rows):
    """Absorbed attention of [N, WIDTH] queries over [S, WIDTH] rows, in float64."""
    import numpy

    scores = query @ rows.T * SCALE
    weights = numpy.exp(scores - scores.max(1, keepdims=True))
    return weights @ rows[:, :LATENT] / weights.sum(1, keepdims=True)


def check_decode(options, name):
    """Largest error of one decode step over ragged sequences, relative to the largest
    output, on the rows that a reader of the cache gets."""
    import numpy

    def widen(bits):
        return (bits.astype(numpy.uint32) << 16).view(numpy.float32).astype(numpy.float64)

    requests, length = 4, 333
    rows = Rows(options, name, requests * length, requests)
    if name == "fp8-tensor":
        rows.set_scale(0.01)
    generator = numpy.random.default_rng(5)
    normal = generator.standard_normal((requests * length, WIDTH), numpy.float32)
    data = (normal.view(numpy.uint32) >> 16).astype(numpy.uint16)
    sequences, plan, _ = rows.appended(data)
    slots = plan.metadata("slot_mapping")
    stored, read = rows.pool(), numpy.empty_like(data)
    rows.layout.decode(stored, read, slots)
    lengths = [length - 40 * i for i in range(requests)]
    for sequence, kept in zip(sequences, lengths):
        sequence.truncate(kept - 1)
    normal = generator.standard_normal((requests, HEADS, WIDTH), numpy.float32)
    query = (normal.view(numpy.uint32) >> 16).astype(numpy.uint16)
    step = rows.engine.plan()
    step.fill(sequences, [1] * requests, "decode")
    output = rows.to_device(numpy.full((requests, HEADS, LATENT), 0xFFFF, numpy.uint16))
    step.run_bound(stream=rows.stream(), q_lat=rows.to_device(query[..., :LATENT].copy()),
                   q_pe=rows.to_device(query[..., LATENT:].copy()), output=output)
    got, worst = widen(rows.to_host(output)), 0.0
    for request, kept in enumerate(lengths):
        first = request * length
        expected = attend(widen(query[request]), widen(read[first:first + kept]))
        error = numpy.abs(got[request] - expected).max() / numpy.abs(expected).max()
        worst = max(worst, float(numpy.nan_to_num(error, nan=numpy.inf)))
    print(f"  {name:16} decode of {HEADS} heads: largest error {worst:.2e} of the largest output",
          flush=True)
    return {"format": name, "error": worst}


class Moves:
    """Two groups of sequences with `pages` pages of random bytes each, which are moved."""

    PAGES_OF_ONE = 1 << 10  # of a sequence at most

    def __init__(self, options, name, pages):
        import numpy

        self.count = -(-pages // self.PAGES_OF_ONE)
        self.each = -(-pages // self.count)
        self.rows = Rows(options, name, 2 * self.count * self.each * PAGE, 2 * self.count)
        self.engine = self.rows.engine
        self.bytes = self.count * self.each * PAGE * self.rows.row_bytes
        self.swap = self.engine.swap_space(self.count * self.each)
        self.front, self.back = self.sequences(), self.sequences()
        data = numpy.random.default_rng(3).integers(
            0, 256, self.rows.pages * PAGE * self.rows.row_bytes, numpy.uint8)
        if options.device == "cpu":
            import ctypes

            ctypes.memmove(self.engine.cache_data(), data.ctypes.data, len(data))
        else:
            import torch

            memory = _DeviceMemory(self.engine.cache_data(), len(data))
            torch.as_tensor(memory, device=options.device).copy_(torch.from_numpy(data))

    def sequences(self):
        made = [self.engine.sequence() for _ in range(self.count)]
        self.engine.cache.append([sequence._id for sequence in made], [0] * self.count,
                                 [self.each * PAGE] * self.count)
        return made

    def content(self):
        """The bytes of the sequences in front, in their order."""
        import numpy

        pool = numpy.frombuffer(self.rows.pool(), numpy.uint8).reshape(self.rows.pages, -1)
        return pool[[page for sequence in self.front for page in sequence.pages]].copy()

    def free_front(self):
        for sequence in self.front:
            sequence.free()
        self.front, self.back = self.back, None

    def compact(self, stream):
        """Moves pages to where those of the freed sequences were."""
        moved = self.engine.cache.compact(stream=stream)
        assert moved == self.count * self.each, moved

    def renew(self):
        self.back = self.sequences()

    def out(self, stream):
        self.tickets = [self.swap.swap_out(sequence, stream=stream) for sequence in self.front]

    def back_in(self, stream):
        for ticket, sequence in zip(self.tickets, self.front):
            self.swap.swap_in(ticket, sequence, stream=stream)


def check_moves(options, name):
    """Bytes that a compaction, a swap and its return change."""
    moves = Moves(options, name, 64)
    moves.free_front()
    expected = moves.content()
    moves.compact(moves.rows.stream())
    wrong = int((moves.content() != expected).sum())
    moves.out(moves.rows.stream())
    moves.renew()  # takes the pages
    moves.back_in(moves.rows.stream())
    wrong += int((moves.content() != expected).sum())
    print(f"  {name:16} {3 * moves.bytes:>10} bytes moved: {wrong} wrong", flush=True)
    return {"format": name, "moved_bytes": 3 * moves.bytes, "wrong_bytes": wrong}


def time_moves(options, name, size, peak, pinned, hides_host=True):
    """Bandwidth of moves inside the pool, and to and from the host; without the time that
    the host takes for tables and launches, or with it."""
    import torch

    row_bytes = FORMATS[name][2]
    moves = Moves(options, name, max(1, size // 2 // (PAGE * row_bytes)))
    stream = torch.cuda.current_stream()
    result = {"format": name, "bytes": moves.bytes}
    def nothing():
        pass
    for kind, ready, launch, undo, factor, ceiling in (
            ("move", moves.free_front, moves.compact, lambda _: moves.renew(), 2, peak),
            ("swap_out", nothing, moves.out, moves.back_in, 1, pinned["out"]),
            ("swap_in", nothing, moves.back_in, moves.out, 1, pinned["in"])):
        if kind == "swap_in":
            moves.out(stream)
        times = []
        for _ in range(7):
            ready()
            torch.cuda.synchronize()
            if hides_host:
                torch.cuda._sleep(1 << 25)  # cycles: longer than the host takes to enqueue
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            launch(stream)
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / 1e3)
            undo(stream)
        seconds = statistics.median(times)
        moved = factor * moves.bytes
        result[kind] = {"us": seconds * 1e6, "GB/s": moved / seconds / 1e9,
                        "of_copy": moved / seconds / ceiling}
        print(f"  {name:16} {moves.bytes >> 20:>5} MiB {kind:8}: {seconds * 1e6:9.2f} us "
              f"{moved / seconds / 1e9:7.1f} GB/s, {moved / seconds / ceiling:.3f} of torch's copy",
              flush=True)
    return result


def pinned_bandwidth(torch, size):
    """Bytes per second of torch's copies to and from pinned memory."""
    host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    device = torch.empty(size, dtype=torch.uint8, device="cuda")
    return {"out": size / seconds_of(torch, lambda _: host.copy_(device, non_blocking=True), 5, 1),
            "in": size / seconds_of(torch, lambda _: device.copy_(host, non_blocking=True), 5, 1)}


def seconds_of(torch, launch, repeats, inner):
    """Median seconds of one launch; `inner` launches in a graph."""
    launch(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for turn in range(inner):
            launch(turn)
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3 / inner)
    return statistics.median(times)


def copy_bandwidth(torch, size):
    """Bytes read and written per second by torch's copy."""
    source = torch.empty(size, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * size / seconds_of(torch, lambda _: target.copy_(source), 7, 4)


def time_format(options, name, tokens, peak):
    """Bandwidth of append and gather over `tokens` rows, and times for one row."""
    import torch

    rows = Rows(options, name, tokens, min(tokens, 32))
    data = rows.random_rows(1, distinct=1 << 13)
    sequences, plan, parts = rows.appended(data)
    reading, outputs = rows.gathered(sequences)
    moved = data.shape[0] * (2 * WIDTH + rows.row_bytes)
    result = {"format": name, "tokens": data.shape[0], "bytes": moved}
    for kind, step, buffers in (("append", plan, parts), ("gather", reading, outputs)):
        seconds = seconds_of(torch, lambda _: step.run_bound(stream=torch.cuda.current_stream(),
                                                              **buffers), 9,
                             4 if tokens > 1 else 64)
        result[kind] = {"us": seconds * 1e6, "GB/s": moved / seconds / 1e9,
                        "of_copy": moved / seconds / peak}
        print(f"  {name:16} {data.shape[0]:>8} rows {kind}: {seconds * 1e6:8.2f} us "
              f"{moved / seconds / 1e9:7.0f} GB/s, {moved / seconds / peak:.3f} of torch's copy",
              flush=True)
    return result


def run_command(options):
    for folder in (options.directory, options.build_dir / "lib"):
        if (folder / "libmla_runtime.so").exists():
            os.environ.setdefault("MLAC_RUNTIME_LIBRARY",
                                  str((folder / "libmla_runtime.so").resolve()))
    values = options.values or (VALUES if options.device != "cpu" else 1 << 18)
    names = [name for name in FORMATS if not options.only or name in options.only]
    print("== bytes and values against the host", flush=True)
    results = {"exact": [entry for name in names for entry in check(options, name, values)]}
    wrong = sum(entry["wrong_bytes"] + entry["wrong_values_read"] for entry in results["exact"])
    results["decode"] = [check_decode(options, name) for name in names]
    results["moves"] = [check_moves(options, name) for name in names]
    wrong += sum(entry["wrong_bytes"] for entry in results["moves"])
    plain = [name for name in names if name in PLAIN]
    results["indices"] = [entry for name in plain for entry in
                          layer.check_conversion(make_engine(options, name), options.device)]
    wrong += sum(entry["wrong"] for entry in results["indices"])
    # Weights and outputs are rounded to bf16, 2^-9 each.
    wrong += sum(entry["error"] > 2 ** -7 for entry in results["decode"])
    if options.device != "cpu":
        import torch

        peak = copy_bandwidth(torch, 512 << 20)
        print(f"== bandwidth; torch copies 512 MiB at {peak / 1e9:.0f} GB/s (read and write)",
              flush=True)
        results["copy_bytes_per_second"] = peak
        # 64 MB and 512 MB of cache and plain rows together, and one row.
        results["speed"] = [time_format(options, name, tokens, peak)
                            for tokens in (1 << 15, 1 << 18, 1) for name in names]
        results["indices_speed"] = [
            layer.time_conversion(make_engine(options, name), seconds_of, tokens, peak)
            for name in plain[:1] for tokens in (1 << 12, 1)]
        results["latent_speed"] = [
            {"format": name} | layer.time_latent(make_engine(options, name), tokens,
                                                 FORMATS[name][2], peak)
            for name in plain for tokens in (1 << 15, 1 << 18, 1 << 11, 1)]
        pinned = pinned_bandwidth(torch, 256 << 20)
        print(f"== moves of pages; torch copies {pinned['out'] / 1e9:.1f} GB/s to pinned memory, "
              f"{pinned['in'] / 1e9:.1f} GB/s from it", flush=True)
        results["moves_speed"] = [time_moves(options, name, size, peak, pinned)
                                  for size in (64 << 20, 512 << 20) for name in names]
        print("== the same with the host's work, and one page", flush=True)
        results["moves_whole"] = [time_moves(options, name, size, peak, pinned, hides_host=False)
                                  for size in (512 << 20, 1) for name in names]
    if options.out:
        options.out.write_text(json.dumps(results, indent=1))
    print("PASS" if wrong == 0 else f"FAIL: {wrong} differences")
    return 0 if wrong == 0 else 1


def main():
    parser = program.make_parser(__doc__)
    parser.add_argument("--target", default="sm_90a", help="of build: sm_90a or cpu")
    parser.add_argument("--device", default="cuda", help="of run: cuda or cpu")
    parser.add_argument("--values", type=int, help="compared per format (default 2^25; cpu 2^18)")
    parser.add_argument("--only", nargs="*", help="formats: " + ", ".join(FORMATS))
    parser.add_argument("--out", type=pathlib.Path, help="results as JSON")
    options = parser.parse_args()
    return build_command(options) if options.command == "build" else run_command(options)


if __name__ == "__main__":
    program.run(lambda: program.leave(main()))

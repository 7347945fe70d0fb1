# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole decode layers with random weights and caches, beside compositions of torch's parts and others' kernels.

What the programs share: packages, engines whose pools hold random rows, the order of a composition's
launches on one stream and on two, rounds in which contestants alternate, and where a step's time goes.
"""

import collections
import ctypes
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench"), str(ROOT / "bench/decode")]

import formats  # noqa: E402
import program  # noqa: E402
import scores  # noqa: E402

CONFIGS = ROOT / "test/data/configs"
OVERLAP_TOKENS = 1024
EPS = 1e-6


# ---------------------------------------------------------------------------
# Packages
# ---------------------------------------------------------------------------


def compile_package(options, source, name, *more):
    """A configuration's or a module's package, DIR/NAME.mlac."""
    program.make_folder(options.directory, options.build_dir)
    subprocess.run([options.build_dir / "bin/mla-compile", source, "--quiet",
                    f"--target={getattr(options, 'target', 'sm_90a')}", *more, "-o",
                    options.directory / f"{name}.mlac"], check=True)


def compile_text(options, text, name):
    source = options.directory / f"{name}.mlir"
    program.make_folder(options.directory, options.build_dir)
    source.write_text(text)
    compile_package(options, source, name)
    source.unlink()


def copy_runtime(options):
    shutil.copy(options.build_dir / "lib/libmla_runtime.so", options.directory)


def use_runtime(options):
    library = options.directory / "libmla_runtime.so"
    os.environ.setdefault("MLAC_RUNTIME_LIBRARY", str(library.resolve()))


# ---------------------------------------------------------------------------
# Weights and caches
# ---------------------------------------------------------------------------


def random_weights(package, device="cuda"):
    """Of all that the package asks for: tensors on the device."""
    import torch

    torch.manual_seed(41)
    weights = {}
    for tensor in package.info["weights"]:
        shape = tensor["shape"]
        values = torch.randn(*shape, device=device) / shape[-1] ** 0.5
        if len(shape) == 1:
            values = 1 + 0.1 * torch.randn(*shape, device=device)
        weights[tensor["name"]] = values if tensor["dtype"] == "f32" else values.bfloat16()
    return weights


def on_host(weights):
    """The same as Engine.bind takes them."""
    import torch

    return {name: (tensor if tensor.dtype == torch.float32 else tensor.view(torch.uint16))
            .cpu().numpy() for name, tensor in weights.items()}


def pool_bytes(engine, index, device):
    """A pool as uint8 [pages, bytes of a page]."""
    import torch
    from arrays import TorchArrays

    stats = engine.pool_stats(index)
    pages, stride = stats["num_pages"], stats["page_stride_bytes"]
    address = engine.cache_data(pool=index)
    if device == "cpu":
        memory = (ctypes.c_uint8 * (pages * stride)).from_address(address)
        return torch.frombuffer(memory, dtype=torch.uint8).view(pages, stride)
    return TorchArrays().rows_at(address, pages, stride, "u8")


def fill_pool(description, pages):
    """Random rows of the pool's format; a row of normalised keys has numbers of about 1."""
    import torch

    form = description["format"]
    if form == "index_k":
        scores.fill_keys(torch, pages)
    elif form == "fp8_ds_mla":
        rows = pages.view(-1, formats.ROW_BYTES[form])
        for piece in rows.split(formats.PIECE):
            formats.fill_codes(torch, piece, form)
    else:
        dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[description["dtype"]]
        for piece in pages.view(dtype).split(1 << 12):
            piece.normal_()


def take_tokens(engine, sequence, tokens):
    """Makes a sequence longer; the rows are random already. Pools with windows have room for a window and a
    step, so that long sequences grow by steps, and an empty one gives back what the last one left behind."""
    import mlac
    from mlac._library import CacheAppendBatch, call

    def append(position, count):
        batch = CacheAppendBatch(ctypes.sizeof(CacheAppendBatch), 1,
                                 (ctypes.c_uint64 * 1)(sequence._id),
                                 (ctypes.c_int64 * 1)(position), (ctypes.c_int32 * 1)(count))
        call("mla_cache_append", engine.cache._value, ctypes.byref(batch), None, 0)

    taken, step = 0, tokens
    while taken < tokens:
        count = min(step, tokens - taken)
        try:
            append(taken, count)
        except mlac.OutOfPages:
            if step == 1:
                raise
            step //= 2
            continue
        taken += count
        append(taken, 0)


class FilledLayer:
    """A package's engine over pools of random rows, and a decode of some requests."""

    def __init__(self, path, device, weights, requests, context):
        import mlac
        import torch

        package = mlac.Package(str(path))
        self.info, self.context = package.info, context
        self.kind = "cuda" if device.is_cuda else "cpu"
        self.engine = mlac.Engine(package, device, max_num_requests=requests,
                                  max_num_tokens=requests, max_seq_len=context)
        self.engine.bind({tensor["name"]: weights[tensor["name"]]
                          for tensor in self.info["weights"]})
        self.engine.prepare()
        torch.manual_seed(7)  # engines that are compared have the same rows
        self.pools = {}
        for index, description in enumerate(self.info["pools"]):
            pages = pool_bytes(self.engine, index, self.kind)
            fill_pool(description, pages)
            self.pools[description["name"]] = pages
        self.plan, self.sequences = self.engine.plan(), []

    def begin(self, hidden, lengths=None):
        """The step in which each request's token is the last of so many, or of its `context`."""
        import torch

        self.end()
        self.sequences = [self.engine.sequence() for _ in hidden]
        for sequence, length in zip(self.sequences, lengths or [self.context] * len(hidden)):
            take_tokens(self.engine, sequence, length - 1)
        self.plan.fill(self.sequences, [1] * len(hidden))
        self.hidden, self.output = hidden, torch.full_like(hidden, float("nan"))

    def end(self):
        """When the graphs of the step are gone."""
        self.plan.release_captures()
        for sequence in self.sequences:
            sequence.free()
        self.sequences = []

    def launch(self):
        import torch

        stream = torch.cuda.current_stream() if self.kind == "cuda" else None
        self.plan.run_bound(stream=stream, hidden=self.hidden, output=self.output)


# ---------------------------------------------------------------------------
# Compositions
# ---------------------------------------------------------------------------


def load_fused(device):
    """Kernels of what lies between products (fused.py) where Triton runs, or None; and what that means."""
    import torch

    if device == "cpu" and "TRITON_INTERPRET" not in os.environ:
        return None, "torch's norm"
    try:
        import fused

        rows = torch.ones(2, 256, device=device).bfloat16()
        fused.rms_norm(rows[:, :128], rows[0, :128], EPS, rows[:, 128:].contiguous())
    except Exception as error:  # no Triton, or no compiler that it needs
        return None, f"torch's norm ({type(error).__name__}: {error})"
    return fused, "a norm by Triton"


def rms_norm(kernels, rows, weight, result):
    """Of columns of wider rows, which torch copies first."""
    import torch

    if kernels:
        kernels.rms_norm(rows, weight, EPS, result)
    else:
        result.copy_(torch.nn.functional.rms_norm(rows, weight.shape, weight, EPS))


def restore_pages(changed, other, touched):
    """Pages of pools that compositions wrote, by those of an engine with the same rows."""
    for name, pages in touched:
        changed.pools[name][pages] = other.pools[name][pages]


class Composition:
    """A layer's launches in the order of an engine: `down`, then `beside` and `queries`, of which neither
    waits for the other, then `attend`. `fused` are the kernels of what lies between products; without them it is left out."""

    has_side = True

    def launch(self):
        self.down()
        self.beside()
        self.queries()
        self.attend()

    def launch_on_two(self):
        """What does not wait for the queries on a stream of its own, as engines do it."""
        import torch

        main = torch.cuda.current_stream()
        self.down()
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            self.beside()
        self.queries()
        main.wait_stream(self.side)
        self.attend()

    def make_side(self, device):
        import torch

        self.side = torch.cuda.Stream() if device == "cuda" else None


def launches_of(made, device):
    """Of compositions by name, on one stream and, where something runs beside the queries, on two."""
    launches = {}
    for name, composition in made.items():
        launches[name] = composition.launch
        if device != "cpu" and composition.has_side:
            launches[f"{name}, two streams"] = composition.launch_on_two
    return launches


def empty(device, *shape):
    import torch

    return torch.full(shape, float("nan"), dtype=torch.bfloat16, device=device)


# ---------------------------------------------------------------------------
# Times
# ---------------------------------------------------------------------------

Times = collections.namedtuple("Times", "cool sustained")


def race(launches, rounds, seconds, own, groups):
    """Contestants that ran by turns, and the Times of each in us. At the power limit run those of `own` and the fastest
    of each group of peers."""
    from turns import Contestant, run_rounds, sustain

    contestants = {name: Contestant(name, [launch]) for name, launch in launches.items()}
    run_rounds(list(contestants.values()), rounds)
    if seconds:
        fastest = [min(ran, key=lambda one: one.median) for group in groups
                   if (ran := [contestants[name] for name in group if name in contestants])]
        sustain([*(contestants[name] for name in own), *fastest], seconds)
    return contestants, times_of(contestants.values())


def times_of(contestants):
    return {one.name: Times(one.median * 1e6, statistics.median(one.sustained) * 1e6
                            if one.sustained else None) for one in contestants}


def describe_times(times):
    return "  ".join(f"{name} {one.cool:.1f}" + (f" ({one.sustained:.1f})" if one.sustained else "")
                     for name, one in times.items())


def ratios(times, own, peers):
    """The fastest peer's time over each of `own`: text."""
    parts = []
    for kind in Times._fields:
        found = [getattr(times[name], kind) for name in peers if name in times]
        found = [value for value in found if value]
        if found and getattr(times[own[0]], kind):
            parts.append(f"{kind} " + ", ".join(
                f"{min(found) / getattr(times[name], kind):.2f}" for name in own))
    return "; ".join(parts)


def compare(times, own, groups):
    """Of each group of peers: text."""
    return "  ".join(f"[best of {peers[0]}: {ratios(times, own, peers)}]" for peers in groups
                     if peers[0] in times)


def profile(contestant):
    """Kernels of a step of its graph, in the order in which they begin: us from the step's begin, duration, name."""
    import torch

    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as result:
        contestant.replay_once()
        torch.cuda.synchronize()
    events = sorted((event for event in result.events()
                     if event.device_type == torch.autograd.DeviceType.CUDA),
                    key=lambda event: event.time_range.start)
    count = len(events) // contestant.steps
    if not count or count * contestant.steps != len(events):
        print(f"    {contestant.name}: {len(events)} kernels in {contestant.steps} steps", flush=True)
        return
    # The last step but one: the caches and the clock are those of replays.
    first = count * max(contestant.steps - 2, 0)
    begin = events[first].time_range.start
    print(f"    {contestant.name}: {count} kernels of one of {contestant.steps} steps", flush=True)
    for event in events[first:first + count]:
        start, length = event.time_range.start - begin, event.time_range.end - event.time_range.start
        print(f"    {start:8.1f} {length:8.1f} {event.name[:90]}", flush=True)


def profile_launches(*contestants):
    """Mean time of each kernel, without a graph."""
    import torch

    for one in contestants:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as result:
            for _ in range(10):
                one.launch()
            torch.cuda.synchronize()
        for event in sorted(result.key_averages(), key=lambda e: -e.device_time_total):
            if event.device_time_total:
                print(f"    {event.device_time_total / 10:8.1f} us {event.count / 10:5.1f}x "
                      f"{event.key[:70]}", flush=True)

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels around the cache that are not of one format: the conversion of token positions
to rows of the cache, and the layer's own norm, rotation and append in one kernel.

Used by bench/cache; needs NumPy, and torch on a GPU.
"""

import statistics

PAGE, TOPK, HIDDEN = 64, 2048, 64

MODULE = """\
!p = tensor<?x{topk}xi32>
!i = tensor<?xi32>
func.func @convert(%p: !p {{mla.input = "positions"}}, %batch: !mla.batch, %cache: !cache)
    -> (!p {{mla.output = "rows"}}) {{
  %0 = "mla.convert_indices"(%p, %cache, %batch)
      <{{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>}}> : (!p, !cache, !mla.batch) -> !p
  return %0 : !p
}}
func.func @convert_mixed(%p: !p {{mla.input = "positions"}}, %r: !i {{mla.input = "prefills"}},
                         %s: !i {{mla.input = "starts"}}, %batch: !mla.batch, %cache: !cache)
    -> (!p {{mla.output = "rows"}}) {{
  %0 = "mla.convert_indices"(%p, %cache, %batch, %r, %s)
      <{{operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>}}> : (!p, !cache, !mla.batch, !i, !i) -> !p
  return %0 : !p
}}
!h = tensor<?x{hidden}xbf16>
!w = tensor<{width}x{hidden}xbf16>
!g = tensor<{latent}xbf16>
!t = tensor<?x{rope}xf32>
#rope = #mla.rope<order = interleaved, dim = {rope}, theta = 1.0e+04, length = 163840>
func.func @latent(%h: !h {{mla.input = "hidden"}}, %w: !w {{mla.weight = "w"}},
                  %g: !g {{mla.weight = "gamma"}}, %batch: !mla.batch, %cache: !cache) -> !cache {{
  %table = mla.rope_table #rope : !t
  %c, %tail = mla.latent_project %h, %w, %g eps 1.0e-6 : !h, !w, !g -> !c, !k
  %k = mla.rope %tail, %table, %batch with #rope : !k, !t, !mla.batch
  %new = "mla.append"(%c, %k, %cache, %batch) : (!c, !k, !cache, !mla.batch) -> !cache
  return %new : !cache
}}
"""
# The projection in front of the append is as short as it can be: it is not measured.
SIZES = {"topk": TOPK, "hidden": HIDDEN}


def bind_weights(engine):
    """Random weights of @latent."""
    import numpy

    generator = numpy.random.default_rng(8)
    shapes = {weight["name"]: weight["shape"] for weight in engine.package_info["weights"]}
    engine.bind({name: (generator.standard_normal(shape, numpy.float32).view(numpy.uint32) >> 16)
                 .astype(numpy.uint16) for name, shape in shapes.items()})


class Conversion:
    """A filled step of `tokens` tokens of `requests` requests with `context` cached ones
    each; a third of the tokens of the mixed function are a prefill's."""

    def __init__(self, make_engine, tokens, requests, context, device):
        import numpy

        self.device, self.context, self.each = device, context, tokens // requests
        length = context + 2 * self.each
        self.pages = -(-length // PAGE) * requests
        self.engine = make_engine(max_num_requests=requests, max_num_tokens=tokens,
                                  max_seq_len=length, num_pages=self.pages)
        sequences = [self.engine.sequence() for _ in range(requests)]
        self.engine.cache.append([sequence._id for sequence in sequences], [0] * requests,
                                 [context] * requests)
        self.plans = {}
        for function in ("convert", "convert_mixed"):
            self.plans[function] = self.engine.plan()
            self.plans[function].fill(sequences, [self.each] * requests, function)
        generator = numpy.random.default_rng(4)
        self.positions = generator.integers(-1, context, (tokens, TOPK), numpy.int32)
        # Some positions far beyond the tables.
        self.positions[:, ::97] += 1 << 30
        self.requests = numpy.repeat(numpy.arange(requests, dtype=numpy.int32), self.each)
        self.prefills = numpy.where(self.requests % 3 == 2, self.requests, -1).astype(numpy.int32)
        self.starts = generator.integers(0, 1 << 20, requests, numpy.int32)
        # Prefills' positions go beyond tables, and must stay below 31 bits.
        self.table = [sequence.pages for sequence in sequences]

    def place(self, array):
        if self.device == "cpu":
            return array.copy()
        import torch

        return torch.from_numpy(array).to(self.device)

    def buffers(self, function):
        import numpy

        inputs = {"positions": self.positions}
        if function == "convert_mixed":
            inputs |= {"prefills": self.prefills, "starts": self.starts}
        return {name: self.place(array) for name, array in
                (inputs | {"rows": numpy.full_like(self.positions, 0x5A5A5A5A)}).items()}

    def stream(self):
        if self.device == "cpu":
            return None
        import torch

        return torch.cuda.current_stream()

    def wrong(self, function):
        """Elements that differ from the runtime's conversion on the host."""
        import mlac
        import numpy

        buffers = self.buffers(function)
        self.plans[function].run_bound(stream=self.stream(), **buffers)
        rows = buffers["rows"] if self.device == "cpu" else buffers["rows"].cpu().numpy()
        columns = max(map(len, self.table))
        table = [pages + [0] * (columns - len(pages)) for pages in self.table]
        mixed = {"prefill_requests": self.prefills.tolist(),
                 "workspace_starts": self.starts.tolist()} if "mixed" in function else {}
        expected = mlac.convert_indices(self.positions.tolist(), self.requests.tolist(), table,
                                        PAGE, self.pages, **mixed)
        return int((rows != numpy.array(expected, numpy.int32)).sum())


def check_conversion(make_engine, device):
    """Differences from the host of both functions."""
    conversion = Conversion(make_engine, 96, 12, 1000, device)
    results = []
    for function in conversion.plans:
        wrong = conversion.wrong(function)
        print(f"  {function:16} {conversion.positions.size:>10} positions: {wrong} differ from "
              "the host", flush=True)
        results.append({"function": function, "indices": conversion.positions.size,
                        "wrong": wrong})
    return results


def time_conversion(make_engine, seconds_of, tokens, peak):
    """Bandwidth of positions read and rows written, for random positions and for the sorted
    ones that an indexer's top k often are."""
    import torch

    conversion = Conversion(make_engine, tokens, min(tokens, 32), 8192, "cuda")
    results = []
    for order in ("random", "sorted"):
        if order == "sorted":
            conversion.positions.sort(axis=1)
        for function, plan in conversion.plans.items():
            buffers = conversion.buffers(function)
            seconds = seconds_of(
                torch, lambda _: plan.run_bound(stream=torch.cuda.current_stream(), **buffers), 9,
                8 if tokens > 1 else 64)
            moved = 2 * conversion.positions.nbytes
            results.append({"function": function, "order": order, "tokens": tokens,
                            "bytes": moved, "us": seconds * 1e6,
                            "of_copy": moved / seconds / peak})
            print(f"  {function:16} {order} {tokens:>6} x {TOPK}: {seconds * 1e6:8.2f} us "
                  f"{moved / seconds / 1e9:7.0f} GB/s, {moved / seconds / peak:.3f} of torch's "
                  "copy", flush=True)
    return results


# Seldom the profiler delivers some or all of a profile's events too late to be counted.
PROFILES = 5


def kernel_time(torch, run, repeats, part):
    """Name and seconds of the kernel whose name has `part`: the median of single launches as
    the GPU's own counters time them. None where no profile had it."""
    run()
    torch.cuda.synchronize()
    times = {}
    for _ in range(PROFILES):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            for _ in range(repeats):
                run()
            torch.cuda.synchronize()
        for event in profile.events():
            if event.device_time_total > 0:
                times.setdefault(event.name, []).append(event.device_time_total / 1e6)
        for name, values in times.items():
            if part in name:
                return name, statistics.median(values)
    return None


def time_latent(make_engine, tokens, row_bytes, peak):
    """Bandwidth of norm, rotation and append in one kernel, without the projection."""
    import torch

    requests = min(tokens, 32)
    each = tokens // requests
    engine = make_engine(max_num_requests=requests, max_num_tokens=tokens, max_seq_len=each,
                         num_pages=-(-each // PAGE) * requests)
    plan = engine.plan()
    plan.fill([engine.sequence() for _ in range(requests)], [each] * requests, "latent")
    hidden = torch.randn(tokens, HIDDEN, device="cuda", dtype=torch.bfloat16)
    timed = kernel_time(torch, lambda: plan.run_bound(
        stream=torch.cuda.current_stream(), hidden=hidden), 20, "append")
    moved = 2 * tokens * row_bytes
    if not timed:  # a time that is missing makes no result wrong
        print(f"  append {tokens:>6} rows: not measured, {PROFILES} profiles lack its events",
              flush=True)
        return {"tokens": tokens, "bytes": moved, "us": None, "of_copy": None}
    name, seconds = timed
    print(f"  {name:16} {tokens:>6} rows: {seconds * 1e6:8.2f} us {moved / seconds / 1e9:7.0f} "
          f"GB/s, {moved / seconds / peak:.3f} of torch's copy", flush=True)
    return {"tokens": tokens, "bytes": moved, "us": seconds * 1e6,
            "of_copy": moved / seconds / peak}

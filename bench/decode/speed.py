# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The speed table: mlac, FlashMLA and the read stream, alternating in one process.

A contestant's steps are captured in a CUDA graph over several sets of sequences, so
that the cache rows of a step are never in L2; plans are filled once. A round replays
every contestant once; ratios are taken per round, and medians over rounds. What the
replays leave is compared with float64 (C15).
"""

import dataclasses
import gc
import math
import statistics

import torch

import peers
import power
import problems
import reference
import report
from arrays import TorchArrays
from session import Session

# Sets of sequences: together well beyond the 60 MB of L2, but not without end.
SET_BYTES, MOST_SETS = 480 << 20, 64
# A replay lasts long enough that its own launch does not count.
REPLAY_SECONDS = 3e-3


class Contestant:
    """A captured sequence of steps."""

    def __init__(self, name, launches, seconds_each):
        """launches: one callable per set; repeated to fill a replay."""
        self.name = name
        turns = max(1, math.ceil(REPLAY_SECONDS / (seconds_each * len(launches))))
        self.steps = turns * len(launches)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for _ in range(turns):
                for launch in launches:
                    launch()
        self.times = []

    def replay(self, is_timed=True):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        if is_timed:
            self.times.append(begin.elapsed_time(end) / 1e3 / self.steps)

    @property
    def median(self):
        return statistics.median(self.times)


class MlacSet:
    """One set of sequences of a row, its filled plan and its tensors."""

    def __init__(self, session, row, seed):
        self.row, self.session = row, session
        arrays = session.arrays
        sequences = session.sequences([row.kv - row.query_len] * row.batch)
        self.plan = session.step(sequences, [row.query_len] * row.batch)
        self.sequences = sequences  # freed with the set
        tokens = row.batch * row.query_len
        self.query = arrays.random((tokens, row.heads, 576), "bf16", seed)
        self.buffers = {**session.split_query(self.query), **session.outputs(tokens)}

    def launch(self):
        self.plan.run_bound(stream=torch.cuda.current_stream(), **self.buffers)

    def table(self):
        table = self.session.arrays.ints(self.plan.metadata_view("block_table"))
        return table.int().reshape(self.row.batch, -1)

    def poison(self):
        self.buffers["output"].fill_(float("nan"))
        self.buffers["lse"].fill_(float("nan"))

    def errors(self, output, lse):
        """Of some requests, the last one among them, against float64."""
        row, arrays = self.row, self.session.arrays
        rows = self.session.rows(self.plan, [row.kv] * row.batch).reshape(row.batch, row.kv)
        worst = reference.Errors()
        for request in {0, row.batch - 1}:
            tokens = slice(request * row.query_len, (request + 1) * row.query_len)
            expected = reference.attention(torch, self.query[tokens].double(),
                                           self.session.pool[rows[request]].double(), 512,
                                           row.spec.scale)
            worst = worst.join(reference.compare(torch, arrays.double(output[tokens]),
                                                 arrays.double(lse[tokens]), *expected))
        return worst


def make_session(path, row, num_sets):
    total = num_sets * row.batch * row.kv
    session = Session(path, row.spec, TorchArrays(), row.batch, row.kv,
                      total + num_sets * row.batch * row.page)
    # In pieces: normal_ on the whole pool would need as much again.
    for piece in session.pool.split(1 << 20):
        piece.normal_().mul_(0.1).clamp_(-1, 1)
    return session


def seconds_per_launch(launches):
    for launch in launches[:2]:
        launch()
    return max(peers.seconds_of(launches[0], 3), 1e-6)


def make_peer_batches(peer, sets):
    shared = peers.Accumulators()
    batches = []
    for one in sets:
        row = one.row
        query = one.query.reshape(row.batch, row.query_len, row.heads, 576)
        seq_lens = torch.full((row.batch,), row.kv, dtype=torch.int32, device="cuda")
        batches.append(peers.FlashMlaBatch(peer, query, one.session.pool, seq_lens, one.table(),
                                           row.spec.scale, shared))
    return batches


def race(contestants, rounds):
    for contestant in contestants:
        contestant.replay(is_timed=False)
    for index in range(rounds):
        # The first of a round runs on the coolest chip: take turns.
        for contestant in contestants[::1 if index % 2 else -1]:
            contestant.replay()


def peer_contestants(batches):
    launches = [batch.decode for batch in batches]
    yield Contestant("flashmla", launches, seconds_per_launch(launches))
    if batches[0].step.batch == 1:
        launches = [lambda b=batch: (b.metadata(), b.decode()) for batch in batches]
        yield Contestant("flashmla with metadata", launches, seconds_per_launch(launches))


def stream_contestant(stream, row, pool):
    """Reads the cache's rows, or all sets' where one is too small for the kernel."""
    pieces = pool.split(row.batch * row.kv)
    pieces = [p for p in pieces if stream.bytes_of(p) >= 0.9 * row.kv_bytes] or [pool]
    launches = [lambda p=piece: stream.launch(p) for piece in pieces]
    return Contestant("read stream", launches, seconds_per_launch(launches)), pieces[0]


class Entry:
    """A package in a row: its session, sets and contestant."""

    def __init__(self, name, path, row):
        self.name, self.row = name, row
        num_sets = min(MOST_SETS, max(2, math.ceil(SET_BYTES / row.kv_bytes)))
        self.session = make_session(path, row, num_sets)
        self.sets = [MlacSet(self.session, row, seed) for seed in range(num_sets)]
        torch.cuda.synchronize()
        launches = [one.launch for one in self.sets]
        self.contestant = Contestant(name, launches, seconds_per_launch(launches))
        self.sets[0].poison()  # what is checked comes from the graph's replays

    def errors(self):
        return self.sets[0].errors(*(self.sets[0].buffers[name] for name in ("output", "lse")))

    def profile(self, steps=10):
        """Mean time of each kernel of a step, without a graph."""
        activities = [torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profile:
            for index in range(steps):
                self.sets[index % len(self.sets)].launch()
            torch.cuda.synchronize()
        return {event.key: event.device_time_total / steps for event in profile.key_averages()
                if event.device_time_total}

    def close(self):
        self.contestant = self.sets = None
        self.session.close()


def peer_errors(one, batch):
    tokens = one.row.batch * one.row.query_len
    return one.errors(batch.output.reshape(tokens, one.row.heads, 512),
                      batch.lse.reshape(tokens, one.row.heads))


def run_row(row, paths, peer, stream, options):
    """Raw numbers of one line; `paths` maps contestants to packages, "mlac" first."""
    entries = [Entry(name, path, row) for name, path in paths.items()]
    first = entries[0]
    contestants = [entry.contestant for entry in entries]
    batches = make_peer_batches(peer, first.sets) if peer and row.page == 64 else []
    contestants += peer_contestants(batches) if batches else []
    reading, piece = stream_contestant(stream, row, first.session.pool)
    contestants.append(reading)
    race(contestants, options.rounds)
    errors = first.errors()
    for other in entries[1:]:
        errors = errors.join(other.errors())
    result = {**dataclasses.asdict(row), "name": row.name, "flops": row.flops, "bytes": row.bytes,
              "sets": len(first.sets), "stream_bytes": stream.bytes_of(piece),
              "is_right": errors.is_good, "errors": str(errors),
              "times": {c.name: c.times for c in contestants},
              "seconds": {c.name: c.median for c in contestants}}
    if batches:
        off = peer_errors(first.sets[0], batches[0])
        result["peer_errors"], result["is_peer_right"] = str(off), off.is_good
    if options.profile:
        result["profile"] = {entry.name: entry.profile() for entry in entries}
    if options.power:
        nvml = power.Nvml()
        result["power_limit"] = nvml.limit_watts()
        result["power"] = {c.name: power.measure(nvml, c, options.power) for c in contestants}
    del contestants, batches, reading
    for entry in entries:
        entry.close()
    return result


def packages_of(row, directory, also):
    """The row's packages by contestant; empty where the main one is missing."""
    path = directory / f"{row.spec.name}.mlac"
    if not path.exists():
        return {}
    paths = {"mlac": path}
    for folder in also:
        if (folder / path.name).exists():
            paths[f"mlac:{folder.name}"] = folder / path.name
    return paths


def run_speed(directory, options):
    peer = peers.FlashMla.find(options.flashmla, directory)
    if not peer:
        print("no libflashmla_peer.so: FlashMLA's columns stay empty (bench/peers/flashmla)")
    stream = peers.ReadStream()
    results = {"device": torch.cuda.get_device_name(), "ceilings": [peers.measure_ceilings(stream)],
               "rows": []}
    wanted = lambda row: not options.only or any(w in row.name or w in row.spec.name
                                                 for w in options.only)
    for row in filter(wanted, problems.SPEED_ROWS):
        paths = packages_of(row, directory, options.also)
        if not paths:
            continue
        result = run_row(row, paths, peer, stream, options)
        results["rows"].append(result)
        print(f"  {report.short_line(result)}", flush=True)
        gc.collect()
        torch.cuda.empty_cache()
    results["ceilings"].append(peers.measure_ceilings(stream))
    report.print_table(results, directory)
    return results

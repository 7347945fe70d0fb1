# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The speed tables: mlac, FlashMLA, FlashAttention-3 and the read stream, alternating.

A contestant's steps are captured in a CUDA graph over several sets of sequences, so
that the cache rows of a step are never in L2; plans and metadata are made once. A round
replays every contestant once; ratios are taken per round, and medians over rounds. What
the replays leave is compared with float64 (C15).
"""

import dataclasses
import functools
import gc
import itertools
import math

import ceilings
import formats
import power
import problems
import reference
import report
import torch
import vllm_ops
from arrays import TorchArrays
from session import Session
from turns import Contestant, run_rounds, sustain

# Sets of sequences: together well beyond the 60 MB of L2, but not without end.
SET_BYTES, MOST_SETS = 480 << 20, 64
# By which the fastest of FlashAttention-3's settings is chosen.
CHOICE_ROUNDS = 3
# Replays that must give the same bits: a race of the kernels shows in some of them.
REPEATS = 20


class MlacSet:
    """One set of sequences of a row, its filled plan and its tensors."""

    def __init__(self, session, row, seed):
        self.row, self.session = row, session
        arrays, requests = session.arrays, row.requests
        sequences = session.sequences([length - row.query_len for length in row.lengths],
                                      requests.shared, requests.sharing)
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
        """Of some requests against float64: first, last, longest and shortest."""
        row, arrays = self.row, self.session.arrays
        rows = self.session.rows(self.plan, row.lengths).split(row.lengths)
        worst, has_codes = reference.Errors(), bool(row.format)
        for request in checked_requests(row.lengths):
            tokens = slice(request * row.query_len, (request + 1) * row.query_len)
            expected = reference.attention(torch, self.query[tokens].double(),
                                           formats.read(torch, self.session, rows[request]), 512,
                                           row.spec.scale)
            worst = worst.join(reference.compare(torch, arrays.double(output[tokens]),
                                                 arrays.double(lse[tokens]), *expected,
                                                 has_codes=has_codes))
        return worst


def checked_requests(lengths):
    return {0, len(lengths) - 1, lengths.index(max(lengths)), lengths.index(min(lengths))}


def make_session(path, row, num_sets):
    tokens = num_sets * (row.requests.cached + row.batch * row.page)
    session = Session(path, row.spec, TorchArrays(), row.batch, max(row.lengths), tokens)
    formats.fill(torch, session)
    return session


class Peers:
    """What is installed beside mlac."""

    def __init__(self, flashmla=None, fa3=None):
        self.flashmla = vllm_ops.load(vllm_ops.FLASHMLA, flashmla)
        self.fa3 = vllm_ops.load(vllm_ops.FA3, fa3)

    @staticmethod
    def arguments(one):
        """A set's tensors as peers take them."""
        row = one.row
        query = one.query.view(row.batch, row.query_len, row.heads, 576)
        seq_lens = torch.tensor(row.lengths, dtype=torch.int32, device="cuda")
        return query, one.session.pool, seq_lens, one.table(), row.spec.scale

    def flashmla_batches(self, sets):
        return [vllm_ops.FlashMlaBatch(self.flashmla, *self.arguments(one)) for one in sets]

    def fa3_batches(self, sets, splits, is_dense):
        row = sets[0].row
        return [vllm_ops.Fa3Decode(self.fa3, *self.arguments(one), row.page, max(row.lengths),
                                   splits, is_dense) for one in sets]

    def best_fa3(self, sets):
        """Batches of the setting that is fastest for this row (an oracle), and its name."""
        settings, contestants = {}, []
        for splits, is_dense in itertools.product(vllm_ops.Fa3Decode.SPLITS, (False, True)):
            batches = self.fa3_batches(sets, splits, is_dense)
            name = f"{splits}{'d' if is_dense else ''}"
            settings[name] = splits, is_dense
            contestants.append(Contestant(name, [batch.decode for batch in batches]))
        run_rounds(contestants, CHOICE_ROUNDS)
        best = min(contestants, key=lambda one: one.median).name
        return self.fa3_batches(sets, *settings[best]), best

    def contestants(self, sets):
        """(contestants, the first batch of each peer, FA3's setting)."""
        found, firsts, setting = [], {}, None
        if sets[0].row.format:
            return [], {}, None
        if self.flashmla and sets[0].row.page == vllm_ops.FLASHMLA_PAGE:
            batches = self.flashmla_batches(sets)
            firsts["flashmla"] = batches[0]
            found.append(Contestant("flashmla", [batch.decode for batch in batches]))
            if sets[0].row.batch == 1:
                found.append(Contestant("flashmla with metadata",
                                        [batch.decode_with_metadata for batch in batches]))
        if self.fa3:
            batches, setting = self.best_fa3(sets)
            firsts["fa3"] = batches[0]
            found.append(Contestant("fa3", [batch.decode for batch in batches]))
        return found, firsts, setting


def stream_contestant(stream, row, pool):
    """Reads the cache's rows, or all sets' where one is too small for the kernel."""
    pieces = pool.split(row.requests.cached)
    pieces = [p for p in pieces if stream.bytes_of(p) >= 0.9 * row.kv_bytes] or [pool]
    return Contestant("read stream", [lambda p=piece: stream.launch(p) for piece in pieces]), \
        pieces[0]


class Entry:
    """A package in a row: its session, sets and contestant."""

    def __init__(self, name, path, row):
        self.name, self.row = name, row
        num_sets = min(MOST_SETS, max(2, math.ceil(SET_BYTES / row.kv_bytes)))
        self.session = make_session(path, row, num_sets)
        self.sets = [MlacSet(self.session, row, seed) for seed in range(num_sets)]
        torch.cuda.synchronize()
        self.contestant = Contestant(name, [one.launch for one in self.sets])
        self.sets[0].poison()  # what is checked comes from the graph's replays

    def errors(self):
        return self.sets[0].errors(*(self.sets[0].buffers[name] for name in ("output", "lse")))

    def count_differing(self):
        """Of replays of the same inputs, those whose bits differ from the first one's."""
        def results():
            self.contestant.replay(is_timed=False)
            return [self.sets[0].buffers[name].clone() for name in ("output", "lse")]

        first = results()
        return sum(not all(map(torch.equal, first, results())) for _ in range(REPEATS))

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
    row = one.row
    tokens = row.batch * row.query_len
    return one.errors(batch.output.reshape(tokens, row.heads, 512),
                      batch.lse.reshape(tokens, row.heads))


def row_fields(row):
    """What the row is, for the report and the raw numbers."""
    return {"name": row.name, "heads": row.heads, "batch": row.batch, "page": row.page,
            "query_len": row.query_len, "goal": row.goal, "target": row.target,
            "requests": dataclasses.asdict(row.requests), "kv": max(row.lengths),
            "flops": row.flops, "bytes": row.bytes}


def run_row(row, paths, peers, stream, options):
    """Raw numbers of one line; `paths` maps contestants to packages, "mlac" first."""
    entries = [Entry(name, path, dataclasses.replace(row, format="") if name == "bf16" else row)
               for name, path in paths.items()]
    first = entries[0]
    found, batches, setting = peers.contestants(first.sets)
    reading, piece = stream_contestant(stream, row, first.session.pool)
    contestants = [*(entry.contestant for entry in entries), *found, reading]
    run_rounds(contestants, options.rounds)
    if options.sustain:
        sustain([one for one in contestants if one is not reading], options.sustain)
    each = [entry.errors() for entry in entries]
    differing = {entry.name: entry.count_differing() for entry in entries}
    errors = functools.reduce(reference.Errors.join, each)
    result = {**row_fields(row), "sets": len(first.sets), "fa3_setting": setting,
              "stream_bytes": stream.bytes_of(piece), "differing": differing,
              "is_right": all(one.is_good for one in each) and not any(differing.values()),
              "errors": str(errors), "times": {c.name: c.times for c in contestants},
              "seconds": {c.name: c.median for c in contestants},
              "sustained": {c.name: c.sustained for c in contestants if c.sustained}}
    off = {name: peer_errors(first.sets[0], batch) for name, batch in batches.items()}
    result["peers_off"] = {name: str(one) for name, one in off.items() if not one.is_good}
    if options.profile:
        result["profile"] = {entry.name: entry.profile() for entry in entries}
    if options.power:
        nvml = power.Nvml()
        result["power_limit"] = nvml.limit_watts()
        result["power"] = {c.name: power.measure(nvml, c, options.power) for c in contestants}
    del contestants, batches, found, reading
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
    plain = directory / f"{dataclasses.replace(row, format='').spec.name}.mlac"
    if row.format and plain.exists():
        paths["bf16"] = plain
    return paths


def run_speed(directory, options, title, rows):
    """Times the rows whose packages are there and prints their table."""
    peers = Peers(options.flashmla, options.fa3)
    for name in ("flashmla", "fa3"):
        if not getattr(peers, name):
            print(f"{name} is not installed: its columns stay empty (bench/README.md)")
    stream = ceilings.ReadStream()
    results = {"title": title, "device": torch.cuda.get_device_name(),
               "ceilings": [ceilings.measure_ceilings(stream)], "rows": []}
    wanted = lambda row: not options.only or any(w in row.name or w in row.spec.name
                                                 for w in options.only)
    for row in filter(wanted, rows):
        paths = packages_of(row, directory, options.also)
        if not paths:
            continue
        result = run_row(row, paths, peers, stream, options)
        results["rows"].append(result)
        print(f"  {report.short_line(result)}", flush=True)
        gc.collect()
        torch.cuda.empty_cache()
    results["ceilings"].append(ceilings.measure_ceilings(stream))
    report.print_table(results)
    return results

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Contestants that run by turns: short replays on a cool card, and at its power limit."""

import math
import statistics

# A replay lasts long enough that its own launch does not count.
REPLAY_SECONDS = 3e-3
# Sustained, contestants alternate in turns; in the first part of a turn the clock settles
# to what it draws. Before them all run for so long that the card is at its power limit: behind
# one round of heating the first turn took 381 us, the next 349.
TURN_SECONDS, SETTLING, HEATING_SECONDS = 0.2, 0.25, 0.8


class Contestant:
    """Steps that a replay launches: in a CUDA graph, so that the host's time does not count."""

    def __init__(self, name, launches):
        """launches: one callable per set of tensors; repeated to fill a replay."""
        self.name, self.times, self.sustained = name, [], []
        self.launches = launches  # whose tensors a graph does not keep
        for launch in launches[:2]:
            launch()
        self.replay_once = launches[0]
        each = max(statistics.median(self.time(1) for _ in range(3)), 1e-6)
        turns = max(1, math.ceil(REPLAY_SECONDS / (each * len(launches))))
        self.steps = turns * len(launches)
        self.replay_once = self.capture(turns)

    def capture(self, turns):
        import torch

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(turns):
                for launch in self.launches:
                    launch()
        return graph.replay

    def time(self, replays):
        """Seconds of so many replays."""
        import torch

        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(replays):
            self.replay_once()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3

    def replay(self, is_timed=True):
        seconds = self.time(1) / self.steps
        if is_timed:
            self.times.append(seconds)

    def run_for(self, seconds):
        """Seconds of a step behind the settling part of a turn without a pause."""
        replays = max(2, round(seconds / (self.median * self.steps)))
        settling = max(1, round(replays * SETTLING))
        self.time(settling)
        return self.time(replays - settling) / ((replays - settling) * self.steps)

    @property
    def median(self):
        return statistics.median(self.times)


def take_turns(contestants, index):
    """The order of a round: the first of it runs on the coolest card."""
    return contestants[::1 if index % 2 else -1]


def run_rounds(contestants, rounds):
    """Replays all of them once a round, after one that does not count."""
    for contestant in contestants:
        contestant.replay(is_timed=False)
    for index in range(rounds):
        for contestant in take_turns(contestants, index):
            contestant.replay()


def sustain(contestants, seconds):
    """Lets each run for so many seconds in all, in an even number of turns: as often before
    the others as behind them."""
    heating = math.ceil(HEATING_SECONDS / (TURN_SECONDS * len(contestants)))
    rounds = 2 * max(1, round(seconds / TURN_SECONDS / 2))
    for index in range(heating + rounds):
        for contestant in take_turns(contestants, index):
            measured = contestant.run_for(TURN_SECONDS)
            if index >= heating:
                contestant.sustained.append(measured)


def race(launches, rounds):
    """Seconds of each launch, by rounds."""
    contestants = [Contestant(name, [launch]) for name, launch in launches.items()]
    run_rounds(contestants, rounds)
    return {one.name: one.times for one in contestants}


def ratio(times, peer, own="mlac"):
    """How many times as fast as a peer: the median of the rounds' ratios; None without it."""
    if not times.get(peer):
        return None
    return statistics.median(p / m for p, m in zip(times[peer], times[own]))


def better(times, names):
    """The fastest of the peers that ran, by medians; None if none did."""
    ran = [name for name in names if times.get(name)]
    return min(ran, key=lambda name: statistics.median(times[name]), default=None)


def markdown(head, rows):
    """A table for docs/performance.md."""
    line = lambda cells: "| " + " | ".join(str(cell) for cell in cells) + " |"
    return "\n".join([line(head), "|" + "---|" * len(head), *map(line, rows)])

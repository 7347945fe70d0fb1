# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Launches of several contestants, by turns."""

ROUND_SECONDS = 4e-3  # of launches between two events, at least one


class Launches:
    """One launch many times in a CUDA graph, so that the host's time does not count."""

    def __init__(self, launch):
        import torch

        self.seconds = []  # of a launch, by rounds
        launch()
        self.repeats = max(1, round(ROUND_SECONDS / self.time(launch, 1)))
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for _ in range(self.repeats):
                launch()

    @staticmethod
    def time(launch, repeats):
        import torch

        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        launch()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / repeats

    def run(self):
        self.seconds.append(self.time(self.graph.replay, self.repeats))


def race(launches, rounds):
    """Seconds of each launch, by rounds."""
    contestants = {name: Launches(launch) for name, launch in launches.items()}
    for index in range(rounds):
        # The first of a round runs on the coolest chip: take turns.
        for one in list(contestants.values())[::1 if index % 2 else -1]:
            one.run()
    return {name: one.seconds for name, one in contestants.items()}

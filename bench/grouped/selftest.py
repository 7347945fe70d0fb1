# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The harness on the CPU: a small row of each kind of package through what a GPU's rows go through,
and planted errors, which it has to find."""

import importlib.util
import pathlib
import tempfile

import problems

KERNEL = problems.Kernel(8, 2, 64, 16)


def rows():
    """Decodes, windows, several queries, codes, 96 columns, prompts: what problems.rows() has."""
    for changes in ({}, {"window": 24}, {"queries": 3}, {"codes": 1}, {"codes": 1, "queries": 3},
                    {"dim": 96}):
        kernel = problems.dataclasses.replace(KERNEL, **changes)
        yield problems.decodes(kernel, 2, 70)
    prompt = problems.dataclasses.replace(KERNEL, queries=0)
    yield problems.prompts(prompt, 1, 80, 20)
    yield problems.skewed(KERNEL, 130, 3, 20)


def check_rows(folder, build):
    import race

    for row in rows():
        build(folder, [row], "cpu")
        problem = race.Problem(folder, row, "cpu")
        sets = len(problem.plans)
        assert row.is_prompt() or sets >= race.SETS, f"{row.name()}: {sets} sets of pages"
        for launch in problem.launches():
            problem.output.fill_(float("nan"))
            launch()
        error = problem.error(problem.output)
        assert error <= race.ALLOWED, f"{row.name()}: error {error}"
        # Of the last request's last query, in one head.
        problem.output[-1, 0] *= 1.1
        error = problem.error(problem.output)
        assert not error <= race.ALLOWED, f"{row.name()}: a planted error is not found, {error}"


def check_timed_rows():
    """Names are of one row each, and what a decode reads between two visits of a page is cold."""
    import race

    all_rows = list(problems.rows())
    names = [row.name() for row in all_rows]
    assert len(names) == len(set(names)), {name for name in names if names.count(name) > 1}
    for row in all_rows:
        assert isinstance(race.count_sets(row, 1), int), f"{row.name()}: a part of a set of pages"
        read = race.count_sets(row, 1) * row.bytes()
        is_cold = row.is_prompt() or read >= min(race.COLD_BYTES, race.MOST_SETS * row.bytes())
        assert is_cold, f"{row.name()}: {read} bytes before a page is read again"


def run(build):
    if not importlib.util.find_spec("torch"):
        print("grouped: torch is not installed, nothing was checked")
        return
    check_timed_rows()
    with tempfile.TemporaryDirectory() as folder:
        check_rows(pathlib.Path(folder), build)
    print("grouped: all checks passed")

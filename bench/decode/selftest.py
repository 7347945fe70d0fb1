# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The harness tested on the CPU: small packages through the same code, and planted errors.

Needs NumPy and a compiler; a few seconds.
"""

import pathlib
import tempfile

import build
import grid
import problems
import reference
from arrays import NumpyArrays

# Pages and ranks that divide nothing evenly, every dtype of the CPU.
SPECS = (problems.Spec(3, 32, 8, 16, "f32"), problems.Spec(9, 64, 0, 1, "f16"))
INVARIANT = problems.Spec(3, 32, 8, 16, "f32", invariant=True)


def check_rules():
    """The comparison finds what it must."""
    arrays = NumpyArrays()
    xp = arrays.xp
    keys = arrays.double(arrays.random((70, 40), "f32", 1))
    queries = arrays.double(arrays.random((2, 3, 40), "f32", 2, 10.0, 40.0))
    output, lse = reference.attention(xp, queries, keys, 32, 0.2)
    # By hand: the first query does not see the last key.
    scores = keys[:69] @ queries[0, 1] * 0.2
    weights = xp.exp(scores)
    assert abs(xp.log(weights.sum()) - lse[0, 1]) < 1e-12
    assert xp.abs(weights @ keys[:69, :32] / weights.sum() - output[0, 1]).max() < 1e-12
    assert reference.compare(xp, output, lse, output, lse).is_good
    for planted in (0.01, float("nan"), float("inf")):
        wrong = output.copy()
        wrong[1, 2, 3] += planted
        assert reference.compare(xp, wrong, lse, output, lse).output_bad == 1
        wrong = lse.copy()
        wrong[0, 0] += planted
        assert reference.compare(xp, output, wrong, output, lse).lse_bad == 1
    assert not reference.compare(xp, output * 1.01, lse, output, lse).is_good


def check_selection():
    """Every value of every axis, every pair of heads with the others, few packages."""
    specs = problems.grid_specs()
    assert {s.heads for s in specs} == set(problems.HEADS)
    pairs = lambda a, b: {(getattr(s, a), getattr(s, b)) for s in specs}
    assert len(pairs("heads", "page")) == len(problems.HEADS) * len(problems.PAGES)
    assert len(pairs("heads", "rank")) == len(problems.HEADS) * 2
    assert len(pairs("heads", "dtype")) == len(problems.HEADS) * 2
    for axis in ("page", "dtype"):
        assert len({(getattr(s, axis), s.rank, s.rope) for s in specs}) == \
            len(getattr(problems, axis.upper() + "S")) * len(problems.RANKS)
    assert len(pairs("page", "dtype")) == len(problems.PAGES) * len(problems.DTYPES)


def run(build_dir):
    check_rules()
    check_selection()
    arrays = NumpyArrays()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        build.build(folder, build_dir, [*SPECS, INVARIANT], target="cpu")
        # Enough processors that requests are split.
        results = grid.run_grid(folder, SPECS, arrays, batches=(1, 2, 6), max_length=300,
                                repeats=3, num_sms=64)
        invariance = grid.run_invariance(folder, [INVARIANT], arrays, compositions=20, requests=8,
                                         max_length=300, num_sms=64)
    failed = any(r["failures"] for r in results) or any(r["different"] for r in invariance)
    assert len(results) == len(SPECS) and len(invariance) == 1
    print("selftest:", "FAIL" if failed else "PASS")
    return 1 if failed else 0

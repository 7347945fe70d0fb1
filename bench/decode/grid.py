# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The correctness grid: every case against float64, repeats, and batch invariance.

Covers on the device: any number of heads (C02), both latent widths (C03), pages of any
size (C01), one to four new tokens over cached context (C05, B22), split requests
(C10), the LSE (C16), and rows behind the step's tokens that stay untouched (A37).
"""

import dataclasses
import random
import time

import formats
import problems
import reference
from session import Session

# Lengths around blocks of 64 keys and pages of every size, and FlashMLA's own.
EDGES = (0, 1, 2, 20, 63, 64, 65, 127, 128, 129, 140, 200, 511, 777, 1025, 4096)
EQUAL = (20, 140, 4096)
MAX_LENGTH = 4096
# Beyond this many score elements (rows x keys) an equal-length case is left out.
MOST_SCORES = 128 * 4096 * 128
# Rows of the outputs behind the step's tokens.
GUARD_ROWS = 3
REPEATS = 20
COMPOSITIONS = 1000


@dataclasses.dataclass(frozen=True)
class Case:
    lengths: tuple  # tokens of each request, the new ones counted
    query_lens: tuple
    is_sharp: bool  # large queries: a softmax with peaks

    @property
    def name(self):
        return (f"batch {len(self.lengths)} s_q {max(self.query_lens)} lengths "
                f"{min(self.lengths)}..{max(self.lengths)}{' sharp' if self.is_sharp else ''}")


def ragged(generator, batch, query_len):
    """Random edge lengths; some requests are empty or have fewer new tokens."""
    lengths = [generator.choice(EDGES) for _ in range(batch)]
    if batch > 1:
        lengths[generator.randrange(batch)] = 0
    if max(lengths) < query_len:
        lengths[lengths.index(max(lengths))] = 777
    queries = [min(query_len, length) for length in lengths]
    longest = queries.index(query_len)
    for index, have in enumerate(queries):
        if index != longest and have > 1 and generator.random() < 0.25:
            queries[index] = generator.randint(1, have)
    return tuple(lengths), tuple(queries)


def skewed(batch, turn, query_len, max_length):
    """One request, or four, as long as may be among short ones: first, in the middle, last."""
    short = min((20, 64, 200)[turn % 3], max_length)
    count = 4 if batch >= 6 and turn % 2 else 1
    place = ("first", "middle", "last")[turn // 2 % 3]
    lengths = problems.skewed(count, max_length, batch - count, short, place).lengths
    return Case(lengths, (query_len,) * batch, turn % 4 < 2)


def cases(spec, index, batches=problems.BATCHES, query_lens=problems.QUERY_LENS,
          max_length=MAX_LENGTH):
    """The cases of one package; `index` turns what is not crossed in full."""
    generator = random.Random(index)
    turn = index
    for place, batch in enumerate(batches):
        for query_len in query_lens:
            turn += 1
            lengths, queries = ragged(generator, batch, query_len)
            lengths = tuple(min(length, max_length) for length in lengths)
            yield Case(lengths, queries, turn % 2 == 0)
            length = min(EQUAL[turn % len(EQUAL)], max_length)
            if batch * query_len * spec.heads * length <= MOST_SCORES:
                yield Case((length,) * batch, (query_len,) * batch, turn % 4 == 1)
        if batch > 1:
            query_len = query_lens[(index + place) % len(query_lens)]
            yield skewed(batch, index + place, query_len, max_length)


class Checker:
    """Cases of one package on one device."""

    def __init__(self, path, spec, arrays, max_requests, max_length, padding=0, num_sms=0):
        total = max_requests * max_length
        self.session = Session(path, spec, arrays, max_requests, max_length, total, padding,
                               num_sms)
        self.arrays, self.spec = arrays, spec
        self.make_keys(total)
        tokens = max_requests * max(problems.QUERY_LENS)
        self.queries = arrays.random((tokens, spec.heads, spec.width), spec.dtype, 2)
        # Scores then spread by about 1 instead of 0.01.
        self.sharp = arrays.random((tokens, spec.heads, spec.width), spec.dtype, 3, 10.0, 40.0)
        self.plan = self.session.engine.plan()

    def make_keys(self, total):
        """Rows as the pool has them, the keys they stand for, and what no row may be."""
        arrays, spec = self.arrays, self.spec
        if not spec.format:
            self.keys = self.rows = arrays.random((total, spec.width), spec.dtype, 1)
            self.poison = float("nan")
            return
        # Formats of codes are compared on a device only, with scales that round nothing, so that
        # the rule's bounds are those of FlashMLA's own tests. Others: bench/decode --check codes.
        torch = arrays.xp
        formats.set_scale(self.session, exact=True)
        self.rows = torch.empty((total, formats.ROW_BYTES[spec.format]), dtype=torch.uint8,
                                device=arrays.device)
        for piece in self.rows.split(formats.PIECE):
            formats.fill_codes(torch, piece, spec.format, exact=True)
        self.keys = torch.cat([formats.decode(torch, piece, spec.format, exact=True)
                               for piece in self.rows.split(formats.PIECE)])
        self.poison = 255  # a NaN in e4m3, and in floats of any width

    def prepare(self, case):
        """The filled plan, its inputs, and the requests' places in `keys`."""
        session = self.session
        context = [length - new for length, new in zip(case.lengths, case.query_lens)]
        sequences = session.sequences(context)
        plan = session.step(sequences, case.query_lens, self.plan)
        rows = session.rows(plan, case.lengths)
        # Whatever holds no token is NaN: unused pages, tails of last pages, padding.
        session.pool[:] = self.poison
        session.pool[rows] = self.rows[:len(rows)]
        query = (self.sharp if case.is_sharp else self.queries)[:sum(case.query_lens)]
        return sequences, plan, query

    def run(self, plan, query):
        """The step's outputs, and rows behind them that nothing may touch."""
        outputs = self.session.outputs(len(query) + GUARD_ROWS)
        self.session.engine.poison_workspace()
        plan.run_bound(**self.session.split_query(query), **outputs)
        return ({name: result[:len(query)] for name, result in outputs.items()},
                [result[len(query):] for result in outputs.values()])

    def expected(self, case, query):
        """Outputs, LSEs, and the sizes of scores that LSEs are compared by."""
        arrays, xp = self.arrays, self.arrays.xp
        requests, token, key = [], 0, 0
        for length, new in zip(case.lengths, case.query_lens):
            if new:
                queries = arrays.double(query[token:token + new])
                keys = arrays.double(self.keys[key:key + length])
                output, lse = reference.attention(xp, queries, keys, self.spec.rank, self.spec.scale)
                size = (reference.score_size(xp, queries, keys, self.spec.scale) if case.is_sharp
                        else xp.ones_like(lse))
                requests.append((output, lse, size))
            token, key = token + new, key + length
        return [arrays.concatenate(each) for each in zip(*requests)]

    def check(self, case):
        sequences, plan, query = self.prepare(case)
        if not len(query):
            return reference.Errors()
        outputs, guards = self.run(plan, query)
        xp, double = self.arrays.xp, self.arrays.double
        errors = reference.compare(xp, *map(double, outputs.values()), *self.expected(case, query))
        errors.output_bad += sum(int((~xp.isnan(double(guard))).sum()) for guard in guards)
        for sequence in sequences:
            sequence.free()
        return errors

    def count_unrepeatable(self, case, repeats):
        """Runs that differ in a bit from the first."""
        sequences, plan, query = self.prepare(case)
        first, _ = self.run(plan, query)
        different = 0
        for _ in range(repeats - 1):
            again, _ = self.run(plan, query)
            different += any(self.arrays.count_different_bits(again[name], first[name])
                             for name in first)
        for sequence in sequences:
            sequence.free()
        return different

    def close(self):
        self.session.close()


def check_package(path, spec, index, arrays, batches, query_lens, max_length, repeats, num_sms=0):
    """(number of cases, worst errors, messages of failures)."""
    checker = Checker(path, spec, arrays, max(batches), max_length, padding=index % 3,
                      num_sms=num_sms)
    worst, failures, count = reference.Errors(), [], 0
    all_cases = list(cases(spec, index, batches, query_lens, max_length))
    for case in all_cases:
        try:
            errors = checker.check(case)
        except Exception as error:  # a refused step is a failed case; a fault ends the run
            failures.append(f"{case.name}: {type(error).__name__}: {error}")
            if "CUDA" in str(error):
                break
            continue
        count += 1
        worst = worst.join(errors)
        if not errors.is_good:
            failures.append(f"{case.name}: {errors}")
    if not failures:
        case = max((c for c in all_cases if sum(c.query_lens)), key=lambda c: len(c.lengths))
        different = checker.count_unrepeatable(case, repeats)
        if different:
            failures.append(f"{case.name}: {different} of {repeats} repeats differ")
    checker.close()
    return count, worst, failures


def run_grid(directory, specs, arrays, batches=problems.BATCHES, query_lens=problems.QUERY_LENS,
             max_length=MAX_LENGTH, repeats=REPEATS, num_sms=0):
    """Checks every package that is there; JSON-able results."""
    results, begin = [], time.monotonic()
    for index, spec in enumerate(specs):
        path = directory / f"{spec.name}.mlac"
        if not path.exists():
            continue
        start = time.monotonic()
        count, worst, failures = check_package(path, spec, index, arrays, batches, query_lens,
                                               max_length, repeats, num_sms)
        print(f"  {spec.name:34} {count:3} cases {time.monotonic() - start:5.1f} s  {worst}"
              f"  {'FAIL' if failures else 'ok'}", flush=True)
        for failure in failures[:4]:
            print(f"      {failure}", flush=True)
        results.append({"package": spec.name, "cases": count, "failures": failures,
                        "worst": dataclasses.asdict(worst)})
    failed = sum(bool(result["failures"]) for result in results)
    print(f"grid: {sum(r['cases'] for r in results)} cases over {len(results)} packages, "
          f"{failed} packages failed, {time.monotonic() - begin:.0f} s")
    return results


# ---
# Batch invariance
# ---


def check_invariance(path, spec, arrays, compositions=COMPOSITIONS, requests=64,
                     max_length=MAX_LENGTH, num_sms=0):
    """Compositions in which some request's bits differ from those it had first."""
    generator = random.Random(1)
    query_len = 2
    # Taking the new tokens back and adding them again must not free a page: another
    # request could get it, and its keys are written once only.
    def keeps_pages(length):
        return (length - 1) // spec.page == (length - query_len - 1) // spec.page

    candidates = [length for length in range(query_len + 1, max_length + 1) if keeps_pages(length)]
    lengths = generator.choices(candidates, k=requests)
    checker = Checker(path, spec, arrays, requests, max_length, num_sms=num_sms)
    case = Case(tuple(lengths), (query_len,) * requests, True)
    sequences, plan, query = checker.prepare(case)
    first = {name: result.reshape(requests, query_len, *result.shape[1:])
             for name, result in checker.run(plan, query)[0].items()}
    query = query.reshape(requests, query_len, *query.shape[1:])
    different = 0
    for _ in range(compositions):
        chosen = generator.sample(range(requests), generator.randint(1, requests))
        for index in chosen:
            sequences[index].truncate(lengths[index] - query_len)
        checker.session.step([sequences[i] for i in chosen], [query_len] * len(chosen), plan)
        places = arrays.i64(chosen)
        got, _ = checker.run(plan, query[places].reshape(-1, *query.shape[2:]))
        different += any(
            arrays.count_different_bits(got[name], first[name][places].reshape(got[name].shape))
            for name in got)
    checker.close()
    return different


def run_invariance(directory, specs, arrays, compositions=COMPOSITIONS, **sizes):
    results = []
    for spec in specs:
        path = directory / f"{spec.name}.mlac"
        if not path.exists():
            continue
        start = time.monotonic()
        different = check_invariance(path, spec, arrays, compositions, **sizes)
        print(f"  {spec.name:34} {compositions} batch compositions, {different} differ  "
              f"{time.monotonic() - start:5.1f} s  {'FAIL' if different else 'ok'}", flush=True)
        results.append({"package": spec.name, "compositions": compositions,
                        "different": different})
    return results

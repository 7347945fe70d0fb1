# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The harness tested on the CPU: small packages through the same code, and planted errors.

Needs NumPy and a compiler; a few seconds.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import types
from unittest import mock

import build
import grid
import padded
import problems
import reference
import report
import turns
from arrays import NumpyArrays
from session import Session

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
    # Codes may be rounded once more.
    off = output.copy()
    off[..., ::2] *= 1.0048
    assert not reference.compare(xp, off, lse, output, lse).is_good
    assert reference.compare(xp, off, lse, output, lse, has_codes=True).is_good
    # LSEs near 0 are compared by what their scores are sums of, and by 1e-6 where that is small.
    size = reference.score_size(xp, queries, keys, 0.2)
    assert abs(size[0, 1] - (abs(keys) @ abs(queries[0, 1]) * 0.2).max()) < 1e-12 and size.min() > 5
    near = xp.zeros_like(lse)
    for planted, bad in ((0.9e-6, 0), (1.1e-6, 1)):
        wrong = near.copy()
        wrong[0, 1] = planted * size[0, 1]
        assert reference.compare(xp, output, wrong, output, near, size).lse_bad == bad
        wrong[0, 1] = planted
        assert reference.compare(xp, output, wrong, output, near).lse_bad == bad
    assert (reference.score_size(xp, queries / 100, keys, 0.2) == 1).all()


def check_selection():
    """Every value of every axis, every pair of heads with the others, few packages."""
    specs = problems.grid_specs()
    assert set(problems.ODD_SPECS) <= set(specs)
    specs = [spec for spec in specs if spec not in problems.ODD_SPECS]
    assert {s.heads for s in specs} == set(problems.HEADS)
    pairs = lambda a, b: {(getattr(s, a), getattr(s, b)) for s in specs}
    assert len(pairs("heads", "page")) == len(problems.HEADS) * len(problems.PAGES)
    assert len(pairs("heads", "rank")) == len(problems.HEADS) * 2
    assert len(pairs("heads", "dtype")) == len(problems.HEADS) * 2
    for axis in ("page", "dtype"):
        assert len({(getattr(s, axis), s.rank, s.rope) for s in specs}) == \
            len(getattr(problems, axis.upper() + "S")) * len(problems.RANKS)
    assert len(pairs("page", "dtype")) == len(problems.PAGES) * len(problems.DTYPES)


def check_rows():
    """The tables have what they promise, and no line twice."""
    rows = problems.SPEED_ROWS + problems.SKEWED_ROWS
    assert len({row.name for row in rows}) == len(rows)
    assert not any("|" in row.name for row in rows)  # a cell of a table
    skewed = problems.SKEWED_ROWS
    assert len(skewed) >= 40 and all(row.goal == "best" for row in skewed)
    assert {row.page for row in skewed} == set(problems.PAGES)
    assert {8, 16, 32, 64, 128} <= {row.heads for row in skewed}
    for place in (0, 31, 63):  # of 64 requests, the longest one
        assert any(row.batch == 64 and row.lengths[place] == max(row.lengths) > row.lengths[1]
                   for row in skewed), place
    shared = [row.requests for row in skewed if row.requests.shared]
    assert {batch.sharing for batch in shared} == {8, 32, 64, 128}
    one = problems.sharing(4, 3, 100, 10)
    assert one.lengths == (110,) * 4 and one.cached == 100 + 3 * 10 + 110


def check_peers():
    """Which operators are taken: what was named, else what is installed; without torch."""
    def operators(*names):
        found = types.SimpleNamespace(**{name: types.SimpleNamespace() for name in
                                         ("_flashmla_C", "flash_mla_legacy", "_vllm_fa3_C")})
        for name in names:
            setattr(getattr(found, name), "dense_decode_fwd", name)
        return found

    loaded = []
    torch = types.ModuleType("torch")
    torch.ops = operators()
    torch.ops.load_library = loaded.append
    with mock.patch.dict(sys.modules, {"torch": torch}), mock.patch.dict("os.environ", clear=True):
        import vllm_ops

        # Also where this machine has one of the packages.
        with mock.patch.object(vllm_ops.importlib.util, "find_spec", lambda name: None):
            assert vllm_ops.load(vllm_ops.FLASHMLA) is None and not loaded
        library = operators("flash_mla_legacy")
        library.load_library = loaded.append
        torch.ops = library
        taken = vllm_ops.load(vllm_ops.FLASHMLA, "some/_C_legacy.abi3.so")
        assert taken is library.flash_mla_legacy and loaded[0].endswith("_C_legacy.abi3.so")
        for wrong in ("some/library.so", "json"):  # there, but with other operators
            torch.ops = operators()
            torch.ops.load_library = loaded.append
            try:
                vllm_ops.load(vllm_ops.FLASHMLA, wrong)
                raise AssertionError(wrong)
            except RuntimeError as error:
                assert wrong in str(error) and "_flashmla_C" in str(error)


class FakeContestant:
    """Takes its given times by turns."""

    def __init__(self, name, log):
        self.name, self.log, self.sustained = name, log, []

    def run_for(self, seconds):
        self.log.append(self.name)
        return seconds / len(self.log)


def check_turns():
    """Who runs when, what counts, and ratios of rounds."""
    log = []
    a, b = (FakeContestant(name, log) for name in "ab")
    turns.sustain([a, b], 2 * turns.TURN_SECONDS)
    # Two rounds of 0.4 s each heat the card; the others count.
    assert "".join(log) == "baab" "baab" and len(a.sustained) == len(b.sustained) == 2, log
    assert b.sustained[0] == turns.TURN_SECONDS / 5
    turns.sustain([a, b], 3 * turns.TURN_SECONDS)
    assert len(a.sustained) == 2 + 4  # as often before the other as behind it
    times = {"mlac": [1.0, 2.0, 4.0], "flashmla": [2.0, 2.0, 4.0], "fa3": [0.5, 3.0, 9.0]}
    assert turns.ratio(times, "flashmla") == 1.0 and turns.ratio(times, "cudnn") is None
    assert turns.better(times, ("flashmla", "fa3")) == "flashmla"
    assert turns.better(times, ("cudnn",)) is None


def result_of(row, mlac, sustained, **peers):
    """A row's raw numbers as `speed` makes them, of planted times."""
    times = {"mlac": [mlac], **{name: [seconds] for name, seconds in peers.items()}}
    fields = {key: getattr(row, key) for key in ("name", "heads", "page", "query_len", "goal",
                                                 "target", "flops", "bytes")}
    return {**fields, "requests": row.requests.name, "is_right": True, "errors": "",
            "fa3_setting": "32d" if "fa3" in peers else None, "peers_off": {},
            "stream_bytes": row.bytes, "times": times,
            "seconds": {name: values[0] for name, values in times.items()},
            "sustained": {**times, "mlac": [sustained]} if peers else {}}


def check_compositions():
    """Ratios are to the fastest peer of a group, of each kind of times; at the power limit run our own and the
    fastest of each group."""
    import compositions

    times = {name: compositions.Times(*pair) for name, pair in {
        "mlac": (10.0, 20.0), "two": (8.0, 16.0), "torch": (12.0, None), "torch2": (14.0, 24.0)}.items()}
    text = compositions.compare(times, ("mlac", "two"), (("torch", "torch2"), ("absent",)))
    assert text == "[best of torch: cool 1.20, 1.50; sustained 1.20, 1.50]", text

    def make(name, launches):
        fake = FakeContestant(name, [])
        fake.median = launches[0]()
        fake.replay = lambda is_timed=True: None
        return fake

    seconds = {"mlac": 1e-5, "two": 3e-5, "torch": 5e-5, "torch2": 4e-5, "scores": 1e-6}
    launches = {name: lambda value=value: value for name, value in seconds.items()}
    with mock.patch("turns.Contestant", make):
        _, times = compositions.race(launches, 2, 0.8, ("mlac", "two"), (("torch", "torch2"), ("absent",)))
    ran = {name for name, one in times.items() if one.sustained}
    assert ran == {"mlac", "two", "torch2"} and round(times["torch"].cool) == 50, times


def check_report():
    """A lost row is printed and counted like a won one; without peers cells stay empty."""
    lost, won, alone = problems.SKEWED_ROWS[:3]
    results = [result_of(lost, 2e-6, 2e-6, flashmla=3e-6, fa3=1e-6),
               result_of(won, 1e-6, 4e-6, flashmla=2e-6), result_of(alone, 1e-6, 1e-6)]
    for result in results:
        report.derive(result, results)
    assert [result["verdict"] for result in results] == ["missed", "met", "no peer"]
    assert [result["best_ratio"] for result in results] == [0.5, 2.0, None]
    assert [result["sustained_ratio"] for result in results] == [0.5, 0.5, None]
    assert report.count_lost(results, "best_ratio", problems.BEST) == "1 of 2"
    assert report.count_lost(results, "sustained_ratio", problems.BEST_SUSTAINED) == "2 of 2"
    table = turns.markdown(report.HEAD, map(report.cells, results)).splitlines()
    assert len(table) == 2 + len(results)
    assert len({line.count("|") for line in table}) == 1, table
    assert lost.name in table[2] and "1.0 (32d)" in table[2] and "0.500" in table[2]


def check_prefill():
    """Rows of the causal attention, their floors, and verdicts of planted times."""
    import layers
    import rows

    assert len(rows.CAUSAL) == 22 and len({row.name for row in rows.ROWS}) == len(rows.ROWS)
    assert sum(rows.RAGGED) == 16384 and 1 <= min(rows.RAGGED) < max(rows.RAGGED) <= 2048
    for row in rows.CAUSAL:
        assert sum(row.query_lens) == 16384 or len(row.query_lens) == 1
    # By hand: a head's query 192, key 128, value and result 128 each, and an LSE.
    spec = layers.TIMED[16]
    assert spec.bytes((3, 5), (3, 5), True) == 8 * (16 * (2 * (192 + 128 + 128 + 128) + 4) + 2 * 64)
    assert spec.bytes((3,), (10,), False) == 3 * 16 * (2 * 192 + 4 * 129) + 10 * 2 * (16 * 256 + 64)
    assert spec.flops((3, 1), (3, 1), True) == 2 * (6 + 1) * 16 * 320

    def result(mlac, sustained, work=1e9, **peers):
        times = {"mlac": [mlac], **{name: [seconds] for name, seconds in peers.items()}}
        alone = {rows.PRODUCT: rows.PRODUCT_FLOPS / 8e14, "copy of k_pe": 1e-6}
        one = {"name": "row", "flops": work, "bytes": 4e6, "is_right": True, "times": times,
               "seconds": {**alone, **{name: values[0] for name, values in times.items()}},
               "sustained": {**times, "mlac": [sustained]} if peers else {}}
        rows.derive(one, 4e12)
        return one

    # 1 us of bytes, 1.25 us of FLOPs: bound by FLOPs; without them by bytes.
    won = result(2e-6, 2e-6, fa3=2.2e-6, cudnn=3e-6)
    assert (won["bound"], won["verdict"]) == ("FLOPs", "met") and won["byte_fraction"] == 0.5
    assert result(2e-6, 2.2e-6, fa3=2.2e-6)["verdict"] == "missed"  # sustained
    assert result(2e-6, 2e-6, fa3=2.2e-6, cudnn=2e-6)["verdict"] == "missed"  # the better one
    assert result(2e-6, 2e-6, 1e8, fa3=2.2e-6)["verdict"] == "missed"  # half of the byte floor
    assert result(2e-6, 2e-6)["verdict"] == "no peer"
    table = turns.markdown(rows.HEAD, map(rows.cells, (won, result(1e-6, 1e-6)))).splitlines()
    assert len({line.count("|") for line in table}) == 1, table


# A whole layer, small, whose forms of a step are compared.
LAYER = {"model_type": "deepseek_v3", "num_hidden_layers": 1, "hidden_size": 24,
         "num_attention_heads": 3, "q_lora_rank": None, "kv_lora_rank": 16, "qk_nope_head_dim": 8,
         "v_head_dim": 12, "qk_rope_head_dim": 4, "rope_theta": 1e4, "rms_norm_eps": 1e-6,
         "max_position_embeddings": 256}
LAYER_WEIGHTS = {"q_proj": (36, 24), "kv_a_proj_with_mqa": (20, 24), "kv_a_layernorm": (16,),
                 "kv_b_proj": (60, 16), "o_proj": (24, 36)}
LAYER_PAGE = 4


def make_layer(folder, build_dir, arrays):
    """The compiled layer in an engine with random weights and cache, and the cache's rows."""
    import mlac

    config, package = folder / "layer.json", folder / "layer.mlac"
    config.write_text(json.dumps(LAYER))
    subprocess.run([build_dir / "bin/mla-compile", config, "--target=cpu", "--dtype=f32", "--quiet",
                    f"--page-size={LAYER_PAGE}", "--functions=prefill,decode,step", "-o", package],
                   check=True)
    pages = 100
    engine = mlac.Engine(mlac.Package(str(package)), mlac.Device("cpu"), max_num_requests=10,
                         max_num_tokens=64, max_seq_len=64, num_pages=pages)
    engine.bind({f"{name}.weight": arrays.random(shape, "f32", seed, shape[-1] ** -0.5)
                 for seed, (name, shape) in enumerate(LAYER_WEIGHTS.items())})
    engine.prepare()
    rows = arrays.rows_at(engine.cache_data(), pages * LAYER_PAGE, 20, "f32")
    rows[:] = arrays.random(rows.shape, "f32", 9, 1.0, 4.0)
    return engine, rows.reshape(pages, LAYER_PAGE, 20)


def check_forms(folder, build_dir, arrays):
    """All forms of a step compute the same; a half-filled shape has the sizes of a full one."""
    engine, pool = make_layer(folder, build_dir, arrays)
    for batch, context in ((1, 4), (4, 37), (5, 33)):
        forms = padded.Batch(engine, arrays, pool, LAYER_PAGE, batch, context, 64)
        forms.bind(arrays, LAYER["hidden_size"], "f32")
        for form in forms.forms:
            form.launch()
        first, *others = forms.forms
        for form in others:
            assert form.difference(first) <= 1e-5, (form.name, form.difference(first))
        if batch > 1:
            full, twice, half = forms.forms[2:]
            assert full.plan.dims == half.plan.dims
            # What must be found: a wrong value, and a place that nothing may write.
            for form in (twice, half):
                form.output[form.count, 0] = 1.0
                assert form.difference(first) == float("inf")
                form.output[form.count, 0] = float("nan")
                form.output[0, 0] += 1.0
                assert form.difference(first) > 1e-2
        forms.free()
    engine.close()


def check_padded_table():
    """Ratios and verdicts of planted times."""
    def result(decode, step, full, twice, half, difference=0.0):
        times = {"decode": [decode], "step": [step], "padded": [full], "half-filled": [twice]}
        if half:
            times["half of them"] = [half]
        one = {"heads": 16, "batch": 2, "context": 8, "allowed": 0.1, "difference": difference,
               "times": times, "seconds": {name: values[0] for name, values in times.items()},
               "sustained": times}
        padded.derive(one)
        return one

    assert result(100, 102, 104, 104, 104)["verdict"] == "met"
    assert result(100, 103, 104, 104, 104)["verdict"] == "missed"
    assert result(100, 102, 105, 104, 104)["verdict"] == "missed"
    assert result(100, 102, 104, 105, 104)["verdict"] == "missed"
    assert result(100, 102, 104, 104, 105)["verdict"] == "missed"
    assert result(100, 102, 104, 104, None)["verdict"] == "met"
    assert result(100, 100, 100, 100, 100, float("nan"))["verdict"] == "WRONG"
    table = turns.markdown(padded.HEAD, [padded.cells(result(1, 1, 1, 1, None))]).splitlines()
    assert len({line.count("|") for line in table}) == 1, table


def check_sharing(path, spec, arrays):
    """Sequences of a row that shares: the same pages at the front, their own behind."""
    batch = problems.sharing(6, 4, 4 * spec.page, spec.page + 3)
    session = Session(path, spec, arrays, len(batch.lengths), max(batch.lengths),
                      batch.cached + len(batch.lengths) * spec.page)
    sequences = session.sequences([length - 1 for length in batch.lengths], batch.shared,
                                  batch.sharing)
    plan = session.step(sequences, [1] * len(batch.lengths))
    rows = session.rows(plan, batch.lengths).reshape(len(batch.lengths), -1)
    first = rows[:, :batch.shared]
    assert (first[:batch.sharing] == first[0]).all()
    assert len(set(rows.reshape(-1).tolist())) == batch.cached
    session.close()


def check_pieces():
    """Growing by more than a step holds never puts a sequence twice into one."""
    most = 1 << 16
    pieces = list(Session._pieces([("a", 2 * most + 5), ("b", most), ("c", 0)]))
    assert pieces == [("a", most), ("a", most), ("a", 5), ("b", most), ("c", 0)], pieces


def run(build_dir):
    check_rules()
    check_selection()
    check_rows()
    check_peers()
    check_turns()
    check_report()
    check_compositions()
    check_prefill()
    check_padded_table()
    check_pieces()
    arrays = NumpyArrays()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        build.build(folder, build_dir, [*SPECS, INVARIANT], target="cpu")
        # Enough processors that requests are split.
        check_forms(folder, build_dir, arrays)
        check_sharing(folder / f"{SPECS[0].name}.mlac", SPECS[0], arrays)
        results = grid.run_grid(folder, SPECS, arrays, batches=(1, 2, 6), max_length=300,
                                repeats=3, num_sms=64)
        invariance = grid.run_invariance(folder, [INVARIANT], arrays, compositions=20, requests=8,
                                         max_length=300, num_sms=64)
    failed = any(r["failures"] for r in results) or any(r["different"] for r in invariance)
    assert len(results) == len(SPECS) and len(invariance) == 1
    print("selftest:", "FAIL" if failed else "PASS")
    return 1 if failed else 0

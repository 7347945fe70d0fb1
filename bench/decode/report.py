# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The speed tables as text: derived columns and verdicts. Lost rows are printed like won ones."""

import json
import statistics

import power
import problems
from turns import better, markdown, ratio

MANIFEST = "manifest.json"
PEERS = ("flashmla", "fa3")


def best_ratio(times):
    """How many times as fast as the better of the peers; None without one."""
    peer = better(times, PEERS)
    return peer and ratio(times, peer)


def stream_fraction(result):
    """Bytes of the step over time, of the read stream's in the same rounds."""
    times = result["times"]
    if "read stream" not in times:
        return None
    scale = result["bytes"] / result["stream_bytes"]
    return statistics.median(scale * s / m for s, m in zip(times["read stream"], times["mlac"]))


def line_ratio(result, rows):
    """Time over that of the line through the next lower and higher head counts."""
    same = {r["heads"]: r["seconds"]["mlac"] for r in rows
            if r["goal"] == "line" and r["requests"] == result["requests"]}
    heads = result["heads"]
    below, above = [h for h in same if h < heads], [h for h in same if h > heads]
    if not below or not above:
        return None
    a, b = max(below), min(above)
    return same[heads] / (same[a] + (same[b] - same[a]) * (heads - a) / (b - a))


def page_ratio(result, rows):
    """Time over that of the same shape with pages of 64 tokens."""
    for other in rows:
        if other["page"] == 64 and all(other[k] == result[k]
                                       for k in ("heads", "requests", "query_len")):
            return result["seconds"]["mlac"] / other["seconds"]["mlac"]
    return None


def plain_ratio(result):
    """Time over that of rows of bf16 in the same rounds."""
    fraction = ratio(result["times"], "bf16")
    return fraction and 1 / fraction


def judge(result, rows):
    """(what was reached as text, verdict) against the row's goal."""
    goal, target = result["goal"], result["target"]
    value, text, is_least = {
        "peer": (ratio(result["times"], "flashmla"), "{:.3f}x FlashMLA", True),
        "best": (best_ratio(result["times"]), "{:.3f}x the better", True),
        "us": (result["seconds"]["mlac"] * 1e6, "{:.1f} us", False),
        "stream": (stream_fraction(result), "{:.3f} of stream", True),
        "line": (line_ratio(result, rows), "{:.3f} of line", False),
        "page": (page_ratio(result, rows), "{:.3f} of page 64", False),
        "plain": (plain_ratio(result), "{:.3f} of bf16", False)}[goal]
    if value is None:
        return "-", {"line": "end point", "page": "no page 64"}.get(goal, "no peer")
    is_met = value >= target if is_least else value <= target
    return text.format(value), "met" if is_met else "missed"


def target_text(result):
    text = {"peer": ">= {:.2f}x FlashMLA", "best": ">= {:.2f}x the better", "us": "<= {:g} us", "stream": ">= {:.2f} of stream",
            "line": "<= {:.2f} of line", "page": "<= {:.2f} of page 64", "plain": "<= {:.2f} of bf16"}
    return text[result["goal"]].format(result["target"])


def short_line(result):
    seconds = result["seconds"]
    text = f"{result['name']:32} {seconds['mlac'] * 1e6:9.1f} us"
    for name in seconds:
        if name not in ("mlac", "read stream"):
            text += f"  {name} {seconds[name] * 1e6:.1f} us"
    text += f"  {result['errors']}{'' if result['is_right'] else '  WRONG'}"
    for name, kernels in result.get("profile", {}).items():
        for kernel, microseconds in kernels.items():
            text += f"\n      {name}: {microseconds:9.1f} us  {kernel[:60]}"
    for name, drawn in result.get("power", {}).items():
        text += "\n" + power.format_line(name, drawn)
    for name, errors in result["peers_off"].items():
        text += f"\n      {name} is off: {errors}"
    return text


HEAD = ("work", "target", "µs", "TFLOP/s", "GB/s", "FlashMLA µs", "FA3 µs (setting)",
        "over the better", "sustained", "of the read stream", "reached", "")


def _number(value, form):
    return form.format(value) if value is not None else ""


def _microseconds(result, name):
    return _number(result["seconds"].get(name) and result["seconds"][name] * 1e6, "{:.1f}")


def derive(result, rows):
    """Adds what follows from the times to the raw numbers."""
    reached, verdict = judge(result, rows)
    result.update(ratio=ratio(result["times"], "flashmla"), best_ratio=best_ratio(result["times"]),
                  sustained_ratio=best_ratio(result["sustained"]),
                  stream_fraction=stream_fraction(result), reached=reached,
                  verdict=verdict if result["is_right"] else "WRONG")


def cells(result):
    seconds = result["seconds"]["mlac"]
    with_metadata = _microseconds(result, "flashmla with metadata")
    return (result["name"], target_text(result), _microseconds(result, "mlac"),
            f"{result['flops'] / seconds / 1e12:.0f}", f"{result['bytes'] / seconds / 1e9:.0f}",
            _microseconds(result, "flashmla") + (f" ({with_metadata})" if with_metadata else ""),
            _microseconds(result, "fa3")
            + (f" ({result['fa3_setting']})" if result["fa3_setting"] else ""),
            _number(result["best_ratio"], "{:.3f}"), _number(result["sustained_ratio"], "{:.3f}"),
            _number(result["stream_fraction"], "{:.3f}"), result["reached"], result["verdict"])


def count_lost(rows, key, target):
    """How many of the rows with a peer are slower than the target."""
    values = [result[key] for result in rows if result[key] is not None]
    return f"{sum(value < target for value in values)} of {len(values)}"


def print_table(results):
    rows = results["rows"]
    print(f"== {results['title']} on one {results['device']}: medians; ratios per round, alternating")
    for when, ceilings in zip(("before", "after"), results["ceilings"]):
        print(f"   {when}: read stream {ceilings['read_bytes_per_s'] / 1e9:.0f} GB/s, "
              f"bf16 product 8192^3 {ceilings['matmul_flops_per_s'] / 1e12:.0f} TFLOP/s")
    for result in rows:
        derive(result, rows)
    print(markdown(HEAD, map(cells, rows)))
    print("(FlashMLA in brackets: with its metadata kernel in every step. FA3's setting: num_splits, "
          "d with a query of four dimensions)")
    print(f"slower than the better peer: {count_lost(rows, 'best_ratio', problems.BEST)} rows; "
          f"sustained below {problems.BEST_SUSTAINED} of it: "
          f"{count_lost(rows, 'sustained_ratio', problems.BEST_SUSTAINED)}")


def print_compile_time(directory, results):
    """How long the compiler took where the packages were built."""
    manifest = directory / MANIFEST
    if not manifest.exists():
        return
    seconds = json.loads(manifest.read_text()).get("one_kernel_seconds")
    if seconds:
        limit = problems.COMPILE_TARGET
        results["one_kernel_seconds"] = seconds
        print(f"cold compile of one decode kernel (where the packages were built): {seconds:.2f} s, "
              f"target <= {limit:g} s: {'met' if seconds <= limit else 'missed'}")

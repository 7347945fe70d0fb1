# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The speed table as text: derived columns and verdicts."""

import json
import statistics

import power
import problems

MANIFEST = "manifest.json"


def ratio(result, peer):
    """How many times as fast as a peer: the median of the rounds' ratios."""
    times = result["times"]
    if peer not in times:
        return None
    return statistics.median(p / m for p, m in zip(times[peer], times["mlac"]))


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
            if r["goal"] == "line" and (r["batch"], r["kv"]) == (result["batch"], result["kv"])}
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
                                       for k in ("heads", "batch", "kv", "query_len")):
            return result["seconds"]["mlac"] / other["seconds"]["mlac"]
    return None


def judge(result, rows):
    """(what was reached as text, verdict) against the row's goal."""
    goal, target = result["goal"], result["target"]
    value, text, is_least = {
        "peer": (ratio(result, "flashmla"), "{:.3f}x FlashMLA", True),
        "us": (result["seconds"]["mlac"] * 1e6, "{:.1f} us", False),
        "stream": (stream_fraction(result), "{:.3f} of stream", True),
        "line": (line_ratio(result, rows), "{:.3f} of line", False),
        "page": (page_ratio(result, rows), "{:.3f} of page 64", False)}[goal]
    if value is None:
        return "-", {"line": "end point", "page": "no page 64"}.get(goal, "no peer")
    is_met = value >= target if is_least else value <= target
    return text.format(value), "met" if is_met else "missed"


def target_text(result):
    text = {"peer": ">= {:.2f}x FlashMLA", "us": "<= {:g} us", "stream": ">= {:.2f} of stream",
            "line": "<= {:.2f} of line", "page": "<= {:.2f} of page 64"}
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
    if not result.get("is_peer_right", True):
        text += f"  FlashMLA is off: {result['peer_errors']}"
    return text


def _number(value, form):
    return form.format(value) if value is not None else "-"


def print_table(results, directory):
    rows = results["rows"]
    print(f"== speed on one {results['device']}: medians; ratios per round, alternating")
    for when, ceilings in zip(("before", "after"), results["ceilings"]):
        print(f"   {when}: read stream {ceilings['read_bytes_per_s'] / 1e9:.0f} GB/s, "
              f"bf16 product 8192^3 {ceilings['matmul_flops_per_s'] / 1e12:.0f} TFLOP/s")
    head = ("work", "target", "us", "TF", "GB/s", "FlashMLA us", "ratio", "of stream", "reached",
            "verdict")
    widths = (28, 20, 8, 6, 6, 15, 6, 9, 20, 13)
    line = lambda cells: print(" ".join(f"{c:<{w}}" if i < 2 else f"{c:>{w}}"
                                        for i, (c, w) in enumerate(zip(cells, widths))))
    line(head)
    for result in rows:
        seconds = result["seconds"]["mlac"]
        peer = result["seconds"].get("flashmla")
        with_metadata = result["seconds"].get("flashmla with metadata")
        peer_text = _number(peer and peer * 1e6, "{:.1f}")
        if with_metadata:
            peer_text += f" ({with_metadata * 1e6:.1f})"
        reached, verdict = judge(result, rows)
        result.update(ratio=ratio(result, "flashmla"), stream_fraction=stream_fraction(result),
                      reached=reached, verdict=verdict if result["is_right"] else "WRONG")
        line((result["name"], target_text(result), f"{seconds * 1e6:.1f}",
              f"{result['flops'] / seconds / 1e12:.0f}", f"{result['bytes'] / seconds / 1e9:.0f}",
              peer_text, _number(result["ratio"], "{:.3f}"),
              _number(result["stream_fraction"], "{:.3f}"), reached, result["verdict"]))
    manifest = directory / MANIFEST
    if manifest.exists():
        compile_seconds = json.loads(manifest.read_text()).get("one_kernel_seconds")
        if compile_seconds:
            limit = problems.COMPILE_TARGET
            results["one_kernel_seconds"] = compile_seconds
            print(f"cold compile of one decode kernel (where the packages were built): "
                  f"{compile_seconds:.2f} s, target <= {limit:g} s: "
                  f"{'met' if compile_seconds <= limit else 'missed'}")
    print("(in brackets: FlashMLA with its metadata kernel in every step)")

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What bench-sweep_C20.test wrote: CSV, JSON and trace events, as their readers take them."""

import csv
import json
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])


def check_csv():
    rows = list(csv.DictReader((folder / "out.csv").open(newline="")))
    points = [(row["query_len"], row["context"], row["batch"]) for row in rows]
    assert points == [(q, c, b) for q in "13" for c in ("0", "2048000") for b in "12"], points
    for row in rows:
        assert None not in row and None not in row.values(), row
        assert row["package"].startswith("deepseek_v3, 4 heads, f32, page size 64, on cpu"), row
        assert float(row["read_ceiling_bytes_per_s"]) > 1e6, row
        if row["context"] == "0":
            assert row["function"] == {"1": "decode", "3": "prefill"}[row["query_len"]], row
            assert float(row["median_us"]) >= float(row["least_us"]) > 0, row
            assert float(row["flops"]) > 0 and row["error"] == "", row
        else:
            assert row["median_us"] == "" and "max_seq_len = 204800" in row["error"], row


def check_json():
    points = json.loads((folder / "out.json").read_text())
    assert [(p["context"], p["batch"]) for p in points] == [
        (0, 1), (0, 2), (2048000, 1), (2048000, 2)], points
    assert all(("median_us" in p) == (p["context"] == 0) for p in points), points
    assert all(("error" in p) == (p["context"] != 0) for p in points), points


def check_trace(name, batches):
    """Chrome's trace event format: complete events (X) lie on tracks that metadata (M) names."""
    events = json.loads((folder / name).read_text())["traceEvents"]
    tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in events
              if e["ph"] == "M" and e["name"] == "thread_name"}
    processes = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert processes == [f"decode, batch {b}, context 1024, 1 new" for b in batches], processes
    for process in range(1, len(batches) + 1):
        slices = [e for e in events if e["ph"] == "X" and e["pid"] == process]
        of_track = {name: [e for e in slices if tracks[e["pid"], e["tid"]] == name]
                    for name in tracks.values()}
        (plan,), (step,) = of_track["host"], of_track["whole step, median"]
        launches = of_track["launches, each timed apart"]
        assert plan["ts"] == 0 and plan["dur"] == step["ts"] == launches[0]["ts"], slices
        ends = [e["ts"] + e["dur"] for e in launches]
        assert all(abs(end - e["ts"]) < 1e-6 for end, e in zip(ends, launches[1:])), launches
        assert sum("attention" in e["name"] for e in launches) == 1, launches
    return launches


check_csv()
check_json()
launches = check_trace("one.trace", [2])
check_trace("two.trace", [1, 2])
profile = json.loads((folder / "one.json").read_text())["profile"]
assert [e["name"] for e in launches] == [launch["kernel"] for launch in profile]

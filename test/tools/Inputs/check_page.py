# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads pages of --explain and --report as strict XML, and holds what they say against formulas.

    check_page.py PAGE [v3]     v3: of DeepSeek-V3 on 8 ranks for sm_90a
"""

import math
import re
import sys
import xml.etree.ElementTree as ElementTree

XHTML, SVG = "{http://www.w3.org/1999/xhtml}", "{http://www.w3.org/2000/svg}"
PREFIXES = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def number(text):
    value, prefix = re.fullmatch(r"([-+.\de]+) ?([kMGT]?)B?", text).groups()
    return float(value) * PREFIXES[prefix]


def check_figures(page):
    """Every figure has something in it, with finite numbers inside of its box."""
    figures = list(page.iter(SVG + "svg"))
    assert figures, "no figures"
    for figure in figures:
        _, _, width, height = (float(x) for x in figure.get("viewBox").split())
        marks = [e for e in figure.iter() if e.tag in (SVG + "rect", SVG + "circle", SVG + "polyline")]
        assert marks, ElementTree.tostring(figure)[:200]
        for mark in marks:
            xs = [mark.get(k) for k in ("x", "cx") if mark.get(k)]
            ys = [mark.get(k) for k in ("y", "cy") if mark.get(k)]
            for point in (mark.get("points") or "").split():
                xs.append(point.split(",")[0])
                ys.append(point.split(",")[1])
            assert all(-0.1 <= float(x) <= width + 0.1 for x in xs), mark.attrib
            assert all(-0.1 <= float(y) <= height + 0.1 for y in ys), mark.attrib
        assert all(math.isfinite(float(mark.get("width", 1))) for mark in marks)


def check_offline(page, text):
    """Nothing is fetched and nothing runs."""
    for element in page.iter():
        assert element.tag.split("}")[1] not in ("script", "link", "iframe", "img", "object"), element.tag
        for name, value in element.attrib.items():
            assert not name.startswith("on"), name
            assert name != "href" or value.startswith("#"), value
    assert "url(" not in text and "@import" not in text


def tables(page):
    """The rows of each table by the heading in front of it."""
    found, heading = {}, None
    for element in page.iter():
        if element.tag in (XHTML + "h2", XHTML + "h3"):
            heading = "".join(element.itertext())
        elif element.tag == XHTML + "table":
            found[heading] = [["".join(cell.itertext()) for cell in row] for row in element.iter(XHTML + "tr")]
    return found


def near(text, expected):
    assert abs(number(text) / expected - 1) < 0.01, (text, expected)


def check_v3(page):
    of = tables(page)
    rows = {row[0]: row for row in of["Function 'decode': 64 requests, 4096 cached, 1 new tokens"]}
    batch, heads, keys, element = 64, 16, 4097, 2
    near(rows["linear_3072x1536_rows_64"][2], 2 * batch * 3072 * 1536)
    near(rows["linear_3072x1536_rows_64"][3], element * 1536 * (3072 + batch))
    near(rows["linear_7168x2048_rows_64"][2], 2 * batch * 7168 * 2048)
    # Rows of the cache once, whatever reads them twice; 16 rows of a tile of 64 are a request's.
    near(rows["absorbed_attention_0"][2], 2 * batch * heads * keys * (512 + 64 + 512))
    near(rows["absorbed_attention_0"][3], element * (batch * keys * 576 + batch * heads * 576))
    near(rows["sum_rms_norm_1536_append_512"][4], element * batch * (1536 + 576))
    # Half of a prompt's pairs are masked.
    rows = {row[0]: row for row in of["Function 'prefill': 1 request, 0 cached, 2048 new tokens"]}
    near(rows["expanded_attention_causal"][2], 2 * heads * (2048 * 2049 / 2) * (192 + 128))
    # Both projections of the hidden rows are one product, the last turn's tiles another kernel.
    down = sum(number(row[2]) for name, row in rows.items() if name.startswith("linear_2112x7168_tile"))
    near(str(down), 2 * 2048 * (1536 + 576) * 7168)
    # The programs' count of a layer is the cost model's.
    rows = {row[0]: row for row in of["Function 'decode': 1 request, 4096 cached, 1 new tokens"]}
    costs = {(row[0], row[1]): row for row in of["Cost of a layer by form, one request"]}
    near(rows["all"][2], number(costs["1, 4095", "absorbed online"][3]))
    kernels = {row[0] for table in of.values() for row in table}
    assert not any("not counted" in cell for table in of.values() for row in table for cell in row)
    assert {"relay (chosen)", "stream (chosen)"} <= kernels, kernels
    lanes = [e.text for e in page.iter(SVG + "text")]
    for name in ("role of scores", "copies to rope keys", "absorbed_attention", "keys 0"):
        assert name in lanes, name


text = open(sys.argv[1], encoding="utf-8").read()
page = ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))
check_figures(page)
check_offline(page, text)
if sys.argv[2:] == ["v3"]:
    check_v3(page)
print(len(text), "bytes,", len(list(page.iter(SVG + "svg"))), "figures")

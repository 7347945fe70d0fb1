#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds the links of the documentation against the files and headings that are there.

    check_docs.py [ROOT]     another checkout than this one

Every relative link of a tracked Markdown file must lead to a file or folder, and its #anchor to a
heading of it. Every page of docs/ itself must be reachable from docs/README.md.
"""

import pathlib
import re
import sys

LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~)")
HEADING = re.compile(r"^#{1,6} +(.*?)\s*$")
SKIPPED = ("build", ".git", ".gpu")


def lines_outside_of_code(path):
    inside = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            yield number, line


def anchor(heading):
    """As GitHub makes it: links are their text, punctuation goes, blanks are dashes."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(path):
    found = []
    for _, line in lines_outside_of_code(path):
        if match := HEADING.match(line):
            name = anchor(match.group(1))
            found.append(name if name not in found else f"{name}-{found.count(name)}")
    return found


def links(path):
    """Line, file and anchor ("" without) of each relative link; inline code has none."""
    for number, line in lines_outside_of_code(path):
        for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            name, _, fragment = target.partition("#")
            yield number, (path.parent / name).resolve() if name else path.resolve(), fragment


def check_links(root, pages):
    for page in pages:
        for number, target, fragment in links(page):
            place = f"{page.relative_to(root)}:{number}"
            if not target.exists():
                yield f"{place}: no file {target.name}"
            elif fragment and target.suffix == ".md" and fragment not in anchors(target):
                yield f"{place}: {target.name} has no heading #{fragment}"


def check_index(root):
    index = root / "docs/README.md"
    if not index.is_file():
        yield "docs/README.md: missing"
        return
    reached = {target for _, target, _ in links(index)}
    for page in sorted((root / "docs").glob("*.md")):
        if page != index and page.resolve() not in reached:
            yield f"docs/README.md: does not lead to {page.name}"


def main():
    if "--help" in sys.argv or "-h" in sys.argv:
        print(__doc__.strip())
        return 0
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    root = root if len(sys.argv) > 1 else root.parent.parent
    pages = [page for page in sorted(root.rglob("*.md"))
             if not any(part in SKIPPED or part.startswith("build") for part in page.relative_to(root).parts)]
    problems = [*check_links(root, pages), *check_index(root)]
    print(*problems, f"{len(pages)} pages, {len(problems)} problems", sep="\n")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())

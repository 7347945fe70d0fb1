# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds the document that a browser dumped against the page that it was given.

    check_dom.py PAGE DOM
"""

import collections
import html.parser
import sys


class Counter(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.tags, self.texts = collections.Counter(), []
        self.feed(open(path, encoding="utf-8").read())

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1

    def handle_data(self, data):
        self.texts.append(data.strip())


page, dom = Counter(sys.argv[1]), Counter(sys.argv[2])
for tag in ("svg", "rect", "circle", "polyline", "title", "tr", "td", "figcaption", "h2", "h3"):
    assert page.tags[tag] == dom.tags[tag] > 0, (tag, page.tags[tag], dom.tags[tag])
assert [t for t in page.texts if t] == [t for t in dom.texts if t]

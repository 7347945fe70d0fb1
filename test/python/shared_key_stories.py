# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stories that are served to DeepSeek-V4's layers, in steps of every kind: what tests of them share."""

import tempfile
import unittest

import numpy as np

from mlac import reference

import shared_key_layers as shared
import sparse_layers as layers

# Counts of tokens for each of four requests.
STEPS = (("prefill", (5, 3, 130, 66)), ("step", (1, 40, 1, 1)), ("decode", (1, 1, 1, 1)),
         ("step", (0, 1, 7, 2)), ("decode", (1, 1, 1, 1)), ("prefill", (9, 100, 6, 61)))


class ServedTest(unittest.TestCase):
    """Compiles layers and serves sequences of them."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def compile(self, config, element, *options):
        return layers.compile_layer(config, self.folder.name, "layer", f"--dtype={element}",
                                    "--functions=prefill,decode,step", *options)

    def serve(self, package, weights, element, topk=1):
        return layers.Served(package, weights, element, topk, max_num_tokens=512)


MXFP4 = "--index-format=mxfp4"


def index_rounding(options, element):
    """What becomes of an indexer's queries and keys, and how far a score may be off: codes of e2m1
    lie four times as far apart as those of e4m3."""
    if MXFP4 in options:
        return reference.quantise_mxfp4, 4 * layers.SCORE_SLACK[element]
    return reference.quantise, layers.SCORE_SLACK[element]


class StoryTest(ServedTest):
    """Requests of one story, in steps of every kind, each row against float64."""

    def check(self, kind, element, *options, given=False, steps=STEPS,
              quantise=reference.quantise, slack=None, **more):
        config = shared.config(kind, **more)
        rng = np.random.default_rng(kind)
        weights = shared.random_weights(rng, config, kind)
        package = self.compile(config, element, *options,
                               *(["--indexer=shared"] if given else []))
        shape = reference.shared_keys_from_hf(config, 0)
        story = layers.widen(layers.narrow(rng.standard_normal((300, config["hidden_size"])),
                                           element))
        selected = scores = None
        if shape.indexer:
            wide = {name: np.asarray(w) for name, w in weights.items()}
            scores = reference.shared_key_scores(shape, wide, story, quantise)
            seen = (np.arange(len(story)) + 1) // shape.every
            selected = reference.top_k(scores, seen, shape.indexer.topk)
        expected, _ = reference.shared_key_layer(shape, weights, story, selected)
        served = self.serve(package, weights, element, config["index_topk"])
        sequences = [served.engine.sequence() for _ in steps[0][1]]
        compared = skipped = 0
        for function, counts in steps:
            starts, rows = layers.next_rows(sequences, counts)
            output, _ = served.step(sequences, counts, story[rows], function,
                                    selected[rows] if given else None)
            clear = np.ones(len(rows), bool)
            if shape.indexer and not given:
                clear = shared.clear_rows(shape, scores, rows,
                                          slack or layers.SCORE_SLACK[element])
            compared, skipped = compared + clear.sum(), skipped + (~clear).sum()
            self.assertTrue(np.isfinite(output).all())
            if clear.any():
                worst = layers.judge_output(output[clear], expected[rows][clear], element)
                self.assertLess(worst, 1, f"{function} of {counts} behind {starts}")
        self.assertGreater(compared, skipped)
        return served, sequences, story, expected, selected

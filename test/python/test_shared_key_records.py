# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Keys of DeepSeek-V4's layers in records of 584 bytes, against the golden layers and float64."""

import unittest

import numpy as np

from mlac import reference

import shared_key_layers as shared
import sparse_layers as layers
from shared_key_stories import STEPS, ServedTest


class RecordTest(ServedTest):
    """Keys in records of 584 bytes, on any device that has bf16."""

    def test_golden_layers_V4_10_V4_46_V4_47(self):
        for kind in (shared.WINDOW_ONLY, shared.SELECTED, shared.ALL):
            config, weights, hidden, expected, selected, _ = shared.read_golden(kind)
            given = ["--indexer=shared"] if kind == shared.SELECTED else []
            package = self.compile(config, "bf16", f"--layer={kind}", "--cache-format=fp8", *given)
            pools = {pool["name"]: pool for pool in package.info["pools"]}
            for name, page in (("cache", 64), ("entries", 64 if kind == shared.SELECTED else 2)):
                if kind == shared.WINDOW_ONLY and name == "entries":
                    self.assertNotIn(name, pools)
                    continue
                pool = pools[name]
                self.assertEqual((pool["format"], pool["row_bytes"], pool["page_size"],
                                  pool["dtype"]), ("model1_584", 584, page, "u8"))
            served = self.serve(package, weights, "bf16", config["index_topk"])
            sequence, outputs = served.engine.sequence(), []
            for count, function in ((130, "prefill"), (1, "decode"), (61, "prefill"), (1, "decode"),
                                    (207, "prefill")):
                rows = slice(len(sequence), len(sequence) + count)
                outputs.append(served.step([sequence], [count], hidden[rows], function,
                                           None if selected is None else selected[rows])[0])
            self.assertLess(layers.judge_output(np.concatenate(outputs), expected, "bf16",
                                                "model1_584"), 1, f"layer {kind}")

    def story(self, kind, rng):
        config = shared.config(kind, head_dim=512, qk_rope_head_dim=64)
        weights = shared.random_weights(rng, config, kind)
        shape = reference.shared_keys_from_hf(config, 0)
        story = layers.widen(layers.narrow(rng.standard_normal((300, config["hidden_size"])),
                                           "bf16"))
        return config, weights, shape, story

    def test_random_stories_V4_27_V4_30_V4_37(self):
        """Against float64 over the values of the records, as near as layers without codes: what is
        rounded is the rows that the same layer keeps without them."""
        for kind in (shared.WINDOW_ONLY, shared.SELECTED, shared.ALL):
            config, weights, shape, story = self.story(kind, np.random.default_rng(584 + kind))
            given = ["--indexer=shared"] if kind == shared.SELECTED else []
            kept = self.keep(config, weights, story, kind, *given)
            expected, selected = reference.shared_key_layer(
                shape, weights, story, stored=lambda rows: shared.records(kept))
            package = self.compile(config, "bf16", "--cache-format=fp8_e4m3", *given)
            served = self.serve(package, weights, "bf16", config["index_topk"])
            sequences = [served.engine.sequence() for _ in STEPS[0][1]]
            for function, counts in STEPS:
                starts, rows = layers.next_rows(sequences, counts)
                output, _ = served.step(sequences, counts, story[rows], function,
                                        selected[rows] if given else None)
                self.assertLess(layers.judge_output(output, expected[rows], "bf16"), 1,
                                f"kind {kind}, {function} of {counts} behind {starts}")

    def keep(self, config, weights, story, kind, *given):
        """The rows [S + entries, D] that a layer without codes keeps of a story."""
        served = self.serve(self.compile(config, "bf16", *given), weights, "bf16",
                            config["index_topk"])
        poison = self.read_rows(served.engine, kind)
        sequence = served.engine.sequence()
        selected = np.full((len(story), config["index_topk"]), -1, np.int32) if given else None
        served.step([sequence], [len(story)], story, "prefill", selected)
        # A first sequence takes pages in order.
        self.assertEqual(sorted(sequence.pages), list(sequence.pages))
        rows = [rows[np.any(rows != before, axis=1)].view(np.uint16)
                for before, rows in zip(poison, self.read_rows(served.engine, kind))]
        return layers.widen(np.concatenate(rows))

    def test_bytes_are_those_of_the_unfused_path_V4_05_V4_06_V4_07(self):
        """Of the bf16 rows that the same layer keeps without codes; and rows of padding, and of no
        token, stay as they were."""
        for kind in (shared.WINDOW_ONLY, shared.SELECTED, shared.ALL):
            config, weights, shape, story = self.story(kind, np.random.default_rng(5 + kind))
            given = ["--indexer=shared"] if kind == shared.SELECTED else []
            tokens, kept = 140, []
            selected = np.full((tokens, config["index_topk"]), -1, np.int32) if given else None
            for options in ((), ("--cache-format=fp8",)):
                package = self.compile(config, "bf16", *options, *given)
                served = self.serve(package, weights, "bf16", config["index_topk"])
                before = self.read_rows(served.engine, kind)
                served.step([served.engine.sequence()], [tokens], story[:tokens], "prefill", selected)
                kept.append((before, self.read_rows(served.engine, kind)))
            for pool in range(len(kept[0][0])):
                (poison, rows), (untouched, got) = ((b[pool], a[pool]) for b, a in kept)
                is_row = np.any(rows != poison, axis=1)
                self.assertEqual(is_row.sum(), tokens // (shape.every if pool else 1))
                expected = shared.record_bytes(rows[is_row].view(np.uint16))
                np.testing.assert_array_equal(got[is_row], expected)
                np.testing.assert_array_equal(got[~is_row], untouched[~is_row])

    def read_rows(self, engine, kind):
        """The bytes of all slots of keys and, where there are such, of entries."""
        rows = []
        for pool in range(1 if kind == shared.WINDOW_ONLY else 2):
            stats = engine.pool_stats(pool)
            count = stats["num_pages"] * stats["page_size"]
            data = np.frombuffer(engine.read_cache(0, count, pool=pool), np.uint8)
            rows.append(data.reshape(count, -1))
        return rows

    def test_names_of_formats_V4_10(self):
        config = shared.config(shared.WINDOW_ONLY, head_dim=512, qk_rope_head_dim=64)
        for name in ("fp8", "fp8_e4m3", "fp8_ds_mla", "model1_584"):
            package = self.compile(config, "bf16", f"--cache-format={name}")
            self.assertEqual(package.info["pools"][0]["format"], "model1_584")
            self.assertIn("--cache-format=model1_584", package.info["options"])


if __name__ == "__main__":
    unittest.main()

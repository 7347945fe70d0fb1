# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sequence descriptors of model graphs (paged-cache.md sections 11, 13 and 14)."""

import unittest

import numpy as np

from mlac.sequence_info import SequenceInfo, live_lengths

try:
    import torch
except ImportError:
    torch = None


class SequenceInfoTest(unittest.TestCase):
    def setUp(self):
        self.info = SequenceInfo(max_seq_len=10, max_batch_size=3, page_size=4)

    def refuses(self, message):
        return self.assertRaisesRegex(ValueError, message)

    def test_D25_defaults_and_number_of_pages(self):
        self.assertEqual((self.info.max_num_tokens, self.info.num_pages), (30, 8))
        self.assertEqual(SequenceInfo(10, 3, 4, max_num_tokens=9).num_pages, 3)
        unpaged = SequenceInfo(10, 3)
        self.assertEqual((unpaged.page_size, unpaged.num_pages), (10, 3))
        self.assertTrue(self.info.is_paged and not unpaged.is_paged)
        self.info.num_pages = 12
        self.assertEqual(self.info.cache_loc.tolist(), list(range(12)))
        with self.refuses("num_pages is 2, 3 are in use"):
            self.info.num_pages = 2
        with self.refuses("max_seq_len is 0"):
            SequenceInfo(0)

    def test_D25_sizes_that_are_none(self):
        """2.5 tokens of a page were taken."""
        for sizes in ({"max_seq_len": 1.5}, {"max_batch_size": "a"}, {"page_size": 2.5},
                      {"max_num_tokens": None}):
            (name, value), = sizes.items()
            with self.refuses(f"{name}: expected an integer, got {value!r}"):
                SequenceInfo(**{"max_seq_len": 8, "max_batch_size": 2, **sizes})
        with self.refuses("num_pages: expected an integer, got 9.5"):
            self.info.num_pages = 9.5

    def test_D26_nests_and_takes_apart(self):
        self.info.nest_sequences([[1, 2, 3], np.array([4]), [5, 6]])
        self.assertEqual(self.info.input_ids.tolist(), [[1, 2, 3, 4, 5, 6]])
        self.assertFalse(self.info.is_generate)
        # Erratum 6: a sequence begins where the one before ends.
        parts = self.info.unnest_sequences(self.info.input_ids[..., None] * 10)
        self.assertEqual([part[:, 0].tolist() for part in parts], [[10, 20, 30], [40], [50, 60]])
        self.info.nest_sequences([[7], [8]])
        self.assertEqual(self.info.input_ids.tolist(), [[7], [8]])
        self.assertEqual(self.info.seq_len.tolist(), [1, 1, 0])
        self.assertTrue(self.info.is_generate)
        self.info.nest_sequences([])
        self.assertTrue(self.info.is_generate)
        self.assertEqual(self.info.unnest_sequences(self.info.input_ids), [])

    def test_D27_positions_and_pages(self):
        self.info.update_pos(3)
        self.info.update_pos([1, 2])
        self.assertEqual(self.info.input_pos.tolist(), [4, 5, 3])
        self.info.update_pos([9], reset=True)
        self.assertEqual(self.info.input_pos.tolist(), [9, 5, 3])
        self.info.assign_cache_loc([[7, 2], [0], [5, 1, 3]])
        self.assertEqual(self.info.page_assignments, [[7, 2], [0], [5, 1, 3]])
        # Those that no sequence has stand behind.
        self.assertEqual(sorted(self.info.cache_loc.tolist()), list(range(8)))
        with self.refuses("page 8, 0 to 7 exist"):
            self.info.assign_cache_loc([[8]])
        with self.refuses("assigned twice"):
            self.info.assign_cache_loc([[1], [1]])
        for pages, message in (([[0.5]], r"pages\[0\]\[0\]: expected an integer, got 0.5"),
                               ([[1], [2, "a"]], r"pages\[1\]\[1\]: expected an integer, got 'a'"),
                               ([[1], 0], r"pages\[1\]: expected a list of integers, got 0"),
                               (["12"], r"pages\[0\]: expected a list of integers, got '12'")):
            with self.subTest(pages), self.refuses(message):
                self.info.assign_cache_loc(pages)
        with self.refuses("position -12 is negative"):
            self.info.update_pos(-15)
        for count, message in ((1.5, "count: expected an integer or a list of them, got 1.5"),
                               ([0.5], r"expected an integer or a list of them, got \[0.5\]"),
                               (None, "expected an integer or a list of them, got None"),
                               ([[1], [2]], r"got \[\[1\], \[2\]\]"),
                               (1 << 40, "position 10995.*, at most 2147483647")):
            with self.subTest(count), self.refuses(message):
                self.info.update_pos(count)
        self.info.update_pos([])
        self.assertEqual(self.info.input_pos.tolist(), [9, 5, 3])
        self.assertEqual(self.info.page_assignments, [[7, 2], [0], [5, 1, 3]])
        # All entries, also those behind the batch.
        self.info.nest_sequences([[1]])
        self.info.reset()
        self.assertEqual(self.info.input_pos.tolist(), [0, 0, 0])
        self.assertEqual(self.info.page_assignments, [[0], [1], [2]])

    def test_D28_sync_copies(self):
        other = SequenceInfo(10, 3, 4)
        other.nest_sequences([[1, 2]])
        self.info.sync(other)
        other.seq_len[0], other.input_ids[0, 0] = 5, 9
        self.assertEqual((self.info.seq_len[0], self.info.input_ids[0, 0]), (2, 1))
        with self.refuses("page_size is 4 here and 5 there"):
            self.info.sync(SequenceInfo(10, 3, 5))

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_D28_D32_tensors_and_open_dimensions_of_torch(self):
        self.info.nest_sequences([[1, 2], [3]])
        host = self.info.args
        before = self.info.to("cpu").args
        for array, tensor in zip(host, before):
            self.assertEqual((tensor.dtype, tensor.tolist()), (torch.int32, array.tolist()))
        self.info.update_pos(3)
        after = self.info.args
        # The same memory, as graphs that were captured need it.
        self.assertEqual(after[2].tolist(), [3, 3, 3])
        self.assertEqual([tensor.data_ptr() for tensor in after],
                         [tensor.data_ptr() for tensor in before])
        self.assertIs(self.info.to(None).args[1], self.info.seq_len)
        dims = self.info.export_shapes
        self.assertEqual({axis: (dim.__name__, dim.max) for axis, dim in
                          dims["input_ids"].items()}, self.info.dynamic_shapes["input_ids"])
        self.assertEqual(dims["seq_len"], {})

    def test_D29_capacity(self):
        self.info.nest_sequences([[1] * 4])
        self.info.prepare_metadata()
        self.info.update_pos(1)
        with self.refuses("sequence 0 has 5 tokens, its pages hold 4"):
            self.info.prepare_metadata()

    def test_D24_tokens_that_are_none(self):
        """1.5 was taken for 1, and 2^32 + 7 for 7."""
        self.info.nest_sequences([[3, 4]])
        for sequence, message in (
                ([1.5, 2], "sequence 1: expected integers, got float64"),
                ([1 << 32 | 7], "sequence 1 has tokens from 4294967303 to 4294967303"),
                ([1 << 63], "sequence 1 has tokens from 9223372036854775808"),
                ([1 << 64], "sequence 1: expected integers, got object"),
                ("ab", "sequence 1: expected integers, got <U2"),
                (5, "sequence 1: expected a list of integers, got 5")):
            with self.subTest(sequence), self.refuses(message):
                self.info.nest_sequences([[1], sequence])
        self.assertEqual(self.info.input_ids.tolist(), [[3, 4]])

    def test_D24_what_is_no_list(self):
        for wrong in (5, None, np.array(5)):
            for name, call in (("sequences", self.info.nest_sequences),
                               ("sequence 0", lambda wrong: self.info.nest_sequences([wrong])),
                               ("pages", self.info.assign_cache_loc)):
                with self.subTest(name), self.refuses(f"{name}: expected a list of "):
                    call(wrong)
        with self.refuses("rows: expected an array, got 5"):
            self.info.unnest_sequences(5)
        with self.refuses("other: expected a SequenceInfo, got 5"):
            self.info.sync(5)

    def test_D24_D30_metadata_of_live_sequences(self):
        self.info.nest_sequences([[1] * 5, [2]])
        self.info.assign_cache_loc([[6, 1], [3]])
        self.info.update_pos([2, 3], reset=True)
        lengths, positions, table, starts = self.info.prepare_metadata()
        self.assertEqual((lengths.tolist(), positions.tolist()), ([5, 1], [2, 3]))
        self.assertEqual((table.tolist(), starts.tolist()), ([[6, 1], [3, -1]], [0, 5]))
        # A graph of four rows, of which two are padding.
        self.assertEqual(live_lengths(np.ones((4, 1)), np.array([1, 1, 0, 0])).tolist(), [1] * 4)
        # Its rows of padding have a page that nobody has, or none.
        self.info.nest_sequences([[1], [2]])
        self.info.assign_cache_loc([[6], [3]])
        self.info.update_pos(0, reset=True)
        self.info.input_ids = np.ones((4, 1), np.int32)
        self.info.input_pos[2] = 9  # of a sequence that is gone
        made = self.info.prepare_metadata()
        self.assertEqual(made.page_table.tolist(), [[6], [3], [0], [0]])
        self.assertEqual(made.input_pos.tolist(), [0, 0, 0, 0])
        # A page of a sequence that this batch leaves out is not free.
        self.info.pages_per_seq[2] = 1
        self.assertEqual(self.info.prepare_metadata().page_table[2:].tolist(), [[1], [1]])
        self.info.assign_cache_loc([[6, 1, 2], [3, 4], [0, 5, 7]])
        self.assertEqual(self.info.prepare_metadata().page_table[2:, 0].tolist(), [-1, -1])
        with self.refuses("is not zero behind its first 2"):
            live_lengths(np.ones((1, 5)), np.array([2, 0, 3]))

    def test_D31_samples(self):
        self.info.set_example()
        self.assertEqual(self.info.input_ids.shape, (1, 8))
        single = SequenceInfo(10, 2, 4, max_num_tokens=1)
        single.set_example()
        self.assertEqual(single.input_ids.shape, (1, 1))
        # Erratum 5: ten tokens take three pages of four, three tokens one.
        self.info.num_pages = 9
        self.info.set_max_num_tokens()
        self.assertEqual(self.info.pages_per_seq.tolist(), [3, 3, 3])
        short = SequenceInfo(10, 3, 4, max_num_tokens=9)
        short.set_max_num_tokens()
        self.assertEqual(short.pages_per_seq.tolist(), [1, 1, 1])
        self.info.set_generate_only()
        self.assertTrue(self.info.is_generate and self.info.num_sequences == 3)

    def test_D32_open_dimensions(self):
        self.assertEqual(self.info.dynamic_shapes["input_ids"],
                         {0: ("batch_size", 3), 1: ("seq_len", 10)})
        self.assertEqual(SequenceInfo(10).dynamic_shapes["input_ids"], {1: ("seq_len", 10)})

    def test_D44_what_a_batch_may_hold(self):
        info = SequenceInfo(10, 3, 4, max_num_tokens=12)
        before = info.input_ids
        for lengths, message in (([1] * 4, "4 sequences, at most 3"), ([10, 3], "13 tokens"),
                                 ([11], "sequence 0 has 11 tokens"), ([1, 0], "sequence 1 has 0")):
            with self.refuses(message):
                info.nest_sequences([[1] * length for length in lengths])
        self.assertIs(info.input_ids, before)

    def test_D45_arguments_in_order(self):
        self.assertIs(self.info.args[0], self.info.input_ids)
        self.assertEqual(self.info.extra_arg_names,
                         ("seq_len", "input_pos", "cache_loc", "pages_per_seq"))
        for name, value in zip(self.info.extra_arg_names, self.info.args[1:]):
            self.assertIs(value, getattr(self.info, name))


if __name__ == "__main__":
    unittest.main()

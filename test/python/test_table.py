# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""C15: tables at fixed device addresses follow a cache by small copies; B08, B09: positions
of requests become rows of the cache or of a workspace. Needs no NumPy.

With MLAC_TEST_DEVICE=cuda and torch a captured graph reads them, and sees what changed
between its replays.
"""

import ctypes
import os
import unittest
import weakref

import mlac

DEVICE = os.environ.get("MLAC_TEST_DEVICE", "cpu")
NO_PAGE, PAGE = 2147480000, 4


class TableTest(unittest.TestCase):
    def setUp(self):
        self.device = mlac.Device(DEVICE)
        self.cache = mlac.Cache([{"name": "latent", "num_pages": 16, "page_rows": PAGE}],
                                max_seq_len=16)
        self.table = self.cache.table(self.device, rows=3, tokens=6)

    def read(self, memory, count, ctype):
        result = (ctype * count)()
        mlac._runtime.call("mla_device_download", self.device._value, result, memory.address,
                           ctypes.sizeof(result))
        return list(result)

    def entries(self):
        flat = self.read(self.table.block_table, 3 * self.table.columns, ctypes.c_int32)
        rows = [flat[i:i + self.table.columns] for i in range(0, len(flat), self.table.columns)]
        return [[page for page in row if page != NO_PAGE] for row in rows]

    def lengths(self):
        return self.read(self.table.seq_lens, 3, ctypes.c_int32)

    def slots(self):
        return self.read(self.table.slot_mapping, 6, ctypes.c_int64)

    def append(self, *growth):
        sequences, counts = zip(*growth)
        return self.cache.append(sequences, [self.cache.length(s) for s in sequences], counts)

    def test_C15_updates_follow_the_cache(self):
        self.assertEqual((self.table.rows, self.table.columns, self.table.tokens), (3, 4, 6))
        a, b = self.cache.sequence(), self.cache.sequence()
        self.table.assign(0, a)
        self.table.assign(2, b)
        slots = self.append((a, 3), (b, 2))
        self.assertEqual(self.table.update(slots)["entries"], 2)
        self.assertEqual(self.entries(), [self.cache.pages(a), [], self.cache.pages(b)])
        self.assertEqual(self.lengths(), [3, 0, 2])
        self.assertEqual(self.slots(), slots + [-1])
        addresses = [getattr(self.table, name).address for name in
                     ("block_table", "seq_lens", "slot_mapping")]
        # Inside of a page nothing of the table changes, lengths and slots do.
        self.assertEqual(self.table.update(self.append((a, 1)))["entries"], 0)
        self.assertEqual(self.lengths(), [4, 0, 2])
        # A new page is one entry; a fork's first write another page.
        self.assertEqual(self.table.update(self.append((a, 1)))["entries"], 1)
        child = self.cache.fork(b)
        self.table.assign(1, child)
        self.table.update(self.append((child, 1)))
        self.cache.take_copies()
        self.assertEqual(self.entries(), [self.cache.pages(s) for s in (a, child, b)])
        self.assertNotEqual(self.entries()[1], self.entries()[2])
        # Pages that move, sequences that go.
        self.cache.free(b)
        self.cache.compact()
        self.cache.take_copies()
        self.table.update()
        self.assertEqual(self.entries(), [self.cache.pages(a), self.cache.pages(child), []])
        self.assertEqual((self.lengths(), self.slots()), ([5, 3, 0], [-1] * 6))
        self.table.assign(0, None)
        self.table.update()
        self.assertEqual(self.entries()[0], [])
        self.assertEqual(addresses, [getattr(self.table, name).address for name in
                                     ("block_table", "seq_lens", "slot_mapping")])

    def test_memory_keeps_its_table(self):
        """Whose arrays are asked for by programs that need nothing else of it."""
        for name in ("block_table", "seq_lens", "slot_mapping"):
            with self.subTest(name):
                table = self.cache.table(self.device, rows=3, tokens=6)
                alive, memory = weakref.ref(table), getattr(table, name)
                del table
                self.assertIsNotNone(alive())
                del memory  # and nothing else keeps it
                self.assertIsNone(alive())

    def test_wrong_calls_are_named(self):
        with self.assertRaisesRegex(ValueError, "row = 3, expected 0 to 2"):
            self.table.assign(3, None)
        with self.assertRaisesRegex(ValueError, "num_slots = 7, expected 0 to 6"):
            self.table.update([0] * 7)
        with self.assertRaisesRegex(ValueError, "rows = 0, expected 1 to 65536"):
            self.cache.table(self.device, rows=0, tokens=1)

    @unittest.skipUnless(DEVICE == "cuda", "needs a GPU")
    def test_C15_captured_graphs_read_what_changed(self):
        import torch

        tensors = [torch.as_tensor(memory, device="cuda") for memory in
                   (self.table.block_table, self.table.seq_lens, self.table.slot_mapping)]
        seen = [torch.zeros_like(tensor) for tensor in tensors]
        sequence = self.cache.sequence()
        self.table.assign(1, sequence)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                for tensor, copy in zip(tensors, seen):
                    copy.copy_(tensor)
            for count in (1, 3, 1, 4, 6):
                slots = self.append((sequence, count))
                self.table.update(slots, stream=stream)
                graph.replay()
                stream.synchronize()
                pages = self.cache.pages(sequence)
                self.assertEqual(seen[0][1].tolist(), pages + [NO_PAGE] * (4 - len(pages)))
                self.assertEqual(seen[1].tolist(), [0, self.cache.length(sequence), 0])
                self.assertEqual(seen[2].tolist(), slots + [-1] * (6 - count))


class IndexTest(unittest.TestCase):
    def test_B08_B09_examples_of_the_specification(self):
        arguments = {"block_table": [[5, 7]], "page_size": 64, "num_blocks": 8}
        self.assertEqual(mlac.convert_indices([[70, 3, 130, -1]], [0], **arguments),
                         [[454, 323, -1, -1]])
        # Two decodes around a prefill, which takes no look at the table.
        self.assertEqual(
            mlac.convert_indices([[64], [900], [0]], [0, 0, 0], prefill_requests=[-1, 1, -1],
                                 workspace_starts=[0, 10], **arguments), [[448], [910], [320]])
        # Blocks that are further apart than their rows.
        self.assertEqual(mlac.convert_indices([[70]], [0], block_stride_rows=65, **arguments),
                         [[7 * 65 + 6]])

    def test_wrong_arguments_are_named(self):
        arguments = {"block_table": [[5, 7]], "page_size": 64, "num_blocks": 8}
        with self.assertRaisesRegex(ValueError, "positions: expected rows of 2 entries, got 1"):
            mlac.convert_indices([[1, 2], [3]], [0, 0], **arguments)
        with self.assertRaisesRegex(ValueError, "requests: expected 1 entries, got 2"):
            mlac.convert_indices([[1]], [0, 0], **arguments)
        with self.assertRaisesRegex(ValueError, "request"):
            mlac.convert_indices([[1]], [1], **arguments)


if __name__ == "__main__":
    unittest.main()

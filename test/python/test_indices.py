# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""B08, B09: token positions become rows of the cache, or of a workspace, by a function of a
package, on the tables of an engine's step; the same as mlac.convert_indices on the host.

MLAC_COMPILE names the compiler. With MLAC_TEST_DEVICE=cuda and torch on a GPU. Needs no
NumPy.
"""

import array
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

import mlac

COMPILE = os.environ["MLAC_COMPILE"]
DEVICE = os.environ.get("MLAC_TEST_DEVICE", "cpu")
PAGE, WIDTH, PAGES, POISON = 16, 100, 24, 0x5A5A5A5A
MODULE = """\
!cache = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = bf16,
                    rope_order = half>
!p = tensor<?x100xi32>
!i = tensor<?xi32>
func.func @convert(%p: !p {mla.input = "positions"}, %r: !i {mla.input = "prefills"},
                   %s: !i {mla.input = "starts"}, %batch: !mla.batch, %cache: !cache)
    -> (!p {mla.output = "rows"}) {
  %0 = mla.convert_indices %p in %cache, %batch prefill %r, %s
      : !p in !cache, !mla.batch prefill !i, !i
  return %0 : !p
}
"""


class IndicesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        source = pathlib.Path(cls.folder.name) / "convert.mlir"
        source.write_text(MODULE)
        target = "sm_90a" if DEVICE == "cuda" else "cpu"
        cls.package = source.with_suffix(".mlac")
        subprocess.run([COMPILE, source, "--quiet", f"--target={target}", "-o", cls.package],
                       check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def place(self, values):
        if DEVICE == "cpu":
            return array.array("i", values)
        import torch

        return torch.tensor(values, dtype=torch.int32, device=DEVICE)

    def convert(self, padding):
        """Rows of random positions of three requests, and those of the host."""
        engine = mlac.Engine(mlac.Package(str(self.package)), mlac.Device(DEVICE),
                             max_num_requests=3, max_num_tokens=64, max_seq_len=8 * PAGE,
                             num_pages=PAGES, page_padding_tokens=padding)
        engine.prepare()
        generator = random.Random(padding)
        sequences, counts = [engine.sequence() for _ in range(3)], [5, 1, 40]
        engine.cache.append([s._id for s in sequences], [0] * 3, [60, 7, 33])
        plan = engine.plan()
        plan.fill(sequences, counts, "convert")
        tokens = sum(counts)
        requests = [r for r, count in enumerate(counts) for _ in range(count)]
        self.assertEqual(plan.metadata("req_id_per_token"), requests)
        positions = [[generator.choice((-1, generator.randrange(len(sequences[r])), 1 << 30))
                      for _ in range(WIDTH)] for r in requests]
        prefills = [generator.randrange(3) if r == 2 else -1 for r in requests]
        starts = [generator.randrange(1000) for _ in range(3)]
        rows = self.place([POISON] * (tokens * WIDTH))
        plan.run_bound(positions=self.place([p for row in positions for p in row]),
                       prefills=self.place(prefills), starts=self.place(starts), rows=rows)
        columns = plan.dim("max_blocks_per_request")
        table = plan.metadata("block_table")
        table = [table[i:i + columns] for i in range(0, len(table), columns)]
        for row, sequence in zip(table, sequences):
            row[len(sequence.pages):] = [0] * (columns - len(sequence.pages))
        # Positions behind a sequence's pages are not asked for here: a table's tail is garbage.
        expected = mlac.convert_indices(
            positions, requests, table, PAGE, PAGES, block_stride_rows=PAGE + padding,
            prefill_requests=prefills, workspace_starts=starts)
        return list(rows), [row for line in expected for row in line]

    def test_B08_B09_rows_are_those_of_the_host(self):
        for padding in (0, 3):
            rows, expected = self.convert(padding)
            self.assertEqual(rows, expected)
            self.assertIn(-1, rows)


if __name__ == "__main__":
    unittest.main()

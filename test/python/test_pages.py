# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""C01: whole pages move byte by byte, by the kernel that each package has for it:
copy-on-write, compaction, swapping to the host and back, in every format and page size.

The pools hold random bytes, so that every bit pattern of every type is moved. With
MLAC_TEST_DEVICE=cuda the same on a GPU. Needs no NumPy.
"""

import ctypes
import json
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

import mlac

COMPILE = os.environ["MLAC_COMPILE"]
DEVICE = os.environ.get("MLAC_TEST_DEVICE", "cpu")
CONFIG = pathlib.Path(__file__).parent.parent / "data/configs/deepseek_v3_tiny.json"
LAYERS, PAGES = 2, 12
# Format, what replaces parts of the configuration, page size, options.
CASES = (
    ("mla_16", {}, 16, ("--dtype=bf16",)),
    ("mla_16", {}, 1, ("--dtype=bf16",)),
    ("mla_f32", {}, 64, ("--dtype=f32",)),
    ("mla_fp8_tensor", {"qk_rope_head_dim": 16, "head_dim": 16}, 3,
     ("--cache-format=mla_fp8_tensor",)),
    ("split_ckv_kpe", {}, 16, ("--dtype=bf16", "--cache-format=split_ckv_kpe")),
    ("fp8_ds_mla", {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "head_dim": 64}, 64,
     ("--cache-format=fp8_ds_mla", "--form=expanded")),
)


class PagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.packages = []
        for index, (name, changes, page, options) in enumerate(CASES):
            if DEVICE == "cuda" and "--dtype=f32" in options:
                continue  # is for the CPU only
            config = pathlib.Path(cls.folder.name) / f"{index}.json"
            config.write_text(json.dumps(json.loads(CONFIG.read_text()) | changes))
            package = config.with_suffix(".mlac")
            target = "sm_90a" if DEVICE == "cuda" else "cpu"
            subprocess.run([COMPILE, config, "--quiet", f"--target={target}", "--functions=prefill",
                            f"--page-size={page}", *options, "-o", package], check=True)
            cls.packages.append((name, page, mlac.Package(str(package))))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def engines(self):
        """An engine of every format, with pools of random bytes."""
        for name, page, package in self.packages:
            for padding in (0, 5):
                self.device = mlac.Device(DEVICE)
                engine = mlac.Engine(
                    package, self.device, max_num_requests=4, num_pages=PAGES,
                    max_num_tokens=PAGES * page, max_seq_len=PAGES * page, num_layers=LAYERS,
                    page_padding_tokens=padding)
                self.engine, self.page, self.layout = engine, page, name
                self.stats = engine.cache_stats
                self.assertEqual(package.info["pools"][0]["format"], name)
                self.scramble()
                yield engine, page
                engine.cache.check()

    def write(self, slot, data, layer):
        mlac._runtime.call("mla_cache_write", self.engine._value, layer, 0, slot,
                           len(data) // self.stats["row_bytes"], data)

    def scramble(self):
        for layer in range(LAYERS):
            self.write(0, random.Random(layer).randbytes(PAGES * self.page *
                                                         self.stats["row_bytes"]), layer)

    def rows(self, sequence):
        """The bytes of a sequence's tokens in all layers."""
        counts = [min(self.page, len(sequence) - first)
                  for first in range(0, len(sequence), self.page)]
        return [self.engine.read_cache(page * self.page, count, layer)
                for layer in range(LAYERS) for page, count in zip(sequence.pages, counts)]

    def append(self, engine, sequence, count):
        """New tokens; their rows are what the pages held."""
        engine.cache.append([sequence._id], [len(sequence)], [count])

    def test_forks_copy_the_page_they_write_to(self):
        for engine, page in self.engines():
            parent, plan = engine.sequence(), engine.plan()
            self.append(engine, parent, 2 * page + (page + 1) // 2)
            before = self.rows(parent)
            child = parent.fork()
            grandchild = child.fork()
            # Copies of copies, made by one launch: both read the parent's page.
            self.append(engine, child, 1)
            other = child.fork(len(parent))
            self.append(engine, other, 1)
            plan.fill([grandchild], [1])
            self.assertEqual(engine.cache.counters()["copied_pages"], 3 if page > 1 else 0)
            for sequence in (parent, child, grandchild, other):
                sequence.truncate(len(parent))
                self.assertEqual(self.rows(sequence), before)

    def test_C01_swapped_sequences_come_back_byte_for_byte(self):
        for engine, page in self.engines():
            first, second, swap = engine.sequence(), engine.sequence(), engine.swap_space(6)
            self.append(engine, second, 1)
            self.append(engine, first, 3 * page + 1)
            before = self.rows(first), self.rows(second)
            tickets = [swap.swap_out(first), swap.swap_out(second)]
            self.assertEqual((len(first), engine.cache_stats["free_pages"]), (0, PAGES))
            self.assertEqual([swap.length(t) for t in tickets], [3 * page + 1, 1])
            self.assertEqual(swap.stats, {"num_pages": 6, "free_pages": 1, "num_tickets": 2})
            engine.poison_cache(0)
            engine.poison_cache(1)
            blocker = engine.sequence()
            self.append(engine, blocker, 2 * page)
            back = swap.swap_in(tickets[1], second)
            swap.swap_in(tickets[0], first)
            self.assertIs(back, second)
            self.assertEqual((self.rows(first), self.rows(second)), before)
            self.assertEqual(swap.stats["free_pages"], 6)

    def test_absurd_sizes_are_refused_before_there_is_memory_for_them(self):
        engine, page = next(self.engines())
        sequence, rows = engine.sequence(), PAGES * page
        self.append(engine, sequence, 3)
        for count in (rows + 1, 2 ** 40, 2 ** 62, 2 ** 80, -1):
            with self.assertRaisesRegex(mlac.InvalidArgument, f"^count: expected 0 to {rows}, the "
                                        f"pool's rows, got {count}$"):
                engine.read_cache(0, count)
        with self.assertRaisesRegex(TypeError, "^count: expected an integer, got 1.5$"):
            engine.read_cache(0, 1.5)
        with self.assertRaisesRegex(mlac.InvalidArgument, f"slots 1 \\+ {rows}, the pool has {rows}"):
            engine.read_cache(1, rows)
        self.assertEqual(len(engine.read_cache(0, rows)), rows * engine.cache_stats["row_bytes"])
        with self.assertRaisesRegex(mlac.InvalidArgument, f"tokens 0 \\+ {2 ** 62}, the sequence has 3"):
            engine.cache.slots(sequence._id, 0, 2 ** 62)
        self.assertEqual(len(engine.cache.slots(sequence._id, 1, 2)), 2)

    def test_compaction_closes_gaps(self):
        for engine, page in self.engines():
            gone, kept, fork_of = engine.sequence(), engine.sequence(), None
            self.append(engine, gone, 4 * page)
            self.append(engine, kept, 3 * page)
            kept.publish(list(range(3 * page)))
            fork_of = kept.fork()
            before = self.rows(kept)
            gone.free()
            self.assertEqual(engine.cache.compact(1), 1)
            self.assertEqual(engine.cache.compact(), 2)
            self.assertEqual(engine.cache.compact(), 0)
            self.assertEqual(sorted(kept.pages), [0, 1, 2])
            self.assertEqual((self.rows(kept), self.rows(fork_of)), (before, before))
            kept.free()
            fork_of.free()
            match = engine.sequence()
            self.assertEqual(match.match(list(range(3 * page + 1))), 3 * page)
            self.assertEqual(self.rows(match), before)

    def test_C01_parts_of_rows_are_strided_arrays(self):
        for engine, page in self.engines():
            bytes_ = engine.read_cache(PAGES * page - 1, 1, layer=1)
            for name in ("latent", "rope"):
                part = engine.cache_part(name, layer=1)
                pages, rows, width = part.shape
                self.assertEqual((pages, rows), (PAGES, page))
                size = width * part.strides[2]
                got = ctypes.create_string_buffer(size)
                mlac._runtime.call("mla_device_download", self.device._value, got,
                                   part.address + (pages - 1) * part.strides[0]
                                   + (rows - 1) * part.strides[1], size)
                self.assertEqual(got.raw, bytes_[:size] if name == "latent" else bytes_[-size:])
                if self.layout == "split_ckv_kpe":  # what FlashInfer takes as a tensor
                    self.assertEqual((part.strides[1], part.dtype), (size, "bf16"))
            with self.assertRaisesRegex(mlac.NotFound, "no part 'value', which would be latent"):
                engine.cache_part("value")

    def test_refusals_change_nothing(self):
        engine, page = next(self.engines())
        sequence, other = engine.sequence(), engine.sequence()
        self.append(engine, sequence, 3 * page)
        small, swap = engine.swap_space(2), engine.swap_space(4)
        with self.assertRaises(mlac.OutOfPages):
            small.swap_out(sequence)
        self.assertEqual((len(sequence), small.stats["free_pages"]), (3 * page, 2))
        ticket = swap.swap_out(sequence)
        with self.assertRaisesRegex(ValueError, f"ticket {ticket + 7} is not in the swap space"):
            swap.swap_in(ticket + 7)
        self.append(engine, other, 10 * page)
        with self.assertRaisesRegex(ValueError, f"empty sequence, got one of {10 * page} tokens"):
            swap.swap_in(ticket, other)
        with self.assertRaises(mlac.OutOfPages):
            swap.swap_in(ticket, sequence)
        self.assertEqual((swap.length(ticket), len(sequence)), (3 * page, 0))
        with self.assertRaisesRegex(ValueError, "num_pages = 0, expected 1 to"):
            engine.swap_space(0)
        with self.assertRaisesRegex(ValueError, "max_moves = -1"):
            engine.cache.compact(-1)
        with self.assertRaisesRegex(mlac.NotFound, "unknown function 'swap_out'"):
            engine.plan().fill([sequence], [1], "swap_out")
        # What is no sequence, engine or device is named.
        for refused, text in (
                (lambda: swap.swap_out(sequence._id), rf"^sequence: expected a mlac.Sequence, got {sequence._id}$"),
                (lambda: swap.swap_out(None), "^sequence: expected a mlac.Sequence, got None$"),
                (lambda: swap.swap_in(ticket, [other]), r"^sequence: expected a mlac.Sequence, got \[<mlac.Seq"),
                (lambda: mlac.SwapSpace("engine", 4), "^engine: expected a mlac.Engine, got 'engine'$"),
                (lambda: engine.cache.table("cpu", 1, 1), "^device: expected a mlac.Device, got 'cpu'$")):
            with self.assertRaisesRegex(mlac.InvalidArgument, text):
                refused()
        self.assertEqual((swap.length(ticket), swap.stats["num_tickets"]), (3 * page, 1))
        swap.drop(ticket)
        with self.assertRaisesRegex(ValueError, "which has 0"):
            swap.drop(ticket)
        engine.close()
        with self.assertRaisesRegex(ValueError, "has been destroyed"):
            swap.length(1)


if __name__ == "__main__":
    unittest.main()

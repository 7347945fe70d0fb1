# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""C15, A21, A39: a captured run is right for what is planned after it, or the plan says no.

On the emulated driver, whose recordings stand for graphs: launches with their arguments,
repeated later. Kernels of a small layer with attention cut wherever that is free.
"""

import ctypes
import os
import random
import struct
import subprocess
import tempfile
import unittest

import mlac
from mlac._library import Binding, DeviceBatch, call

COMPILE, GOLDEN = os.environ.get("MLAC_COMPILE", ""), os.environ.get("MLAC_GOLDEN", "")
PAGE, REQUESTS, LONGEST = 16, 6, 700
STREAM = 1  # any but the legacy stream, which cannot be captured
OPTIONS = ("--target=sm_90a", "--functions=prefill,decode,step", f"--page-size={PAGE}",
           "--schedule=simple", "--item-cost=0", "--merge-cost=0", "--quiet")


@unittest.skipUnless(os.path.exists(COMPILE), "MLAC_COMPILE is not there")
class EmulatedCase(unittest.TestCase):
    """An engine of the small layer on the emulated device."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        package, module = (os.path.join(cls.folder.name, name) for name in ("p.mlac", "p.mlir"))
        subprocess.run([COMPILE, GOLDEN, *OPTIONS, "-o", package], check=True)
        subprocess.run([COMPILE, GOLDEN, *OPTIONS, "--emit=nvvm", "-o", module], check=True)
        os.environ["MLAC_EMULATED_MODULE"] = module  # read when the driver is opened
        cls.package, cls.device = mlac.Package(package), mlac.Device("cuda")
        cls.driver = ctypes.CDLL("libcuda.so.1")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def setUp(self):
        self.engine = mlac.Engine(self.package, self.device, max_num_requests=REQUESTS,
                                  max_num_tokens=REQUESTS * LONGEST, max_seq_len=LONGEST)
        self.engine.bind_safetensors(GOLDEN, prefix="layers.0.self_attn/weights/",
                                     allow_extra=True)
        self.engine.prepare()
        self.plan, self.filler = self.engine.plan(), self.engine.plan()
        self.random = random.Random(7)
        # The emulated device's memory is the host's, but only what it gave may be used.
        values = REQUESTS * self.engine.hidden_size
        self.hidden, self.output = self.allocate(2 * values), self.allocate(2 * values)
        ctypes.memmove(self.hidden, self.make_values(values), 2 * values)

    def allocate(self, size):
        address = ctypes.c_uint64()
        self.assertEqual(self.driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)), 0)
        return address.value

    def make_values(self, count):
        """bf16 values between 2^-7 and 0.5."""
        return b"".join(self.random.randrange(0x3C00, 0x3F00).to_bytes(2, "little")
                        for _ in range(count))

    def run_plan(self):
        size = 2 * self.plan.dim("num_tokens") * self.engine.hidden_size
        buffers = (Binding * 2)(Binding(b"hidden", self.hidden, size),
                                Binding(b"output", self.output, size))
        call("mla_step_run_bound", self.plan._value, 0, buffers, 2, STREAM)
        return ctypes.string_at(self.output, size)

    def record(self):
        """The launches of a run, as a number."""
        digest = ctypes.c_uint64()
        self.driver.mlacEmulatorRecord(1)
        self.run_plan()
        self.driver.mlacEmulatorRecord(0)
        self.driver.mlacEmulatorDigest(ctypes.byref(digest))
        return digest.value

    def write_cache(self):
        """Rows of all slots, in the place of prefills."""
        stats = self.engine.cache_stats
        slots = stats["num_pages"] * PAGE
        rows = self.make_values(slots * stats["row_bytes"] // 2)
        call("mla_cache_write", self.engine._value, 0, 0, slots, rows)

    def make(self, lengths):
        """Sequences of so many tokens, whose rows nobody has computed."""
        sequences = [self.engine.sequence() for _ in lengths]
        for sequence, length in zip(sequences, lengths):
            self.filler.fill([sequence], [length], "prefill")
        return sequences


class CapturesTest(EmulatedCase):
    def lengths(self, count):
        longest = self.random.choice((3, 40, LONGEST - 2))
        return [self.random.randint(1, longest) for _ in range(count)]

    def change(self, sequences):
        """Other lengths: requests grow, come and go."""
        for sequence, length in zip(sequences, self.lengths(len(sequences))):
            sequence.truncate(self.random.choice((0, min(len(sequence), length))))
            if length > len(sequence):
                self.filler.fill([sequence], [length - len(sequence)], "prefill")

    def count_served(self, shape, rounds=1000):
        """Refills that a captured run serves; all others must be refused."""
        sequences = self.make(self.lengths(REQUESTS - 1))
        self.plan.fill(sequences, [1] * len(sequences), **shape)
        captured, served = self.record(), 0
        for _ in range(rounds):
            self.change(sequences)
            held = [len(sequence) for sequence in sequences]
            try:
                self.plan.fill(sequences, [1] * len(sequences), **shape)
            except mlac.Error as error:
                self.assertRegex(str(error), "num_requests = 5 has .* = [0-9]+, now [0-9]+")
                self.assertEqual([len(sequence) for sequence in sequences], held)
                continue
            self.assertEqual(self.record(), captured)
            served += 1
        return served

    def test_C15_refills_that_a_graph_cannot_serve_are_refused(self):
        served = self.count_served({"function": "decode"})
        self.assertGreater(served, 0)
        self.assertLess(served, 1000)

    def test_C15_padded_plans_serve_every_length(self):
        for decodes in (REQUESTS, REQUESTS - 1):  # with a free place, and full
            shape = {"num_requests": decodes, "num_tokens": decodes, "max_query_len": 1,
                     "max_seq_len": LONGEST, "num_decodes": decodes, "num_decode_tokens": decodes}
            self.assertEqual(self.count_served({"shape": shape}, 500), 500)
            self.plan.release_captures()

    def test_C15_released_captures_refuse_nothing(self):
        sequences = self.make([1] * 2)
        self.plan.fill(sequences, [1, 1], "decode")
        self.record()
        self.filler.fill(sequences[:1], [600], "prefill")
        with self.assertRaisesRegex(mlac.Error, "mla_plan_release_captures"):
            self.plan.fill(sequences, [1, 1], "decode")
        self.plan.release_captures()
        self.plan.fill(sequences, [1, 1], "decode")

    def test_C15_replays_compute_the_step(self):
        """What a recording writes after a refill, and what a new run of it does."""
        sequences = self.make([70, 1, 33])
        shape = {"num_requests": 4, "num_tokens": 4, "max_query_len": 1, "max_seq_len": LONGEST,
                 "num_decodes": 4, "num_decode_tokens": 4}
        self.write_cache()
        self.plan.fill(sequences, [1] * 3, shape=shape)
        self.record()
        for grown in ((1, 1, 1), (200, 1, 64), (1, 300, 1)):
            for sequence, tokens in zip(sequences, grown):
                self.filler.fill([sequence], [tokens], "prefill")
            self.plan.fill(sequences, [1] * 3, shape=shape)
            ctypes.memset(self.output, 0, 2 * REQUESTS * self.engine.hidden_size)
            self.assertEqual(self.driver.mlacEmulatorReplay(), 0)
            rows = 3 * 2 * self.engine.hidden_size
            replayed = ctypes.string_at(self.output, rows)
            self.assertEqual(replayed, self.run_plan()[:rows])
            self.assertNotEqual(set(replayed), {0})


class DeviceLengthsTest(EmulatedCase):
    """Lengths, block tables and slots on the device, which the host never reads."""

    def upload(self, code, values):
        data = struct.pack(f"<{len(values)}{code}", *values)
        address = self.allocate(len(data))
        ctypes.memmove(address, data, len(data))
        return address, len(data)

    def fill_device(self, lengths, pages, bounds, plan=None):
        """Plans one new token of each request, with its arrays written for `lengths`."""
        columns = -(-LONGEST // PAGE)
        table = [page for own in pages for page in own + [2147480000] * (columns - len(own))]
        slots = [own[(n - 1) // PAGE] * PAGE + (n - 1) % PAGE if n else -1
                 for n, own in zip(lengths, pages)]
        arrays = {"seq_lens": ("i", lengths), "block_table": ("i", table),
                  "slot_mapping": ("q", slots), "positions": ("q", [max(n - 1, 0) for n in lengths])}
        if not hasattr(self, "arrays"):
            self.arrays = {name: self.upload(*of)[0] for name, of in arrays.items()}
        for name, (code, values) in arrays.items():
            data = struct.pack(f"<{len(values)}{code}", *values)
            ctypes.memmove(self.arrays[name], data, len(data))
        count = len(lengths)
        batch = DeviceBatch(ctypes.sizeof(DeviceBatch), count, (ctypes.c_int32 * count)(*[1] * count),
                            (ctypes.c_int32 * count)(*bounds), *(self.arrays[name] for name in (
                                "seq_lens", "block_table")), columns,
                            self.arrays["slot_mapping"], self.arrays["positions"])
        call("mla_step_plan_device", self.plan._value, ctypes.byref(batch), b"step", STREAM)

    def floats(self, data):
        return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]

    def test_C15_A39_lengths_change_on_the_device(self):
        """One recording serves lengths that only the device knows, each below its bound."""
        self.write_cache()
        sequences = self.make([600] * 4)
        pages = [sequence.pages for sequence in sequences]
        self.fill_device([600] * 4, pages, [640] * 4)
        captured = self.record()
        for lengths in ([600] * 4, [1, 2, 64, 65], [128, 599, 300, 16], [640, 1, 0, 70]):
            grown = [own + [99] * (-(-n // PAGE) - len(own)) for n, own in zip(lengths, pages)]
            self.fill_device(lengths, grown, [640] * 4)
            self.assertEqual(self.record(), captured)
            ctypes.memset(self.output, 0, 8 * self.engine.hidden_size)
            self.assertEqual(self.driver.mlacEmulatorReplay(), 0)
            size = 2 * self.engine.hidden_size
            got = [self.floats(ctypes.string_at(self.output + row * size, size))
                   for row in range(4)]
            # The same requests with the bounds of their lengths: other pieces, other sums.
            self.fill_device(lengths, grown, [max(n, 1) for n in lengths])
            data = self.run_plan()
            for row, n in enumerate(lengths):
                expected = self.floats(data[row * size:(row + 1) * size])
                scale = max(map(abs, expected))
                for a, b in zip(got[row], expected):
                    self.assertTrue(n == 0 or abs(a - b) <= 0.02 * scale, (row, n, a, b))

    def test_A21_negative_slots_write_nothing(self):
        self.write_cache()
        pages = [sequence.pages for sequence in self.make([40, 40])]
        rows = self.engine.read_cache(0, 8 * PAGE)
        self.fill_device([0, 0], pages, [40, 40])
        self.run_plan()
        self.assertEqual(self.engine.read_cache(0, 8 * PAGE), rows)
        self.fill_device([40, 0], pages, [40, 40])
        self.run_plan()
        self.assertNotEqual(self.engine.read_cache(0, 8 * PAGE), rows)

    def test_A39_bad_device_batches_are_refused(self):
        pages = [sequence.pages for sequence in self.make([40, 40])]
        for bounds, message in (([40, 0], "request 1: seq_len_bound 0, expected 1"),
                                ([40, LONGEST + 1], f"to max_seq_len = {LONGEST}")):
            with self.assertRaisesRegex(mlac.InvalidArgument, message):
                self.fill_device([40, 40], pages, bounds)
        with self.assertRaisesRegex(mlac.InvalidArgument, "batch of 7 requests"):
            del self.arrays  # of two requests
            self.fill_device([1] * 7, [[0]] * 7, [1] * 7)


if __name__ == "__main__":
    unittest.main()

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""C15, A21, A39: a captured run is right for what is planned after it, or the plan says no.

On the emulated driver, whose recordings stand for graphs: launches with their arguments,
repeated later. Kernels of a small layer with attention cut wherever that is free.
"""

import array
import ctypes
import os
import random
import struct
import subprocess
import tempfile
import unittest

import mlac
from mlac._library import Binding, DeviceBatch, ExternalPool, call

COMPILE, GOLDEN = os.environ.get("MLAC_COMPILE", ""), os.environ.get("MLAC_GOLDEN", "")
PAGE, REQUESTS, LONGEST = 16, 6, 700
STREAM = 1  # any but the legacy stream, which cannot be captured
OPTIONS = ("--target=sm_90a", "--functions=prefill,decode,step", f"--page-size={PAGE}",
           "--schedule=simple", "--quiet")
CUT = ("--item-cost=0", "--merge-cost=0")  # requests are cut however few keys they have


@unittest.skipUnless(os.path.exists(COMPILE), "MLAC_COMPILE is not there")
class EmulatedCase(unittest.TestCase):
    """An engine of the small layer on the emulated device."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        package, module = (os.path.join(cls.folder.name, name) for name in ("p.mlac", "p.mlir"))
        cls.compile(package)
        cls.compile(module, "--emit=nvvm")
        os.environ["MLAC_EMULATED_MODULE"] = module  # read when the driver is opened
        cls.package, cls.device = mlac.Package(package), mlac.Device("cuda")
        cls.driver = ctypes.CDLL("libcuda.so.1")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def compile(cls, path, *options):
        subprocess.run([COMPILE, GOLDEN, *OPTIONS, *CUT, *options, "-o", path], check=True)

    def make_engine(self, **options):
        engine = mlac.Engine(self.package, self.device, max_num_requests=REQUESTS,
                             max_num_tokens=REQUESTS * LONGEST, max_seq_len=LONGEST, **options)
        engine.bind_safetensors(GOLDEN, prefix="layers.0.self_attn/weights/", allow_extra=True)
        engine.prepare()
        return engine

    def setUp(self):
        self.engine = self.make_engine()
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

    def run_plan(self, plan=None):
        plan = plan or self.plan
        size = 2 * plan.dim("num_tokens") * self.engine.hidden_size
        buffers = (Binding * 2)(Binding(b"hidden", self.hidden, size),
                                Binding(b"output", self.output, size))
        call("mla_step_run_bound", plan._value, 0, buffers, 2, STREAM)
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
        call("mla_cache_write", self.engine._value, 0, 0, 0, slots, rows)

    def make(self, lengths):
        """Sequences of so many tokens, whose rows nobody has computed."""
        sequences = [self.engine.sequence() for _ in lengths]
        for sequence, length in zip(sequences, lengths):
            self.filler.fill([sequence], [length], "prefill")
        return sequences

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


class CapturesTest(EmulatedCase):
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


class DeviceLengthsCase(EmulatedCase):
    """Lengths, block tables and slots on the device, which the host never reads."""

    def upload(self, code, values):
        data = struct.pack(f"<{len(values)}{code}", *values)
        address = self.allocate(len(data))
        ctypes.memmove(address, data, len(data))
        return address, len(data)

    def fill_device(self, lengths, pages, bounds, plan=None):
        """Plans one new token of each request, with its arrays written for `lengths`."""
        columns = -(-LONGEST // PAGE) + 1  # an odd number: rows lie anywhere
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


class DeviceLengthsTest(DeviceLengthsCase):
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


class ExternalPoolTest(DeviceLengthsCase):
    """The caller's memory as the cache: tensor maps and kernels have its address, its stride
    and its number of pages."""

    EXTRA = 80  # bytes between pages

    def setUp(self):
        super().setUp()
        stats = self.engine.cache_stats
        self.row, self.pages = stats["row_bytes"], stats["num_pages"] + 3
        self.stride = PAGE * self.row + self.EXTRA
        self.size = self.pages * self.stride
        self.memory = self.allocate(self.size)
        ctypes.memset(self.memory, 0xFF, self.size)  # NaN
        self.own, self.own_plan = self.engine, self.plan
        self.engine = self.make_engine(external_pools=1)
        self.plan = self.engine.plan()
        pool = ExternalPool(ctypes.sizeof(ExternalPool), self.memory, self.pages, self.stride)
        call("mla_engine_bind_pool", self.engine._value, 0, 0, ctypes.byref(pool))

    def row_bytes(self, slot):
        return ctypes.string_at(
            self.memory + slot // PAGE * self.stride + slot % PAGE * self.row, self.row)

    def place(self, lengths):
        """Pages in a random order, and a table of them."""
        free = self.random.sample(range(self.pages), self.pages)
        return [[free.pop() for _ in range(-(-n // PAGE))] for n in lengths]

    def slots(self, pages, first, end):
        return [pages[p // PAGE] * PAGE + p % PAGE for p in range(first, end)]

    def fill_tables(self, counts, lengths, pages, function):
        columns = max(map(len, pages))
        table = array.array("i", [p for own in pages for p in own + [-7] * (columns - len(own))])
        slots = array.array("q", [slot for own, n, count in zip(pages, lengths, counts)
                                  for slot in self.slots(own, n - count, n)])
        table = memoryview(table).cast("B").cast("i", (len(counts), columns))
        self.plan.fill_tables(counts, lengths, table, slots, function, STREAM)

    def test_A39_prefills_and_decodes_over_the_callers_memory(self):
        sequences = [self.own.sequence() for _ in range(3)]
        lengths, pages = [0] * 3, self.place([70, 40, 24])
        for function, counts in (("prefill", (2, 3, 1)), ("prefill", (1, 2, 2)),
                                 ("step", (1, 1, 2)), ("decode", (1, 1, 1))):
            lengths = [n + count for n, count in zip(lengths, counts)]
            self.own_plan.fill(sequences, counts, function, STREAM)
            self.fill_tables(counts, lengths, pages, function)
            self.assertEqual(self.run_plan(), self.run_plan(self.own_plan), (function, counts))
        written = set()
        for sequence, n, own in zip(sequences, lengths, pages):
            for there, here in zip(self.slots(sequence.pages, 0, n), self.slots(own, 0, n)):
                self.assertEqual(self.row_bytes(here), self.own.read_cache(there, 1))
                written.add(here)
        for slot in set(range(self.pages * PAGE)) - written:
            self.assertEqual(set(self.row_bytes(slot)), {0xFF})
        for page in range(self.pages):
            gap = self.memory + page * self.stride + PAGE * self.row
            self.assertEqual(ctypes.string_at(gap, self.EXTRA), b"\xff" * self.EXTRA)

    def test_A39_C15_recordings_follow_the_callers_tables(self):
        """One recording over the caller's memory serves lengths and pages that change."""
        for slot in range(self.pages * PAGE):
            address = self.memory + slot // PAGE * self.stride + slot % PAGE * self.row
            ctypes.memmove(address, self.make_values(self.row // 2), self.row)
        captured = None
        for lengths in ([100, 3], [17, 64], [1, 90]):
            pages = self.place(lengths)
            self.fill_device(lengths, pages, [100, 100])
            captured = captured or self.record()
            ctypes.memset(self.output, 0, 4 * self.engine.hidden_size)
            self.assertEqual(self.driver.mlacEmulatorReplay(), 0)
            replayed = ctypes.string_at(self.output, 4 * self.engine.hidden_size)
            self.assertEqual(self.record(), captured)
            self.assertEqual(replayed, self.run_plan())
            self.assertNotEqual(set(replayed), {0})


if __name__ == "__main__":
    unittest.main()

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A39: a cache, block tables, lengths and slots that belong to the caller.

The same requests are served by an engine with its own pool and sequences, and by one whose
cache is the caller's memory: other pages in another order, further apart than a page is
long, NaN wherever nobody has written. Outputs and cache rows must have the same bits, and
all other bytes stay. With MLAC_TEST_DEVICE=cuda the same on a GPU. Needs no NumPy.
"""

import array
import json
import pathlib
import random
import subprocess
import tempfile
import unittest
import weakref

import mlac
from external_caller import (ATTENTION, CASES, COMPILE, CONFIG, Caller, DEVICE, HEADS, KEPT,
                             LONGEST, Memory, NAN, POOLS, REQUESTS, STEPS, WIDTHS, bits,
                             random_weights)


class ExternalTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.packages = []
        for name, changes, options, pages in CASES:
            if DEVICE == "cuda" and "--dtype=f32" in options:
                continue  # is for the CPU only
            if DEVICE == "cuda" and name == "fp8_ds_mla":
                pages = (64,)  # the only size that its engines have there
            config = pathlib.Path(cls.folder.name) / f"{name}.json"
            config.write_text(json.dumps(json.loads(CONFIG.read_text()) | changes))
            for page in pages:
                package = config.with_suffix(f".{page}.mlac")
                target = "sm_90a" if DEVICE == "cuda" else "cpu"
                subprocess.run([COMPILE, config, "--quiet", f"--target={target}",
                                "--functions=prefill,decode,step", f"--page-size={page}", *options,
                                "-o", package], check=True)
                cls.packages.append((name, page, mlac.Package(str(package))))
        cls.attention, cls.pools, cls.heads, cls.kept = (
            cls.compile_module(name, text, target) for name, text in
            (("attention", ATTENTION), ("pools", POOLS), ("heads", HEADS), ("kept", KEPT)))

    @classmethod
    def compile_module(cls, name, text, target):
        module = pathlib.Path(cls.folder.name) / f"{name}.mlir"
        module.write_text(text)
        package = module.with_suffix(".mlac")
        subprocess.run([COMPILE, module, "--quiet", f"--target={target}", "-o", package],
                       check=True)
        return mlac.Package(str(package))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def setUp(self):
        self.random = random.Random(5)

    def engine(self, package, page, weights, **options):
        engine = mlac.Engine(
            package, mlac.Device(DEVICE), max_num_requests=REQUESTS, max_seq_len=LONGEST,
            max_num_tokens=REQUESTS * LONGEST, workspace_tokens=REQUESTS * max(page, 16),
            **options)
        engine.bind(weights)
        engine.prepare()
        return engine

    def pair(self, package, page):
        """An engine with sequences of its own, and one over the caller's memory."""
        weights = random_weights(package.info, self.random)
        own = self.engine(package, page, weights)
        external = self.engine(package, page, weights, external_pools=1)
        caller = Caller(external, self.random)
        external.bind_pool(caller.pool())
        return own, external, caller

    def hidden(self, engine, tokens):
        shape, dtype = (tokens, engine.hidden_size), engine.activation_dtype
        data = bits(self.random, tokens * engine.hidden_size, dtype)
        return Memory(len(data)).write(data).array(shape, dtype)

    def run_plan(self, plan, hidden):
        size = hidden.memory.size
        output = Memory(size).write(bytes(size)).array(
            (plan.dim("num_tokens"), plan._engine.hidden_size), plan._engine.activation_dtype)
        plan.run(hidden, output)
        return output.memory.read()

    def check_output(self, got, expected, case):
        self.assertEqual(got, expected, case)
        # The upper bytes of elements hold most of an exponent: no NaN, and not all alike.
        uppers = {value & 0x7F for value in got[3::4]}
        self.assertNotIn(0x7F, uppers, case)
        self.assertGreater(len(uppers), 2, case)

    def check_rows(self, own, sequences, caller):
        """The same tokens, and nothing else."""
        data = bytearray(caller.memory.read())
        for request, sequence in enumerate(sequences):
            pages = sequence.pages
            for position in range(len(sequence)):
                slot = pages[position // caller.page] * caller.page + position % caller.page
                row = own.read_cache(slot, 1)
                self.assertEqual(caller.take(data, caller.slot(request, position)), row)
                self.assertNotEqual(set(row), {NAN})
        self.assertEqual(set(data), {NAN})

    def test_A39_the_callers_cache_gives_the_same_bits(self):
        for name, page, package in self.packages:
            own, external, caller = self.pair(package, page)
            sequences = [own.sequence() for _ in range(REQUESTS)]
            expected, got = own.plan(), external.plan()
            for function, counts in STEPS:
                hidden = self.hidden(own, sum(counts))
                expected.fill(sequences, counts, function)
                slots = caller.advance(counts)
                got.fill_tables(counts, caller.lengths, caller.table(), slots, function)
                self.assertEqual(got.dims | {"num_pages": 0, "page_stride": 0},
                                 expected.dims | {"num_pages": 0, "page_stride": 0})
                if function == "prefill" and expected.dim("max_context_len") > page:
                    self.assertGreater(got.dim("num_chunks"), 1)
                own.poison_workspace()
                external.poison_workspace()
                self.check_output(self.run_plan(got, hidden), self.run_plan(expected, hidden),
                                  (name, page, function, counts))
            self.check_rows(own, sequences, caller)

    def test_A39_padded_steps_give_the_same_bits(self):
        """Rows of padding have no slots of the caller's; the rest stands where it should."""
        package = next(each for _, page, each in self.packages if page == 16)
        own, external, caller = self.pair(package, 16)
        sequences = [own.sequence() for _ in range(REQUESTS)]
        shape = {"num_requests": REQUESTS, "num_tokens": 60, "max_query_len": 50,
                 "max_seq_len": LONGEST, "num_decodes": 2, "num_decode_tokens": 4}
        expected, got = own.plan(), external.plan()
        for counts in ((1, 1, 50), (1, 1, 30), (0, 1, 20), (1, 1, 9)):
            hidden = self.hidden(own, shape["num_tokens"])
            expected.fill(sequences, counts, shape=shape)
            slots = caller.advance(counts)
            got.fill_tables(counts, caller.lengths, caller.table(), slots, shape=shape)
            self.check_output(self.run_plan(got, hidden), self.run_plan(expected, hidden), counts)
        self.check_rows(own, sequences, caller)

    def device_arrays(self, rows, lengths, slots, columns):
        """Tables with any number of columns, on the device."""
        padded = [(row + [3] * columns)[:columns] for row in rows]
        values = {"seq_lens": ("i", lengths, (REQUESTS,)),
                  "block_table": ("i", [p for row in padded for p in row], (REQUESTS, columns)),
                  "slot_mapping": ("q", slots, (len(slots),)),
                  "positions": ("q", [n - 1 for n in lengths], (REQUESTS,))}
        arrays = {}
        for name, (code, numbers, shape) in values.items():
            data = array.array(code, numbers).tobytes()
            dtype = {"i": "i32", "q": "i64"}[code]
            arrays[name] = Memory(len(data)).write(data).array(shape, dtype)
        return arrays

    def own_arrays(self, sequences, page):
        """The same of an engine's sequences, each of whose last token is new."""
        rows, lengths = [s.pages for s in sequences], [len(s) for s in sequences]
        slots = [row[(n - 1) // page] * page + (n - 1) % page for row, n in zip(rows, lengths)]
        return self.device_arrays(rows, lengths, slots, max(map(len, rows)))

    def test_A39_device_tables_give_the_same_bits(self):
        for name, page, package in self.packages:
            own, external, caller = self.pair(package, page)
            sequences = [own.sequence() for _ in range(REQUESTS)]
            expected, got = own.plan(), external.plan()
            function, counts = STEPS[0]
            hidden = self.hidden(own, sum(counts))
            expected.fill(sequences, counts, function)
            self.run_plan(expected, hidden)
            slots = caller.advance(counts)
            got.fill_tables(counts, caller.lengths, caller.table(), slots, function)
            self.run_plan(got, hidden)
            ones, own_lengths = [1] * REQUESTS, own.plan()
            for function in ("decode", "step"):
                hidden = self.hidden(own, REQUESTS)
                expected.fill(sequences, ones, function)
                slots = caller.advance(ones)
                needed = max(-(-n // page) for n in caller.lengths)
                own_lengths.fill_device(ones, caller.lengths, function=function,
                                        **self.own_arrays(sequences, page))
                result = self.run_plan(own_lengths, hidden)
                for columns in (needed, needed + 1, caller.columns + 5):
                    arrays = self.device_arrays(caller.rows, caller.lengths, slots, columns)
                    got.fill_device(ones, caller.lengths, **arrays, function=function)
                    self.check_output(self.run_plan(got, hidden), result,
                                      (name, page, function, columns))
            self.check_rows(own, sequences, caller)

    def test_A39_tables_on_the_device_of_lengths_on_the_host(self):
        """Every function, prefills over context among them; slots are read there, too."""
        for name, page, package in self.packages:
            own, external, caller = self.pair(package, page)
            sequences = [own.sequence() for _ in range(REQUESTS)]
            expected, got = own.plan(), external.plan()
            for function, counts in STEPS:
                hidden = self.hidden(own, sum(counts))
                expected.fill(sequences, counts, function)
                slots = caller.advance(counts)
                needed = max(-(-n // page) for n in caller.lengths)
                result = None
                for columns in (caller.columns + 5, needed):
                    arrays = self.device_arrays(caller.rows, caller.lengths, slots, columns)
                    tables = arrays["block_table"], arrays["slot_mapping"]
                    got.fill_tables(counts, caller.lengths, *tables, function, on_device=True)
                    with self.assertRaisesRegex(mlac.Unsupported, "is the caller's"):
                        got.metadata("block_table")
                    result = result or self.run_plan(expected, hidden)
                    external.poison_workspace()
                    self.check_output(self.run_plan(got, hidden), result,
                                      (name, page, function, counts, columns))
            self.check_rows(own, sequences, caller)

    def test_A39_tables_on_the_device_that_cannot_be(self):
        _, external, caller = self.pair(*self.packages[0][:0:-1])
        slots, plan = caller.advance([3] * REQUESTS), external.plan()
        arrays = self.device_arrays(caller.rows, caller.lengths, slots, caller.columns)
        tables = arrays["block_table"], arrays["slot_mapping"]
        shape = {"num_requests": REQUESTS, "num_tokens": 60, "max_query_len": 50,
                 "max_seq_len": LONGEST, "num_decodes": 2, "num_decode_tokens": 4}
        with self.assertRaisesRegex(mlac.Unsupported, "tables on the device is not padded"):
            plan.fill_tables([3] * REQUESTS, caller.lengths, *tables, shape=shape, on_device=True)
        narrow = self.device_arrays(caller.rows, caller.lengths, slots, 1)["block_table"]
        with self.assertRaisesRegex(mlac.InvalidArgument, "block_table_stride is 1"):
            plan.fill_tables([3] * REQUESTS, [caller.page + 3] * REQUESTS, narrow, tables[1],
                             on_device=True)

    def test_A39_a_refused_step_keeps_the_arrays_of_the_one_before(self):
        """Which the plan still runs, after the caller has let go of them."""
        _, external, caller = self.pair(*self.packages[0][:0:-1])
        slots, plan = caller.advance([1] * REQUESTS), external.plan()
        ones, hidden = [1] * REQUESTS, self.hidden(external, REQUESTS)

        def arrays():
            return self.device_arrays(caller.rows, caller.lengths, slots, caller.columns)

        def on_device(lengths, block_table, slot_mapping, **_):
            plan.fill_tables(ones, lengths, block_table, slot_mapping, on_device=True)

        def lengths_too(bounds, **given):
            plan.fill_device(ones, bounds, **given)

        for fill in (on_device, lengths_too):
            given = arrays()
            fill(caller.lengths, **given)
            expected = self.run_plan(plan, hidden)
            kept = [weakref.ref(given[name]) for name in ("block_table", "slot_mapping")]
            del given
            for other in (on_device, lengths_too):
                with self.assertRaisesRegex(mlac.InvalidArgument, f"max_seq_len = {LONGEST}"):
                    other([LONGEST + 1] * REQUESTS, **arrays())
            self.assertNotIn(None, [array() for array in kept])
            self.assertEqual(self.run_plan(plan, hidden), expected)

    def test_A39_attention_alone_over_the_callers_cache(self):
        own, external, caller = self.pair(self.attention, 16)
        sequences = [own.sequence() for _ in range(REQUESTS)]
        expected, got = own.plan(), external.plan()
        for counts in ((2, 1, 2), *[(2, 2, 2)] * 20, (1, 2, 0)):
            tokens = sum(counts)
            inputs = {}
            for name, width in (("q_lat", 256), ("q_pe", 64), ("latent", 64), ("k_pe", 16)):
                data = bits(self.random, tokens * width, "bf16")
                inputs[name] = Memory(len(data)).write(data).array((tokens, width), "bf16")
            results = []
            expected.fill(sequences, counts)
            slots = caller.advance(counts)
            got.fill_tables(counts, caller.lengths, caller.table(), slots)
            for plan in (expected, got):
                output, lse = Memory(2 * tokens * 256), Memory(4 * tokens * 4)
                plan.run_bound(**inputs, output=output.array((tokens, 256), "bf16"),
                               lse=lse.array((tokens, 4), "f32"))
                results.append((output.read(), lse.read()))
            self.check_output(results[1][0], results[0][0], counts)
            self.assertEqual(results[1][1], results[0][1], counts)
        self.check_rows(own, sequences, caller)

    def test_A39_short_arrays_are_refused_by_name(self):
        """Of every input and output; nothing is written then."""
        own, _, _ = self.pair(self.attention, 16)
        sequences, plan = [own.sequence() for _ in range(2)], own.plan()
        plan.fill(sequences, [2, 1])
        widths = {"q_lat": (256, 2), "q_pe": (64, 2), "latent": (64, 2), "k_pe": (16, 2),
                  "output": (256, 2), "lse": (4, 4)}
        for short in widths:
            memories = {name: Memory(3 * width * item) for name, (width, item) in widths.items()}
            memories["output"].write(bytes([NAN]) * memories["output"].size)
            arrays = {name: memory.array((3 - (name == short), widths[name][0]),
                                         "f32" if name == "lse" else "bf16")
                      for name, memory in memories.items()}
            width, item = widths[short]
            with self.assertRaisesRegex(mlac.InvalidArgument, f"buffer '{short}' has "
                                        f"{2 * width * item} bytes, the step needs {3 * width * item}"):
                plan.run_bound(**arrays)
            self.assertEqual(set(memories["output"].read()), {NAN})

    def rows_engine(self, package, **options):
        engine = mlac.Engine(package, mlac.Device(DEVICE), max_num_requests=REQUESTS,
                             max_seq_len=LONGEST, max_num_tokens=REQUESTS * LONGEST,
                             workspace_tokens=1024, **options)
        engine.prepare()
        return engine

    def random_rows(self, names, tokens):
        return {name: bits(self.random, tokens * WIDTHS[name], "bf16") for name in names}

    def append_rows(self, plan, rows, tokens):
        plan.run_bound(**{name: Memory(len(data)).write(data).array((tokens, WIDTHS[name]), "bf16")
                          for name, data in rows.items()})

    def gather_rows(self, plan, names, tokens):
        self.assertEqual(plan.dim("chunk_tokens"), tokens)
        memories = {name: Memory(2 * tokens * WIDTHS[name]) for name in names}
        plan.run_bound(**{name: memory.array((tokens, WIDTHS[name]), "bf16")
                          for name, memory in memories.items()})
        return {name: memory.read() for name, memory in memories.items()}

    def random_table(self, pages, page, counts, columns):
        """A block table of shuffled pages, with room for a token more than there are, and the
        slots of so many tokens of each request."""
        free, rows, slots = self.random.sample(range(pages), pages), [], []
        for count in counts:
            row = [free.pop() for _ in range(count // page + 1)]
            slots += [row[i // page] * page + i % page for i in range(count)]
            rows += row + [-1] * (columns - len(row))
        table = memoryview(array.array("i", rows)).cast("B").cast("i", (len(counts), columns))
        return table, array.array("q", slots)

    def test_A39_two_pools_one_of_them_the_callers(self):
        """Pools of different pages in one function: one the engine's memory, one ours."""
        engine, pages, stride = self.rows_engine(self.pools, external_pools=2), 40, 800
        memory = Memory(pages * stride)
        memory.write(bytes([NAN]) * memory.size)
        pairs = memory.array((pages, 4, 96), "bf16", (stride // 2, 96, 1))
        engine.bind_pool(pairs, index=1)
        counts, plan = (37, 5, 20), engine.plan()
        tokens = sum(counts)
        table, slots = self.random_table(engine.pool_stats(0)["num_pages"], 16, counts, 4)
        pair_table, pair_slots = self.random_table(pages, 4, counts, 10)
        rows = self.random_rows(WIDTHS, tokens)
        plan.fill_tables(counts, counts, table, slots, "append",
                         pools=[(pair_table, pair_slots)])
        self.assertEqual(plan.dim("pairs/num_pages"), pages)
        self.append_rows(plan, rows, tokens)
        engine_bytes = b"".join(engine.read_cache(slot, 1) for slot in slots)
        expected = b"".join(rows["latent"][128 * i:128 * (i + 1)] + rows["rope"][32 * i:32 * (i + 1)]
                            for i in range(tokens))
        self.assertEqual(engine_bytes, expected)
        ours = bytearray(bytes([NAN]) * memory.size)
        for i, slot in enumerate(pair_slots):
            page, row = slot // 4 * stride, slot % 4
            ours[page + 128 * row:page + 128 * (row + 1)] = rows["key"][128 * i:128 * (i + 1)]
            at = page + 4 * 128 + 64 * row
            ours[at:at + 64] = rows["value"][64 * i:64 * (i + 1)]
        self.assertEqual(memory.read(), bytes(ours))

        none = array.array("q", [-1] * len(counts))
        plan.fill_tables([1] * len(counts), [count + 1 for count in counts], table, none, "gather",
                         pools=[(pair_table, none)])
        self.assertEqual(self.gather_rows(plan, WIDTHS, tokens), rows)

        # What is wrong names pool, request, value and limit; nothing has changed then.
        def fill(pools):
            plan.fill_tables(counts, counts, table, slots, "append", pools=pools)
        pair_table[1, 0] = pages
        for refused, message in (
                (lambda: fill([(pair_table, pair_slots)]),
                 f"pool 1: request 1: block_table entry 0 is page {pages}, the pool has {pages}"),
                (lambda: fill([]), "batch.num_pools = 0, expected 1"),
                (lambda: fill([(self.random_table(pages, 4, (4, 4, 4), 2)[0], pair_slots)]),
                 "request 0: seq_len 37 takes 10 pages of pool 1, block_table_stride is 2"),
                (lambda: engine.bind_pool(pairs, index=2), "pool 2, expected 0 to 1"),
                (lambda: engine.pool_stats(2), "pool 2, expected 0 to 1"),
                (lambda: engine.read_cache(4 * pages, 1, pool=1), f"the pool has {4 * pages}")):
            with self.assertRaisesRegex(mlac.InvalidArgument, message):
                refused()
        with self.assertRaisesRegex(mlac.Unsupported, "external_pools = 3"):
            engine.bind_pool(memory.array((4, 16, 80), "bf16"), index=0)
        engine.bind_pool(None, index=1)
        with self.assertRaisesRegex(mlac.WrongState, "layer 0 has no pool 'pairs'"):
            plan.run_bound()

    def test_A39_tables_of_two_pools_on_the_device(self):
        """Slots that only the device knows, of both pools: as if the host had given them."""
        engine, pages = self.rows_engine(self.pools, external_pools=3), 40
        latents, pairs = Memory(20 * 2560), Memory(pages * 768)
        engine.bind_pool(latents.array((20, 16, 80), "bf16"), index=0)
        engine.bind_pool(pairs.array((pages, 4, 96), "bf16"), index=1)
        lengths, count = (37, 5, 20), 3
        table, slots = self.random_table(20, 16, lengths, 4)
        pair_table, pair_slots = self.random_table(pages, 4, lengths, 10)
        slots, pair_slots = slots[:count], pair_slots[:count]
        rows, plan, results = self.random_rows(WIDTHS, count), engine.plan(), []

        def on_device(data, shape, dtype):
            data = bytes(data)
            return Memory(len(data)).write(data).array(shape, dtype)

        def fill_device():
            lens = array.array("i", lengths)
            plan.fill_device(
                [1] * count, [LONGEST // 4] * count, seq_lens=on_device(lens, (count,), "i32"),
                block_table=on_device(table, (count, 4), "i32"),
                slot_mapping=on_device(slots, (count,), "i64"),
                positions=on_device(slots, (count,), "i64"), function="append_one",
                pools=[(on_device(pair_table, (count, 13), "i32"),
                        on_device(pair_slots, (count,), "i64"))])
        pair_table = memoryview(array.array("i", [0] * 13 * count)).cast("B").cast("i", (count, 13))
        for fill in (lambda: plan.fill_tables([1] * count, [1] * count, table, slots, "append_one",
                                              pools=[(table, pair_slots)]), fill_device):
            for memory in (latents, pairs):
                memory.write(bytes(memory.size))
            fill()
            self.append_rows(plan, rows, count)
            results.append((latents.read(), pairs.read()))
        self.assertEqual(results[1], results[0])
        self.assertNotEqual(results[1][1], bytes(pairs.size))

    def test_A39_sequences_over_two_pools(self):
        """Both pools are the engine's: it hands out the pages of both, and copies them."""
        engine = self.rows_engine(self.pools)
        counts, plan = (37, 5, 20), engine.plan()
        sequences, tokens = [engine.sequence() for _ in counts], sum(counts)
        rows = self.random_rows(WIDTHS, tokens)
        plan.fill(sequences, counts, "append")
        self.append_rows(plan, rows, tokens)
        self.assertEqual(engine.pool_stats(1)["page_size"], 4)
        plan.fill(sequences, [1] * len(counts), "gather")
        self.assertEqual(self.gather_rows(plan, WIDTHS, tokens), rows)
        # A fork that writes gets pages of its own in both; the first keeps what it has.
        fork = sequences[0].fork(37)
        more = self.random_rows(WIDTHS, 1)
        plan.fill([fork], [1], "append")
        self.append_rows(plan, more, 1)
        plan.fill([fork], [1], "gather")
        first = {name: rows[name][:2 * 37 * width] for name, width in WIDTHS.items()}
        self.assertEqual(self.gather_rows(plan, WIDTHS, 38),
                         {name: first[name] + more[name] for name in WIDTHS})
        sequences[0].truncate(37)
        plan.fill([sequences[0]], [1], "gather")
        self.assertEqual(self.gather_rows(plan, WIDTHS, 37), first)

    def test_A39_compressed_rows_and_windows(self):
        """A row of four tokens exists once all do; pages behind a window are given back."""
        engine = self.rows_engine(self.kept)
        sequence, plan, written = engine.sequence(), engine.plan(), b""
        slots = lambda position, pool: engine.cache.slots(sequence._id, position, 1, pool)[0]
        free = engine.pool_stats(2)["free_pages"]
        for count in (37, 1, 1, 1, 9, 1):
            rows = self.random_rows(("latent",), count)
            plan.fill([sequence], [count], "append")
            self.append_rows(plan, rows, count)
            written += rows["latent"]
        tokens, row = len(written) // 128, lambda token: written[128 * token:128 * (token + 1)]
        read = lambda pool, position: engine.read_cache(slots(position, pool), 1, pool=pool)
        for position in range(tokens):
            self.assertEqual(read(0, position), row(position))
        for position in range(tokens):
            self.assertEqual(slots(position, 1) >= 0, position % 4 == 3)
            if position % 4 == 3:
                self.assertEqual(read(1, position), row(position))
        for position in range(tokens - 16, tokens):
            self.assertEqual(read(2, position), row(position))
        self.assertEqual(slots(0, 2), -1)
        # The last query sees 16 tokens, of at most five pages of four.
        self.assertLessEqual(free - engine.pool_stats(2)["free_pages"], 5)
        engine.cache.check()

    def test_A39_a_package_without_latents(self):
        """Keys and values of heads: nothing in the package or the engine is a latent."""
        info = self.heads.info
        self.assertEqual(info["model"]["kv_lora_rank"], 0)
        self.assertEqual([(f["name"], f["heads"], f["columns"]) for f in info["pools"][0]["fields"]],
                         [("key", 2, 32), ("value", 2, 16)])
        engine = self.rows_engine(self.heads)
        counts, plan = (37, 5, 20), engine.plan()
        sequences, tokens = [engine.sequence() for _ in counts], sum(counts)
        rows = self.random_rows(("key", "value"), tokens)
        plan.fill(sequences, counts, "append")
        self.append_rows(plan, rows, tokens)
        plan.fill(sequences, [1] * len(counts), "gather")
        self.assertEqual(self.gather_rows(plan, ("key", "value"), tokens), rows)
        self.assertEqual(engine.cache_part("value").shape[2], 32)

    def test_A39_a_pool_of_two_tensors(self):
        """Rope keys are found behind the latents of their page, and nowhere else."""
        package = next(each for name, _, each in self.packages if name == "split_ckv_kpe")
        external = self.engine(package, 16, random_weights(package.info, self.random),
                               external_pools=1)
        caller = Caller(external, self.random)
        latent, rope = caller.pool()
        external.bind_pool([latent, rope])
        elsewhere = Memory(caller.memory.size).array(
            (len(caller.pages), 16, 8), "bf16", (caller.stride // 2, 8, 1))
        with self.assertRaisesRegex(mlac.Unsupported, "kernels of this package read rope keys "
                                    "1024 bytes behind the latents of their page"):
            external.bind_pool([latent, elsewhere])
        with self.assertRaisesRegex(mlac.InvalidArgument, r"rope keys: expected shape \[pages, "
                                    r"16, 8\], got \["):
            external.bind_pool([latent, latent])
        with self.assertRaisesRegex(mlac.InvalidArgument, "each of two fields, got 1 arrays"):
            external.bind_pool([latent])

    def test_A39_bad_arrays_are_refused(self):
        package = next(each for _, page, each in self.packages if page == 16)
        external = self.engine(package, 16, random_weights(package.info, self.random),
                               external_pools=1)
        memory, width = Memory(1 << 16), 40  # elements of a row
        make = lambda shape, dtype="bf16", strides=None, **more: memory.array(
            shape, dtype, strides, **more)
        for pool, message in (
                (make((4, 16, width), "f32"), "pool: expected dtype bf16, got f32"),
                (make((4, 16, width - 8)), r"expected shape \[pages, 16, 40\], got \[4, 16, 32\]"),
                (make((64, width)), r"expected shape \[pages, 16, 40\], got \[64, 40\]"),
                (make((4, 16, width), strides=(1280, 80, 1)),
                 "expected dense pages, rows 40 elements apart, got 80"),
                (make((4, 16, width), strides=(1280, 40, 2)),
                 "expected dense pages, columns 1 elements apart, got 2"),
                (make((4, 16, width), strides=(600, 40, 1)),
                 "page stride of 1200 bytes, format mla_16 needs at least 1280"),
                (make((4, 16, width), strides=(642, 40, 1)),
                 "pool.page_stride_bytes = 1284, expected a multiple of 16"),
                (make((0, 16, width)), r"pool: expected at least 1 page, got shape \[0, 16, 40\]"),
                (make((4, 16, width), offset=8), "not aligned to 16 bytes: address ends in 8"),
                (make((4, 16, width), is_read_only=True), "expected a writable array")):
            with self.assertRaisesRegex(mlac.InvalidArgument, message):
                external.bind_pool(pool)
        if DEVICE == "cuda":
            with self.assertRaisesRegex(mlac.InvalidArgument, "expected CUDA memory, got host"):
                external.bind_pool(memoryview(bytearray(5120)).cast("B").cast("H", (4, 16, width)))
        for refused in (lambda: external.sequence(), lambda: external.cache,
                        lambda: external.swap_space(2), lambda: external.poison_cache()):
            with self.assertRaisesRegex(mlac.Unsupported, "the engine's pools are the caller's"):
                refused()


if __name__ == "__main__":
    unittest.main()

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python package over the runtime, on the unit tests' package.

Runs under pytest or `python -m unittest`. NumPy and torch are tried where they are
installed; everything else uses array.array. MLAC_TEST_PACKAGE and
MLAC_TEST_CUDA_PACKAGE name packages that mlac-make-test-package wrote (see
TestPackage.h): output[t] = 2 * w + the sum of the hidden rows so far.
"""

import array
import copy
import ctypes
import gc
import os
import pickle
import tempfile
import unittest

import mlac

try:
    import numpy
except ImportError:
    numpy = None
try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None
try:
    import torch
except ImportError:
    torch = None

PACKAGE = os.environ.get("MLAC_TEST_PACKAGE")
CUDA_PACKAGE = os.environ.get("MLAC_TEST_CUDA_PACKAGE", "")
HIDDEN = 8
PAGE = 4
WEIGHT = array.array("f", range(1, HIDDEN + 1))


def floats(values):
    return array.array("f", values)


@unittest.skipUnless(PACKAGE, "MLAC_TEST_PACKAGE is not set")
class RuntimeTest(unittest.TestCase):
    def setUp(self):
        self.package = mlac.Package(PACKAGE)
        self.device = mlac.Device("cpu", threads=2)
        self.engine = mlac.Engine(self.package, self.device, max_num_requests=4,
                                  max_num_tokens=32, num_pages=12)
        self.engine.bind({"w": WEIGHT})
        self.engine.prepare()
        self.plan = self.engine.plan()

    def run_step(self, sequence, rows):
        """Plans and runs rows of one sequence given as a flat list."""
        self.plan.fill([sequence], [len(rows) // HIDDEN])
        output = floats([0] * len(rows))
        self.engine.poison_cache()
        self.engine.poison_workspace()
        self.plan.run(floats(rows), output)
        return list(output)

    def test_info(self):
        self.assertEqual(self.package.info["model"]["hidden_size"], HIDDEN)
        self.assertEqual(self.device.info["kind"], "cpu")
        self.assertEqual(self.engine.info["options"]["num_pages"], 12)
        self.assertFalse(self.device.is_cuda)
        self.assertRegex(mlac.runtime_version(), r"^\d+\.\d+\.\d+$")
        self.assertEqual(mlac.__version__, mlac.runtime_version())

    def owners(self):
        """An object of every class that stands for one of the native library."""
        sequence, cache = self.engine.sequence(), self.engine.cache
        return [self.package, self.device, self.engine, self.plan, sequence, cache,
                self.engine.cache_part("latent"), cache.table(self.device, 2, 4)]

    def test_owners_cannot_be_copied(self):
        """A copy would close the original's handle when it is collected."""
        for owner in self.owners():
            for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(TypeError, "cannot copy or pickle <mlac."):
                    duplicate(owner)
        gc.collect()
        self.run_step(self.engine.sequence(), [1.0] * HIDDEN)  # all are still open

    def test_repr(self):
        texts = [repr(owner) for owner in self.owners()]
        expected = ["Package 'test', 1 heads, f32, page size 4, for x86-64",
                    "Device cpu, x86-64-v", "Engine 'test', 1 heads, f32, 1 layers, 1 sequences, "
                    "12 of 12 pages free", "Plan not filled", "Sequence 0x",
                    "Cache 1 sequences, 12 unused pages", "_Memory [12, 4, 4] <f4 at 0x",
                    "BlockTable 2 rows of 16 pages, 4 slots"]
        for text, part in zip(texts, expected, strict=True):
            self.assertIn(f"<mlac.{part}", text)
        sequence = self.engine.sequence()
        self.plan.fill([sequence], [PAGE + 1])
        self.assertIn(f"{PAGE + 1} tokens, pages [", repr(sequence))
        self.assertEqual(repr(self.plan), f"<mlac.Plan prefill, 1 requests, {PAGE + 1} tokens>")
        sequence.free()
        self.assertEqual(repr(sequence), "<mlac.Sequence freed>")
        other = self.engine.sequence()
        self.plan.close()
        self.engine.close()
        self.assertEqual(repr(self.engine), "<mlac.Engine closed>")
        self.assertIn("<mlac.Sequence unusable: ", repr(other))
        self.assertIn("<mlac.Plan closed>", repr(self.plan))
        self.assertEqual(repr(mlac.Plan.__new__(mlac.Plan)), "<mlac.Plan closed>")
        layout = mlac.CacheLayout("fp8_ds_mla", num_pages=4)
        self.assertIn("CacheLayout fp8_ds_mla, 4 pages of 64 tokens, rows of 576", repr(layout))

    def test_names(self):
        for name in mlac.__all__:
            self.assertIsNotNone(getattr(mlac, name))
        names = dir(mlac)
        self.assertLessEqual({"Engine", "OutOfPages", "arrange_batch", "reference",
                              "__version__"}, set(names))
        self.assertNotIn("importlib", names)

    def test_shared_pages(self):
        """Forks, prefixes and snapshots of an engine's cache."""
        tokens = [7] * (2 * PAGE + 1)
        first = self.engine.sequence()
        self.run_step(first, [1.0] * HIDDEN * len(tokens))
        self.assertEqual(first.publish(tokens), 2 * PAGE)
        second = self.engine.sequence()
        self.assertEqual(second.match(tokens), 2 * PAGE)
        output = self.run_step(second, [3.0] * HIDDEN)
        self.assertEqual(output, [2 * w + 2 * PAGE + 3 for w in WEIGHT])
        fork = second.fork()
        self.assertEqual(fork.pages, second.pages)
        output = self.run_step(fork, [1.0] * HIDDEN)
        self.assertEqual(output, [2 * w + 2 * PAGE + 4 for w in WEIGHT])
        self.assertNotEqual(fork.pages, second.pages)
        cache = self.engine.cache
        cache.check()
        counters = cache.counters()
        self.assertEqual(counters["hit_tokens"], 2 * PAGE)
        self.assertEqual(counters["copied_pages"], 1)
        self.assertIn("pool cache: 12 pages", cache.dump())
        with self.assertRaisesRegex(mlac.InvalidArgument, "empty sequence"):
            second.match(tokens)

    def test_cache_without_an_engine(self):
        pools = [{"name": "latent", "num_pages": 8, "page_rows": PAGE}]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "snapshot")
            with mlac.Cache(pools, max_seq_len=32) as cache:
                sequence = cache.sequence()
                self.assertEqual(cache.append([sequence], [0], [6]), list(range(6)))
                child = cache.fork(sequence)
                self.assertEqual(cache.append([child], [6], [1]), [2 * PAGE + 2])
                self.assertEqual(cache.take_copies(), [(0, 1, 2)])
                with self.assertRaises(mlac.OutOfPages):
                    cache.append([child], [7], [25])
                with self.assertRaisesRegex(mlac.InvalidArgument, "goes backwards"):
                    cache.append([child], [3], [1])
                cache.save(path)
            with mlac.Cache(pools, max_seq_len=32) as other:
                ids = other.restore(path)
                self.assertEqual([other.length(id) for id in ids], [6, 7])
                self.assertEqual(other.pages(ids[1]), [0, 2])
            with mlac.Cache(pools, max_seq_len=33) as other:
                with self.assertRaisesRegex(mlac.InvalidArgument, "max_seq_len is '32'"):
                    other.restore(path)

    def test_prefill_then_decode(self):
        sequence = self.engine.sequence()
        output = self.run_step(sequence, [1.0] * HIDDEN * 5)
        self.assertEqual(output[-HIDDEN:], [2 * w + 5 for w in WEIGHT])
        self.assertEqual(self.plan.function, "prefill")
        output = self.run_step(sequence, [2.0] * HIDDEN)
        self.assertEqual(output, [2 * w + 7 for w in WEIGHT])
        self.assertEqual(self.plan.function, "decode")
        self.assertEqual(len(sequence), 6)
        self.assertEqual(sequence.pages, [0, 1])

    def test_plan_metadata(self):
        first, second = self.engine.sequence(), self.engine.sequence()
        self.plan.fill([first, second], [PAGE, 1])
        self.assertEqual(self.plan.dims["num_tokens"], PAGE + 1)
        self.assertEqual(self.plan.metadata("query_start_loc"), [0, PAGE, PAGE + 1])
        self.assertEqual(self.plan.metadata("positions"), [0, 1, 2, 3, 0])
        # A row has 64 / 4 entries for max_seq_len and an unused one, and begins at 16 bytes.
        self.assertEqual(self.plan.dims["max_blocks_per_request"], 20)
        unused = [2147480000] * 19
        self.assertEqual(self.plan.metadata("block_table"), [0] + unused + [1] + unused)

    def test_out_of_pages_changes_nothing(self):
        sequence = self.engine.sequence()
        other = self.engine.sequence()
        other.reserve(11 * PAGE)
        with self.assertRaises(mlac.OutOfPages):
            self.plan.fill([sequence], [PAGE + 1])
        self.assertEqual(len(sequence), 0)
        self.assertEqual(self.engine.cache_stats["free_pages"], 1)
        other.truncate(0)
        self.plan.fill([sequence], [PAGE + 1])

    def test_freed_pages_return(self):
        sequence = self.engine.sequence()
        sequence.reserve(PAGE)
        del sequence
        self.assertEqual(self.engine.cache_stats["free_pages"], 12)
        stale = self.engine.sequence()
        stale.free()
        with self.assertRaises(ValueError):
            self.plan.fill([stale], [1])

    def test_plan_holds_its_sequences(self):
        """Nothing collects the sequences of a filled plan; another fill gives them back."""
        self.plan.fill([self.engine.sequence()], [PAGE])
        gc.collect()
        rows = floats([1] * PAGE * HIDDEN)
        self.plan.run(rows, floats([0] * len(rows)))
        self.assertEqual(self.engine.cache_stats["num_sequences"], 1)
        with self.assertRaises(ValueError):
            self.plan.fill([self.engine.sequence()], [-1])  # changes nothing
        self.plan.run(rows, floats([0] * len(rows)))
        kept = self.engine.sequence()
        self.plan.fill([kept], [1])
        self.assertEqual(self.engine.cache_stats["num_sequences"], 1)
        kept.free()  # asked for: the plan is stale
        with self.assertRaisesRegex(mlac.WrongState, "has been freed"):
            self.plan.run(floats([1] * HIDDEN), floats([0] * HIDDEN))

    def test_errors_name_expected_and_got(self):
        sequence = self.engine.sequence()
        self.plan.fill([sequence], [2])
        rows = floats([0] * 2 * HIDDEN)
        with self.assertRaisesRegex(ValueError, r"hidden: expected shape \[2, 8\], got \[3\]"):
            self.plan.run(floats([0] * 3), rows)
        with self.assertRaisesRegex(ValueError, "output: expected dtype f32, got i32"):
            self.plan.run(rows, array.array("i", [0] * 2 * HIDDEN))
        with self.assertRaisesRegex(ValueError, "output: expected a writable array"):
            self.plan.run(rows, memoryview(floats(rows)).toreadonly())
        with self.assertRaisesRegex(ValueError, "hidden: expected an array .*, got list"):
            self.plan.run([0] * 2 * HIDDEN, rows)
        with self.assertRaisesRegex(ValueError, "hidden: expected an array .*, got list"):
            self.plan.run([0] * 2 * HIDDEN)
        with self.assertRaisesRegex(ValueError, "output: give one"):
            self.plan.run(rows)
        with self.assertRaisesRegex(ValueError, "query_lens: expected 1 lengths, got 2"):
            self.plan.fill([sequence], [1, 1])
        with self.assertRaisesRegex(ValueError, "unknown option 'pages'"):
            mlac.Engine(self.package, self.device, pages=3)
        with self.assertRaisesRegex(ValueError, "device: expected a mlac.Device, got str"):
            mlac.Engine(self.package, "cpu")
        with self.assertRaisesRegex(ValueError, "package: expected a mlac.Package, got str"):
            mlac.Engine(PACKAGE, self.device)
        with self.assertRaisesRegex(ValueError, "shape: unknown field 'num_token', expected some"):
            self.plan.fill([sequence], [1], shape={"num_requests": 1, "num_tokens": 1,
                                                   "num_token": 1, "max_query_len": 1})
        with self.assertRaisesRegex(ValueError, r"expected shape \[8\], got \[3\]"):
            self.engine.bind({"w": floats([0] * 3)})
        with self.assertRaisesRegex(mlac.NotFound, "unknown function 'rest'"):
            self.plan.fill([sequence], [1], function="rest")

    def test_extra_outputs_by_name(self):
        sequence = self.engine.sequence()
        self.plan.fill([sequence], [PAGE])
        self.plan.fill([sequence], [1], function="chunked")
        with self.assertRaisesRegex(ValueError, "no input or output 'hidden'"):
            self.plan.run(floats([0] * HIDDEN), floats([0] * HIDDEN),
                          lse=floats([0] * 4))

    def test_bound_buffers_and_cache_address(self):
        sequence = self.engine.sequence()
        rows = [float(i) for i in range(HIDDEN)]
        self.plan.fill([sequence], [1])
        output = floats([0] * HIDDEN)
        self.plan.run_bound(hidden=floats(rows), output=output)
        self.assertEqual(list(output), [2 * w + x for w, x in zip(WEIGHT, rows)])
        with self.assertRaises(mlac.InvalidArgument):
            self.plan.run_bound(hidden=floats(rows))
        self.assertEqual(self.engine.buffer_types["hidden"], "f32")
        # As many bytes as the library asks for, of another type: it would compute on the bits.
        other = array.array("q", [0] * HIDDEN)
        for name, given in (("hidden", {"hidden": other, "output": output}),
                            ("output", {"hidden": floats(rows), "output": other})):
            with self.assertRaisesRegex(ValueError, f"{name}: expected dtype f32, got i64"):
                self.plan.run_bound(**given)
        with self.assertRaisesRegex(ValueError, "output: expected a writable array"):
            self.plan.run_bound(hidden=floats(rows), output=memoryview(output).toreadonly())
        slot = self.plan.metadata_view("slot_mapping")[0]
        stats = self.engine.cache_stats
        self.assertEqual(stats["page_stride_bytes"], PAGE * stats["row_bytes"])
        address = self.engine.cache_data() + slot * stats["row_bytes"]
        self.assertEqual(ctypes.string_at(address, stats["row_bytes"]),
                         self.engine.read_cache(slot, 1))

    def test_bad_packages(self):
        with open(PACKAGE, "rb") as file:
            data = file.read()
        with self.assertRaisesRegex(mlac.Corrupt, "truncated"):
            mlac.Package(data[:-1])
        with self.assertRaises(mlac.NotFound):
            mlac.Package("/nonexistent.mlac")
        self.assertEqual(mlac.Package(data).info, self.package.info)

    def test_no_gpu(self):
        try:
            mlac.Device("cuda")
        except mlac.NoDevice as error:
            self.assertIn("CUDA", str(error))

    def test_closed_objects_are_refused(self):
        self.plan.close()
        self.plan.close()
        with self.assertRaisesRegex(ValueError, "the mlac.Plan is closed"):
            self.plan.dim("num_tokens")
        sequence = self.engine.sequence()
        sequence.free()
        for use in (sequence.free, lambda: self.engine.plan().fill([sequence], [1])):
            with self.assertRaisesRegex(ValueError, "the mlac.Sequence was freed"):
                use()
        self.plan = self.engine.plan()
        self.engine.close()
        with self.assertRaisesRegex(ValueError, "engine has been destroyed"):
            self.plan.dim("num_tokens")

    def test_arguments_of_other_kinds_are_named(self):
        sequence = self.engine.sequence()
        for sequences, lens, text in (
                (sequence, [1], "sequences: expected a list of mlac.Sequence, got <mlac.Sequence"),
                (None, [1], "sequences: expected a list of mlac.Sequence, got None"),
                ([sequence, 3], [1, 1], r"sequences\[1\]: expected a mlac.Sequence, got int"),
                ([sequence], [1.5], r"query_lens\[0\]: expected an integer, got 1.5"),
                ([sequence], None, "query_lens: expected a list of integers, got None"),
                ([sequence], [None], r"query_lens\[0\]: expected an integer, got None")):
            with self.assertRaisesRegex((ValueError, TypeError), text):
                self.plan.fill(sequences, lens)
        for lens, keys, text in ((None, [1], "query_lens: expected a list of integers, got None"),
                                 ([1], 1, "seq_lens: expected a list of integers, got 1"),
                                 (["1"], [1], r"query_lens\[0\]: expected an integer, got '1'")):
            with self.assertRaisesRegex((ValueError, TypeError), text):
                self.plan.fill_tables(lens, keys, None, None)
        # Before arrays are compared with so many tokens.
        negative = r"query_lens\[1\]: expected at least 0, got -1"
        with self.assertRaisesRegex(mlac.InvalidArgument, negative):
            self.plan.fill_tables([2, -1], [2, 1], None, None)
        with self.assertRaisesRegex(mlac.InvalidArgument, negative):
            self.plan.fill_device([2, -1], [2, 1], seq_lens=None, block_table=None,
                                  slot_mapping=None, positions=None)
        for weights, text in (([1], "weights: expected a mapping of names to arrays, got list"),
                              ({5: WEIGHT}, "weights: expected names of type str, got 5")):
            with self.assertRaisesRegex(mlac.InvalidArgument, text):
                self.engine.bind(weights)
        self.assertEqual(len(sequence), 0)
        with self.assertRaisesRegex(TypeError, "max_seq_len: expected an integer, got 'x'"):
            mlac.Engine(self.package, self.device, max_seq_len="x")
        with self.assertRaisesRegex(TypeError, "name: expected a str, got 3"):
            mlac.Device(3)
        with self.assertRaisesRegex(TypeError, "function: expected a str, got 3"):
            self.plan.fill([sequence], [1], function=3)

    @unittest.skipUnless(numpy, "NumPy is not installed")
    def test_arrays_without_elements_are_said_by_their_size(self):
        """Torch has no memory for them, and the library says of a null pointer that it is one."""
        class Empty:
            def __init__(self, shape, typestr):
                self.__array_interface__ = {"data": (0, False), "shape": shape, "typestr": typestr}

        with self.assertRaisesRegex(mlac.InvalidArgument,
                                    r"^block_table: expected at least 1 column, got shape \[1, 0\]$"):
            self.plan.fill_tables([1], [1], Empty((1, 0), "<i4"), array.array("q", [0]))
        engine = mlac.Engine(self.package, self.device, max_seq_len=8, external_pools=1)
        pool = self.package.info["pools"][0]
        page = (pool["page_size"], sum(field["columns"] for field in pool["fields"]))
        with self.assertRaisesRegex(mlac.InvalidArgument,
                                    r"^pool: expected at least 1 page, got shape \[0, "):
            engine.bind_pool(Empty((0, *page), "<f4"))

    def test_empty_names_of_files_are_quoted(self):
        cache = self.engine.cache
        for call in (lambda: mlac.Package(""), lambda: mlac.Checkpoint(""),
                     lambda: cache.save(""), lambda: cache.restore(""),
                     lambda: self.engine.bind_safetensors(""),
                     lambda: mlac.replay(self.package, self.device, "")):
            with self.assertRaisesRegex(mlac.InvalidArgument,
                                        "^path: expected the name of a file, got ''$"):
                call()

    def test_numpy(self):
        sequence = self.engine.sequence()
        self.plan.fill([sequence], [3], function="prefill")
        hidden = numpy.ones((3, HIDDEN), numpy.float32)
        output = self.plan.run(hidden)
        self.assertEqual(output.shape, (3, HIDDEN))
        numpy.testing.assert_array_equal(output[2], 2 * numpy.array(WEIGHT) + 3)
        hidden.flags.writeable = False
        self.plan.run(hidden, output)
        with self.assertRaisesRegex(ValueError, "output: expected a writable"):
            self.plan.run(output, hidden)
        with self.assertRaisesRegex(ValueError, "hidden: expected a contiguous row-major array, got "
                                                fr"shape \[3, {HIDDEN}\] with strides of "
                                                fr"\[{2 * HIDDEN}, 2\] elements"):
            self.plan.run(numpy.ones((3, 2 * HIDDEN), numpy.float32)[:, ::2])
        # A step without tokens has arrays without rows, whose strides say nothing.
        self.plan.fill([sequence], [0], function="prefill")
        self.assertEqual(self.plan.run(numpy.empty((0, HIDDEN), numpy.float32)).shape, (0, HIDDEN))
        self.plan.fill([sequence], [3], function="prefill")
        with self.assertRaisesRegex(ValueError, "hidden: expected dtype f32, got f16"):
            self.plan.run(hidden.astype(numpy.float16), output)
        with self.assertRaisesRegex(ValueError, "hidden: unsupported dtype float64, expected one of"):
            self.plan.run(hidden.astype(numpy.float64), output)

    @unittest.skipUnless(numpy, "NumPy is not installed")
    def test_bf16_weights_are_widened(self):
        bits = (numpy.array(WEIGHT).view(numpy.uint32) >> 16).astype(numpy.uint16)
        self.engine.bind({"w": bits})
        self.engine.prepare()
        output = self.run_step(self.engine.sequence(), [0.0] * HIDDEN)
        self.assertEqual(output, [2 * w for w in WEIGHT])

    @unittest.skipUnless(ml_dtypes, "ml_dtypes is not installed")
    def test_ml_dtypes_bfloat16(self):
        self.engine.bind({"w": numpy.array(WEIGHT).astype(ml_dtypes.bfloat16)})
        with self.assertRaisesRegex(ValueError, "expected dtype f32, got e4m3|unsupported"):
            self.engine.bind({"w": numpy.zeros(8, ml_dtypes.float8_e4m3fn)})

    @unittest.skipUnless(torch, "torch is not installed")
    def test_torch(self):
        sequence = self.engine.sequence()
        self.plan.fill([sequence], [2], function="prefill")
        output = self.plan.run(torch.ones(2, HIDDEN))
        self.assertEqual(output[1].tolist(), [2 * w + 2 for w in WEIGHT])
        self.engine.bind({"w": torch.tensor(WEIGHT.tolist(), dtype=torch.bfloat16)})
        with self.assertRaisesRegex(ValueError, "^hidden: .*meta"):
            self.plan.run(torch.ones(2, HIDDEN, device="meta"))


@unittest.skipUnless(torch and torch.cuda.is_available(), "no torch with CUDA")
@unittest.skipUnless(os.path.exists(CUDA_PACKAGE), "MLAC_TEST_CUDA_PACKAGE is not there")
class TorchCudaTest(unittest.TestCase):
    def test_tensors_and_streams(self):
        package = mlac.Package(CUDA_PACKAGE)
        engine = mlac.Engine(package, mlac.Device("cuda"), num_pages=12)
        engine.bind({"w": WEIGHT})
        engine.prepare()
        plan, sequence, stream = engine.plan(), engine.sequence(), torch.cuda.Stream()
        hidden = torch.ones(PAGE + 1, HIDDEN, device="cuda")
        torch.cuda.synchronize()
        plan.fill([sequence], [PAGE + 1], stream=stream)
        output = plan.run(hidden, stream=stream)
        stream.synchronize()
        self.assertEqual(output[-1].tolist(), [2 * w + PAGE + 1 for w in WEIGHT])
        with self.assertRaisesRegex(ValueError, "hidden: expected CUDA memory, got host"):
            plan.run(hidden.cpu(), output)


if __name__ == "__main__":
    unittest.main()

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From a configuration to numbers in Python: compile, bind, prefill, decode, on one rank and on two.

Compiles the tiny DeepSeek-V3 layer for the CPU in f32 and compares with the float64
outputs that transformers computed. MLAC_COMPILE names mla-compile, MLAC_GOLDEN the
layer's safetensors file. Needs no NumPy.
"""

import array
import ctypes
import json
import os
import struct
import subprocess
import tempfile
import threading
import unittest

import mlac

COMPILE = os.environ.get("MLAC_COMPILE", "")
GOLDEN = os.environ.get("MLAC_GOLDEN", "")

# f32 against float64: the bound on the relative error of a layer.
TOLERANCE = 1e-5


def read_tensors(path):
    """The f32 tensors of a safetensors file: name to (shape, values)."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            values = array.array("f", data[begin:end])
            tensors[name] = (entry["shape"], values)
    return tensors, [name for name in header if name.endswith("/weights/o_proj.weight")]


def relative_error(got, expected):
    difference = sum((a - b) ** 2 for a, b in zip(got, expected))
    return (difference / sum(b * b for b in expected)) ** 0.5


@unittest.skipUnless(os.path.exists(COMPILE), "MLAC_COMPILE is not there")
@unittest.skipUnless(os.path.exists(GOLDEN), "MLAC_GOLDEN is not there")
class GoldenTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        path = os.path.join(cls.folder.name, "tiny.mlac")
        subprocess.run([COMPILE, GOLDEN, "--dtype=f32", "--page-size=16", "--quiet",
                        "-o", path], check=True)
        cls.package = mlac.Package(path)
        tensors, weights = read_tensors(GOLDEN)
        cls.module = weights[0].split("/weights/")[0]
        (_, cls.tokens, cls.hidden_size), cls.hidden = tensors[f"{cls.module}/hidden_states"]
        cls.expected = next(values for name, (_, values) in tensors.items()
                            if name.startswith(f"{cls.module}/output"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def setUp(self):
        self.engine = mlac.Engine(self.package, mlac.Device("cpu"), max_num_requests=2,
                                  max_num_tokens=2 * self.tokens, max_seq_len=256)
        self.engine.bind_safetensors(GOLDEN, prefix=f"{self.module}/weights/")
        self.engine.prepare()
        self.plan = self.engine.plan()

    def rows(self, values, first, count):
        begin = first * self.hidden_size
        return values[begin:begin + count * self.hidden_size]

    def run_step(self, sequences, hidden):
        count = len(hidden) // self.hidden_size // len(sequences)
        self.plan.fill(sequences, [count] * len(sequences))
        self.engine.poison_cache()
        output = array.array("f", bytes(4 * len(hidden)))
        self.plan.run(hidden, output)
        return output

    def test_prefill_of_a_batch(self):
        sequences = [self.engine.sequence(), self.engine.sequence()]
        hidden = self.rows(self.hidden, 0, 2 * self.tokens)
        output = self.run_step(sequences, hidden)
        expected = self.rows(self.expected, 0, 2 * self.tokens)
        self.assertLess(relative_error(output, expected), TOLERANCE)

    def test_decode_token_by_token(self):
        sequence = self.engine.sequence()
        output = self.run_step([sequence], self.rows(self.hidden, 0, self.tokens // 2))
        for token in range(self.tokens // 2, self.tokens):
            output += self.run_step([sequence], self.rows(self.hidden, token, 1))
        self.assertEqual(self.plan.function, "decode")
        expected = self.rows(self.expected, 0, self.tokens)
        self.assertLess(relative_error(output, expected), TOLERANCE)


class Reduction:
    """Sums the outputs of ranks that run in threads of their own, as a collective would:
    each waits for all inputs, and changes its own when all have read them."""

    def __init__(self, ranks):
        self.barrier = threading.Barrier(ranks, timeout=60)
        self.outputs = [None] * ranks
        self.calls = [0] * ranks

    def of(self, rank):
        def add(address, elements, dtype, stream):
            own = (ctypes.c_float * elements).from_address(address)
            self.outputs[rank] = list(own)
            self.barrier.wait()
            total = [sum(column) for column in zip(*self.outputs)]
            self.barrier.wait()
            own[:] = total
            self.calls[rank] += 1
        return add


@unittest.skipUnless(os.path.exists(COMPILE), "MLAC_COMPILE is not there")
@unittest.skipUnless(os.path.exists(GOLDEN), "MLAC_GOLDEN is not there")
class TwoRanksTest(unittest.TestCase):
    """Two engines of one package, each with its heads of the unsharded checkpoint."""

    def run_rank(self, rank, package, reduction, results):
        tensors, weights = read_tensors(GOLDEN)
        module = weights[0].split("/weights/")[0]
        (_, tokens, size), hidden = tensors[f"{module}/hidden_states"]
        engine = mlac.Engine(package, mlac.Device("cpu", 1), max_num_requests=2,
                             max_num_tokens=tokens, max_seq_len=256, tensor_parallel_rank=rank)
        engine.bind_safetensors(GOLDEN, prefix=f"{module}/weights/")
        engine.prepare()
        engine.set_all_reduce(reduction.of(rank))
        plan, sequence, outputs = engine.plan(), engine.sequence(), array.array("f")
        for first, count in ((0, tokens - 3), (tokens - 3, 1), (tokens - 2, 2)):
            plan.fill([sequence], [count])
            output = array.array("f", bytes(4 * count * size))
            plan.run(hidden[first * size:(first + count) * size], output)
            outputs += output
        results[rank] = outputs

    def test_A17_two_ranks_reduce_to_the_layer(self):
        tensors, weights = read_tensors(GOLDEN)
        module = weights[0].split("/weights/")[0]
        (_, tokens, size), _ = tensors[f"{module}/hidden_states"]
        expected = next(values for name, (_, values) in tensors.items()
                        if name.startswith(f"{module}/output"))[:tokens * size]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tiny.mlac")
            subprocess.run([COMPILE, GOLDEN, "--dtype=f32", "--tp=2", "--page-size=16", "--quiet",
                            "-o", path], check=True)
            package, reduction, results = mlac.Package(path), Reduction(2), [None, None]
            threads = [threading.Thread(target=self.run_rank,
                                        args=(rank, package, reduction, results))
                       for rank in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(reduction.calls, [3, 3])
        self.assertEqual(results[0], results[1])
        self.assertLess(relative_error(results[0], expected), TOLERANCE)
        # One rank's part alone is not the layer.
        alone = reduction.outputs[0]
        self.assertGreater(relative_error(alone, expected[-len(alone):]), 0.1)


if __name__ == "__main__":
    unittest.main()

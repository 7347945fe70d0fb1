# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From a configuration to numbers in Python: compile, bind, prefill, decode.

Compiles the tiny DeepSeek-V3 layer for the CPU in f32 and compares with the float64
outputs that transformers computed. MLAC_COMPILE names mla-compile, MLAC_GOLDEN the
layer's safetensors file. Needs no NumPy.
"""

import array
import json
import os
import struct
import subprocess
import tempfile
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


if __name__ == "__main__":
    unittest.main()

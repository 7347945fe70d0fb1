# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""run_bound asks less of arrays that lie as the last ones did, and still refuses what it refused.

MLAC_COMPILE names the compiler. Needs NumPy; tensors of torch, too, where it is installed.
"""

import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np

import mlac

try:
    import torch
except ImportError:
    torch = None

COMPILE = os.environ["MLAC_COMPILE"]
MODULE = """\
func.func @layer(%x: tensor<?x8xf32> {mla.input = "x"}, %w: tensor<8x8xf32> {mla.weight = "w"})
    -> (tensor<?x8xf32> {mla.output = "output"}) {
  %0 = mla.project %x, %w : tensor<?x8xf32>, tensor<8x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
func.func @convert(%p: tensor<?x4xi32> {mla.input = "x"}, %batch: !mla.batch,
    %cache: !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = f32,
                       rope_order = half>) -> (tensor<?x4xi32> {mla.output = "output"}) {
  %0 = mla.convert_indices %p in %cache, %batch : tensor<?x4xi32> in
      !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = f32,
                 rope_order = half>, !mla.batch
  return %0 : tensor<?x4xi32>
}
"""


class BindingsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        source = pathlib.Path(folder.name) / "layer.mlir"
        source.write_text(MODULE)
        package = source.with_suffix(".mlac")
        subprocess.run([COMPILE, source, "--quiet", "--target=cpu", "-o", package], check=True)
        self.engine = mlac.Engine(mlac.Package(str(package)), mlac.Device("cpu", 1),
                                  max_num_requests=1, max_num_tokens=8, max_seq_len=64, num_pages=8)
        self.weight = np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)
        self.engine.bind({"w": self.weight})
        self.engine.prepare()
        self.plan = self.engine.plan()
        self.fill("layer")

    def fill(self, function, tokens=2):
        self.plan.fill([self.engine.sequence()], [tokens], function)

    def expect(self, x, output):
        """A run with other numbers than any before gives other results."""
        self.plan.run_bound(x=x, output=output)
        expected = np.asarray(x).astype(np.float64) @ self.weight.T.astype(np.float64)
        np.testing.assert_allclose(np.asarray(output), expected, rtol=1e-5, atol=1e-5)

    def rows(self, seed, tokens=2):
        return np.random.default_rng(seed).standard_normal((tokens, 8)).astype(np.float32)

    def test_each_call_reads_and_writes_its_own_arrays(self):
        outputs = []
        for seed in range(4):
            outputs.append(np.full((2, 8), np.nan, np.float32))
            self.expect(self.rows(seed), outputs[-1])
        self.assertFalse(np.array_equal(outputs[0], outputs[1]))
        self.fill("layer", tokens=5)
        self.expect(self.rows(9, tokens=5), np.full((5, 8), np.nan, np.float32))

    def test_arrays_unlike_the_last_ones_are_checked_in_full(self):
        output = np.empty((2, 8), np.float32)
        read_only = np.empty((2, 8), np.float32)
        read_only.flags.writeable = False
        wrong = [
            ("x: expected dtype f32, got f16", dict(x=self.rows(1).astype(np.float16))),
            ("x: expected dtype f32, got i32", dict(x=self.rows(1).astype(np.int32))),
            ("x: expected a contiguous", dict(x=self.rows(1, tokens=4)[::2])),
            ("x.*unsupported dtype|x: expected dtype f32", dict(x=self.rows(1).astype(">f4"))),
            ("output: expected a writable", dict(output=read_only)),
            ("output.*32 bytes, the step needs 64", dict(output=output[:1])),
            ("x: expected an array", dict(x=None)),
        ]
        for message, arrays in wrong:
            self.expect(self.rows(2), output)  # so that it is like the last ones
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                self.plan.run_bound(**{"x": self.rows(3), "output": output, **arrays})
        self.expect(self.rows(4), output)

    def test_names_mean_what_the_filled_function_says(self):
        floats, ints = self.rows(1), np.ones((2, 4), np.int32)
        for _ in range(2):
            self.fill("layer")
            self.plan.run_bound(x=floats, output=np.empty((2, 8), np.float32))
            with self.assertRaisesRegex(mlac.InvalidArgument, "x: expected dtype f32, got i32"):
                self.plan.run_bound(x=ints, output=np.empty((2, 8), np.float32))
            self.fill("convert")
            self.plan.run_bound(x=ints, output=np.empty((2, 4), np.int32))
            with self.assertRaisesRegex(mlac.InvalidArgument, "x: expected dtype i32, got f32"):
                self.plan.run_bound(x=floats, output=np.empty((2, 4), np.int32))

    def test_names_that_no_function_has(self):
        for _ in range(2):
            with self.assertRaisesRegex(mlac.InvalidArgument, "no input or output 'y'"):
                self.plan.run_bound(x=self.rows(1), output=np.empty((2, 8), np.float32),
                                    y=self.rows(1))

    @unittest.skipUnless(torch, "torch is not installed")
    def test_tensors(self):
        output = torch.empty(2, 8)
        for seed in range(3):
            self.expect(torch.from_numpy(self.rows(seed)), output)
        self.expect(self.rows(7), output)  # an array beside a tensor
        wrong = [("x: expected dtype f32, got bf16", torch.zeros(2, 8, dtype=torch.bfloat16)),
                 ("contiguous", torch.zeros(8, 2).T),
                 ("require gradient", torch.zeros(2, 8, requires_grad=True)),
                 ("x", torch.zeros(2, 8).to_sparse()),
                 ("meta", torch.zeros(2, 8, device="meta")),
                 # Its numbers were taken without their sign.
                 ("x: expected a tensor's numbers .*resolve_neg", torch._neg_view(torch.ones(2, 8)))]
        for message, tensor in wrong:
            self.expect(torch.from_numpy(self.rows(5)), output)
            with self.subTest(str(tensor.layout)), self.assertRaisesRegex(
                    (ValueError, BufferError, RuntimeError, TypeError), message):
                self.plan.run_bound(x=tensor, output=output)
        self.expect(torch.from_numpy(self.rows(6)), output)


if __name__ == "__main__":
    unittest.main()

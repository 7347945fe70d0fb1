# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions of one package may give a name different types, and rows several dimensions: run_bound checks
what the filled plan's function has.

MLAC_COMPILE names the compiler. Needs no NumPy.
"""

import array
import math
import os
import pathlib
import subprocess
import tempfile
import unittest

import mlac

COMPILE = os.environ["MLAC_COMPILE"]
MODULE = """\
!cache = !mla.cache<page_size = 16, fields = [latent: 32, rope: 16], element = f32,
                    rope_order = half>
!rows = tensor<?x8xf32>
!w = tensor<16x8xf32>
!heads = tensor<2x8x8xf32>
func.func @layer(%x: !rows {mla.input = "hidden"}, %w: tensor<8x8xf32> {mla.weight = "w"},
                 %batch: !mla.batch, %cache: !cache) -> (!rows {mla.output = "output"}) {
  %0 = mla.project %x, %w : !rows, tensor<8x8xf32> -> !rows
  return %0 : !rows
}
func.func @heads(%x: !rows {mla.input = "x"}, %w: !heads {mla.weight = "v"})
    -> (tensor<?x2x8xf32> {mla.output = "output"}) {
  %0 = mla.project %x, %w : !rows, !heads -> tensor<?x2x8xf32>
  return %0 : tensor<?x2x8xf32>
}
func.func @convert(%p: tensor<?x4xi32> {mla.input = "x"}, %batch: !mla.batch, %cache: !cache)
    -> (tensor<?x4xi32> {mla.output = "output"}) {
  %0 = mla.convert_indices %p in %cache, %batch : tensor<?x4xi32> in !cache, !mla.batch
  return %0 : tensor<?x4xi32>
}
"""


def numbers(kind, *shape):
    return memoryview(array.array(kind, [1] * math.prod(shape))).cast("B").cast(kind, shape)


class FunctionTypesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        source = pathlib.Path(folder.name) / "types.mlir"
        source.write_text(MODULE)
        package = source.with_suffix(".mlac")
        subprocess.run([COMPILE, source, "--quiet", "--target=cpu", "-o", package], check=True)
        self.engine = mlac.Engine(mlac.Package(str(package)), mlac.Device("cpu"),
                                  max_num_requests=1, max_num_tokens=8, max_seq_len=64, num_pages=8)
        self.engine.bind({"w": numbers("f", 8, 8), "v": numbers("f", 2, 8, 8)})
        self.engine.prepare()
        self.plan = self.engine.plan()

    def fill(self, function):
        self.plan.fill([self.engine.sequence()], [2], function)

    def test_types_are_those_of_the_filled_function(self):
        ints, floats = lambda: numbers("i", 2, 4), lambda *shape: numbers("f", 2, *shape)
        self.fill("convert")
        self.plan.run_bound(x=ints(), output=ints())
        with self.assertRaisesRegex(mlac.InvalidArgument, "x: expected dtype i32, got f32"):
            self.plan.run_bound(x=floats(4), output=ints())
        self.fill("layer")  # of a module, whose rows have the width that it says
        self.plan.run_bound(hidden=floats(8), output=floats(8))
        self.fill("heads")
        self.plan.run_bound(x=floats(8), output=floats(2, 8))
        with self.assertRaisesRegex(mlac.InvalidArgument, "output: expected dtype f32, got i32"):
            self.plan.run_bound(x=floats(8), output=ints())


if __name__ == "__main__":
    unittest.main()

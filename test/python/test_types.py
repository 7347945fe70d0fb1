# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a type checker sees of the package: a program that is right, lines that are wrong, and
the package itself.

Skips itself where mypy is not installed."""

import importlib.util
import os
import pathlib
import tempfile
import unittest

try:
    from mypy import api
except ImportError as error:
    raise unittest.SkipTest(f"not installed: {error.name}")

PYTHON = pathlib.Path(__file__).parents[2] / "python"
RIGHT = """
import mlac

package = mlac.compile("config.json", target=["cpu", "sm_90a"], dtype="f32", tp=8)
engine = mlac.Engine(package, mlac.Device("cpu", threads=2), max_seq_len=4096)
engine.bind_safetensors("layer.safetensors", prefix="self_attn.")
sequence: mlac.Sequence = engine.sequence()
plan = engine.plan()
batch = mlac.arrange_batch([3, 1])
plan.fill(batch.apply([sequence, sequence.fork(3)]), batch.apply([3, 1]))
length: int = len(sequence)
free: int = engine.cache.counters()["unused_pages"]
with engine as same:
    same.plan().dim("num_tokens")
"""
# And what the checker says.
WRONG = {
    'mlac.compile("x", target=4)': 'Argument "target" to "compile"',
    "mlac.Device(5)": 'Argument 1 to "Device"',
    'mlac.Engine("x", mlac.Device())': 'Argument 1 to "Engine"',
    "engine.plan().fill([1], [2])": "List item 0",
    "engine.plan().run_boundd()": '"Plan" has no attribute "run_boundd"',
    "mlac.nothing": 'Module has no attribute "nothing"',
    "name: str = engine.hidden_size": 'expression has type "int"',
}


def check(text):
    """mypy's messages by line."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "program.py"
        path.write_text(text)
        output, _, _ = api.run([str(path), "--strict", "--follow-imports=silent",
                                f"--cache-dir={folder}"])
    return {int(line.split(":")[1]): line for line in output.splitlines()
            if "error:" in line}


class TypesTest(unittest.TestCase):
    def setUp(self):
        os.environ["MYPYPATH"] = str(PYTHON)

    def test_right(self):
        self.assertEqual(check(RIGHT), {})

    def test_package(self):
        with tempfile.TemporaryDirectory() as folder:
            output, _, failed = api.run([str(PYTHON / "mlac"), "--ignore-missing-imports",
                                         f"--cache-dir={folder}"])
        self.assertFalse(failed, output)

    @unittest.skipUnless(importlib.util.find_spec("vllm"), "vLLM is not installed")
    def test_back_ends_against_vllm(self):
        with tempfile.TemporaryDirectory() as folder:
            output, _, _ = api.run([str(PYTHON / "mlac/vllm"), "--strict",
                                    "--follow-imports=silent", f"--cache-dir={folder}"])
        found = [line for line in output.splitlines() if "mlac/vllm" in line and "error:" in line]
        self.assertEqual(found, [])

    def test_wrong(self):
        head = "import mlac\nengine = mlac.Engine(mlac.Package('x'), mlac.Device())\n"
        found = check(head + "\n".join(WRONG))
        for line, (text, message) in enumerate(WRONG.items(), start=3):
            with self.subTest(text=text):
                self.assertIn(message, found.get(line, ""))


if __name__ == "__main__":
    unittest.main()

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Archives of torch.export give the float64 outputs that transformers computed: graph, weights and
all from the .pt2 file. MLAC_COMPILE names the compiler. Needs neither NumPy nor torch."""

import array
import os
import pathlib
import tempfile
import unittest

import mlac
from test_golden import TOLERANCE, read_tensors, relative_error

COMPILE = os.environ["MLAC_COMPILE"]
ROOT = pathlib.Path(__file__).parent.parent
GOLDEN, CONFIGS = ROOT / "data/golden", ROOT / "Import/Graph/Inputs"


class ArchiveTest(unittest.TestCase):
    """Each case: archive, configuration, and the file of the input and the output."""

    CASES = [("deepseek_v3_tiny_static", "v3", "deepseek_v3_tiny_attention"),
             ("deepseek_v3_tiny_dynamic", "v3", "deepseek_v3_tiny_attention"),
             ("minicpm3_sdpa", "minicpm3", "minicpm3_sdpa"),
             ("llama_gqa", "llama", "llama_gqa"),
             ("llama_gqa_dynamic", "llama", "llama_gqa"),
             ("llama_gqa_decomposed", "llama", "llama_gqa")]

    def run_archive(self, archive, config, hidden, width):
        """A prefill of all tokens but one, and a decode."""
        with tempfile.TemporaryDirectory() as folder:
            weights = pathlib.Path(folder) / "layer.safetensors"
            package = mlac.compile(GOLDEN / f"{archive}.pt2", target="cpu", dtype="f32",
                                   config=CONFIGS / f"{config}.json", write_weights=weights,
                                   page_size=16, graph_checked=True, compiler=COMPILE)
            engine = mlac.Engine(package, mlac.Device("cpu", 1), max_seq_len=64)
            engine.bind_safetensors(weights, prefix="self_attn.")
            engine.prepare()
        sequence, plan = engine.sequence(), engine.plan()
        tokens, got = len(hidden) // width, []
        for begin, end in ((0, tokens - 1), (tokens - 1, tokens)):
            plan.fill([sequence], [end - begin])
            output = array.array("f", bytes(4 * (end - begin) * width))
            plan.run(hidden[begin * width:end * width], output)
            got += output
        return got

    def test_layers_of_groups_of_heads_in_a_checkpoint(self):
        """Their projections have other names; a checkpoint's layers are found by them."""
        checkpoint = mlac.Checkpoint(GOLDEN / "llama_gqa.safetensors")
        self.assertEqual(checkpoint.attentions, ["weights/"])
        package = mlac.compile(GOLDEN / "llama_gqa.safetensors", target="cpu", dtype="f32",
                               compiler=COMPILE)
        engine = mlac.Engine(package, mlac.Device("cpu", 1), max_seq_len=64)
        engine.bind_checkpoint(checkpoint)
        tensors, _ = read_tensors(GOLDEN / "llama_gqa.safetensors")
        (_, tokens, width), hidden = tensors["hidden_states"]
        plan, got = engine.plan(), array.array("f", bytes(4 * tokens * width))
        plan.fill([engine.sequence()], [tokens])
        plan.run(hidden, got)
        self.assertLess(relative_error(got, tensors["output"][1]), TOLERANCE)

    def test_E7_golden_outputs(self):
        for archive, config, stored in self.CASES:
            with self.subTest(archive):
                tensors, _ = read_tensors(GOLDEN / f"{stored}.safetensors")
                find = lambda end: next(t for n, t in tensors.items() if n.endswith(end))
                (_, tokens, width), hidden = find("hidden_states")
                _, output = find(("output", "output.0"))
                count = tokens * width
                got = self.run_archive(archive, config, hidden[:count], width)
                self.assertLess(relative_error(got, output[:count]), TOLERANCE)


if __name__ == "__main__":
    unittest.main()

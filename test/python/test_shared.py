# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Requests that share a prefix, compiled with --mixed.

Forks of one sequence go on by themselves for different lengths, then decode together.
Every row of every step is compared with the float64 reference; what no step may read is
NaN. The prefix comes in one chunk and in many. A package compiled without the option
serves the same batches. Needs NumPy.
"""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np

import mlac
from mlac import reference

import random_cases

COMPILE = os.environ.get("MLAC_COMPILE", "")
CONFIG = {"model_type": "deepseek_v2", "hidden_size": 48, "num_attention_heads": 3,
          "num_hidden_layers": 1, "q_lora_rank": None, "kv_lora_rank": 32,
          "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 10, "rope_theta": 1e4,
          "rope_scaling": None, "max_position_embeddings": 512, "rms_norm_eps": 1e-6}
H, PAGE, BLOCK, THRESHOLD = 48, 16, 64, 3
# f32 against float64 (mla.md section 14).
ALLOWED = 1e-5
# Tokens of each fork behind the prefix: none, so that only the new token is its own; one;
# less than a page; more than a block of keys; more than two.
OWN = (0, 1, 9, 70, 140)


class Server:
    """An engine, and what its sequences have been given."""

    def __init__(self, package, weights, workspace_tokens=512, num_sms=2):
        self.engine = mlac.Engine(package, mlac.Device("cpu"), max_num_requests=len(OWN) + 1,
                                  max_num_tokens=512, max_seq_len=400, num_pages=120,
                                  workspace_tokens=workspace_tokens, num_sms=num_sms)
        self.engine.bind(weights)
        self.engine.prepare()
        self.plan = self.engine.plan()
        self.weights, self.config = weights, reference.config_from_hf(CONFIG)
        self.rng, self.hidden = np.random.default_rng(7), {}

    def sequence(self):
        sequence = self.engine.sequence()
        self.hidden[sequence] = np.empty((0, H), np.float32)
        return sequence

    def fork(self, parent, tokens):
        sequence = parent.fork(tokens)
        self.hidden[sequence] = self.hidden[parent][:tokens]
        return sequence

    def step(self, batch, function, shape=None):
        """Runs a step of {sequence: query length}; checks and returns its rows."""
        rows = []
        for sequence, length in batch.items():
            rows.append(self.rng.standard_normal((length, H)).astype(np.float32))
            self.hidden[sequence] = np.concatenate([self.hidden[sequence], rows[-1]])
        self.plan.fill(list(batch), list(batch.values()), function, shape=shape)
        total = self.plan.dim("num_tokens")
        hidden = np.full((total, H), np.nan, np.float32)
        hidden[:sum(batch.values())] = np.concatenate(rows)
        output = np.full_like(hidden, np.nan)
        self.engine.poison_cache()
        self.engine.poison_workspace()
        self.plan.run(hidden, output)
        expected = [reference.attention_layer(self.config, self.weights, self.hidden[s])[0][-n:]
                    for s, n in batch.items() if n]
        got = output[:sum(batch.values())]
        error = reference.relative_error(got, np.concatenate(expected))
        assert error <= ALLOWED, f"relative error {error}"
        return got

    def family(self, prefix):
        """A sequence of `prefix` tokens and forks of it, each with its own part."""
        root = self.sequence()
        self.step({root: prefix}, "prefill")
        forks = [self.fork(root, prefix) for _ in OWN]
        self.step({fork: own for fork, own in zip(forks, OWN) if own}, "prefill")
        return forks


@unittest.skipUnless(os.path.exists(COMPILE), "MLAC_COMPILE is not there")
class SharedTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.weights = random_cases.weights(np.random.default_rng(3), CONFIG)
        cls.packages = {}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def package(self, *options):
        if options not in self.packages:
            folder = pathlib.Path(self.folder.name)
            (folder / "config.json").write_text(json.dumps(CONFIG))
            path = folder / f"{len(self.packages)}.mlac"
            subprocess.run([COMPILE, folder / "config.json", "--dtype=f32", "--quiet",
                            f"--page-size={PAGE}", "--functions=prefill,decode,step",
                            f"--decode-threshold={THRESHOLD}", *options, "-o", path], check=True)
            self.packages[options] = mlac.Package(str(path))
        return self.packages[options]

    def serve(self, *options, shares=True, **engine):
        """Decodes of forks whose prefix ends with a block of keys, or within a page."""
        results = []
        for prefix in (2 * BLOCK, 2 * BLOCK + PAGE + 3):
            server = Server(self.package(*options), self.weights, **engine)
            forks = server.family(prefix)
            for _ in range(2):
                results.append(server.step({fork: 1 for fork in forks}, "decode"))
                self.assertEqual(server.plan.dim("num_shared_tokens"), 2 * BLOCK * shares)
        return results

    def test_forks_decode_together(self):
        shared = self.serve("--mixed=always")
        plain = self.serve(shares=False)
        for a, b in zip(shared, plain):
            self.assertLessEqual(reference.relative_error(a, b.astype(np.float64)), ALLOWED)

    def test_chunks_smaller_than_the_prefix(self):
        for workspace in (6 * PAGE, 6 * PAGE + 5, 2 * BLOCK - 1):  # six requests prefill
            with self.subTest(workspace=workspace):
                self.serve("--mixed=always", workspace_tokens=workspace)

    def test_many_splits(self):
        self.serve("--mixed=always", num_sms=64)

    def test_folded_weights(self):
        for mode in ("offline", "half-query"):
            with self.subTest(mode=mode):
                self.serve("--mixed=always", f"--absorb={mode}")

    def test_step_shares_among_its_decodes(self):
        server = Server(self.package("--mixed=always"), self.weights)
        forks = server.family(3 * BLOCK)
        stranger = server.sequence()
        lengths = dict(zip(forks, (1, 3, 2, 1, 3)))
        server.step({**lengths, stranger: 30}, "step")  # speculative rows beside a prompt
        self.assertEqual(server.plan.dim("num_shared_tokens"), 3 * BLOCK)
        self.assertEqual(server.plan.metadata("shared_query_start_loc"), [0, 10])
        # Among the decodes, the stranger has nothing in common with the others.
        server.step({**lengths, stranger: 1}, "step")
        self.assertEqual(server.plan.dim("num_shared_tokens"), 0)

    def test_padded_steps_never_share(self):
        server = Server(self.package("--mixed=always"), self.weights)
        forks = server.family(2 * BLOCK)
        shape = dict(num_requests=6, num_tokens=12, max_query_len=3, max_seq_len=400,
                     num_decodes=6, num_decode_tokens=12)
        server.step({fork: 1 for fork in forks}, None, shape=shape)
        self.assertEqual(server.plan.dim("num_shared_tokens"), 0)
        server.step({fork: 1 for fork in forks}, "step")
        self.assertEqual(server.plan.dim("num_shared_tokens"), 2 * BLOCK)

    def test_cost_decides(self):
        """Five requests are far too few for this small layer's launches on a CPU."""
        self.serve("--mixed=auto", shares=False)


if __name__ == "__main__":
    unittest.main()

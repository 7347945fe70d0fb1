# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""B27: uniform decodes of a sparse layer in one graph, over constant tables and lengths of the step.

Recordings of the emulated driver stand for graphs, as in test_captures; its kernels are not run.
"""

import array
import json
import math
import os
import subprocess
import unittest

import mlac
import test_captures

CONFIG = {"model_type": "deepseek_v32", "num_hidden_layers": 1, "hidden_size": 96,
          "num_attention_heads": 8, "q_lora_rank": 48, "kv_lora_rank": 512,
          "qk_nope_head_dim": 32, "qk_rope_head_dim": 64, "v_head_dim": 32, "rope_theta": 1e4,
          "rms_norm_eps": 1e-6, "max_position_embeddings": 4096, "index_n_heads": 4,
          "index_head_dim": 128, "index_topk": 16}
OPTIONS = ("--cache-format=fp8_ds_mla", "--sparse-mode=separate")
LONGEST, REQUESTS = test_captures.LONGEST, test_captures.REQUESTS


class SparseCapturesTest(test_captures.EmulatedCase):
    @classmethod
    def compile(cls, path, *options):
        source = os.path.join(cls.folder.name, "config.json")
        with open(source, "w", encoding="utf-8") as stream:
            json.dump(CONFIG, stream)
        subprocess.run([test_captures.COMPILE, source, *test_captures.OPTIONS, *OPTIONS, *options,
                        "-o", path], check=True)

    def make_engine(self, **options):
        engine = mlac.Engine(self.package, self.device, max_num_requests=REQUESTS,
                             max_num_tokens=REQUESTS * LONGEST, max_seq_len=LONGEST, **options)
        engine.bind({tensor["name"]: self.zeros(tensor["shape"])
                     for tensor in self.package.info["weights"]})
        engine.prepare()
        return engine

    @staticmethod
    def zeros(shape):
        """bf16"""
        return memoryview(array.array("H", bytes(2 * math.prod(shape)))).cast("B").cast("H", shape)

    def test_padded_decodes_serve_every_length_B27(self):
        for decodes in (REQUESTS, REQUESTS - 1):  # with a free place, and full
            shape = {"num_requests": decodes, "num_tokens": decodes, "max_query_len": 1,
                     "max_seq_len": LONGEST, "num_decodes": decodes, "num_decode_tokens": decodes}
            self.assertEqual(self.count_served({"shape": shape}, 300), 300)
            self.plan.release_captures()

    def test_other_decodes_are_refused_where_a_graph_cannot_serve_them_B27(self):
        served = self.count_served({"function": "decode"}, 300)
        self.assertGreater(served, 0)
        self.assertLess(served, 300)


if __name__ == "__main__":
    unittest.main()

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""C16: a step that returns the log-sum-exp of its attention.

Imports a small layer, adds an "lse" result to its functions, compiles it in
each form and compares output and LSE of prefill, prefill over cached context
and decode with sums written out in float64. MLAC_COMPILE and MLAC_OPT name the
compiler and mla-opt. Needs no NumPy.
"""

import array
import json
import math
import os
import random
import re
import subprocess
import tempfile
import unittest

import mlac

COMPILE, OPT = (os.environ.get(name, "") for name in ("MLAC_COMPILE", "MLAC_OPT"))

H, N, LKV, P, R, V, THETA, EPS, PAGE = 24, 3, 16, 6, 4, 5, 1e4, 1e-6, 4
CONFIG = {"model_type": "deepseek_v2", "hidden_size": H, "num_attention_heads": N,
          "num_hidden_layers": 1, "q_lora_rank": None, "kv_lora_rank": LKV,
          "qk_nope_head_dim": P, "qk_rope_head_dim": R, "v_head_dim": V, "rope_theta": THETA,
          "rope_scaling": None, "max_position_embeddings": 64, "rms_norm_eps": EPS}
SHAPES = {"q_proj.weight": (N * (P + R), H), "kv_a_proj_with_mqa.weight": (LKV + R, H),
          "kv_a_layernorm.weight": (LKV,), "kv_b_proj.weight": (N * (P + V), LKV),
          "o_proj.weight": (H, N * V)}
# New tokens of two sequences per step: without context, over it, decode.
STEPS = ((13, 2), (6, 5), (0, 1), (1, 1))
TOLERANCE = 1e-5
EMPTY = {"token_major": f"tensor<?x{N}xf32", "head_major": f"tensor<{N}x?xf32"}


def random_rows(generator, rows, columns, deviation):
    return [[generator.gauss(0, deviation) for _ in range(columns)] for _ in range(rows)]


def flat(rows):
    return array.array("f", [value for row in rows for value in row])


def product(matrix, vector):
    return [sum(w * x for w, x in zip(row, vector)) for row in matrix]


def rotate(vector, position):
    result = list(vector)
    for i in range(0, R, 2):
        phi = position * THETA ** (-i / R)
        a, b = vector[i], vector[i + 1]
        result[i] = a * math.cos(phi) - b * math.sin(phi)
        result[i + 1] = a * math.sin(phi) + b * math.cos(phi)
    return result


def attend(weights, hidden):
    """Output and LSE per head of every token of a sequence (mla.md sections 3 to 5)."""
    keys, results = [], []
    for position, x in enumerate(hidden):
        raw = product(weights["kv_a_proj_with_mqa.weight"], x)
        scale = 1 / math.sqrt(sum(c * c for c in raw[:LKV]) / LKV + EPS)
        latent = [c * scale * g for c, g in zip(raw, weights["kv_a_layernorm.weight"][0])]
        keys.append((product(weights["kv_b_proj.weight"], latent), rotate(raw[LKV:], position)))
        query, heads, lses = product(weights["q_proj.weight"], x), [], []
        for head in range(N):
            q = query[head * (P + R):(head + 1) * (P + R)]
            q[P:] = rotate(q[P:], position)
            up = slice(head * (P + V), (head + 1) * (P + V))
            scores = [sum(a * b for a, b in zip(q, k[up][:P] + k_pe)) / math.sqrt(P + R)
                      for k, k_pe in keys]
            lse = math.log(sum(map(math.exp, scores)))
            heads += [sum(math.exp(s - lse) * k[up][P + i] for s, (k, _) in zip(scores, keys))
                      for i in range(V)]
            lses.append(lse)
        results.append((product(weights["o_proj.weight"], heads), lses))
    return results


def add_lse(text, layout):
    """The module with a second result, "lse", of every function and its attention."""
    lse = f"{EMPTY[layout]}, #mla.lse<base = e, layout = {layout}, empty = neg_inf>>"
    hidden = rf"tensor<\?x{H}xf32>"
    text = re.sub(rf"%(\w+) = (mla\.attention .* -> tensor<\?x{N}x{V}xf32>)",
                  rf"%\1, %lse = \2, {lse}", text)
    text = re.sub(rf'(-> \({hidden} {{mla.output = "output"}}, )',
                  rf'\1{lse} {{mla.output = "lse"}}, ', text)
    return re.sub(rf"return (%\w+), (%\w+) : ({hidden}), ",
                  rf"return \1, %lse, \2 : \3, {lse}, ", text)


@unittest.skipUnless(os.path.exists(COMPILE), "MLAC_COMPILE is not there")
@unittest.skipUnless(os.path.exists(OPT), "MLAC_OPT is not there")
class LayerTest(unittest.TestCase):
    """A small layer with an "lse" result and what its steps should give."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        config = cls.path("config.json")
        with open(config, "w", encoding="utf-8") as file:
            json.dump(CONFIG, file)
        cls.module = subprocess.run(
            [OPT, os.devnull, f"--mla-import-config=config={config} dtype=f32 page-size={PAGE}"],
            check=True, capture_output=True, text=True).stdout
        generator = random.Random(1)
        rounded = lambda rows: [list(array.array("f", row)) for row in rows]
        cls.weights = {name: rounded(random_rows(generator, *shape, shape[-1] ** -0.5))
                       if len(shape) == 2 else rounded([[generator.uniform(0.5, 1.5)
                                                         for _ in range(*shape)]])
                       for name, shape in SHAPES.items()}
        lengths = [sum(step[s] for step in STEPS) for s in range(2)]
        cls.hidden = [rounded(random_rows(generator, length, H, 1)) for length in lengths]
        cls.expected = [attend(cls.weights, hidden) for hidden in cls.hidden]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    def make_engine(self, layout, form, processors):
        with open(self.path("m.mlir"), "w", encoding="utf-8") as file:
            file.write(add_lse(self.module, layout))
        subprocess.run([COMPILE, self.path("m.mlir"), f"--form={form}", "--quiet",
                        "-o", self.path("m.mlac")], check=True)
        engine = mlac.Engine(mlac.Package(self.path("m.mlac")), mlac.Device("cpu"),
                             max_num_requests=2, max_num_tokens=32, max_seq_len=32,
                             workspace_tokens=2 * PAGE, num_sms=processors)
        engine.bind({name: memoryview(flat(rows)).cast("B").cast("f", SHAPES[name])
                     for name, rows in self.weights.items()})
        engine.prepare()
        return engine


class LseTest(LayerTest):
    def check_step(self, plan, done, step, layout):
        tokens = [(s, done[s] + j) for s in range(2) for j in range(step[s])]
        hidden = flat(self.hidden[s][t] for s, t in tokens)
        output = array.array("f", bytes(4 * len(hidden)))
        lse = array.array("f", bytes(4 * len(tokens) * N))
        plan.run(hidden, output, lse=lse)
        for row, (s, t) in enumerate(tokens):
            expected_output, expected_lse = self.expected[s][t]
            for i in range(H):
                self.assertAlmostEqual(output[row * H + i], expected_output[i], delta=TOLERANCE)
            for head in range(N):
                at = row * N + head if layout == "token_major" else head * len(tokens) + row
                self.assertAlmostEqual(lse[at], expected_lse[head], delta=TOLERANCE)

    def check(self, layout, form, processors):
        engine = self.make_engine(layout, form, processors)
        sequences, plan, done = [engine.sequence(), engine.sequence()], engine.plan(), [0, 0]
        for step in STEPS:
            plan.fill(sequences, step)
            engine.poison_cache()
            engine.poison_workspace()
            self.check_step(plan, done, step, layout)
            done = [have + new for have, new in zip(done, step)]
        self.assertEqual(plan.function, "decode")

    def test_C16_absorbed(self):
        self.check("token_major", "absorbed", 1)

    def test_C16_absorbed_in_splits(self):
        self.check("token_major", "absorbed", 132)

    def test_C16_expanded(self):
        self.check("token_major", "expanded", 1)

    def test_C16_form_by_cost(self):
        self.check("token_major", "auto", 132)

    def test_C16_head_major(self):
        self.check("head_major", "auto", 1)


if __name__ == "__main__":
    unittest.main()

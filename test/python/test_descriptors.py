# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Descriptors of attention operators, their registry and nodes of graphs (paged-cache.md section 12), and
what operators refuse. What needs torch skips itself where it is not installed."""

import os
import pathlib
import re
import subprocess
import unittest

import numpy as np

os.environ.setdefault("MLAC_COMPILER", os.environ["MLAC_COMPILE"])

from mlac import WrongState, attention, reference  # noqa: E402
from mlac.attention import AttentionInfo, AttentionNodes, AttentionRegistry  # noqa: E402
from mlac.attention import CacheConfig, PositionalEmbeddingConfig, Spec, spec_of  # noqa: E402
from mlac.sequence_info import SequenceInfo  # noqa: E402

from attention_steps import Sizes, Step, angle_table, rotate_halves  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

ROPE = PositionalEmbeddingConfig("rope")
INFO = AttentionInfo(8, 2, 16, "float32")
LATENT = AttentionInfo(4, 1, 48, np.float32, rope_dim=16, scale=0.1, pos_embd_config=ROPE)
NAMES = ("MultiHead", "TritonWithFlattenedInputs", "PagedMultiHead", "MultiHeadLatent")


class RefusingTest(unittest.TestCase):
    def refuses(self, message, kind=ValueError):
        return self.assertRaisesRegex(kind, message)


class ConfigTest(RefusingTest):
    def test_D33_what_is_known_of_an_attention(self):
        self.assertEqual((INFO.activation_dtype, INFO.cache_dtype, INFO.softmax_scale),
                         ("f32", "f32", 0.25))
        self.assertEqual(LATENT.rope_dim, 16)
        for changed, message in (
                ({"num_heads": 9}, "num_heads is 9, expected a multiple of num_kv_heads, 2"),
                ({"num_heads": 0}, "num_heads is 0, expected 1 or more"),
                ({"rope_dim": 18}, "rope_dim is 18, expected an even number from 0 to head_dim, 16"),
                ({"rope_dim": 3}, "rope_dim is 3, expected an even"),
                ({"value_dim": 0}, "value_dim is 0, expected 1 or more, or None"),
                ({"window": -1}, "window is -1, expected 0 or more"),
                ({"softcap": float("nan")}, "softcap is nan, expected a finite number"),
                ({"dtype": "int8"}, "dtype is int8, expected one of bf16, f16, f32")):
            with self.refuses(message):
                AttentionInfo(**{**vars(INFO), **changed})

    def test_D34_positional_embedding(self):
        self.assertEqual(PositionalEmbeddingConfig(), PositionalEmbeddingConfig(None, 10000.0, 1.0))
        with self.refuses("mode is 'alibi', expected one of None, 'rope'"):
            PositionalEmbeddingConfig("alibi")
        with self.refuses("rope_theta is 0, expected more than 0"):
            PositionalEmbeddingConfig("rope", 0)
        with self.refuses("rope_scale is -1, expected more than 0"):
            PositionalEmbeddingConfig("rope", rope_scale=-1)

    def test_D35_type_of_caches(self):
        narrow = AttentionInfo(**{**vars(INFO), "cache_config": CacheConfig("float16")})
        self.assertEqual((narrow.activation_dtype, narrow.cache_dtype), ("f32", "f16"))
        with self.refuses("CacheConfig.dtype is fp4"):
            CacheConfig("fp4")


class ContractTest(RefusingTest):
    def test_D36_members_of_every_descriptor(self):
        expected = {"MultiHead": (False, 3, 4), "TritonWithFlattenedInputs": (False, 3, 4),
                    "PagedMultiHead": (True, 3, 5), "MultiHeadLatent": (True, 4, 5)}
        for name in NAMES:
            descriptor = AttentionRegistry.get(name)
            _, inputs = descriptor.get_attention_op()
            prepare, outputs = descriptor.get_prepare_metadata_op()
            self.assertEqual((descriptor.is_paged(), inputs, outputs), expected[name])
            made = prepare(*SequenceInfo(8, 2, 4).args, 4)
            self.assertEqual(len(made), outputs)
        with self.refuses("Can't instantiate abstract", TypeError):
            attention.AttentionDescriptor()

    def test_D41_registry(self):
        class Other(attention.MultiHead):
            pass

        self.assertFalse(AttentionRegistry.has("Other"))
        with self.refuses("no attention 'Other' is registered, expected one of MultiHead, ",
                          LookupError):
            AttentionRegistry.get("Other")
        self.assertIs(AttentionRegistry.register("Other")(Other), Other)
        self.addCleanup(AttentionRegistry._descriptors.pop, "Other")
        self.assertIs(AttentionRegistry.get("Other"), Other)
        with self.refuses("attention 'MultiHead' is registered already, as MultiHead"):
            AttentionRegistry.register("MultiHead")(Other)
        self.assertIs(AttentionRegistry.get("MultiHead"), attention.MultiHead)

    def test_D42_what_descriptors_refuse(self):
        paged, whole = SequenceInfo(16, 2, 4), SequenceInfo(16, 2)
        for name in NAMES[:2]:
            descriptor = AttentionRegistry.get(name)
            with self.refuses("has no pages: page_size is 4, expected max_seq_len, 16"):
                AttentionNodes(descriptor, paged)
            with self.refuses("has no pages: page_size is 4, expected max_seq_len, 16"):
                descriptor.get_cache_initializers(lambda: INFO)["k_cache"](paged)
        changed = lambda base=INFO, **fields: AttentionInfo(**{**vars(base), **fields})
        scaled = PositionalEmbeddingConfig("rope", rope_scale=2.0)
        for name, info, message in (
                ("TritonWithFlattenedInputs", changed(pos_embd_config=scaled),
                 "rope_scale is 2.0, expected 1"),
                ("TritonWithFlattenedInputs", changed(window=4), "window is 4, expected 0"),
                ("TritonWithFlattenedInputs", changed(scale=1.0), r"expected head_dim\^\(-1/2\)"),
                ("MultiHead", changed(pos_embd_config=ROPE), "mode is 'rope', expected None"),
                ("MultiHead", changed(rope_dim=4), "rope_dim is 4, expected 0"),
                ("MultiHeadLatent", changed(LATENT, num_kv_heads=4),
                 "num_kv_heads is 4, expected 1"),
                ("MultiHeadLatent", changed(LATENT, rope_dim=0), "rope_dim is 0, expected 2 to 47"),
                ("MultiHeadLatent", changed(LATENT, scale=None), "scale is None"),
                ("MultiHeadLatent", changed(LATENT, value_dim=48), "expected the latent's 32"),
                ("MultiHeadLatent", changed(LATENT, softcap=3.0), "softcap is 3.0, expected 0"),
                ("MultiHeadLatent", changed(LATENT, pos_embd_config=scaled),
                 "rope_scale is 2.0, expected 1")):
            with self.subTest(name, message=message), self.refuses(message):
                nodes = AttentionNodes(AttentionRegistry.get(name), whole)
                nodes.add(info)
                nodes.initialize()
            self.assertEqual((nodes.caches, nodes.buffers), ({}, {}))


class NodesTest(RefusingTest):
    def test_D37_D38_D39_D40_operands(self):
        sequences = SequenceInfo(16, 2, 4)
        calls = []

        def get_info(theta):
            calls.append(theta)
            config = PositionalEmbeddingConfig("rope", theta)
            return AttentionInfo(**{**vars(INFO), "pos_embd_config": config, "window": 5})
        nodes = AttentionNodes(attention.PagedMultiHead, sequences)
        numbers = [nodes.add(lambda theta=theta: get_info(theta)) for theta in (1e4, 500.0, 1e4)]
        self.assertEqual((numbers, calls, nodes.caches), ([0, 1, 2], [], {}))
        with self.refuses("node 0 has no caches: call initialize", WrongState):
            nodes.operands(0, 1, 2, 3)
        nodes.initialize()
        # Caches are each node's own, buffers are those of one name.
        self.assertEqual(list(nodes.caches), [f"{kind}_cache_{node}" for node in range(3)
                                              for kind in "kv"])
        self.assertEqual(len({id(cache) for cache in nodes.caches.values()}), 6)
        self.assertEqual(nodes.caches["k_cache_1"].shape, (sequences.num_pages, 4, 2, 16))
        self.assertEqual(list(nodes.buffers), ["freqs_cis_rope_10000_0_1_0",
                                               "freqs_cis_rope_500_0_1_0"])
        caches, count = dict(nodes.caches), len(calls)
        nodes.initialize()
        self.assertEqual(len(calls), count)
        for name, cache in caches.items():
            self.assertIs(nodes.caches[name], cache)
        with self.refuses("there is no metadata", WrongState):
            nodes.operands(0, 1, 2, 3)
        metadata = nodes.prepare()
        operands = nodes.operands(2, "q", "k", "v")
        self.assertEqual(operands[:3], ("q", "k", "v"))
        for got, wanted in zip(operands[3:11], (*metadata, caches["k_cache_2"],
                                                caches["v_cache_2"],
                                                nodes.buffers["freqs_cis_rope_10000_0_1_0"])):
            self.assertIs(got, wanted)
        self.assertEqual(operands[11:], (0.25, 5, 0.0))
        with self.refuses("node 2 has 2 inputs, mlac::paged_mha_with_cache takes 3"):
            nodes.operands(2, "q", "k")
        with self.refuses("node 3, expected 0 to 2"):
            nodes.operands(3, "q", "k", "v")

    def test_D38_no_buffers_unless_said(self):
        self.assertEqual(attention.MultiHead.get_global_buffer_initializers(lambda: INFO), {})
        self.assertEqual(attention.AttentionDescriptor.get_constants.__func__(
            attention.MultiHead, INFO), [])

    def test_D14_table_of_angles(self):
        sequences = SequenceInfo(12, 1)
        (make,) = attention.FlattenedMultiHead.get_global_buffer_initializers(
            lambda: AttentionInfo(**{**vars(INFO), "pos_embd_config": ROPE})).values()
        table = make(sequences)
        phi = np.arange(24)[:, None] * 10000.0**(-np.arange(8) / 8)
        np.testing.assert_allclose(table, np.stack([np.cos(phi), np.sin(phi)], -1), atol=1e-7)
        (make,) = attention.FlattenedMultiHead.get_global_buffer_initializers(lambda: INFO).values()
        self.assertEqual(make(sequences).shape, (0,))

    def step(self, nodes, node, rng, lengths, kv_heads=2):
        """A step of random rows, and their numbers by sequence."""
        sequences = nodes.sequences
        sequences.nest_sequences([[1] * n for n in lengths])
        lead = sequences.input_ids.shape
        draw = lambda heads: rng.standard_normal((*lead, heads * 16)).astype(np.float32)
        rows = (draw(8), draw(kv_heads), draw(kv_heads))
        nodes.prepare()
        output = nodes.run(node, *rows)
        parts = [sequences.unnest_sequences(x) for x in (*rows, output)]
        sequences.update_pos(list(lengths))
        return [[x.reshape(len(x), -1, 16) for x in part] for part in parts]

    def test_D24_D36_D40_steps_of_every_grouped_descriptor(self):
        """Prompts, a mixed step, then a token of each, of two nodes."""
        rng = np.random.default_rng()
        for name, page, config in (("MultiHead", 0, PositionalEmbeddingConfig()),
                                   ("TritonWithFlattenedInputs", 0, ROPE),
                                   ("PagedMultiHead", 4, ROPE)):
            sequences = SequenceInfo(24, 3, page)
            nodes = AttentionNodes(AttentionRegistry.get(name), sequences)
            info = AttentionInfo(**{**vars(INFO), "pos_embd_config": config})
            numbers = [nodes.add(info), nodes.add(info)]
            nodes.initialize()
            for cache in nodes.caches.values():
                cache.fill(np.nan)
            sequences.assign_cache_loc([range(own, sequences.num_pages, 3) for own in (2, 0, 1)])
            history = {node: [[[], []] for _ in range(3)] for node in numbers}
            phi = np.outer(np.arange(24), 10000.0**(-np.arange(8) / 8))
            table = np.stack([np.cos(phi), np.sin(phi)], -1)
            for lengths in ((6, 3, 9), (1, 5, 2), (1, 1, 1)):
                positions = sequences.input_pos.copy()
                for node in numbers:
                    sequences.update_pos(positions, reset=True)
                    query, key, value, output = self.step(nodes, node, rng, lengths)
                    for own, kept in enumerate(history[node]):
                        at = np.arange(positions[own], positions[own] + lengths[own])
                        turn = (lambda x: rotate_halves(x, at, table)) if config.mode else \
                            (lambda x: x)
                        kept[0].extend(turn(key[own].astype(np.float64)))
                        kept[1].extend(value[own])
                        expected, _ = reference.grouped_attention(
                            turn(query[own].astype(np.float64)), *kept, 0.25)
                        error = reference.relative_error(output[own], expected)
                        self.assertLess(error, 1e-5, (name, lengths, own))

    def test_D24_metadata_operators(self):
        sequences = SequenceInfo(16, 3, 4)
        sequences.nest_sequences([[1] * 5, [2]])
        sequences.assign_cache_loc([[7, 2], [5]])
        sequences.update_pos([1, 3], reset=True)
        made = attention.prepare_paged_metadata(*sequences.args, 4)
        self.assertEqual([x.tolist() for x in made],
                         [[5, 1], [1, 3], [0, 1], [0, 5], [[7, 2], [5, -1]]])
        rows = attention.prepare_fused_mha_metadata(*sequences.args, 16)
        self.assertEqual([x.tolist() for x in rows], [[5, 1], [1, 3], [7, 5], [0, 5]])
        with self.refuses("page_size is 0, expected 1 or more"):
            attention.prepare_paged_metadata(*sequences.args, 0)


class CompilerTest(RefusingTest):
    """mla-cache-attention puts the same operators into graphs."""

    def nodes_of(self, name):
        """Of the metadata and of the attention: target, operands by number, constants."""
        archive = pathlib.Path(__file__).parent.parent / "data/golden/llama_gqa_dynamic.pt2"
        done = subprocess.run(
            [os.environ["MLAC_OPT"], "-", f"--mla-import-archive=archive={archive}",
             f"--mla-cache-attention=attention={name} page-size=4"],
            input="module {}", capture_output=True, text=True, check=True)
        found = []
        for line in done.stdout.splitlines():
            match = re.search(r'graph.node "((?:attention|mlac)\..*?)\.default"\(.*?\) {(.*?)}', line)
            if match:
                operands = dict(re.findall(r"(\w+) = #graph.in<(\d+)>", match[2]))
                constants = set(re.findall(r"(\w+) = ", match[2])) - set(operands)
                found.append((match[1], sorted(operands, key=lambda x: int(operands[x])),
                              constants))
        return found, re.findall(r'graph.input = "(\w+)"', done.stdout)

    def test_D36_D40_D46_operands_in_the_compiler_and_here(self):
        for name in NAMES[:3]:
            descriptor = AttentionRegistry.get(name)
            (prepare, attend), inputs = self.nodes_of(name)
            for (target, operands, constants), op in (
                    (prepare, descriptor.get_prepare_metadata_op()[0]),
                    (attend, descriptor.get_attention_op()[0])):
                self.assertEqual(target.replace(".", "::"), op.name)
                arguments = re.findall(r"(\S+) (\w+)(?:=[^,)]*)?[,)]", op.schema)
                tensors = [own for kind, own in arguments if "Tensor" in kind]
                self.assertEqual(operands, tensors, name)
                self.assertEqual(constants, {own for _, own in arguments} - set(tensors), name)
            sequences = SequenceInfo(16, 1, 4 if descriptor.is_paged() else 0)
            nodes = AttentionNodes(descriptor, sequences)
            nodes.add(INFO)
            nodes.initialize()
            for own in (*sequences.extra_arg_names, *nodes.caches, *nodes.buffers):
                self.assertIn(own, inputs)


class TwinTest(unittest.TestCase):
    """Shape twins against what operators return."""

    def check(self, op, *operands):
        real = op(*operands)
        # Of shapes and types alone.
        told = op.twin(*(spec_of(x) if hasattr(x, "shape") else x for x in operands))
        pairs = [(told, real)] if isinstance(told, Spec) else list(zip(told, real, strict=True))
        sizes = {}
        for spec, array in pairs:
            self.assertEqual(spec.dtype, array.dtype, op.name)
            self.assertEqual(len(spec.shape), array.ndim, op.name)
            for size, actual in zip(spec.shape, array.shape):
                known = sizes.setdefault(size, actual) if isinstance(size, str) else size
                self.assertEqual(known, actual, op.name)
        return sizes

    def test_D23_D47_every_operator_has_a_true_twin(self):
        rng = np.random.default_rng()
        sizes = Sizes(8, 2, 16, 24, 40)
        checked = set()

        def check(op, *operands):
            checked.add(op.name)
            return self.check(op, *operands)
        for cached, lengths in (((3, 5), (4, 1)), ((3, 5), (1, 1))):
            step = Step(rng, sizes, cached, lengths, max_pages=1)
            rows = step.table[step.rows, 0]
            lead = (2, 1) if lengths == (1, 1) else (1, 5)
            qkv = [x.reshape(*lead, -1) for x in (step.q, step.k, step.v)]
            table = angle_table(rng, 16, 8).astype(np.float32)
            ours = (step.lengths, step.positions, rows, step.starts)
            theirs = (step.positions, rows, step.lengths, step.starts)
            caches = (step.k_cache, step.v_cache)
            check(attention.flattened_mha_with_cache, *qkv, *ours, *caches)
            check(attention.fused_flattened_mha_with_cache, *qkv, *ours, *caches, table)
            check(attention.fused_flattened_mha_with_cache_rope_fusion, *qkv, *theirs, *caches,
                  table)
            check(attention.fused_mha_with_cache, *qkv, step.positions, *caches, None)
            paged = (step.positions, step.rows, step.lengths, step.starts, step.table)
            check(attention.fused_mha_with_paged_cache, *qkv, *paged, 16, *caches, table)
            paged = (step.lengths, step.positions, step.rows, step.starts, step.table)
            check(attention.paged_mha_with_cache, *qkv, *paged, *caches, table)
            latent = [rng.standard_normal((*lead, *n)).astype(np.float32)
                      for n in ((3, 32), (3, 16), (32,), (16,))]
            cache = np.zeros((len(step.k_cache), 40, 48), np.float32)
            check(attention.mla_with_cache, *latent, *paged, cache, None, None, 0.1, 32, "mla_f32")
            sequences = SequenceInfo(16, 3, 4)
            sequences.nest_sequences([[1] * n for n in lengths])
            for op in (attention.prepare_fused_mha_metadata, attention.prepare_paged_metadata):
                seen = check(op, *sequences.args, 4)
                self.assertEqual(seen.get("n", 2), 2)
        q, k, v = (rng.standard_normal((1, 2, n, d)).astype(np.float32)
                   for n, d in ((3, 8), (4, 8), (4, 6)))
        check(attention.scaled_dot_product_attention, q, k, v)
        every = {getattr(attention, name).name for name in attention.__all__
                 if isinstance(getattr(attention, name), attention.Op)}
        self.assertEqual(checked, every)


class RefusalTest(RefusingTest):
    """What operators refuse, before anything is written."""

    def setUp(self):
        rng = np.random.default_rng()
        self.sizes = Sizes(8, 2, 16, 16, 4)
        self.step = Step(rng, self.sizes, (3, 9), (4, 2), max_pages=4)
        s = self.step
        self.given = {"q": s.q.reshape(1, 6, -1), "k": s.k.reshape(1, 6, -1),
                      "v": s.v.reshape(1, 6, -1), "seq_len": s.lengths, "input_pos": s.positions,
                      "cache_loc": s.rows, "seq_start": s.starts, "page_table": s.table,
                      "k_cache": s.k_cache, "v_cache": s.v_cache, "freqs_cis": None}

    def test_D16_D22_D29_refusals(self):
        s, given = self.step, self.given
        ints = lambda *values: np.array(values, np.int32)
        twice = s.table.copy()
        twice[s.rows[1], 2] = s.table[s.rows[0], 1]
        table = np.zeros((10, 8, 2), np.float32)
        cases = (
            ({"q": given["q"][:, :5]}, r"k: expected \[1, 5\] tokens as of q, got \[1, 6\]"),
            ({"q": given["q"][..., :40]}, r"q: expected \[b, s, heads \* 16\]"),
            ({"q": given["q"][..., :48]}, "q has 3 heads, expected a multiple of the caches' 2"),
            ({"k": given["q"]}, "k has 8 heads, the caches 2"),
            ({"v": given["v"].astype(np.float16)}, "v: expected f32 as of q, got f16"),
            ({"q": given["q"].astype(np.int32)}, "q: expected f32, f16 or bf16, got i32"),
            ({"seq_len": ints(4, 3)}, r"seq_len \[4, 3\] has 7 tokens, q has 6"),
            ({"seq_len": ints(7, -1)}, r"seq_len \[7, -1\] has a negative length"),
            ({"seq_len": ints(6)}, "input_pos is of 2 sequences, seq_len of 1"),
            ({"seq_start": ints(0, 3)}, r"seq_start is \[0, 3\], expected \[0, 4\]"),
            ({"input_pos": ints(-1, 9)}, "input_pos -1 of sequence 0 is negative"),
            ({"input_pos": ints(3, 15)}, "sequence 1 has 17 tokens, at most 16"),
            ({"input_pos": ints(5, 9)}, r"page 1048576 of sequence 0, 0 to 9 exist"),
            ({"cache_loc": ints(0, 3)}, "cache_loc 3, 0 to 2 are rows of page_table"),
            ({"page_table": s.table[0]}, r"page_table: expected \[rows, pages\]"),
            ({"page_table": twice}, r"two tokens go to page \d+ offset 1 of the cache"),
            ({"k_cache": s.k_cache[0]}, r"k_cache: expected \[pages, page_size, heads, channels\]"),
            ({"v_cache": s.v_cache[:3]}, r"v_cache: expected \[10, 4, 2\] pages"),
            ({"v_cache": s.v_cache.astype(np.float16)}, "v_cache: expected f32 as of k_cache"),
            ({"k_cache": s.k_cache.swapaxes(0, 1).copy().swapaxes(0, 1)},
             "k_cache: expected a contiguous array"),
            ({"freqs_cis": table[:, :4]}, r"freqs_cis: expected \[positions, 8, 2\]"),
            ({"freqs_cis": table}, "freqs_cis has 10 positions, 11 are needed"))
        before = s.k_cache.tobytes(), s.v_cache.tobytes()
        for changed, message in cases:
            with self.subTest(message), self.refuses(message):
                attention.paged_mha_with_cache(**{**given, **changed})
        with self.refuses("sequence 1 has 11 tokens, at most 10"):
            attention.fused_mha_with_paged_cache(**given, max_seq_len=10)
        with self.refuses("max_seq_len is 0, expected 1 or more"):
            attention.fused_mha_with_paged_cache(**given, max_seq_len=0)
        self.assertEqual(before, (s.k_cache.tobytes(), s.v_cache.tobytes()))

    def test_D02_D20_refusals_of_batches(self):
        given = {name: self.given[name] for name in ("k_cache", "v_cache", "input_pos")}
        q, k = np.zeros((2, 3, 128), np.float32), np.zeros((2, 3, 32), np.float32)
        lists = {name: self.given[name] for name in ("seq_len", "cache_loc", "seq_start")}
        with self.refuses(r"q: expected \[b, 1, ...\] or \[1, s, ...\], got \[2, 3, 128\]"):
            attention.flattened_mha_with_cache(q, k, k, **given, **lists)
        q, k = np.zeros((3, 1, 128), np.float32), np.zeros((3, 1, 32), np.float32)
        with self.refuses("input_pos is of 2 sequences, q of 3"):
            attention.flattened_mha_with_cache(q, k, k, **given, **lists)
        with self.refuses("input_pos is of 2 sequences, q of 3"):
            attention.fused_mha_with_cache(q, k, k, **given, freqs_cis=None)

    def test_D48_refusals_of_latents(self):
        rng = np.random.default_rng()
        s = self.step
        q_nope, q_pe, c, k_pe = (rng.standard_normal((1, 6, *n)).astype(np.float32)
                                 for n in ((3, 32), (3, 16), (32,), (16,)))
        half = np.zeros((16, 8), np.float32)
        given = {"q_nope": q_nope, "q_pe": q_pe, "c": c, "k_pe": k_pe, "seq_len": s.lengths,
                 "input_pos": s.positions, "cache_loc": s.rows, "seq_start": s.starts,
                 "page_table": s.table, "kv_cache": np.zeros((10, 4, 48), np.float32), "cos": half,
                 "sin": half, "scale": 0.1, "kv_lora_rank": 32, "layout": "mla_f32"}
        for changed, message in (
                ({"q_nope": c}, r"q_nope: expected \[b, s, heads, 32\]"),
                ({"q_pe": q_nope}, r"q_pe: expected \[1, 6, 3, 16\], got \[1, 6, 3, 32\]"),
                ({"c": c.astype(np.float16)}, "c: expected f32 as of q_nope, got f16"),
                ({"kv_cache": given["kv_cache"][..., :32]}, "kv_cache: expected .*more than 32"),
                ({"layout": "mla_16"}, "layout is 'mla_16', a cache of f32 has 'mla_f32'"),
                ({"cos": half[:, :4]}, r"cos: expected \[positions, 8\], got \[16, 4\]"),
                ({"sin": half[:3]}, "sin: expected 16 positions as of cos, got 3"),
                ({"cos": half[:9], "sin": half[:9]}, "cos has 9 positions, 11 are needed")):
            with self.subTest(message), self.refuses(message):
                attention.mla_with_cache(**{**given, **changed})


@unittest.skipIf(torch is None, "torch is not installed")
class TorchTest(unittest.TestCase):
    """torch.ops.attention by AutoDeploy's names."""

    @classmethod
    def setUpClass(cls):
        import mlac.attention.torch  # noqa: F401

    def steps(self, sizes):
        for cached, lengths in (((3, 5), (4, 1)), ((3, 5), (1, 1))):
            step = Step(np.random.default_rng(), sizes, cached, lengths, max_pages=8)
            lead = (2, 1) if lengths == (1, 1) else (1, 5)
            tensor = lambda x: torch.from_numpy(x)
            yield step, [tensor(x.reshape(*lead, -1)) for x in (step.q, step.k, step.v)], \
                tuple(map(tensor, (step.lengths, step.positions, step.rows, step.starts,
                                   step.table))), \
                (tensor(step.k_cache), tensor(step.v_cache))

    def test_D23_D47_operators_of_torch_and_their_fakes(self):
        sizes = Sizes(8, 2, 16, 24, 4)
        table = torch.from_numpy(angle_table(np.random.default_rng(), 32, 8).astype(np.float32))
        for step, qkv, metadata, caches in self.steps(sizes):
            expected, k_cache, _ = step.expected(table.numpy())
            lengths, positions, rows, starts, pages = metadata
            operands = (*qkv, positions, rows, lengths, starts, pages, 32, *caches, table)
            op = torch.ops.attention.fused_mha_with_paged_cache
            torch.library.opcheck(op.default, operands, test_utils=(
                "test_schema", "test_faketensor", "test_autograd_registration"))
            output = op(*operands)
            self.assertEqual(output.shape, (*qkv[0].shape[:2], 8 * 24))
            error = reference.relative_error(output.numpy().reshape(expected.shape), expected)
            self.assertLess(error, 1e-5)
            np.testing.assert_allclose(np.nan_to_num(step.k_cache), np.nan_to_num(k_cache),
                                       atol=1e-5)

    def test_D24_D47_metadata_under_export(self):
        """Sizes that data decide are symbols, one for each name."""
        class Prepare(torch.nn.Module):
            def forward(self, *args):
                return torch.ops.mlac.prepare_paged_metadata(*args, 4)

        sequences = SequenceInfo(16, 3, 4).to("cpu")
        sequences.nest_sequences([[1] * 5, [2]])
        program = torch.export.export(Prepare(), sequences.args)
        (node,) = [node for node in program.graph.nodes
                   if node.target is torch.ops.mlac.prepare_paged_metadata.default]
        shapes = [fake.shape for fake in node.meta["val"]]
        self.assertEqual({str(shape[0]) for shape in shapes}, {str(shapes[0][0])})
        self.assertNotEqual(str(shapes[4][0]), str(shapes[4][1]))
        for got, wanted in zip(program.module()(*sequences.args),
                               attention.prepare_paged_metadata(*sequences.args, 4)):
            self.assertTrue(torch.equal(got, wanted))

    def test_D40_nodes_on_tensors(self):
        sequences = SequenceInfo(16, 2, 4).to("cpu")
        nodes = AttentionNodes(attention.PagedMultiHead, sequences)
        node = nodes.add(AttentionInfo(8, 2, 16, torch.bfloat16, pos_embd_config=ROPE))
        nodes.initialize()
        sequences.nest_sequences([[1] * 4, [1] * 2])
        nodes.prepare()
        q, k, v = (torch.randn(1, 6, n).bfloat16() for n in (128, 32, 32))
        output = nodes.run(node, q, k, v)
        self.assertEqual((output.shape, output.dtype), (q.shape, q.dtype))
        self.assertEqual(nodes.caches["k_cache_0"].dtype, torch.bfloat16)
        # The first token of each sees itself alone: not turned, all heads of a group alike.
        first = output.view(6, 2, 4, 16)[[0, 4]]
        expected = v.view(6, 2, 1, 16)[[0, 4]].expand(2, 2, 4, 16)
        self.assertTrue(torch.allclose(first, expected))

    def test_D43_canonical_node(self):
        q, k, v = (torch.randn(1, 2, n, d) for n, d in ((3, 8), (4, 8), (4, 6)))
        op = torch.ops.attention.scaled_dot_product_attention
        torch.library.opcheck(op.default, (q, k, v), test_utils=("test_schema", "test_faketensor"))
        got = attention.scaled_dot_product_attention(q.numpy(), k.numpy(), v.numpy(), scale=0.3)
        np.testing.assert_allclose(op(q, k, v, scale=0.3).numpy(), got, atol=1e-6)


if __name__ == "__main__":
    unittest.main()

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""DeepSeek-V4's layers: the float64 reference against the golden ones, and compiled layers of all
kinds against both, however sequences are cut into steps."""

import tempfile
import unittest

import numpy as np

from mlac import reference

import shared_key_layers as shared
import sparse_layers as layers
from shared_key_stories import MXFP4, STEPS, ServedTest, StoryTest, index_rounding

# The golden layers are f64 with rotary tables in f32, stored in f32.
ALLOWED_REFERENCE = 1e-6


class ReferenceTest(unittest.TestCase):
    def check(self, kind):
        config, weights, hidden, expected, selected, entries = shared.read_golden(kind)
        shape = reference.shared_keys_from_hf(config, kind)
        output, _ = reference.shared_key_layer(shape, weights, hidden, selected)
        self.assertLess(reference.relative_error(output, expected), ALLOWED_REFERENCE)
        if entries is not None:
            own = reference.entries_of(shape, weights, "compressor.", hidden)
            self.assertLess(reference.relative_error(own, entries), ALLOWED_REFERENCE)

    def test_golden_window_V4_02_V4_03(self):
        self.check(shared.WINDOW_ONLY)

    def test_golden_selected_entries_V4_14(self):
        self.check(shared.SELECTED)

    def test_golden_all_entries_V4_13(self):
        self.check(shared.ALL)

    def test_own_selection_is_the_golden_one_V4_22(self):
        config, weights, hidden, _, stored, _ = shared.read_golden(shared.SELECTED)
        shape = reference.shared_keys_from_hf(config, shared.SELECTED)
        scores = reference.shared_key_scores(shape, weights, hidden)
        for row, chosen in enumerate(stored):
            seen = (row + 1) // shape.every
            chosen = chosen[(chosen >= 0) & (chosen < seen)]
            self.assertEqual(len(set(chosen)), min(seen, shape.indexer.topk))
            if len(chosen) < seen:  # ties, of zeros mostly, may be broken either way
                rest = np.setdiff1d(np.arange(seen), chosen)
                slack = 1e-5 * np.abs(scores[row, :seen]).max()
                self.assertGreaterEqual(scores[row, chosen].min() + slack,
                                        scores[row, rest].max())

    def test_kinds_of_layers_V4_46(self):
        flash = {"num_hidden_layers": 4, "compress_ratios": [0, None, 4, 128, 0]}
        named = {"num_hidden_layers": 3, "layer_types": [
            "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"]}
        self.assertEqual([reference.entry_tokens(flash, i) for i in range(5)], [1, 1, 4, 128, 1])
        self.assertEqual([reference.entry_tokens(named, i) for i in range(4)], [1, 4, 128, 1])


# Longer and shorter than the window, than an entry and a page, on and beside their ends.
GOLDEN_CUTS = (1, 2, 1, 5, 7, 64, 1, 1, 1, 61, 112, 1, 1, 120)


class GoldenTest(ServedTest):
    def check(self, kind, *options):
        config, weights, hidden, expected, selected, _ = shared.read_golden(kind)
        package = self.compile(config, "f32", f"--layer={kind}", *options)
        served = self.serve(package, weights, "f32", config["index_topk"])

        def run(sequence, first, count, function):
            rows = slice(first, first + count)
            output, _ = served.step([sequence], [count], hidden[rows], function,
                                    None if selected is None else selected[rows])
            self.assertLess(reference.relative_error(output, expected[rows]), layers.ALLOWED_F32,
                            f"{function} of {count} behind {first}")

        run(served.engine.sequence(), 0, len(hidden), "prefill")
        sequence, first = served.engine.sequence(), 0
        for count in GOLDEN_CUTS:
            run(sequence, first, count, "prefill")
            first += count
        while first < len(hidden):
            run(sequence, first, 1, "decode")
            first += 1
        self.assertEqual(first, len(hidden))
        return package

    def test_window_V4_11_V4_24_V4_28_V4_37_V4_46(self):
        package = self.check(shared.WINDOW_ONLY)
        self.assertEqual([pool["name"] for pool in package.info["pools"]], ["cache"])

    def test_selected_entries_V4_14_V4_15_V4_25_V4_37_V4_46(self):
        self.check(shared.SELECTED, "--indexer=shared", "--page-size=16")

    def test_all_entries_V4_13_V4_15_V4_17_V4_26_V4_37_V4_46(self):
        package = self.check(shared.ALL)
        pools = {pool["name"]: pool for pool in package.info["pools"]}
        self.assertEqual(pools["entries"]["tokens_per_row"], 128)
        self.assertEqual(pools["entries"]["page_size"], 2)
        self.assertEqual(pools["states"]["window"], 128)


class RandomTest(StoryTest):
    """In single precision, which GPUs do not compute in."""

    def test_window_in_single_precision_V4_02_V4_30_V4_36(self):
        self.check(shared.WINDOW_ONLY, "f32")

    def test_own_selection_in_single_precision_V4_18_V4_20_V4_21_V4_22_V4_48(self):
        self.check(shared.SELECTED, "f32")

    def test_indexer_in_mxfp4_V4_19_V4_20_V4_21_V4_22(self):
        """Scores of e2m1 queries and keys; blocks of 32 columns, of which heads have 96 or 128."""
        for dim in (96, 128):
            served, *_ = self.check(shared.SELECTED, "f32", MXFP4, index_head_dim=dim,
                                    quantise=reference.quantise_mxfp4)
            pool = {pool["name"]: pool for pool in served.engine.package_info["pools"]}["index"]
            self.assertEqual((pool["format"], pool["row_bytes"], pool["tokens_per_row"]),
                             ("index_k_mxfp4", dim // 2 + dim // 32, 4))

    def test_pages_of_the_indexer_V4_18_V4_19(self):
        """In either format: codes of all keys of a page, then their scales, powers of two, where
        v4.md section 4 has them; and what they stand for is what the format keeps of float64's."""
        config = shared.config(shared.SELECTED)
        weights = shared.random_weights(np.random.default_rng(18), config, shared.SELECTED)
        story = layers.widen(layers.narrow(
            np.random.default_rng(19).standard_normal((300, config["hidden_size"])), "f32"))
        shape = reference.shared_keys_from_hf(config, 0)
        keys = reference.entries_of(shape, weights, "compressor.indexer.", story)
        for options, start, quantise in (((), 8192, reference.quantise),
                                         ((MXFP4,), 4096,
                                          reference.quantise_mxfp4)):
            package = self.compile(config, "f32", *options)
            served = self.serve(package, weights, "f32", config["index_topk"])
            sequence = served.engine.sequence()
            served.step([sequence], [len(story)], story, "prefill")
            pool = [pool["name"] for pool in package.info["pools"]].index("index")
            codes, scales = (served.engine.cache_part(part, pool=pool)
                             for part in ("index", "scale"))
            self.assertEqual(scales.address - codes.address, start)
            self.assertEqual(codes.shape[1:], (64, start // 64))
            codes, scales = (np.asarray(part)[:2].reshape(128, -1)[:len(keys)]
                             for part in (codes, scales))
            if options:
                scales = 2.0 ** (scales.astype(np.float64) - 127)
                fours = np.stack([codes & 15, codes >> 4], axis=-1).reshape(len(keys), -1, 32)
                values = reference.E2M1_MAGNITUDES[fours & 7] * np.where(fours & 8, -1, 1)
            else:
                self.assertTrue(np.all(np.frexp(scales)[0] == 0.5))
                values = reference.e4m3_values()[codes].reshape(len(keys), 1, 128)
            got = (values * scales[..., None]).reshape(keys.shape)
            # A number in the middle between two may go to either side.
            same = np.isclose(got, quantise(keys), rtol=1e-6, atol=0)
            self.assertGreater(same.mean(), 0.999)
            self.assertLess(reference.relative_error(got, keys), 0.2 if options else 0.04)

    def test_slices_of_scores_V4_48(self):
        """Scores of 64 tokens at a time, of which a selection is the same to the bit: prompts, and
        steps that begin and end within slices."""
        longest = 32768
        config = shared.config(shared.SELECTED, max_position_embeddings=longest)
        rng = np.random.default_rng(48)
        weights = shared.random_weights(rng, config, shared.SELECTED)
        story = rng.standard_normal((300, config["hidden_size"]))
        outputs, memory = [], []
        for options in ((), ("--scores-budget=1",)):
            package = self.compile(config, "f32", *options)
            served = layers.Served(package, weights, "f32", config["index_topk"],
                                   max_num_requests=2, max_num_tokens=512, max_seq_len=longest)
            memory.append(served.engine.info["workspace_bytes"])
            sequences = [served.engine.sequence() for _ in range(2)]
            kept = []
            for function, counts in (("prefill", (130, 63)), ("step", (1, 70)), ("decode", (1, 1)),
                                     ("prefill", (64, 128)), ("prefill", (1, 30))):
                rows = np.concatenate([np.arange(len(sequence), len(sequence) + count)
                                       for sequence, count in zip(sequences, counts)])
                kept.append(served.step(sequences, counts, story[rows], function)[0].tobytes())
            outputs.append(kept)
        self.assertEqual(*outputs)
        # Of all tokens, in f32 with 8192 entries, and of 64, beside which others are the largest.
        self.assertGreater(memory[0], 512 * longest)
        self.assertLess(memory[1], 512 * longest / 2)

    def test_rotated_queries_and_keys_V4_23(self):
        """The selection is that of what a Hadamard matrix made of both, rounded behind it."""
        matrix = np.ones((1, 1))
        while len(matrix) < 128:
            matrix = np.block([[matrix, matrix], [matrix, -matrix]])
        matrix = matrix / np.sqrt(len(matrix))
        self.check(shared.SELECTED, "f32", "--index-hadamard", steps=STEPS[:4],
                   quantise=lambda rows: reference.quantise(rows @ matrix))

    def test_all_entries_in_single_precision_V4_12_V4_16(self):
        self.check(shared.ALL, "f32", "--page-size=16")

    def test_stretched_rope_V4_04(self):
        yarn = {"rope_type": "yarn", "factor": 16, "original_max_position_embeddings": 256,
                "beta_fast": 32, "beta_slow": 1}
        self.check(shared.ALL, "f32", steps=STEPS[:2], rope_scaling=yarn)
        self.check(shared.WINDOW_ONLY, "f32", steps=STEPS[:2], rope_scaling=yarn)

    def test_splits_share_both_lists_V4_27_V4_29(self):
        # Two blocks of keys of the window and more of entries, in three shares.
        for kind in (shared.SELECTED, shared.ALL):
            self.check(kind, "f32", "--num-splits=3", given=kind == shared.SELECTED,
                       sliding_window=100, index_topk=70)

    def test_head_counts_V4_32(self):
        for heads, groups in ((1, 1), (5, 5), (128, 16)):
            self.check(shared.WINDOW_ONLY, "f32", steps=STEPS[1:3], num_attention_heads=heads,
                       o_groups=groups)

    def test_rejected_tokens_V4_42(self):
        """Tokens that close an entry are taken back, and others come in their place."""
        for kind in (shared.SELECTED, shared.ALL):
            is_given = kind == shared.SELECTED
            served, sequences, story, expected, selected = self.check(
                kind, "f32", steps=(("prefill", (126,)),), given=is_given)
            rows = np.arange(126, 132)
            chosen = selected[rows] if is_given else None
            served.step(sequences, [len(rows)], -story[rows], "prefill", chosen)
            sequences[0].truncate(rows[0])
            output, _ = served.step(sequences, [len(rows)], story[rows], "prefill", chosen)
            self.assertLess(layers.judge_output(output, expected[rows], "f32"), 1)

    def test_ranks_add_up_V4_43(self):
        config = shared.config(shared.SELECTED)
        rng = np.random.default_rng(43)
        weights = shared.random_weights(rng, config, shared.SELECTED)
        story = rng.standard_normal((40, config["hidden_size"]))
        story = layers.widen(layers.narrow(story, "f32"))
        shape = reference.shared_keys_from_hf(config, 0)
        expected, selected = reference.shared_key_layer(shape, weights, story)
        package = self.compile(config, "f32", "--tp=2", "--indexer=shared")
        total = 0
        for rank in range(2):
            own = dict(weights)
            for name, axis in (("q_b_proj.weight", 0), ("sinks", 0), ("o_a_proj.weight", 0),
                               ("o_b_proj.weight", 1)):
                own[name] = np.split(weights[name], 2, axis)[rank]
            served = self.serve(package, own, "f32", config["index_topk"])
            total = total + served.step([served.engine.sequence()], [len(story)], story, "prefill",
                                        selected)[0]
        self.assertLess(layers.judge_output(total, expected, "f32"), 1)

    def test_sinks_of_no_and_all_weight_V4_28(self):
        config = shared.config(shared.WINDOW_ONLY)
        rng = np.random.default_rng(28)
        weights = shared.random_weights(rng, config, shared.WINDOW_ONLY)
        story = layers.widen(layers.narrow(rng.standard_normal((30, config["hidden_size"])), "f32"))
        shape = reference.shared_keys_from_hf(config, 0)
        package = self.compile(config, "f32")
        for sink in (-np.inf, np.inf):
            weights["sinks"] = np.full(config["num_attention_heads"], sink)
            served = self.serve(package, weights, "f32")
            output, _ = served.step([served.engine.sequence()], [30], story, "prefill")
            if sink > 0:
                self.assertTrue(np.all(output == 0))
            else:
                expected, _ = reference.shared_key_layer(shape, weights, story)
                self.assertLess(layers.judge_output(output, expected, "f32"), 1)

    def test_dry_runs_and_stale_workspaces_V4_35(self):
        """A run without a plan gives zeros and writes no row; what a workspace held before a step
        is never read (`Served.step` fills it with NaN)."""
        config = shared.config(shared.SELECTED)
        weights = shared.random_weights(np.random.default_rng(35), config, shared.SELECTED)
        served = self.serve(self.compile(config, "f32"), weights, "f32", config["index_topk"])
        story = np.random.default_rng(36).standard_normal((40, config["hidden_size"]))
        sequence = served.engine.sequence()
        before, _ = served.step([sequence], [40], story, "prefill")
        pools = range(len(served.engine.package_info["pools"]))

        def read():
            return [served.engine.read_cache(0, 8, pool=pool) for pool in pools]

        rows = read()
        output = np.full((64, config["hidden_size"]), np.nan, np.float32)
        self.assertTrue(np.all(served.engine.dry_run(output) == 0))
        self.assertEqual(read(), rows)
        self.assertEqual(len(sequence), 40)
        sequence.truncate(0)
        after, _ = served.step([sequence], [40], story, "prefill")
        self.assertEqual(after.tobytes(), before.tobytes())

    def test_prompts_in_pieces_of_the_most_tokens(self):
        """Pools with windows give back what a step leaves behind before the next one takes pages:
        they have room for the window and one step's tokens."""
        for kind in (shared.SELECTED, shared.ALL):
            config = shared.config(kind)
            rng = np.random.default_rng(12)
            weights = shared.random_weights(rng, config, kind)
            shape = reference.shared_keys_from_hf(config, 0)
            story = layers.widen(layers.narrow(
                rng.standard_normal((500, config["hidden_size"])), "f32"))
            expected, selected = reference.shared_key_layer(shape, weights, story)
            given = ["--indexer=shared"] if kind == shared.SELECTED else []
            served = layers.Served(self.compile(config, "f32", *given), weights, "f32",
                                   config["index_topk"], max_num_requests=1, max_num_tokens=160)
            sequence, states = served.engine.sequence(), served.engine.pool_stats(2)
            self.assertLess(states["num_pages"] * states["page_size"], 480)
            for first in (0, 160, 320):
                rows = slice(first, first + 160)
                output, _ = served.step([sequence], [160], story[rows], "prefill",
                                        selected[rows] if given else None)
                self.assertLess(layers.judge_output(output, expected[rows], "f32"), 1)

    def test_what_selections_hold_behind_their_entries_V4_30(self):
        """Of a given selection nothing is read behind the entries that a token sees."""
        config = shared.config(shared.SELECTED)
        rng = np.random.default_rng(30)
        weights = shared.random_weights(rng, config, shared.SELECTED)
        shape = reference.shared_keys_from_hf(config, 0)
        story = layers.widen(layers.narrow(rng.standard_normal((60, config["hidden_size"])), "f32"))
        expected, selected = reference.shared_key_layer(shape, weights, story)
        seen = np.minimum((np.arange(len(story)) + 1) // shape.every, shape.indexer.topk)
        behind = np.arange(selected.shape[1]) >= seen[:, None]
        limits = np.iinfo(np.int32)
        selected = np.where(behind, rng.choice([limits.max, limits.min, 7, -1], selected.shape),
                            selected)
        package = self.compile(config, "f32", "--indexer=shared")
        served = self.serve(package, weights, "f32", config["index_topk"])
        output, _ = served.step([served.engine.sequence()], [len(story)], story, "prefill", selected)
        self.assertLess(layers.judge_output(output, expected, "f32"), 1)


class OutputCodesTest(ServedTest):
    """Groups of heads whose weights are e4m3 with scales of 128 x 128, or of each row and 128
    columns: products of codes and codes, beside those of bf16."""

    BLOCKS = (128, 128), (1, 128)

    @classmethod
    def setUpClass(cls):
        """Where the compiler is: the checks of a GPU take what this made."""
        super().setUpClass()
        cls.packages = {}
        with tempfile.TemporaryDirectory() as folder:
            for block in cls.BLOCKS:
                for mode in ("both", "off"):
                    cls.packages[block, mode] = layers.compile_layer(
                        cls.config(block), folder, f"{block[0]}_{mode}", "--dtype=bf16",
                        f"--keep-codes={mode}")

    @staticmethod
    def config(block):
        return shared.config(
            shared.WINDOW_ONLY, head_dim=256, qk_rope_head_dim=64, o_lora_rank=64,
            quantization_config={"quant_method": "fp8", "weight_block_size": list(block)})

    def test_codes_beside_values_V4_38_V4_39_V4_40(self):
        for block in self.BLOCKS:
            with self.subTest(block):
                self.check_codes(block)

    def check_codes(self, block):
        config = self.config(block)
        rng = np.random.default_rng(40)
        weights = shared.random_weights(rng, config, shared.WINDOW_ONLY)
        name, scale_name = "o_a_proj.weight", "o_a_proj.weight_scale_inv"
        codes = rng.integers(0, 0x70, weights[name].shape).astype(np.uint8)
        codes |= (rng.integers(0, 2, codes.shape) << 7).astype(np.uint8)
        grid = tuple(-(-size // extent) for size, extent in zip(codes.shape, block))
        scales = (0.01 * rng.uniform(0.5, 2, grid)).astype(np.float32)
        coded = {name: codes, scale_name: scales}
        weights[name] = reference.dequantise(codes, scales, block).astype(np.float64)
        shape = reference.shared_keys_from_hf(config, 0)
        story = layers.widen(layers.narrow(rng.standard_normal((60, config["hidden_size"])), "bf16"))
        outputs = {}
        for mode in ("both", "off"):
            package = self.packages[block, mode]
            types = {tensor["name"]: tensor["dtype"] for tensor in package.info["weights"]}
            self.assertEqual(types[name], "e4m3" if mode == "both" else "bf16")
            served = layers.Served(package, weights, "bf16", 1, codes=coded)
            sequence = served.engine.sequence()
            outputs[mode] = np.concatenate(
                [served.step([sequence], [count], story[len(sequence):len(sequence) + count],
                             function)[0]
                 for count, function in ((50, "prefill"), (1, "decode"), (9, "prefill"))])
        # As v4.md has it of the product: 1 - 2 sum xy / sum (x^2 + y^2).
        x, y = outputs["both"], outputs["off"]
        self.assertLess(1 - 2 * (x * y).sum() / (x * x + y * y).sum(), 1e-3)
        self.assertGreater(np.abs(x - y).max(), 0)

        def quantise(rows):
            groups = rows.reshape(*rows.shape[:-1], -1, 128)
            return reference.quantise(groups, amax_floor=1e-10).reshape(rows.shape)

        plain, _ = reference.shared_key_layer(shape, weights, story)
        coded, _ = reference.shared_key_layer(shape, weights, story, multiplied=quantise)
        self.assertLess(layers.judge_output(outputs["off"], plain, "bf16"), 1)
        # Attention's rounding to bf16 moves few codes; other scales would move them all.
        self.assertLess(layers.judge_output(outputs["both"], coded, "bf16", "model1_584"), 1)
        self.assertLess(reference.cosine_difference(outputs["both"], coded),
                        0.5 * reference.cosine_difference(outputs["both"], plain))


class OverlapTest(ServedTest):
    """Launches that do not wait for each other, in another order or on a stream of their own."""

    def test_overlap_changes_no_bit_V4_41(self):
        for kind in (shared.WINDOW_ONLY, shared.SELECTED, shared.ALL):
            config = shared.config(kind)
            rng = np.random.default_rng(41)
            weights = shared.random_weights(rng, config, kind)
            story = layers.widen(layers.narrow(rng.standard_normal((150, config["hidden_size"])),
                                               "f32"))
            outputs = []
            for options in ((), ("--overlap-tokens=1",), ("--overlap-tokens=4096",)):
                served = self.serve(self.compile(config, "f32", *options), weights, "f32",
                                    config["index_topk"])
                sequence = served.engine.sequence()
                outputs.append(np.concatenate(
                    [served.step([sequence], [count], story[len(sequence):len(sequence) + count],
                                 function)[0]
                     for count, function in ((130, "prefill"), (1, "decode"), (3, "prefill"))]))
            for output in outputs[1:]:
                self.assertEqual(output.tobytes(), outputs[0].tobytes(), kind)


class StatesTest(StoryTest):
    def test_rounded_states_V4_45(self):
        """Sums of the compressor's weights as f32, or rounded to bf16 first: what the pool of states
        keeps of them says which; gates have had a bias added."""
        for options, is_rounded in (((), False), (("--round-states",), True)):
            served, *_ = self.check(shared.ALL, "bf16", *options, steps=STEPS[:2])
            stats = served.engine.pool_stats(2)
            count = stats["num_pages"] * stats["page_size"]
            rows = np.frombuffer(served.engine.read_cache(0, count, pool=2), np.uint32)
            sums = rows.reshape(count, 2, -1)[:, 0]
            sums = sums[~np.all(sums == 0xFFFFFFFF, axis=1)]
            self.assertGreater(len(sums), 100)
            self.assertEqual(bool(np.all(sums & 0xFFFF == 0)), is_rounded)


# Heads, keys and lists as published; or of no round numbers.
RELEASED = dict(hidden_size=256, num_attention_heads=64, head_dim=512, qk_rope_head_dim=64,
                q_lora_rank=64, o_groups=8, o_lora_rank=32, sliding_window=128, index_n_heads=64,
                index_topk=512)
# Name: kind, whether the selection is an input, configuration, options of the compiler.
DEVICE_CASES = {
    "window": (shared.WINDOW_ONLY, False, {}),
    "given": (shared.SELECTED, True, {}),
    "selected": (shared.SELECTED, False, {}),
    "all": (shared.ALL, False, {}),
    "released_window": (shared.WINDOW_ONLY, False, RELEASED),
    "released_selected": (shared.SELECTED, False, RELEASED),
    "released_all": (shared.ALL, False, RELEASED),
    "mxfp4": (shared.SELECTED, False, {"index_topk": 40}, MXFP4),
    "released_mxfp4": (shared.SELECTED, False, {**RELEASED, "index_topk": 24}, MXFP4),
    "slices": (shared.SELECTED, False, {}, "--scores-budget=1"),
}


class DeviceTest(StoryTest):
    """In bf16, on a CPU or a GPU; packages are compiled ahead, where the compiler is."""

    @classmethod
    def setUpClass(cls):
        cls.packages = {}
        with tempfile.TemporaryDirectory() as folder:
            for name, (kind, given, more, *options) in DEVICE_CASES.items():
                cls.packages[name] = layers.compile_layer(
                    shared.config(kind, **more), folder, name, "--dtype=bf16",
                    "--functions=prefill,decode,step", *options,
                    *(["--indexer=shared"] if given else []))

    def compile(self, config, element, *options):
        return self.packages[self.name]

    def serve_case(self, name, steps=STEPS):
        kind, given, more, *options = DEVICE_CASES[name]
        self.name = name
        quantise, slack = index_rounding(options, "bf16")
        self.check(kind, "bf16", given=given, steps=steps, quantise=quantise, slack=slack, **more)

    def test_window_V4_02_V4_40(self):
        self.serve_case("window")

    def test_given_selection_V4_45(self):
        self.serve_case("given")

    def test_own_selection_V4_18_V4_20_V4_21_V4_22(self):
        self.serve_case("selected")

    def test_all_entries_V4_45(self):
        self.serve_case("all")

    def test_indexer_in_mxfp4_V4_19_V4_20(self):
        for name in ("mxfp4", "released_mxfp4"):
            with self.subTest(name):
                self.serve_case(name)

    def test_slices_of_scores_V4_48(self):
        self.serve_case("slices")

    def test_released_sizes(self):
        for name in ("released_window", "released_selected", "released_all"):
            with self.subTest(name):
                self.serve_case(name, STEPS[:3])


if __name__ == "__main__":
    unittest.main()

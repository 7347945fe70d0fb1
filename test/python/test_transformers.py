# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""generate() of tiny models with mlac's kernels in every layer, token by token against eager.

Skips itself where torch or transformers are not installed. MLAC_COMPILE names the compiler."""

import copy
import io
import os
import pickle
import tempfile
import threading
import unittest
import warnings

os.environ.setdefault("MLAC_COMPILER", os.environ["MLAC_COMPILE"])
try:
    import torch
    import transformers
except ImportError as error:
    raise unittest.SkipTest(f"not installed: {error.name}")

import mlac
import mlac.transformers
from mlac.transformers._forward import cache_argument
from tiny_models import CONFIGS, make_model, random_prompts

NEW = {"max_new_tokens": 20, "eos_token_id": None}  # longer than any two words agree by chance
BATCH, PROMPT = 3, 11


def patch(model, **options):
    with warnings.catch_warnings():  # sparse attention as dense: equal up to index_topk
        warnings.simplefilter("ignore")
        return mlac.transformers.patch(model, **{"max_seq_len": 64, "num_pages": 32, **options})


def left_padded():
    """Prompts of 11, 7 and 1 tokens, and their mask."""
    ids = random_prompts(BATCH, PROMPT)
    mask = torch.ones_like(ids)
    for row, padding in enumerate((0, 4, PROMPT - 1)):
        ids[row, :padding], mask[row, :padding] = 0, 0
    return {"input_ids": ids, "attention_mask": mask}


def with_seed(model, *args, **kwargs):
    torch.manual_seed(7)
    return model.generate(*args, **{**NEW, **kwargs})


class GenerateTest(unittest.TestCase):
    """Each case: what generate() is called with."""

    CASES = {
        "greedy": lambda: {"input_ids": random_prompts(BATCH, PROMPT), "do_sample": False},
        "greedy, left-padded": lambda: {**left_padded(), "do_sample": False},
        "without a cache": lambda: {**left_padded(), "do_sample": False, "use_cache": False,
                                    "max_new_tokens": 6},
        "sampling": lambda: {**left_padded(), "do_sample": True, "top_k": 20,
                             "num_return_sequences": 2},
        "beams": lambda: {"input_ids": random_prompts(2, PROMPT), "num_beams": 4,
                          "num_return_sequences": 2, "do_sample": False},
        "beams, left-padded": lambda: {**left_padded(), "num_beams": 3, "do_sample": False},
        "beams that end": lambda: {**left_padded(), "num_beams": 3, "do_sample": True,
                                   "eos_token_id": list(range(3, 20))},
        "prompt lookup": lambda: {"input_ids": random_prompts(1, 5).repeat(1, 3),
                                  "prompt_lookup_num_tokens": 4, "do_sample": False},
        "prefill in chunks": lambda: {"input_ids": random_prompts(BATCH, PROMPT),
                                      "prefill_chunk_size": 4, "do_sample": False},
    }

    def compare(self, kind, **options):
        model = make_model(kind)
        expected = {name: with_seed(model, **case()) for name, case in self.CASES.items()}
        with patch(model, **options) as patched:
            for name, case in self.CASES.items():
                with self.subTest(case=name):
                    tokens = with_seed(model, **case())
                    self.assertEqual(tokens.tolist(), expected[name].tolist())
                    # Nothing holds the cache any more.
                    self.assertEqual(patched.engine.cache_stats["num_sequences"], 0)
                    self.assertEqual(patched.engine.cache_stats["free_pages"],
                                     patched.engine.cache_stats["num_pages"])

    def test_steps_are_cut(self):
        """More rows and tokens than a step takes: prompts run in several, with context."""
        self.compare("deepseek_v3", max_num_requests=2, max_num_tokens=5)

    def test_assistants(self):
        model, assistant = make_model("deepseek_v3"), make_model("minicpm3", seed=1)
        draft = make_model("deepseek_v3")
        # Agrees with the model often, not always.
        draft.lm_head.weight.data.mul_(1 + 0.5 * torch.rand(draft.lm_head.weight.shape[0], 1))
        prompt = random_prompts(1, PROMPT)
        for helper in (assistant, draft):
            expected = with_seed(model, prompt, do_sample=False)
            with patch(model):
                for is_patched in (False, True):
                    if is_patched:
                        patch(helper)
                    with self.subTest(helper=helper.config.model_type, is_patched=is_patched):
                        tokens = with_seed(model, prompt, do_sample=False, assistant_model=helper)
                        self.assertEqual(tokens.tolist(), expected.tolist())


def _add(kind):
    setattr(GenerateTest, f"test_{kind}", lambda self: self.compare(kind))


for _kind in CONFIGS:
    if _kind in transformers.CONFIG_MAPPING:  # some are of later versions
        _add(_kind)


class KimiLinearTest(unittest.TestCase):
    """The attention of a model whose other layers are a recurrence: one layer by itself."""

    def test_attention_without_positions(self):
        from transformers import AutoConfig
        from transformers.models.kimi_linear.modeling_kimi_linear import KimiLinearAttention

        config = AutoConfig.for_model(
            "kimi_linear", hidden_size=48, num_attention_heads=4, num_key_value_heads=4,
            kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16,
            num_hidden_layers=4, max_position_embeddings=512, attn_implementation="eager")
        torch.manual_seed(4)
        module = KimiLinearAttention(config, 0).eval()
        hidden = torch.randn(1, 90, 48)
        mask = torch.full((90, 90), -torch.inf).triu(1)[None, None]
        with torch.no_grad():
            expected, _ = module(hidden, mask)
        engine = mlac.Engine(mlac.compile(config, dtype="f32"), mlac.Device("cpu"),
                             max_seq_len=96, max_num_tokens=96)
        engine.bind({name: weight.detach() for name, weight in module.named_parameters()})
        engine.prepare()
        sequence, plan, outputs = engine.sequence(), engine.plan(), []
        for begin, end in ((0, 70), (70, 88), (88, 89), (89, 90)):
            plan.fill([sequence], [end - begin])
            outputs.append(plan.run(hidden[0, begin:end].contiguous()))
        torch.testing.assert_close(torch.cat(outputs), expected[0], rtol=1e-4, atol=1e-5)


class Fp8Test(unittest.TestCase):
    """Modules of fp8 weights against the same model dequantised: the same bits."""

    def quantise(self, block):
        """A model whose attention is in e4m3 codes, and its twin in f32 of their values."""
        from transformers import FineGrainedFP8Config
        from transformers.integrations.finegrained_fp8 import FP8Linear
        codes, twin = make_model("deepseek_v3"), make_model("deepseek_v3")
        for layer, other in zip(codes.model.layers, twin.model.layers):
            for name, linear in list(layer.self_attn.named_children()):
                if "_proj" not in name:
                    continue
                rows, columns = linear.weight.shape
                module = FP8Linear(columns, rows, block_size=block)
                scales = 0.1 + torch.rand(module.weight_scale_inv.shape)
                values = (linear.weight.data * 20).to(torch.float8_e4m3fn)
                module.weight.data, module.weight_scale_inv.data = values, scales
                wide = scales if block is None else scales.repeat_interleave(
                    block[0], 0)[:rows].repeat_interleave(block[1], 1)[:, :columns]
                getattr(other.self_attn, name).weight.data = values.float() * wide
                setattr(layer.self_attn, name, module)
        codes.config.quantization_config = FineGrainedFP8Config(weight_block_size=block)
        return codes, twin

    def test_codes(self):
        torch.manual_seed(3)
        for block in ((16, 32), None):
            with self.subTest(block=block):
                codes, twin = self.quantise(block)
                patch(codes)
                patch(twin)
                ids = random_prompts(2, PROMPT)
                with torch.no_grad():
                    self.assertTrue(torch.equal(codes(ids).logits, twin(ids).logits))
                self.assertEqual(with_seed(codes, ids, do_sample=False).tolist(),
                                 with_seed(twin, ids, do_sample=False).tolist())


class CacheTest(unittest.TestCase):
    def setUp(self):
        self.model = make_model("deepseek_v3")
        self.inputs = left_padded()
        self.expected = with_seed(self.model, **self.inputs, do_sample=False)
        self.patched = patch(self.model)
        self.addCleanup(self.patched.unpatch)

    def logits(self, ids, cache=None, **kwargs):
        with torch.no_grad():
            return self.model(ids, past_key_values=cache, **kwargs).logits

    def test_logits(self):
        inputs = left_padded()
        got = self.logits(**{"ids": inputs.pop("input_ids")}, **inputs)
        self.patched.unpatch()
        expected = self.logits(**{"ids": left_padded().pop("input_ids")}, **inputs)
        real = inputs["attention_mask"].bool()
        torch.testing.assert_close(got[real], expected[real], rtol=1e-5, atol=1e-5)
        # Bit by bit as before the patch.
        self.assertEqual(with_seed(self.model, **left_padded(), do_sample=False).tolist(),
                         self.expected.tolist())
        self.assertNotIn("forward", self.model.model.__dict__)
        self.assertNotIn("_prepare_cache_for_generation", self.model.__dict__)

    def test_16_bits(self):
        prompt = random_prompts(2, PROMPT)
        expected = self.logits(prompt).double()
        for dtype, name in ((torch.bfloat16, "bf16"), (torch.float16, "f16")):
            with self.subTest(name), torch.no_grad():
                model = make_model("deepseek_v3", dtype=dtype)
                eager = model(prompt).logits.double()
                with patch(model) as patched:
                    ours = model(prompt).logits.double()
                    self.assertEqual(patched.engine.activation_dtype, name)
                # As far from f32 as eager is, and a half more.
                self.assertLess((ours - expected).norm(), 1.5 * (eager - expected).norm())

    def test_crop_and_go_on(self):
        cache = self.patched.cache()
        ids = random_prompts(2, PROMPT)
        full = self.logits(ids)
        self.logits(ids, cache)
        self.assertEqual((cache.get_seq_length(), cache.batch_size), (PROMPT, 2))
        cache.crop(-4)
        self.assertEqual(cache.get_seq_length(), PROMPT - 4)
        rest = self.logits(ids[:, -4:], cache)
        torch.testing.assert_close(rest, full[:, -4:], rtol=1e-5, atol=1e-5)
        cache.crop(PROMPT + 1)  # a length, as before 5.18: longer than the cache is no change
        self.assertEqual(cache.get_seq_length(), PROMPT)
        cache.reset()
        self.assertEqual(self.patched.engine.cache_stats["num_sequences"], 0)
        torch.testing.assert_close(self.logits(ids, cache), full, rtol=1e-5, atol=1e-5)

    def test_crop_of_padding(self):
        cache = self.patched.cache()
        inputs = left_padded()
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        full = self.logits(ids, attention_mask=mask, position_ids=positions)
        self.logits(ids, cache, attention_mask=mask, position_ids=positions)
        cache.crop(-8)  # more than the last rows have
        self.assertEqual([len(sequence) for sequence in cache._sequences], [3, 0, 0])
        rest = self.logits(ids[:, -8:], cache, attention_mask=mask,
                           position_ids=positions[:, -8:])
        real = mask[:, -8:].bool()
        torch.testing.assert_close(rest[real], full[:, -8:][real], rtol=1e-5, atol=1e-5)

    def test_batch_is_selected(self):
        ids = random_prompts(3, PROMPT)
        full = self.logits(ids)
        cache = self.patched.cache()
        self.logits(ids[:, :-2], cache)
        cache.batch_select_indices(torch.tensor([2, 0]))
        cache.batch_repeat_interleave(2)
        self.assertEqual(cache.batch_size, 4)
        rows = [2, 2, 0, 0]
        # Forks write to pages that they shared.
        other = ids[rows].clone()
        other[1::2, -2:] = 50
        got = self.logits(other[:, -2:], cache)
        torch.testing.assert_close(got[::2], full[rows][::2, -2:], rtol=1e-5, atol=1e-5)
        cache.batch_select_indices(torch.tensor([False, True, False, True]))
        torch.testing.assert_close(got[1::2], self.logits(other[1::2])[:, -2:], rtol=1e-5,
                                   atol=1e-5)
        self.assertEqual(self.patched.engine.cache_stats["num_sequences"], 2)
        # From the end: the last row twice, as forks.
        cache.batch_select_indices(torch.tensor([-1, 1, 0]))
        again = other[1::2][[1, 1, 0]]
        cache.crop(-1)
        torch.testing.assert_close(self.logits(again[:, -1:], cache), self.logits(again)[:, -1:],
                                   rtol=1e-5, atol=1e-5)

    def test_weights_that_change(self):
        """As eager attention after the same changes; copies of old weights would be wrong alike
        in every token."""
        ids = random_prompts(2, PROMPT)
        eager, other = make_model("deepseek_v3"), make_model("deepseek_v3", seed=8)

        def train(model):
            weight = model.model.layers[2].self_attn.q_b_proj.weight
            weight.grad = torch.ones_like(weight)
            torch.optim.SGD([weight], lr=0.05).step()

        def replace(model):
            model.model.layers[0].self_attn.o_proj = \
                copy.deepcopy(other.model.layers[1].self_attn.o_proj)

        changes = (lambda model: model.load_state_dict(other.state_dict()), train, replace,
                   lambda model: model.load_state_dict(make_model("deepseek_v3", 9).state_dict(),
                                                       assign=True),
                   lambda model: model.half().float())
        with torch.no_grad():
            before = eager(ids).logits
            for number, change in enumerate(changes):
                with self.subTest(change=number):
                    for model in (self.model, eager):
                        change(model)
                    expected = eager(ids).logits
                    self.assertGreater((expected - before).abs().max(), 5e-3)
                    before = expected
                    torch.testing.assert_close(self.logits(ids), expected, rtol=1e-5, atol=1e-4)
            # What is given up for the engine's copies is not missed.
            for layer in self.model.model.layers:
                layer.self_attn.to("meta")
            torch.testing.assert_close(self.logits(ids), before, rtol=1e-5, atol=1e-4)

    def test_prompt_of_many_calls(self):
        """A cached prompt, copied for each of its continuations; and one that generate()
        returns."""
        ids = random_prompts(1, PROMPT)
        cache = self.patched.cache()
        self.logits(ids[:, :-1], cache)
        expected = with_seed(self.model, ids, do_sample=False)
        for _ in range(2):
            tokens = with_seed(self.model, ids, do_sample=False,
                               past_key_values=copy.deepcopy(cache))
            self.assertEqual(tokens.tolist(), expected.tolist())
        self.assertEqual(cache.get_seq_length(), PROMPT - 1)
        with self.assertRaisesRegex(TypeError, "deepcopy"):
            copy.copy(cache)
        begun = self.model.generate(ids, max_new_tokens=8, do_sample=False, eos_token_id=None,
                                    return_dict_in_generate=True)
        tokens = self.model.generate(begun.sequences, max_new_tokens=12, do_sample=False,
                                     eos_token_id=None, past_key_values=begun.past_key_values)
        self.assertEqual(tokens.tolist(), expected.tolist())

    def test_torch_compile(self):
        compiled = torch.compile(self.model, backend="eager")
        ids = random_prompts(2, PROMPT)
        cache = self.patched.cache()
        with torch.no_grad():
            for part in (ids[:, :-1], ids[:, -1:]):
                logits = compiled(part, past_key_values=cache).logits
        torch.testing.assert_close(logits, self.logits(ids)[:, -1:], rtol=1e-5, atol=1e-5)

    def test_threads_take_turns(self):
        """Each pass has its own prompt: with another's step its rows would attend to others' keys."""
        prompts = [random_prompts(2, PROMPT, seed) for seed in range(3)]
        expected = [self.logits(ids) for ids in prompts]
        wrong = []

        def work(number):
            try:
                for _ in range(12):
                    torch.testing.assert_close(self.logits(prompts[number]), expected[number])
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        hook = self.model.model.layers[0].mlp.register_forward_pre_hook(
            lambda *_: self.logits(prompts[0]))
        self.addCleanup(hook.remove)
        with self.assertRaisesRegex(mlac.WrongState, "inside of its own forward pass"):
            self.logits(prompts[0])

    def test_a_checkpoint_that_classes_of_another_type_load(self):
        """The package of the model is of the classes' type, that of its folder of the checkpoint's."""
        with tempfile.TemporaryDirectory() as folder:
            make_model("sarvam_mla", first_k_dense_replace=3).save_pretrained(folder)
            model = transformers.DeepseekV3ForCausalLM.from_pretrained(
                folder, attn_implementation="eager").eval()
            self.assertEqual(model.config.model_type, "sarvam_mla")
            of_folder = mlac.compile(folder, "cpu", dtype="f32",
                                     functions=["prefill", "decode", "step"])
        self.assertEqual(of_folder.info["model"]["model_type"], "sarvam_mla")
        arguments = {**left_padded(), "do_sample": False}
        expected = with_seed(model, **arguments)
        for package in (None, of_folder):
            with patch(model, package=package):
                self.assertEqual(with_seed(model, **arguments).tolist(), expected.tolist())

    def test_a_copy_of_the_model_is_refused(self):
        """Pickle began with what it could not find, 'attention_forward.<locals>.forward'."""
        for take in (copy.deepcopy, pickle.dumps, lambda model: torch.save(model, io.BytesIO())):
            with self.assertRaisesRegex(TypeError, "cannot copy or pickle a patched model"):
                take(self.model)

    def test_use_cache_of_a_call(self):
        with torch.no_grad():
            self.assertIsInstance(self.model(random_prompts(1, 3)).past_key_values,
                                  mlac.transformers.Cache)
            self.assertIsNone(self.model(random_prompts(1, 3), use_cache=False).past_key_values)

    def test_cache_by_the_names_of_the_version(self):
        """Later ones call it `cache`; left unread, every step would be a prompt of its own."""
        ids = random_prompts(1, 6)
        names = {"past_key_values", cache_argument(make_model("deepseek_v3").model)}
        for name in names:
            with self.subTest(name), torch.no_grad():
                cache = self.patched.cache()
                for part in (ids[:, :4], ids[:, 4:]):
                    logits = self.model(part, **{name: cache}).logits
                self.assertEqual(cache.get_seq_length(), 6)
                torch.testing.assert_close(logits, self.logits(ids)[:, 4:], rtol=1e-5, atol=1e-5)

    def test_full_cache(self):
        self.patched.unpatch()
        with patch(self.model, num_pages=1) as patched:
            cache = patched.cache()
            self.logits(random_prompts(1, PROMPT), cache)
            with self.assertRaisesRegex(
                    mlac.OutOfPages, "step of 33 tokens for 3 rows with 0 cached tokens takes at "
                    "least 3 pages of 64 tokens, and 0 of 1 are free.*num_pages"):
                with_seed(self.model, random_prompts(3, PROMPT), do_sample=False)
            self.assertEqual(len(cache._sequences[0]), PROMPT)
            self.logits(random_prompts(1, 1), cache)
            with self.assertRaisesRegex(mlac.InvalidArgument,
                                        "row 0: 72 tokens, the limit is max_seq_len = 64"):
                self.logits(random_prompts(1, 60), cache)
            self.assertEqual(cache.get_seq_length(), PROMPT + 1)

    def test_failed_pass_is_undone(self):
        cache = self.patched.cache()
        ids = random_prompts(1, PROMPT)
        full = self.logits(ids)

        def fail(*args):
            raise KeyboardInterrupt

        for length in (0, PROMPT - 1):
            hook = self.model.model.layers[1].mlp.register_forward_pre_hook(fail)
            with self.assertRaises(KeyboardInterrupt):
                self.logits(ids[:, length:], cache)
            hook.remove()
            self.assertEqual(cache.get_seq_length(), length)
            last = self.logits(ids[:, length:PROMPT - 1] if length == 0 else ids[:, length:],
                               cache)
        torch.testing.assert_close(last, full[:, -1:], rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    unittest.main()

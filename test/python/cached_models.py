# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small models of transformers, and what generates with them over caches and without."""

import warnings

import numpy as np

import mlac

try:
    import torch
    import transformers
except ImportError:
    torch = transformers = None

TINY = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
        "num_key_value_heads": 2, "num_hidden_layers": 3, "max_position_embeddings": 128,
        "vocab_size": 40, "head_dim": 24}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
LATENT = {**{key: value for key, value in TINY.items() if key != "head_dim"},
          "num_key_value_heads": 4, "q_lora_rank": 48, "kv_lora_rank": 32,
          "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "num_hidden_layers": 2,
          "first_k_dense_replace": 2}


def attend_to_past(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def make_attention(attend=attend_to_past):
    """A module of 2 heads that `attend` computes."""

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.joined, self.out = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)

        def forward(self, x, *others):
            q, k, v = (part.unflatten(-1, (2, 16)).transpose(1, 2)
                       for part in self.joined(x).split(32, -1))
            return self.out(attend(q, k, v, *others).transpose(1, 2).flatten(2))

    return Attention()


def run_chunks(cached, x):
    """Of a model of rows, 7 of one sequence: a prompt and two tokens."""
    info, parts = cached.info, []
    info.assign_cache_loc([[2, 0, 1]])
    for begin, end in ((0, 5), (5, 6), (6, 7)):
        info.nest_sequences([[1] * (end - begin)])
        with torch.no_grad():
            parts.append(cached(x[:, begin:end]))
        info.update_pos(end - begin)
    return torch.cat(parts, 1)


class CachedModels:
    """Small whole models of transformers, and the tokens that they and their caches generate."""

    PROMPTS = [[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5], [2, 7, 1, 8, 2, 8], [1]]
    NEW_TOKENS = 10

    def make_model(self, kind, sizes, implementation):
        torch.manual_seed(11)
        config = transformers.AutoConfig.for_model(kind, **sizes)
        config._attn_implementation = implementation
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        for weight in model.parameters():
            if weight.dim() > 1:
                torch.nn.init.normal_(weight, std=2 * weight.shape[-1]**-0.5)
        return model

    @staticmethod
    def arguments(ids, positions, **others):
        """Of a model, which makes its own masks."""
        return {"input_ids": ids, "position_ids": positions, **others, "use_cache": False}

    @staticmethod
    def export_arguments(**others):
        """Of 2 sequences of 5 tokens."""
        return CachedModels.arguments(torch.ones(2, 5, dtype=torch.long),
                                      torch.arange(5).expand(2, 5), **others)

    def make_cached(self, model, info, example=None, **options):
        """Batch and tokens are open."""
        # What torch makes of the sizes of views must not narrow them, so they have no names.
        batch = tokens = torch.export.Dim.AUTO
        example = example or self.export_arguments()
        opens = {"input_ids": {0: batch, 1: tokens}, "position_ids": {0: batch, 1: tokens},
                 "attention_mask": {0: batch, 2: tokens, 3: tokens}}
        shapes = {name: opens[name] if isinstance(value, torch.Tensor) else None
                  for name, value in example.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return mlac.cached(model, example, info, dynamic_shapes=shapes, **options)

    def step(self, cached, sequences):
        """The last logits of each sequence whose next tokens are given."""
        info = cached.info
        info.nest_sequences(sequences)
        positions = [np.arange(start, start + len(own))
                     for start, own in zip(info.input_pos, sequences)]
        with torch.no_grad():
            ids = torch.from_numpy(info.input_ids).long()
            positions = torch.from_numpy(np.concatenate(positions)).view(ids.shape)
            logits = cached(**self.arguments(ids, positions)).logits
        info.update_pos([len(own) for own in sequences])
        return [rows[-1] for rows in info.unnest_sequences(logits.numpy())]

    def begin(self, cached):
        """The prompts, and poisoned caches whose pages are not in the order of their tokens."""
        info = cached.info
        info.update_pos(0, reset=True)
        info.assign_cache_loc([range(own, info.num_pages, 3) for own in (2, 0, 1)])
        for cache in cached.caches:
            cache.fill_(float("nan"))
        return [list(prompt) for prompt in self.PROMPTS]

    def generate(self, cached):
        """Greedy, all prompts in one batch."""
        new = tokens = self.begin(cached)
        for _ in range(self.NEW_TOKENS):
            new = [[int(row.argmax())] for row in self.step(cached, new)]
            tokens = [old + own for old, own in zip(tokens, new)]
        return tokens

    def expected(self, model):
        """By eager, without a cache."""
        return self.expected_of(
            lambda tokens: model(input_ids=torch.tensor([tokens]), use_cache=False).logits)

    def expected_along(self, model, rows):
        """What eager generates, by one run of each row of a prompt and what was generated: another row
        where the two differ first."""
        result = []
        for prompt, row in zip(self.PROMPTS, rows):
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([row[:-1]]), use_cache=False).logits
            result.append(prompt + logits[0, len(prompt) - 1:].argmax(-1).tolist())
        return result

    def expected_of(self, logits_of):
        result = []
        for prompt in self.PROMPTS:
            tokens = list(prompt)
            for _ in range(self.NEW_TOKENS):
                with torch.no_grad():
                    tokens.append(int(logits_of(tokens)[0, -1].argmax()))
            result.append(tokens)
        return result

    def names_left(self, cached):
        return {str(node.target).removeprefix("aten.").split(".")[0]
                for node in cached._graph.graph.nodes if node.op == "call_function"}

    def weights_left(self, cached, word):
        """Weights with such names that the graph still reads."""
        placeholders = {node.name for node in cached._graph.graph.nodes
                        if node.op == "placeholder" and node.users}
        return [spec.target for spec in cached._program.graph_signature.input_specs
                if spec.arg.name in placeholders and word in (spec.target or "")]

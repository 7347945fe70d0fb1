# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sparse layers for tests: the golden one, random ones, and how they are served and judged.

A layer's selection is compared by values: what it selects are scores that a float64 indexer over
the quantised rows puts among the largest, but for those as near to the last one as roundings
may move them. Its output is compared over its own selection.
"""

import json
import os
import pathlib
import struct
import subprocess

import numpy as np

import mlac
from mlac import reference
from narrow_floats import narrow, widen

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
COMPILE = os.environ.get("MLAC_COMPILE", "")
DEVICE = os.environ.get("MLAC_TEST_DEVICE", "cpu")
TARGETS = {"cpu": "cpu", "cuda": "sm_90a"}
# What a token costs is more than enough for these sequences.
MOST_TOKENS, MOST_REQUESTS, LONGEST = 256, 8, 512
# Of whole layers against float64 (mla.md section 14): relative in f32, WMAPE in bf16.
ALLOWED_F32, ALLOWED_WMAPE, ALLOWED_COSINE = 1e-5, 0.01, 5e-5
# Over rows in e4m3, as mla-run checks them: a code of three bits is another where a rounding
# of the latent falls to its other side.
ALLOWED_WMAPE_CODES, ALLOWED_COSINE_CODES = 0.04, 1e-3
# Of a score, relative to the largest of its row: e4m3 moves one by half of 2^-3 where a rounding
# in front of it falls to the other side, and few of 128 products do.
SCORE_SLACK = {"f32": 2e-3, "bf16": 2e-2}


def read_golden(path):
    """Configuration, weights, and the other tensors of a layer's safetensors file."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header, data = json.loads(data[8:8 + length]), data[8 + length:]
    config = json.loads(header.pop("__metadata__")["config"])
    weights, others = {}, {}
    for name, entry in header.items():
        part = data[slice(*entry["data_offsets"])]
        kind = {"BF16": np.uint16, "F32": np.float32, "I32": np.int32, "I64": np.int64}
        array = np.frombuffer(part, kind[entry["dtype"]]).reshape(entry["shape"])
        head, _, tail = name.partition("/weights/")
        if tail:
            weights[tail] = widen(array) if entry["dtype"] == "BF16" else array.astype(np.float64)
        else:
            others[name] = array
    return config, weights, others


def read_weights(path, module):
    """Weights of one module of a file with several."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header, data = json.loads(data[8:8 + length]), data[8 + length:]
    prefix = f"{module}/weights/"
    return {name[len(prefix):]: widen(np.frombuffer(
        data[slice(*entry["data_offsets"])], np.uint16).reshape(entry["shape"]))
        for name, entry in header.items() if name.startswith(prefix)}


def compile_layer(config, folder, name, *options):
    source = pathlib.Path(folder) / f"{name}.json"
    source.write_text(json.dumps(config))
    package = source.with_suffix(".mlac")
    subprocess.run([COMPILE, source, f"--target={TARGETS[DEVICE]}", *options, "--quiet", "-o",
                    package], check=True)
    return mlac.Package(str(package))


def config(heads=8, topk=16, index_heads=4, model_type="deepseek_v32", **more):
    """Of tiny dims, but those that a cache format or an indexer fixes."""
    return {"model_type": model_type, "num_hidden_layers": 1, "hidden_size": 96,
            "num_attention_heads": heads, "q_lora_rank": 48, "kv_lora_rank": 512,
            "qk_nope_head_dim": 32, "qk_rope_head_dim": 64, "v_head_dim": 32,
            "rope_theta": 1e4, "rms_norm_eps": 1e-6, "max_position_embeddings": 4096,
            "index_n_heads": index_heads, "index_head_dim": 128, "index_topk": topk, **more}


def random_weights(rng, config):
    h, n, lq = config["hidden_size"], config["num_attention_heads"], config["q_lora_rank"]
    lkv, p, r = (config[k] for k in ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim"))
    v, hi, di = config["v_head_dim"], config["index_n_heads"], config["index_head_dim"]
    shapes = {"q_a_proj": (lq, h), "q_b_proj": (n * (p + r), lq), "kv_a_proj_with_mqa": (lkv + r, h),
              "kv_b_proj": (n * (p + v), lkv), "o_proj": (h, n * v), "indexer.wq_b": (hi * di, lq),
              "indexer.wk": (di, h), "indexer.weights_proj": (hi, h)}
    weights = {f"{name}.weight": rng.standard_normal(shape) * shape[1] ** -0.5
               for name, shape in shapes.items()}
    for name, width in (("q_a_layernorm", lq), ("kv_a_layernorm", lkv), ("indexer.k_norm", di)):
        weights[f"{name}.weight"] = 1 + 0.1 * rng.standard_normal(width)
    weights["indexer.k_norm.bias"] = 0.1 * rng.standard_normal(di)
    return {name: widen(narrow(w, "bf16")) for name, w in weights.items()}


def put(array):
    """On the device; bf16 is moved as its bits."""
    if DEVICE == "cpu":
        return array
    import torch

    if array.dtype != np.uint16:
        return torch.from_numpy(array).cuda()
    return torch.from_numpy(array.view(np.int16)).cuda().view(torch.bfloat16)


def get(buffer):
    if DEVICE == "cpu":
        return buffer
    import torch

    torch.cuda.synchronize()
    if buffer.dtype != torch.bfloat16:
        return buffer.cpu().numpy()
    return buffer.view(torch.int16).cpu().numpy().view(np.uint16)


def next_rows(sequences, counts):
    """Where sequences that all follow one story are in it, and the rows that come next of each."""
    starts = [len(sequence) for sequence in sequences]
    return starts, np.concatenate([np.arange(start, start + count)
                                   for start, count in zip(starts, counts)])


class Served:
    """An engine of a sparse layer whose requests all follow one sequence of hidden states."""

    def __init__(self, package, weights, element, topk, codes=None, **options):
        """`codes`: weights and scales that are bound as they are."""
        self.element, self.topk = element, topk
        defaults = dict(max_num_requests=MOST_REQUESTS, max_num_tokens=MOST_TOKENS,
                        max_seq_len=LONGEST)
        self.engine = mlac.Engine(package, mlac.Device(DEVICE), **{**defaults, **options})
        codes = codes or {}
        self.engine.bind({**{tensor["name"]: narrow(weights[tensor["name"]], tensor["dtype"])
                             for tensor in package.info["weights"] if tensor["name"] not in codes},
                          **codes})
        self.engine.prepare()
        self.engine.poison_cache()
        self.plan = self.engine.plan()

    def step(self, sequences, counts, hidden, function, selected=None, wants_selection=False,
             shape=None):
        """Output, and the selection where the layer gives or takes one. With a shape, hidden and both have
        its rows: what is behind its decodes and behind its prompts is padding."""
        tokens = shape["num_tokens"] if shape else sum(counts)
        assert len(hidden) == tokens
        output = np.full(hidden.shape, 0xFFFF, np.uint16) if self.element == "bf16" else \
            np.full(hidden.shape, np.nan, np.float32)
        buffers = dict(hidden=narrow(hidden, self.element), output=output)
        if selected is not None:
            buffers["selected"] = np.ascontiguousarray(selected, np.int32)
        elif wants_selection:
            buffers["selected"] = np.full((tokens, self.topk), 1 << 30, np.int32)
        buffers = {name: put(buffer) for name, buffer in buffers.items()}
        self.plan.fill(sequences, counts, function, shape=shape)
        self.engine.poison_workspace()
        self.plan.run_bound(**buffers)
        return widen(get(buffers["output"])), \
            get(buffers["selected"]) if "selected" in buffers else None


def judge_output(got, expected, element, cache_format=None):
    """How far off, as a share of what is allowed."""
    if cache_format in ("fp8_ds_mla", "mla_fp8_tensor", "model1_584"):
        worst = max(reference.wmape(got, expected) / ALLOWED_WMAPE_CODES,
                    reference.cosine_difference(got, expected) / ALLOWED_COSINE_CODES)
    elif element == "f32":
        worst = reference.relative_error(got, expected) / ALLOWED_F32
    else:
        worst = max(reference.wmape(got, expected) / ALLOWED_WMAPE,
                    reference.cosine_difference(got, expected) / ALLOWED_COSINE)
    return worst if np.isfinite(worst) else np.inf


def judge_selection(selected, scores, lengths, k, slack):
    """Empty, or what is wrong with the positions [T, K] that were selected of rows of scores."""
    for row, (chosen, length) in enumerate(zip(selected, lengths)):
        count = min(k, length)
        held = chosen[:count]
        if np.any(chosen[count:] != -1) or np.any(held < 0) or np.any(held >= length) or \
                np.any(np.diff(held) <= 0):
            return f"row {row}: positions {chosen} of {length} keys"
        values, taken = scores[row, :length], np.zeros(length, bool)
        taken[held] = True
        limit = slack * np.abs(values).max()
        if count < length and values[taken].min() < values[~taken].max() - 2 * limit:
            return (f"row {row}: a score of {values[taken].min():.6g} was taken, one of "
                    f"{values[~taken].max():.6g} was not, and roundings move {limit:.2g}")
    return ""


def quantised_scores(config, indexer, weights, hidden):
    """[S, S] scores of a sequence over queries and keys as e4m3 and powers of two hold them."""
    queries, keys, head_weights = reference.index_rows(
        config, indexer, {name: np.asarray(w) for name, w in weights.items()}, hidden,
        np.arange(len(hidden)))
    return reference.index_scores(reference.quantise(queries), reference.quantise(keys),
                                  head_weights)


def stored_rows(latent, rope, cache_format):
    """The rows of a bf16 layer's cache as its readers see them."""
    bf16 = lambda x: widen(narrow(x, "bf16"))
    latent, rope = bf16(latent), bf16(rope)
    if cache_format == "fp8_ds_mla":
        groups = latent.reshape(len(latent), -1, 128)
        floor = np.finfo(np.float32).tiny * 448
        latent = bf16(reference.quantise(groups, floor, False).reshape(latent.shape))
    elif cache_format == "mla_fp8_tensor":
        latent, rope = reference.round_e4m3(latent), reference.round_e4m3(rope)
    return latent, rope


def expected_rows(shape, weights, story, rows, selected, cache_format=None):
    """Outputs of the tokens at positions `rows` of a story, each over its selection."""
    p, v = shape.qk_nope_head_dim, shape.v_head_dim
    latent, rope = reference.latents(shape, weights, story, np.arange(len(story)))
    if cache_format:
        latent, rope = stored_rows(latent, rope, cache_format)
    q_nope, q_pe = reference.queries(shape, weights, story[rows], np.asarray(rows))
    up = weights["kv_b_proj.weight"].reshape(shape.num_heads, p + v, shape.kv_lora_rank)
    query = np.concatenate([np.einsum("tnp,npl->tnl", q_nope, up[:, :p]), q_pe], axis=-1)
    output, _, _ = reference.gathered_attention(query, np.concatenate([latent, rope], axis=-1),
                                                latent, selected, shape.softmax_scale)
    heads = np.einsum("tnl,nvl->tnv", output, up[:, p:])
    return heads.reshape(len(rows), -1) @ weights["o_proj.weight"].T

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The packages that run over vLLM's cache: attention alone, as modules of mla."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._compile import compile as compile_package
from .._errors import InvalidArgument
from .._runtime import Package

# What vLLM's cache types are; others are of the activations' type.
_FORMATS = {"fp8": "mla_fp8_tensor", "fp8_ds_mla": "fp8_ds_mla"}
_DTYPES = ("bf16", "f16", "f32")  # of queries, cache and outputs
CODE_BLOCK = 128  # rows and columns of a weight of codes that have one scale

# How a decode is given its rope queries: as they are, or as the last columns of rows.
_DENSE_ROPE = '%rope: !rope {{mla.input = "rope_query"}}'
_ROPE_OF_ROWS = '%all: tensor<?x{heads}x{query_width}x{dtype}> {{mla.input = "rope_rows"}}'
_TAKE_ROPE = """\
  %zero = arith.constant 0 : index
  %tokens = tensor.dim %all, %zero : tensor<?x{heads}x{query_width}x{dtype}>
  %rope = tensor.extract_slice %all[0, 0, {before}] [%tokens, {heads}, {rope}] [1, 1, 1]
      : tensor<?x{heads}x{query_width}x{dtype}> to !rope
"""

_TYPES = """\
!cache = !mla.cache<page_size = {block_size}, fields = [latent: {rank}, rope: {rope}],
                    element = {dtype}, rope_order = interleaved{format}>
!latent = tensor<?x{heads}x{rank}x{dtype}>
!rope = tensor<?x{heads}x{rope}x{dtype}>
!lse = tensor<?x{heads}xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
!batch = !mla.batch<query_len = {batch_query_len}>
"""
_LIST = """\
!list = tensor<?x{topk}xi32>
"""
_MOST_SELECTING = 65536  # tokens of a step whose tokens see lists

# Functions of decodes, and how their latent queries [tokens, heads, rank] lie in memory: token by
# token, or head by head, as a product for each head leaves them.
DECODE, DECODE_OF_HEADS = "decode", "decode_of_heads"
_LAYOUTS = {DECODE: "", DECODE_OF_HEADS: ", mla.heads_outermost"}

# queries, rotated rope queries -> outputs and log-sum-exps; the new rows are in the cache already.
_DECODE = """\
func.func @{function}(%query: !latent {{mla.input = "query"{layout}}}, {rope_input},
                      %batch: !batch, %cache: !cache)
    -> (!latent {{mla.output = "output"}}, !lse {{mla.output = "lse"}}) {{
{take_rope}  %output, %lse = mla.absorbed_attention query(%query, %rope : !latent, !rope)
      over %cache, %batch : !cache, !batch scale {scale} -> !latent, !lse
  return %output, %lse : !latent, !lse
}}
"""

# The same of tokens that see the positions of a list alone: of decodes and prompts alike.
_SELECT = """\
func.func @{function}(%query: !latent {{mla.input = "query"{layout}}}, {rope_input},
                      %positions: !list {{mla.input = "positions"}}, %batch: !batch, %cache: !cache)
    -> (!latent {{mla.output = "output"}}, !lse {{mla.output = "lse"}}) {{
{take_rope}  %rows = mla.convert_indices %positions in %cache, %batch : !list in !cache, !batch
  %output, %lse = mla.sparse_attention query(%query, %rope : !latent, !rope) rows(%rows : !list)
      over %cache, %batch : !cache, !batch scale {scale} -> !latent lse !lse
  return %output, %lse : !latent, !lse
}}
"""

# Queries of heads, the new tokens' latents and rotated rope keys -> outputs of heads.
_PREFILL = """\
!nope = tensor<?x{heads}x{nope}x{dtype}>
!queries = tensor<?x{heads}x{query}x{dtype}>
!value = tensor<?x{heads}x{value}x{dtype}>
!up_key = tensor<{heads}x{nope}x{rank}x{dtype}>
!up_value = tensor<{heads}x{value}x{rank}x{dtype}>
!up = tensor<{heads}x{up}x{rank}x{dtype}>
!weight = tensor<{up_rows}x{rank}x{dtype}>
!new = tensor<?x{rank}x{dtype}>
!new_rope = tensor<?x{rope}x{dtype}>
func.func @prefill(%queries: !queries {{mla.input = "query_rows"}},
                   %latent: !new {{mla.input = "latent"}}, %key: !new_rope {{mla.input = "rope_key"}},
                   %batch: !mla.batch, %cache: !cache,
                   %weight: !weight {{mla.weight = "{weight}"}})
    -> (!value {{mla.output = "output"}}) {{
  %zero = arith.constant 0 : index
  %tokens = tensor.dim %queries, %zero : !queries
  %query = tensor.extract_slice %queries[0, 0, 0] [%tokens, {heads}, {nope}] [1, 1, 1]
      : !queries to !nope
  %rope = tensor.extract_slice %queries[0, 0, {nope}] [%tokens, {heads}, {rope}] [1, 1, 1]
      : !queries to !rope
  %up = tensor.expand_shape %weight [[0, 1], [2]] output_shape [{heads}, {up}, {rank}]
      : !weight into !up
  %up_key = tensor.extract_slice %up[0, 0, 0] [{heads}, {nope}, {rank}] [1, 1, 1] : !up to !up_key
  %up_value = tensor.extract_slice %up[0, {nope}, 0] [{heads}, {value}, {rank}] [1, 1, 1]
      : !up to !up_value
  %output = mla.attention query(%query, %rope : !nope, !rope)
      latent(%latent, %key : !new, !new_rope)
      weights(%up_key, %up_value : !up_key, !up_value)
      over %cache, %batch : !cache, !mla.batch scale {scale} -> !value
  return %output : !value
}}
"""

# Where a configuration says how many heads there are; a rank has its part of them.
_HEADS = ("num_attention_heads", "num_key_value_heads")

# The one weight: W_UK and W_UV of each head, as checkpoints have them.
UP_WEIGHT = "kv_b_proj.weight"


@dataclasses.dataclass(frozen=True)
class Shape:
    """What decides the package: of one rank of one model."""

    heads: int  # of this rank
    rank: int  # kv_lora_rank
    rope: int  # qk_rope_head_dim
    block_size: int  # tokens of a page
    scale: float  # of the scores
    dtype: str  # "bf16", "f16" or "f32": queries, cache and outputs
    query_len: int = 1  # most tokens of a decode (1 + drafts)
    # Rows of the cache: "auto" (dtype), "fp8" (e4m3, a scale for each layer), "fp8_ds_mla".
    cache: str = "auto"
    nope: int = 0  # qk_nope_head_dim, and
    value: int = 0  # v_head_dim, of packages with prefills; 0: decodes alone
    topk: int = 0  # positions of a token's list, of sparse attention; 0: all keys
    # Elements of the rows that rope queries of decodes are the last columns of (vLLM's queries
    # before the projection to latents); 0: they lie dense.
    query_width: int = 0

    def __post_init__(self) -> None:
        for names, least in ((("heads", "rank", "rope", "block_size", "query_len"), 1),
                             (("nope", "value", "topk", "query_width"), 0)):
            for name in names:
                value = getattr(self, name)
                if not hasattr(value, "__index__"):
                    raise InvalidArgument(f"{name}: expected an integer, got {value!r}")
                if value < least:
                    raise InvalidArgument(f"{name}: expected at least {least}, got {value}")
        if (self.nope > 0) != (self.value > 0):
            raise InvalidArgument("nope and value: expected both, of packages with prefills, or "
                                  f"neither, got {self.nope} and {self.value}")
        if 0 < self.query_width < self.rope:
            raise InvalidArgument(f"query_width: expected 0 or at least {self.rope} (rope), got "
                                  f"{self.query_width}")
        for name, known in (("dtype", _DTYPES), ("cache", ("auto", *_FORMATS))):
            if getattr(self, name) not in known:
                raise InvalidArgument(f"{name}: expected {' or '.join(known)}, got "
                                      f"{getattr(self, name)!r}")
        if not (isinstance(self.scale, (int, float)) and 0 < self.scale < math.inf):
            raise InvalidArgument(f"scale: expected a number above 0, got {self.scale!r}")

    @property
    def has_prefills(self) -> bool:
        return self.value > 0

    @property
    def decodes(self) -> list[str]:
        """Functions of decodes. TMA copies heads of queries that lie head by head where a tile of
        64 rows is of one token, or of whole tokens: else such queries are copied."""
        tile = 64
        fits = (self.query_len == 1 or self.topk > 0 or tile % self.heads == 0
                or self.heads % tile == 0)
        return list(_LAYOUTS) if fits else [DECODE]

    @property
    def weights(self) -> list[str]:
        return [UP_WEIGHT] if self.has_prefills else []

    def module(self) -> str:
        """The mla module's text."""
        format = _FORMATS.get(self.cache)
        fields = dict(dataclasses.asdict(self), scale=repr(float(self.scale)), weight=UP_WEIGHT,
                      up=self.nope + self.value,
                      up_rows=self.heads * (self.nope + self.value), query=self.nope + self.rope,
                      before=self.query_width - self.rope,
                      batch_query_len=_MOST_SELECTING if self.topk else self.query_len,
                      format=f', format = "{format}"' if format else "")
        rope, take = (_ROPE_OF_ROWS, _TAKE_ROPE) if self.query_width else (_DENSE_ROPE, "")
        fields |= {"rope_input": rope.format(**fields), "take_rope": take.format(**fields)}
        decode = _SELECT if self.topk else _DECODE
        parts = [part.format(**fields) for part in [_TYPES] + [_LIST] * (self.topk > 0)]
        parts += [decode.format(function=function, layout=_LAYOUTS[function], **fields)
                  for function in self.decodes]
        return "".join(parts + [_PREFILL.format(**fields)] * self.has_prefills)

    def differences(self, package: Package) -> list[str]:
        """Where a package is of another shape: "what: expected ..., got ..." for each."""
        info = package.info
        pool = info["pools"][0]
        columns = {field["name"]: field["columns"] for field in pool["fields"]}
        formats = {format: name for name, format in _FORMATS.items()}
        functions = {function["name"] for target in info["targets"]
                     for function in target["functions"]}
        found = {"heads": info["model"]["num_heads"], "rank": columns.get("latent"),
                 "rope": columns.get("rope"), "block_size": pool["page_size"],
                 "dtype": pool["element"], "cache": formats.get(pool["format"], "auto"),
                 "has_prefills": "prefill" in functions,
                 "weights": [weight["name"] for weight in info["weights"]]}
        wrong = [f"{name}: expected {getattr(self, name)}, got {value}"
                 for name, value in found.items() if getattr(self, name) != value]
        # The same sizes do not make the same model: a rank of DeepSeek-V3 has those of V2-Lite.
        scale = info["model"]["softmax_scale"]
        if not math.isclose(scale, self.scale, rel_tol=1e-5):
            wrong.append(f"scale: expected {self.scale:g}, got {scale:g}")
        return wrong or self._other_functions(info)

    def _other_functions(self, info: Mapping[str, Any]) -> list[str]:
        """The same of functions: what they take, of a package with the shape's sizes."""
        rope = "rope_rows" if self.query_width else "rope_query"
        decode = {rope, "positions"} if self.topk else {rope}
        inputs = {DECODE: decode, DECODE_OF_HEADS: decode, "prefill": {"query_rows"}}
        wrong = []
        for function in (each for target in info["targets"] for each in target["functions"]):
            name, most = function["name"], function["max_query_len"]
            buffers = {buffer["name"] for buffer in function["buffers"] if buffer["kind"] == "Input"}
            expected = inputs.get(name, set())
            if not expected <= buffers or "positions" in buffers - expected:
                wrong.append(f"inputs of {name}: expected {', '.join(sorted(expected))} among them, "
                             f"got {', '.join(sorted(buffers))}")
            elif most and most < self.query_len and name in _LAYOUTS:
                wrong.append(f"query_len of {name}: expected {self.query_len}, got {most}")
        rows = self.heads * (self.nope + self.value)
        return wrong + [f"rows of {weight['name']}: expected {rows}, got {weight['shape'][0]}"
                        for weight in info["weights"] if weight["shape"][0] != rows]


def package_for(shape: Shape, target: str, output: str | os.PathLike[str] | None = None) -> Package:
    """Compiles the package of a shape; `output` keeps it (MLAC_VLLM_PACKAGE names it then)."""
    with tempfile.TemporaryDirectory(prefix="mlac-vllm-") as folder:
        path = Path(folder) / "decode.mlir"
        path.write_text(shape.module())
        return compile_package(path, target=target, output=output)


def layer_package(config: Mapping[str, Any], heads: int, target: str, *, dtype: str,
                  block_size: int, codes: str = "none",
                  output: str | os.PathLike[str] | None = None) -> Package:
    """Compiles a layer of a Hugging Face configuration (a dict) with a rank's heads; `output` keeps
    it (MLAC_VLLM_PACKAGE names it then). codes: "weights" has products of e4m3 codes in blocks of
    128 x 128, "both" of such weights and of activations that become codes (mla-compile's
    --keep-codes), "none" of 16-bit weights, whatever the configuration says."""
    local = {**config, **{name: heads for name in _HEADS if name in config}}
    local.pop("quantization_config", None)
    # vLLM's modules say what their weights are, however a checkpoint stores them.
    weights: dict[str, Any] = {"dequantised_weights": True}
    if codes != "none":
        local["quantization_config"] = {"quant_method": "fp8", "fmt": "e4m3",
                                        "activation_scheme": "dynamic",
                                        "weight_block_size": [CODE_BLOCK, CODE_BLOCK]}
        weights = {"keep_codes": codes}
    rope = config.get("rope_parameters") or {}
    if rope.get("rope_type") == "deepseek_yarn":  # vLLM's models rename it in place
        local["rope_parameters"] = {**rope, "rope_type": "yarn"}
    text = json.dumps(local, default=str)  # types of torch, which JSON has not
    return compile_package(json.loads(text), target=target, functions=["prefill", "decode"],
                           dtype=dtype, page_size=block_size, output=output, **weights)

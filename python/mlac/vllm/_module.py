# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The package that decodes over vLLM's cache: absorbed attention alone, as a module of mla."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from pathlib import Path

from .._compile import compile as compile_package
from .._runtime import Package

# What vLLM's cache types fp8 and fp8_e4m3 are.
_FP8_FORMAT = "mla_fp8_tensor"

# queries, rotated rope queries -> outputs and log-sum-exps; the new rows are in the cache already.
_TEMPLATE = """\
!cache = !mla.cache<page_size = {block_size}, fields = [latent: {rank}, rope: {rope}],
                    element = {dtype}, rope_order = interleaved{format}>
!latent = tensor<?x{heads}x{rank}x{dtype}>
!rope = tensor<?x{heads}x{rope}x{dtype}>
!lse = tensor<?x{heads}xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
!batch = !mla.batch<query_len = {query_len}>
module @vllm_decode {{
  func.func @decode(%query: !latent {{mla.input = "query"}}, %rope: !rope {{mla.input = "rope_query"}},
                    %batch: !batch, %cache: !cache)
      -> (!latent {{mla.output = "output"}}, !lse {{mla.output = "lse"}}) {{
    %output, %lse = mla.absorbed_attention query(%query, %rope : !latent, !rope)
        over %cache, %batch : !cache, !batch scale {scale!r} -> !latent, !lse
    return %output, %lse : !latent, !lse
  }}
}}
"""


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
    cache: str = "auto"  # rows of the cache: "auto" (dtype), or "fp8" (e4m3, a scale for each layer)

    def module(self) -> str:
        """The mla module's text."""
        format = f', format = "{_FP8_FORMAT}"' if self.cache == "fp8" else ""
        return _TEMPLATE.format(**dataclasses.asdict(self), format=format)

    def differences(self, package: Package) -> list[str]:
        """Where a package is of another shape: "what: expected ..., got ..." for each."""
        info = package.info
        pool = info["pools"][0]
        columns = {field["name"]: field["columns"] for field in pool["fields"]}
        found = {"heads": info["model"]["num_heads"], "rank": columns.get("latent"),
                 "rope": columns.get("rope"), "block_size": pool["page_size"],
                 "dtype": pool["element"],
                 "cache": "fp8" if pool["format"] == _FP8_FORMAT else "auto"}
        return [f"{name}: expected {getattr(self, name)}, got {value}"
                for name, value in found.items() if getattr(self, name) != value]


def package_for(shape: Shape, target: str, output: str | os.PathLike[str] | None = None) -> Package:
    """Compiles the package of a shape; `output` keeps it (MLAC_VLLM_PACKAGE names it then)."""
    with tempfile.TemporaryDirectory(prefix="mlac-vllm-") as folder:
        path = Path(folder) / "decode.mlir"
        path.write_text(shape.module())
        return compile_package(path, target=target, output=output)

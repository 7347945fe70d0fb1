# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The modules that are compiled: attention alone, with queries and outputs by name."""

import problems

# `advance` runs nothing: filling a plan with it makes sequences longer, and the
# benchmark writes the cache's rows itself.
TEMPLATE = """\
!cache = !mla.cache<page_size = {page}, fields = [latent: {rank}{rope_field}],
                    element = {dtype}, rope_order = interleaved{form}>
!latent = tensor<?x{heads}x{rank}x{dtype}>
!rope = tensor<?x{heads}x{rope}x{dtype}>
!lse = tensor<?x{heads}xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>

module @{name} {{
{functions}
  func.func @advance(%batch: !mla.batch, %cache: !cache) -> !cache {{
    return %cache : !cache
  }}
}}
"""

FUNCTION = """\
  func.func @decode{length}(%q_lat: !latent {{mla.input = "q_lat"}},{rope_argument}
      %batch: !mla.batch<query_len = {length}>, %cache: !cache)
      -> (!latent {{mla.output = "output"}}, !lse {{mla.output = "lse"}}) {{
    %output, %lse = mla.absorbed_attention query({query})
      over %cache, %batch : !cache, !mla.batch<query_len = {length}>
      scale {scale!r} -> !latent, !lse
    return %output, %lse : !latent, !lse
  }}"""

# By which a package of other kernels describes its model: the runtime wants a cache.
PLACEHOLDER = """\
!cache = !mla.cache<page_size = 64, fields = [latent: 128, rope: 64],
                    element = bf16, rope_order = interleaved>
func.func @decode(%q: tensor<?x8x128xbf16> {mla.input = "q_lat"},
                  %r: tensor<?x8x64xbf16> {mla.input = "q_pe"},
                  %batch: !mla.batch<query_len = 1>, %cache: !cache)
    -> (tensor<?x8x128xbf16> {mla.output = "output"}) {
  %o = mla.absorbed_attention query(%q, %r : tensor<?x8x128xbf16>, tensor<?x8x64xbf16>)
      over %cache, %batch : !cache, !mla.batch<query_len = 1> scale 0.1 -> tensor<?x8x128xbf16>
  return %o : tensor<?x8x128xbf16>
}
"""


def function_text(spec, length):
    rope_argument, query = "", "%q_lat : !latent"
    if spec.rope:
        rope_argument = ' %q_pe: !rope {mla.input = "q_pe"},'
        query = "%q_lat, %q_pe : !latent, !rope"
    return FUNCTION.format(length=length, rope_argument=rope_argument, query=query,
                           scale=spec.scale)


def module_text(spec, query_lens=problems.FUNCTION_QUERY_LENS):
    """The module of a package, with one decode function per longest query."""
    functions = "\n".join(function_text(spec, length) for length in query_lens)
    rope_field = f", rope: {spec.rope}" if spec.rope else ""
    return TEMPLATE.format(page=spec.page, rank=spec.rank, rope=spec.rope,
                           rope_field=rope_field, dtype=spec.dtype,
                           form=f', format = "{spec.format}"' if spec.format else "",
                           heads=spec.heads, name="attention", functions=functions)

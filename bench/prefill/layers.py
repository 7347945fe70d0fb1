# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The packages: expanded attention alone, with queries, keys and values by name."""

import dataclasses
import pathlib
import subprocess

import program

# `advance` makes sequences longer; `decode` is what a package describes its model by.
TEMPLATE = """\
!cache = !mla.cache<page_size = 64, fields = [latent: 128, rope: 64],
                    element = bf16, rope_order = interleaved>
!latent = tensor<?x{heads}x128xbf16>
!q = tensor<?x{heads}x{nope}xbf16>
!q_pe = tensor<?x{heads}x{rope}xbf16>
!k_pe = tensor<?x{rope}xbf16>
!v = tensor<?x{heads}x{value}xbf16>
!partial = tensor<?x{heads}x{value}xf32>
!lse = tensor<?x{heads}xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>

module @attention {{
  func.func @causal({arguments}, %batch: !mla.batch)
      -> (!v {{mla.output = "output"}}, !lse {{mla.output = "lse"}}) {{
    %output, %lse = mla.expanded_attention query({query}) keys({keys}) values(%v : !v)
      over %batch : <query_len = ?> scale {scale!r} -> !v, !lse
    return %output, %lse : !v, !lse
  }}
  func.func @chunk({arguments}, %batch: !mla.batch)
      -> (!partial {{mla.output = "output"}}, !lse {{mla.output = "lse"}}) {{
    %chunk = arith.constant 0 : index
    %output, %lse = mla.expanded_attention query({query}) keys({keys}) values(%v : !v)
      over %batch : <query_len = ?> chunk %chunk scale {scale!r} -> !partial, !lse
    return %output, %lse : !partial, !lse
  }}
  func.func @decode(%q_lat: !latent {{mla.input = "q_lat"}}, %q_pe: tensor<?x{heads}x64xbf16> {{mla.input = "q_pe"}},
      %batch: !mla.batch<query_len = 1>, %cache: !cache) -> (!latent {{mla.output = "output"}}) {{
    %output = mla.absorbed_attention query(%q_lat, %q_pe : !latent, tensor<?x{heads}x64xbf16>)
      over %cache, %batch : !cache, !mla.batch<query_len = 1> scale 0.1 -> !latent
    return %output : !latent
  }}
  func.func @advance(%batch: !mla.batch, %cache: !cache) -> !cache {{
    return %cache : !cache
  }}
}}
"""


@dataclasses.dataclass(frozen=True)
class Spec:
    """Widths of one head."""

    heads: int
    nope: int
    rope: int
    value: int

    @property
    def name(self):
        return f"h{self.heads}-{self.nope}+{self.rope}-{self.value}"

    @property
    def scale(self):
        return (self.nope + self.rope) ** -0.5

    def flops(self, query_lens, key_lens, is_causal):
        pairs = sum(n * (n + 1) // 2 if is_causal else n * m
                    for n, m in zip(query_lens, key_lens))
        return 2 * pairs * self.heads * (self.nope + self.rope + self.value)

    def bytes(self, query_lens, key_lens, is_causal):
        """Queries, keys, values and results once; the rope columns of the keys once for all
        heads. Results over a chunk are f32; an LSE is f32."""
        query = self.heads * (self.nope + self.rope) * 2
        result = self.heads * (self.value * (2 if is_causal else 4) + 4)
        key = 2 * (self.heads * (self.nope + self.value) + self.rope)
        return sum(query_lens) * (query + result) + sum(key_lens) * key

    def text(self):
        arguments = '%q: !q {mla.input = "q"}, %k: !q {mla.input = "k"}, %v: !v {mla.input = "v"}'
        query, keys = "%q : !q", "%k : !q"
        if self.rope:
            arguments += ', %q_pe: !q_pe {mla.input = "q_pe"}, %k_pe: !k_pe {mla.input = "k_pe"}'
            query, keys = "%q, %q_pe : !q, !q_pe", "%k, %k_pe : !q, !k_pe"
        return TEMPLATE.format(heads=self.heads, nope=self.nope, rope=max(self.rope, 1),
                               value=self.value, scale=self.scale, arguments=arguments,
                               query=query, keys=keys)


# DeepSeek-V2/V3 whole and one rank of eight, which are timed; the others with few tokens only.
TIMED = {heads: Spec(heads, 128, 64, 128) for heads in (128, 16, 8, 20, 40)}
# What other models and odd widths ask of the schedule.
CHECKED = (Spec(16, 128, 64, 128), Spec(40, 64, 32, 64), Spec(8, 256, 0, 256), Spec(8, 128, 0, 128),
           Spec(20, 24, 8, 40), Spec(4, 192, 64, 256), Spec(3, 20, 4, 12))


def build(directory, build_dir, variants):
    """`variants`: options of mla-compile by name, for the layers that are timed."""
    program.make_folder(directory, build_dir)
    compiler = pathlib.Path(build_dir) / "bin/mla-compile"
    jobs = [(f"check-{spec.name}", spec, ()) for spec in CHECKED]
    jobs += [(f"speed-h{heads}-{name}", spec, options) for heads, spec in TIMED.items()
             for name, options in variants.items()]
    for name, spec, options in jobs:
        source = directory / f"{name}.mlir"
        source.write_text(spec.text())
        done = subprocess.run([compiler, source, "--target=sm_90a", "--quiet", *options, "-o",
                               directory / f"{name}.mlac"], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stderr.strip()[:2000]}")
        source.unlink()
        print(name, flush=True)
    library = pathlib.Path(build_dir) / "lib/libmla_runtime.so"
    (directory / library.name).write_bytes(library.read_bytes())

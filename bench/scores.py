# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The indexer's scores: modules that several programs compile, random keys, and steps over them."""

import sys
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python")]

HEADS, WIDTH, PAGE, ROW_BYTES = 64, 128, 64, 132
SIZES = {"heads": HEADS, "width": WIDTH, "page": PAGE}

STEP = """
func.func @{name}(%q: tensor<?x{heads}x{width}xf8E4M3FN> {{mla.input = "q"}},
                  %w: tensor<?x{heads}xf32> {{mla.input = "w"}},
                  %batch: !mla.batch<query_len = {query}>, %keys: !keys)
    -> (tensor<?x?xf32> {{mla.output = "scores"}}) {{
  %s = mla.index_scores query(%q : tensor<?x{heads}x{width}xf8E4M3FN>) weights(%w : tensor<?x{heads}xf32>)
      over %keys, %batch : !keys, !mla.batch<query_len = {query}> -> tensor<?x?xf32>
  return %s : tensor<?x?xf32>
}}
"""
# The same, and the positions of the K largest.
SELECT = """
func.func @{name}(%q: tensor<?x{heads}x{width}xf8E4M3FN> {{mla.input = "q"}},
                  %w: tensor<?x{heads}xf32> {{mla.input = "w"}},
                  %batch: !mla.batch<query_len = 1>, %keys: !keys)
    -> (tensor<?x{k}xi32> {{mla.output = "positions"}}) {{
  %s = mla.index_scores query(%q : tensor<?x{heads}x{width}xf8E4M3FN>) weights(%w : tensor<?x{heads}xf32>)
      over %keys, %batch : !keys, !mla.batch<query_len = 1> -> tensor<?x?xf32>
  %p = mla.top_k %s over %batch k {k} : tensor<?x?xf32>, !mla.batch<query_len = 1> -> tensor<?x{k}xi32>
  return %p : tensor<?x{k}xi32>
}}
"""
POOL = """
!keys = !mla.cache<page_size = {page}, fields = [index: {width}], element = bf16,
                   format = "index_k", scale_rule = power_of_two>
"""

# Keys are normalised: numbers of about 1, codes of the middle of e4m3's range.
KEY_EXPONENT = -7


def fill_keys(torch, pages):
    """Random keys, of which no two score alike: uint8 [pages, PAGE * ROW_BYTES], codes and then scales."""
    for piece in pages.split(1 << 11):
        codes = torch.randn(len(piece), PAGE * WIDTH, device=pages.device) * 2 ** -KEY_EXPONENT
        piece[:, :PAGE * WIDTH] = codes.clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)
        scales = torch.full((len(piece), PAGE), 2.0 ** KEY_EXPONENT, device=pages.device)
        piece[:, PAGE * WIDTH:] = scales.view(torch.uint8)


def random_table(torch, pages, requests, keys):
    """Pages of each request, in no order: int32 [requests, columns]."""
    columns = -(-keys // PAGE)
    picked = torch.randperm(pages)[:requests * columns]
    return picked.view(requests, columns).int()


class IndexSteps:
    """A package's steps over keys of the caller's, uint8 [pages, PAGE * ROW_BYTES]."""

    def __init__(self, path, device, pool, requests, keys):
        import mlac
        import torch

        self.keys, self.pages, self.device = keys, len(pool), pool.device
        self.engine = mlac.Engine(mlac.Package(str(path)), device, max_num_requests=requests,
                                  max_num_tokens=requests, max_seq_len=keys, external_pools=1)
        self.engine.prepare()
        self.engine.bind_pool(pool.view(-1, PAGE, ROW_BYTES))
        query = torch.randn(requests, HEADS, WIDTH, device=pool.device) * 2 ** -KEY_EXPONENT
        self.query = query.clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)
        self.weights = torch.randn(requests, HEADS, device=pool.device)

    def scores_of(self, requests):
        """Where a step leaves them."""
        import torch

        columns = -(-self.keys // PAGE) * PAGE
        return torch.full((requests, columns), float("nan"), device=self.device)

    def launch_of(self, function, table, **results):
        """A step of requests with the pages of `table`."""
        import numpy as np
        import torch

        count, plan = len(table), self.engine.plan()
        plan.fill_tables([1] * count, [self.keys] * count, table.numpy(),
                         np.full(count, -1, np.int64), function)
        buffers = {"q": self.query[:count], "w": self.weights[:count], **results}
        on_gpu = self.device.type == "cuda"
        return lambda: plan.run_bound(
            stream=torch.cuda.current_stream() if on_gpu else None, **buffers)

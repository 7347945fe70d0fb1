# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of mlac as operators of torch, for models that torch.compile or a graph captures::

    import mlac.torch

    plan = engine.plan()
    handle = mlac.torch.handle(plan)                       # an int, once
    plan.fill(sequences, query_lens)                       # each step, outside of the graph
    torch.ops.mlac.layer(output, hidden, handle, layer)    # each layer, inside

    torch.ops.mlac.layer(output!, hidden, plan, layer=0)
        a whole attention layer
    torch.ops.mlac.attend(output!, lse!?, cache!?, query, rope_query?, latent?, rope_key?,
                          plan, layer=0)
        attention alone, of a package whose functions take queries
    torch.ops.mlac.append(cache!, latent, rope_key?, plan, layer=0)
        new rows into the cache alone

Of a model whose layers are of several kinds (mlac.Layers), `handles` says for each layer which handle and which
number it has: torch.ops.mlac.layer(output, hidden, *handles[layer]).

They write what is given (!), return nothing, and run on torch's current stream. `cache` is
the tensor that Engine.bind_pool was given for the layer, so that torch knows who writes it
and who reads it; None where the cache is the engine's. Needs torch 2.4 or later.
"""

from ._handle import handle, handles
from ._schema import is_native, register

register()

__all__ = ["handle", "handles", "is_native"]

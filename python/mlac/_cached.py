# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models of PyTorch whose attention reads caches: torch.export, mla-compile --cached, and torch for
all that is not attention (paged-cache.md section 12)."""

from __future__ import annotations

import copy
import json
import operator
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._compile import compile
from ._errors import InvalidArgument
from ._export import _dtype_of
from ._runtime import Device, Engine, Package

if TYPE_CHECKING:
    import numpy as np
    import torch

    from .sequence_info import Metadata, SequenceInfo


def _slots(metadata: Metadata, page_size: int) -> np.ndarray:
    """Of each new token: its page's place in the cache, times the page's size, plus its own."""
    import numpy as np  # the package's names are there without it

    slots = [np.empty(0, np.int64)]
    for length, position, pages in zip(metadata.seq_len, metadata.input_pos, metadata.page_table):
        at = np.arange(position, position + length, dtype=np.int64)
        slots.append(pages[at // page_size].astype(np.int64) * page_size + at % page_size)
    return np.concatenate(slots)


class _Attention:
    """What stands in the place of one attention of the graph."""

    def __init__(self, model: CachedModel, place: Mapping[str, Any], layer: int):
        self._model, self._place, self._layer = model, place, layer
        self.__name__ = f"cached_attention_{layer}"

    def __call__(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Of [batch, heads, tokens, channels], as the graph has them: new tokens alone."""
        if self._place["key_is_transposed"]:
            key = key.transpose(-1, -2)
        group = self._place["group"]
        rows = [heads.transpose(1, 2).flatten(0, 1).contiguous()
                for heads in (query, key[:, ::group], value[:, ::group])]
        output = rows[0].new_empty(*rows[0].shape[:2], rows[2].shape[-1])
        self._model._plans[self._place["kind"]].run_bound(
            self._layer, query=rows[0], key=rows[1], value=rows[2], output=output)
        batch, heads, tokens, _ = query.shape
        return output.view(batch, tokens, heads, -1).transpose(1, 2)


def _find(nodes: Mapping[str, Any], value: Any) -> Any:
    """The node of torch.fx that a value of the plan is: a name, or one of a node's results."""
    if isinstance(value, str):
        return nodes[value]
    node = nodes[value["node"]]
    # Archives name nodes of several results by the first of them.
    source = node.args[0] if node.target is operator.getitem else node
    return next(user for user in source.users
                if user.target is operator.getitem and user.args[1] == value["result"])


class CachedModel:
    """A model whose attention appends to caches and reads them; see `cached`."""

    def __init__(self, program: Any, package: Package, plan: Mapping[str, Any],
                 info: SequenceInfo, device: Device, example_kwargs: tuple[str, ...]):
        import torch

        self.package, self.info = package, info
        self._program, self._kwargs, self._kinds = program, example_kwargs, plan["kinds"]
        places = plan["attention"]
        self._engine = Engine(package, device, max_num_requests=info.max_batch_size,
                              max_seq_len=info.max_seq_len, max_num_tokens=info.max_num_tokens,
                              num_layers=len(places), external_pools=1)
        page = package.info["pools"][0]["page_size"]
        if page != info.page_size:
            raise InvalidArgument(f"info: its pages hold {info.page_size} tokens, the package's {page}")
        first = self._kinds[0]
        width = first["num_kv_heads"] * (first["head_dim"] + first["value_dim"])
        dtype = next(iter(program.state_dict.values())).dtype
        where = next(iter(program.state_dict.values())).device
        # One cache for each attention.
        self.caches = [torch.zeros(info.num_pages, page, width, dtype=dtype, device=where)
                       for _ in places]
        for layer, (place, cache) in enumerate(zip(places, self.caches)):
            self._engine.bind_pool(cache, layer)
            if place["sinks"]:
                sinks = program.state_dict[place["sinks"]].detach().float().cpu().contiguous()
                self._engine.bind({"sinks": sinks}, layer)
            self._engine.prepare(layer)
        self._plans = [self._engine.plan() for _ in self._kinds]
        self._graph = self._replace(places)

    def _replace(self, places: list[Mapping[str, Any]]) -> Any:
        module = copy.deepcopy(self._program.graph_module)
        nodes = {node.name: node for node in module.graph.nodes}
        for layer, place in enumerate(places):
            old = nodes[place["node"]]
            operands = tuple(_find(nodes, place[name]) for name in ("query", "key", "value"))
            with module.graph.inserting_after(old):
                new = module.graph.call_function(_Attention(self, place, layer), operands)
            old.replace_all_uses_with(new)
        module.graph.eliminate_dead_code()
        module.recompile()
        return module

    def _inputs(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        from torch.utils import _pytree

        if set(kwargs) != set(self._kwargs):
            raise InvalidArgument(f"expected the arguments {list(self._kwargs)}, as exported, "
                                  f"got {sorted(kwargs)}")
        user = iter(_pytree.tree_leaves((args, {name: kwargs[name] for name in self._kwargs})))
        program, flat = self._program, []
        for spec in program.graph_signature.input_specs:
            if spec.kind.name == "USER_INPUT":
                flat.append(next(user))
            elif spec.target in program.state_dict:
                flat.append(program.state_dict[spec.target])
            else:
                flat.append(program.constants[spec.target])
        return flat

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The model's output of the tokens in `info`, whose keys and values are appended at
        info.input_pos; the arguments are those that it was exported with. info does not advance:
        call info.update_pos."""
        from torch.utils import _pytree

        metadata = self.info.prepare_metadata()
        lengths = metadata.seq_len.tolist()
        ends = (metadata.seq_len + metadata.input_pos).tolist()
        table = metadata.page_table.clip(min=0)
        slots = _slots(metadata, self.info.page_size)
        is_decode = all(length == 1 for length in lengths)
        for plan, kind in zip(self._plans, self._kinds):
            plan.fill_tables(lengths, ends, table, slots,
                             kind["decode" if is_decode else "step"])
        flat = self._graph(*self._inputs(args, kwargs))
        return _pytree.tree_unflatten(flat, self._program.call_spec.out_spec)


def cached(module: Any, example: Any = (), info: SequenceInfo | None = None, *,
           dynamic_shapes: Any = None, device: Device | None = None,
           archive: str | os.PathLike[str] | None = None, **options: Any) -> CachedModel:
    """Exports a causal model of PyTorch and gives it caches: every attention in its graph is
    replaced by kernels of one package over a cache of its own; torch runs the rest.

    module: a torch.nn.Module, or a torch.export.ExportedProgram.
    example: its arguments, a tuple, or a dict of named ones. The number of tokens must be open:
    dynamic_shapes, as torch.export takes them.
    info: sizes, pages and each step's sequences (mlac.sequence_info). Its page size is the caches'.
    archive: where the .pt2 archive is kept; default: nowhere.
    The other options are those of mlac.compile.

    Needs torch. Raises CompileError at the node whose attention is not understood, or not causal.
    """
    import torch

    if info is None:
        raise InvalidArgument("info: expected a SequenceInfo, whose batch and pages are used")
    args, kwargs = ((), dict(example)) if isinstance(example, Mapping) else (tuple(example), {})
    program = module
    if not isinstance(module, torch.export.ExportedProgram):
        with torch.no_grad():
            program = torch.export.export(module.eval(), args, kwargs,
                                          dynamic_shapes=dynamic_shapes, strict=False)
    for spec in program.graph_signature.output_specs:
        if spec.kind.name != "USER_OUTPUT":
            raise InvalidArgument(f"the model changes {spec.target} ({spec.kind.name}), which "
                                  "steps over caches would not")
    options.setdefault("dtype", _dtype_of(program))
    with tempfile.TemporaryDirectory(prefix="mlac-") as folder:
        path = Path(archive) if archive is not None else Path(folder) / "model.pt2"
        torch.export.save(program, path)
        plan = Path(folder) / "cached.json"
        package = compile(path, cached=os.fspath(plan), page_size=info.page_size, **options)
        return CachedModel(program, package, json.loads(plan.read_text()), info,
                           device or Device("cpu"), tuple(kwargs))

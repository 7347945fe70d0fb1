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

from ._compile import _run, compile
from ._errors import InvalidArgument
from ._export import _dtype_of
from ._find_compiler import find_compiler
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

    def __init__(self, attend: _PackagedSteps | _Operators, place: Mapping[str, Any], layer: int):
        self._attend, self._layer, self._group = attend, layer, place["group"]
        self.operands = place[attend.operands]  # queries and keys of the graph
        self.__name__ = f"cached_attention_{layer}"

    def __call__(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Of [batch, heads, tokens, channels], as the graph has them: new tokens alone."""
        if self.operands["key_is_transposed"]:
            key = key.transpose(-1, -2)
        rows = [heads.transpose(1, 2).contiguous()
                for heads in (query, key[:, ::self.operands["group"]], value[:, ::self._group])]
        batch, heads, tokens, _ = query.shape
        output = self._attend.run(self._layer, *rows)
        return output.view(batch, tokens, heads, -1).transpose(1, 2)


class _PackagedSteps:
    """The steps of a package, which has every attention of the graph, over one cache of each, and
    the rope before it."""

    operands = "operands"

    def __init__(self, program: Any, package: Package, plan: Mapping[str, Any],
                 info: SequenceInfo, device: Device):
        import torch

        self._info, self._kinds, self._places = info, plan["kinds"], plan["attention"]
        self._engine = Engine(package, device, max_num_requests=info.max_batch_size,
                              max_seq_len=info.max_seq_len, max_num_tokens=info.max_num_tokens,
                              num_layers=len(self._places), external_pools=1)
        page = package.info["pools"][0]["page_size"]
        if page != info.page_size:
            raise InvalidArgument(f"info: its pages hold {info.page_size} tokens, the package's {page}")
        first = self._kinds[0]
        width = first["num_kv_heads"] * (first["head_dim"] + first["value_dim"])
        like = _any_weight(program)
        self.caches = [torch.zeros(info.num_pages, page, width, dtype=like.dtype,
                                   device=like.device) for _ in self._places]
        for layer, (place, cache) in enumerate(zip(self._places, self.caches)):
            self._engine.bind_pool(cache, layer)
            if place["sinks"]:
                sinks = program.state_dict[place["sinks"]].detach().float().cpu().contiguous()
                self._engine.bind({"sinks": sinks}, layer)
            self._engine.prepare(layer)
        self._plans = [self._engine.plan() for _ in self._kinds]

    def prepare(self) -> None:
        """Fills the plans, once a step."""
        metadata = self._info.prepare_metadata()
        lengths = metadata.seq_len.tolist()
        ends = (metadata.seq_len + metadata.input_pos).tolist()
        table = metadata.page_table.clip(min=0)
        slots = _slots(metadata, self._info.page_size)
        is_decode = all(length == 1 for length in lengths)
        for plan, kind in zip(self._plans, self._kinds):
            plan.fill_tables(lengths, ends, table, slots,
                             kind["decode" if is_decode else "step"])

    def run(self, layer: int, *heads: torch.Tensor) -> torch.Tensor:
        query, key, value = (rows.flatten(0, 1) for rows in heads)
        output = query.new_empty(*query.shape[:2], value.shape[-1])
        self._plans[self._places[layer]["kind"]].run_bound(
            layer, query=query, key=key, value=value, output=output)
        return output


class _Operators:
    """The operator of a descriptor (mlac.attention), with caches of each attention, buffers of all.
    Rope is the graph's own."""

    operands = "turned"

    def __init__(self, program: Any, plan: Mapping[str, Any], info: SequenceInfo, name: str):
        from .attention import AttentionInfo, AttentionNodes, AttentionRegistry

        self.nodes = AttentionNodes(AttentionRegistry.get(name), info)
        like = _any_weight(program)
        for place in plan["attention"]:
            if place["sinks"]:
                raise InvalidArgument(f"node '{place['node']}' in {place['module']} has sinks, "
                                      f"which the operator of '{name}' does not take")
            kind = plan["kinds"][place["kind"]]
            self.nodes.add(AttentionInfo(
                kind["num_heads"], kind["num_kv_heads"], kind["head_dim"], like.dtype,
                value_dim=kind["value_dim"], scale=kind["scale"], window=kind["window"],
                softcap=kind["softcap"]))
        info.to(like.device)
        self.nodes.initialize()
        self.caches = list(self.nodes.caches.values())

    def prepare(self) -> None:
        self.nodes.prepare()

    def run(self, layer: int, *heads: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.nodes.run(layer, *heads)
        return output


def _any_weight(program: Any) -> torch.Tensor:
    """Caches are of its type, where it is."""
    weight: torch.Tensor = next(iter(program.state_dict.values()))
    return weight


def _find(nodes: Mapping[str, Any], value: Any) -> Any:
    """The node of torch.fx that a value of the plan is: a name, or one of a node's results."""
    if isinstance(value, str):
        return nodes[value]
    node = nodes[value["node"]]
    # Archives name nodes of several results by the first of them.
    source = node.args[0] if node.target is operator.getitem else node
    return next(user for user in source.users
                if user.target is operator.getitem and user.args[1] == value["result"])


def _erase_with_operands(graph: Any, node: Any) -> None:
    """What only an attention read. torch's own elimination takes dropout for an effect, and what
    tracing saw of a tensor's type for a use."""
    def name(of: Any) -> str:
        return str(of.target).split(".")[1] if str(of.target).startswith("aten.") else ""

    following = [node]
    while following:
        node = following.pop()
        checks = [user for user in node.users if name(user) == "_assert_tensor_metadata"]
        if node.op != "call_function" or name(node).endswith("_") or len(checks) < len(node.users):
            continue
        for check in checks:
            graph.erase_node(check)
        following += node.all_input_nodes
        graph.erase_node(node)


class CachedModel:
    """A model whose attention appends to caches and reads them; see `cached`."""

    def __init__(self, program: Any, package: Package | None, plan: Mapping[str, Any],
                 info: SequenceInfo, attend: _PackagedSteps | _Operators,
                 example_kwargs: tuple[str, ...]):
        self.package, self.info = package, info
        self._program, self._kwargs, self._attend = program, example_kwargs, attend
        self.caches = attend.caches  # of each attention, one or several
        self._graph = self._replace(plan["attention"])

    def _replace(self, places: list[Mapping[str, Any]]) -> Any:
        module = copy.deepcopy(self._program.graph_module)
        nodes = {node.name: node for node in module.graph.nodes}
        for layer, place in enumerate(places):
            old = nodes[place["node"]]
            attention = _Attention(self._attend, place, layer)
            operands = tuple(_find(nodes, value) for value in
                             (*(attention.operands[name] for name in ("query", "key")),
                              place["value"]))
            with module.graph.inserting_after(old):
                new = module.graph.call_function(attention, operands)
            old.replace_all_uses_with(new)
            _erase_with_operands(module.graph, old)
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

        self._attend.prepare()
        flat = self._graph(*self._inputs(args, kwargs))
        return _pytree.tree_unflatten(flat, self._program.call_spec.out_spec)


def _find_attention(archive: Path, plan: Path) -> None:
    """Writes where the graph attends, without any kernels."""
    _run([find_compiler(), os.fspath(archive), "--quiet", f"--cached={plan}", "--emit=mla", "-o",
          os.fspath(plan.with_suffix(".mlir"))], f"{plan.parent}{os.sep}")


def cached(module: Any, example: Any = (), info: SequenceInfo | None = None, *,
           dynamic_shapes: Any = None, device: Device | None = None,
           archive: str | os.PathLike[str] | None = None, attention: str | None = None,
           **options: Any) -> CachedModel:
    """Exports a causal model of PyTorch and gives it caches: every attention in its graph is
    replaced by kernels of one package over a cache of its own; torch runs the rest.

    module: a torch.nn.Module, or a torch.export.ExportedProgram.
    example: its arguments, a tuple, or a dict of named ones. The number of tokens must be open:
    dynamic_shapes, as torch.export takes them.
    info: sizes, pages and each step's sequences (mlac.sequence_info). Its page size is the caches'.
    archive: where the .pt2 archive is kept; default: nowhere.
    attention: the name of a descriptor (mlac.attention.AttentionRegistry), whose operator then
    attends in the place of the package's steps, where the model's weights are; info.args become
    tensors there, and there are no other options.
    The other options are those of mlac.compile.

    Needs torch. Raises CompileError at the node whose attention is not understood, or not causal.
    """
    import torch

    if info is None:
        raise InvalidArgument("info: expected a SequenceInfo, whose batch and pages are used")
    if attention is not None:
        from .attention import AttentionRegistry

        AttentionRegistry.get(attention)
        for option in [*options, *(["device"] if device is not None else [])]:
            raise InvalidArgument(f"option '{option}' is of packages: attention '{attention}' makes "
                                  "its own")
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
        plan_path = Path(folder) / "cached.json"
        if attention is not None:
            _find_attention(path, plan_path)
            plan = json.loads(plan_path.read_text())
            return CachedModel(program, None, plan, info,
                               _Operators(program, plan, info, attention), tuple(kwargs))
        package = compile(path, cached=os.fspath(plan_path), page_size=info.page_size, **options)
        plan = json.loads(plan_path.read_text())
        steps = _PackagedSteps(program, package, plan, info, device or Device("cpu"))
        return CachedModel(program, package, plan, info, steps, tuple(kwargs))

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models of PyTorch whose attention reads caches: torch.export, mla-compile --cached, and torch for
all that is not attention (paged-cache.md section 12)."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from ._compile import _compile, _run
from ._errors import InvalidArgument
from ._export import _any_weight, _dtype_of, _program_of
from ._find_compiler import find_compiler
from ._graph_nodes import Dims, erase_with_operands, find_node, from_heads, functional, to_heads
from ._mask_inputs import MaskInputs
from ._runtime import Device, Engine, Package
from ._token_rows import TokenRows

if TYPE_CHECKING:
    import numpy as np
    import torch

    from .attention import AttentionInfo
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

    def __init__(self, run: Callable[..., torch.Tensor], layer: int,
                 check: Callable[[int, int], None]):
        self._run, self._layer, self._check = run, layer, check
        self.__name__ = f"cached_attention_{layer}"

    def __call__(self, query: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        """Of queries [batch, heads, tokens, channels], as the graph has them, and what else the
        attention takes: new tokens alone."""
        batch, heads, tokens, _ = query.shape
        self._check(batch, tokens)
        output = self._run(self._layer, query, *others)
        return output.view(batch, tokens, heads, -1).transpose(1, 2)


class _Heads(NamedTuple):
    """Queries, keys and values of heads, of one attention."""

    values: tuple[Any, ...]  # of the graph
    is_key_transposed: bool
    groups: tuple[int, int]  # keys and values are of every so many heads
    dims: tuple[Dims | None, ...]  # of the first values

    @classmethod
    def of(cls, place: Mapping[str, Any], name: str) -> _Heads:
        operands = place[name]
        tables = place["tables"] if name == "operands" else None
        groups = operands["group"], place["group"]
        return cls((operands["query"], operands["key"], place["value"], *_table_values(tables)),
                   operands["key_is_transposed"], groups,
                   (*(_dims_of(place, operands, part) for part in ("query", "key")),
                    place["dims"]["value"]))

    def rows(self, query: torch.Tensor, key: torch.Tensor,
             value: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """[batch, tokens, heads, channels]."""
        if self.is_key_transposed:
            key = key.transpose(-1, -2)
        keys, values = self.groups
        return tuple(_rows_of(heads) for heads in (query, key[:, ::keys], value[:, ::values]))


class _Latents(NamedTuple):
    """Queries of heads, latents, and channels that the heads' keys share, of one attention."""

    values: tuple[Any, ...]  # of the graph
    dims: tuple[Dims | None, ...]  # of the first
    is_key_transposed = False

    @classmethod
    def of(cls, place: Mapping[str, Any], name: str) -> _Latents:
        latents = place["latents"]
        operands = latents[name]
        tables = latents["tables"] if name == "operands" else None
        return cls((operands["query"], latents["latent"], operands["key"],
                    *_table_values(tables)), (_dims_of(place, operands, "query"),))

    @staticmethod
    def rows(query: torch.Tensor, latent: torch.Tensor,
             key: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """[batch, tokens, heads, channels] and twice [batch, tokens, columns]."""
        tokens = query.shape[0], query.shape[2]
        return (_rows_of(query), *(rows.reshape(*tokens, rows.shape[-1]).contiguous()
                                   for rows in (latent, key)))


def _dims_of(place: Mapping[str, Any], operands: Mapping[str, Any], part: str) -> Dims | None:
    """Of queries or keys: those of the graph's products, which what is before rope has not."""
    dims: Dims | None = place["dims"][part]
    return dims if operands[part] == place["turned"][part] else None


def _rows_of(heads: torch.Tensor) -> torch.Tensor:
    return heads.transpose(1, 2).contiguous()


def _table_values(tables: Mapping[str, Any] | None) -> tuple[Any, ...]:
    return () if tables is None else (tables["cos"], tables["sin"])


def _angles(tables: tuple[torch.Tensor, ...], pairs: int, tokens: int) -> torch.Tensor:
    """[tokens, 2 * pairs], cosines before sines; tables may be alike for all of the batch."""
    import torch

    rows = [table.reshape(-1, table.shape[-1])[:, :pairs].float() for table in tables]
    return torch.cat([each.repeat(tokens // each.shape[0], 1) for each in rows], -1)


class _PackagedSteps:
    """The steps of a package, which has every attention of the graph, over one cache of each, and
    the rope before it."""

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
        like = _any_weight(program)
        self.caches = [torch.zeros(info.num_pages, page, self._width(), dtype=like.dtype,
                                   device=like.device) for _ in self._places]
        for layer, (place, cache) in enumerate(zip(self._places, self.caches)):
            self._engine.bind_pool(cache, layer)
            weights = self._weights(program, place)
            if weights:
                self._engine.bind(weights, layer)
            self._engine.prepare(layer)
        of = _Latents.of if self._kinds[0]["latents"] else _Heads.of
        self.inputs: list[_Heads | _Latents] = [
            of(place, "operands") for place in self._places]
        self._plans = [self._engine.plan() for _ in self._kinds]
        self._checked: set[int] = set()  # layers

    def _width(self) -> int:
        """Of a token's row in a cache."""
        kind = self._kinds[0]
        latents = kind["latents"]
        width: int = latents["rank"] + latents["rope_dim"] if latents else \
            kind["num_kv_heads"] * (kind["head_dim"] + kind["value_dim"])
        return width

    @staticmethod
    def _weights(program: Any, place: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """Of the graph, that an attention's step takes."""
        weights = {}
        if place["sinks"]:
            weights["sinks"] = _weight(program, place["sinks"]).float()
        if place["latents"]:
            weights["kv_b_proj.weight"] = _weight(program, place["latents"]["weight"])
        return {name: weight.cpu().contiguous() for name, weight in weights.items()}

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

    def _check_tables(self, layer: int, tables: tuple[torch.Tensor, ...], pairs: int) -> None:
        """In a layer's first step: what the graph does not say of its tables."""
        place = self._places[layer]
        of = (place["latents"] or place)["tables"]
        if layer in self._checked or not of["repeated"]:
            return
        for name, table in zip(("cos", "sin"), tables):
            if not table[..., :pairs].equal(table[..., pairs:2 * pairs]):
                raise InvalidArgument(f"{of[name]}, whose rows turn the attention of node "
                                      f"'{place['node']}' in {place['module']}: columns {pairs} to "
                                      f"{2 * pairs - 1} are not those before them again")
        self._checked.add(layer)

    def run(self, layer: int, *values: torch.Tensor) -> torch.Tensor:
        kind = self._kinds[self._places[layer]["kind"]]
        latents = kind["latents"]
        rows = [each.flatten(0, 1) for each in self.inputs[layer].rows(*values[:3])]
        names = ("query", "latent", "k_pe") if latents else ("query", "key", "value")
        buffers = dict(zip(names, rows))
        query = rows[0]
        if len(values) > len(rows):
            pairs = (latents or kind)["rope"]["dim"] // 2
            self._check_tables(layer, values[3:], pairs)
            buffers["angles"] = _angles(values[3:], pairs, query.shape[0])
        output = query.new_empty(*query.shape[:2], kind["value_dim"])
        self._plans[self._places[layer]["kind"]].run_bound(layer, output=output, **buffers)
        return output


class _Operators:
    """The operator of a descriptor (mlac.attention), with caches of each attention, and buffers of
    all: angles of rope, where the operator rotates as the graph does."""

    def __init__(self, program: Any, plan: Mapping[str, Any], info: SequenceInfo, name: str):
        from .attention import AttentionNodes, AttentionRegistry

        self.nodes = AttentionNodes(AttentionRegistry.get(name), info)
        self._name, self._dtype = name, _any_weight(program).dtype
        self._folds = self.nodes.descriptor.is_latent()
        self._weights: list[tuple[torch.Tensor, torch.Tensor]] = []  # W_UK and W_UV of heads
        self._splits: list[list[int]] = []  # of queries' channels
        self.inputs: list[_Heads | _Latents] = []
        for place in plan["attention"]:
            kind = plan["kinds"][place["kind"]]
            if place["sinks"]:
                self._refuse(place, "has sinks, which the operator of '%s' does not take")
            if self._folds:
                self._add_latents(program, place, kind)
            else:
                self._add_heads(place, kind)
        info.to(_any_weight(program).device)
        self.nodes.initialize()
        self.caches = list(self.nodes.caches.values())

    def _refuse(self, place: Mapping[str, Any], what: str) -> NoReturn:
        raise InvalidArgument(f"node '{place['node']}' in {place['module']} {what % self._name}")

    def _choose_rope(self, info: AttentionInfo, rope: Mapping[str, Any] | None,
                     columns: int) -> tuple[AttentionInfo, str]:
        """Which operands to take: those before rope, if the operator does it."""
        from .attention import PositionalEmbeddingConfig

        is_whole = rope is not None and (rope["first"], rope["dim"]) == (0, columns)
        if rope is None or not is_whole or rope["theta"] is None or \
                self.nodes.descriptor.rope_order() != rope["order"]:
            return info, "turned"
        config = PositionalEmbeddingConfig("rope", float(rope["theta"]))
        return dataclasses.replace(info, pos_embd_config=config), "operands"

    def _add_heads(self, place: Mapping[str, Any], kind: Mapping[str, Any]) -> None:
        from .attention import AttentionInfo

        info = AttentionInfo(kind["num_heads"], kind["num_kv_heads"], kind["head_dim"],
                             self._dtype, value_dim=kind["value_dim"], scale=kind["scale"],
                             window=kind["window"], softcap=kind["softcap"])
        info, operands = self._choose_rope(info, kind["rope"], kind["head_dim"])
        self.nodes.add(info)
        self.inputs.append(_Heads.of(place, operands))

    def _add_latents(self, program: Any, place: Mapping[str, Any],
                     kind: Mapping[str, Any]) -> None:
        from .attention import AttentionInfo

        latents = kind["latents"]
        if latents is None:
            self._refuse(place, "has keys and values of heads, and the operator of '%s' takes "
                         "latents that all attention of a graph has")
        rank, rope_dim = latents["rank"], latents["rope_dim"]
        info = AttentionInfo(kind["num_heads"], 1, rank + rope_dim, self._dtype,
                             rope_dim=rope_dim, value_dim=rank, scale=kind["scale"])
        info, operands = self._choose_rope(info, latents["rope"], rope_dim)
        self.nodes.add(info)
        self.inputs.append(_Latents.of(place, operands))
        nope = kind["head_dim"] - rope_dim
        up = _weight(program, place["latents"]["weight"]).unflatten(0, (kind["num_heads"], -1))
        self._weights.append((up[:, :nope], up[:, nope:]))
        first = latents["rope_first"]
        self._splits.append([first, rope_dim, nope - first])

    def prepare(self) -> None:
        self.nodes.prepare()

    def run(self, layer: int, *values: torch.Tensor) -> torch.Tensor:
        import torch

        rows = self.inputs[layer].rows(*values)
        if not self._folds:
            output: torch.Tensor = self.nodes.run(layer, *rows)
            return output
        query, latent, key = rows
        before, rope, behind = query.split(self._splits[layer], -1)
        keys, up = self._weights[layer]
        folded = torch.einsum("bshp,hpl->bshl", torch.cat([before, behind], -1), keys)
        output = self.nodes.run(layer, folded.contiguous(), rope.contiguous(), latent, key)
        heads = output.unflatten(-1, folded.shape[2:])
        return torch.einsum("bshl,hvl->bshv", heads, up).contiguous()


def _weight(program: Any, name: str) -> torch.Tensor:
    weight: torch.Tensor = program.state_dict[name].detach()
    return weight


def _sizes_of_inputs(program: Any) -> list[tuple[str, list[int | None] | None]]:
    """Of the inputs that a caller gives, which are no tensors where there is no list; None: open."""
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    names = [spec.arg.name for spec in program.graph_signature.input_specs
             if spec.kind.name == "USER_INPUT"]
    shapes = [getattr(nodes[name].meta.get("val"), "shape", None) for name in names]
    return [(name, None if shape is None else
             [size if isinstance(size, int) else None for size in shape])
            for name, shape in zip(names, shapes)]


def _constants_of_inputs(program: Any) -> list[tuple[str, bool, Any]]:
    """Of the same inputs whether the graph is of one value alone (no tensor), and which."""
    from torch.export.graph_signature import ConstantArgument

    arguments = [spec.arg for spec in program.graph_signature.input_specs
                 if spec.kind.name == "USER_INPUT"]
    return [(each.name, isinstance(each, ConstantArgument), getattr(each, "value", None))
            for each in arguments]


class CachedModel:
    """A model whose attention appends to caches and reads them; see `cached`."""

    def __init__(self, program: Any, package: Package | None, plan: Mapping[str, Any],
                 info: SequenceInfo, attend: _PackagedSteps | _Operators,
                 example_kwargs: tuple[str, ...]):
        self.package, self.info = package, info
        self._program, self._kwargs, self._attend = program, example_kwargs, attend
        self.caches = attend.caches  # of each attention, one or several
        self._shapes: list[tuple[int, int]] = []  # that a step's tokens may have
        self._masks = MaskInputs(program, plan)
        self._sizes = _sizes_of_inputs(program)
        self._constants = _constants_of_inputs(program)
        self._graph = self._replace(plan["attention"])

    def _replace(self, places: list[Mapping[str, Any]]) -> Any:
        module = copy.deepcopy(self._program.graph_module)
        nodes = {node.name: node for node in module.graph.nodes}
        for layer, place in enumerate(places):
            old = nodes[place["node"]]
            attention = _Attention(self._attend.run, layer, self._check_tokens)
            inputs = self._attend.inputs[layer]
            operands = [find_node(nodes, value) for value in inputs.values]
            with module.graph.inserting_before(old):
                for number, dims in enumerate(inputs.dims):
                    operands[number] = to_heads(module.graph, operands[number], dims,
                                                inputs.is_key_transposed and number == 1)
                new = module.graph.call_function(attention, tuple(operands))
                new.meta = dict(old.meta)
                new = from_heads(module.graph, new, place["dims"]["result"])
            nodes[place["node"]] = new  # which another attention may read as it stands
            old.replace_all_uses_with(new)
            erase_with_operands(module.graph, old)
        module.graph.eliminate_dead_code()
        module.recompile()
        return module

    def check_rows(self) -> None:
        """Raises InvalidArgument where the graph between attentions mixes tokens."""
        TokenRows(self._graph, self._program,
                  lambda node: isinstance(node.target, _Attention)).check()

    def _row_lengths(self) -> list[int]:
        """Of the sequences whose tokens stand in one row."""
        from .sequence_info import live_lengths

        info = self.info
        lengths: list[int] = live_lengths(info.input_ids, info.seq_len).tolist()
        return [1] if info.input_ids.shape[1] == 1 else lengths

    def _check_tokens(self, batch: int, tokens: int) -> None:
        """Raises InvalidArgument where a step's rows [batch, tokens] are not the tokens of info."""
        if (batch, tokens) not in self._shapes:
            shapes = " or ".join(str(list(shape)) for shape in self._shapes)
            raise InvalidArgument(f"expected the tokens of info, {shapes}, got {[batch, tokens]}: "
                                  "call info.nest_sequences with each step's")

    def _token_shapes(self) -> list[tuple[int, int]]:
        """How the tokens of info may stand: one sequence behind the other, or, of as many each, a
        row of each."""
        from .sequence_info import live_lengths

        info = self.info
        lengths = live_lengths(info.input_ids, info.seq_len).tolist()
        rows = [(len(lengths), lengths[0])] if len(set(lengths)) == 1 else []
        return list(dict.fromkeys([(1, info.input_ids.size), *rows]))

    def _check_sizes(self, leaves: list[Any]) -> None:
        """Raises InvalidArgument where an argument has not the sizes that the graph is of alone."""
        import torch

        for leaf, (name, sizes) in zip(leaves, self._sizes):
            if not isinstance(leaf, torch.Tensor) or sizes is None:
                continue
            got = list(leaf.shape)
            if len(got) == len(sizes) and all(size in (None, own) for size, own in zip(sizes, got)):
                continue
            expected = ", ".join("*" if size is None else str(size) for size in sizes)
            why = " (torch.export takes a batch of one for all there will be: its example must have two " \
                  "sequences or more)" if sizes[:1] == [1] and len(got) == len(sizes) else ""
            raise InvalidArgument(f"{name}: expected [{expected}], as exported, got {got}{why}")

    def _check_constants(self, leaves: list[Any]) -> None:
        """Raises InvalidArgument where an argument is not what the graph was made for."""
        import torch

        for leaf, (name, is_constant, value) in zip(leaves, self._constants):
            is_tensor = isinstance(leaf, torch.Tensor)
            if is_constant and (is_tensor or leaf != value):
                raise InvalidArgument(f"{name}: expected {value!r}, as exported, got "
                                      f"{'a tensor' if is_tensor else repr(leaf)}")

    def _inputs(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        from torch.utils import _pytree

        missing = set(self._kwargs) - set(kwargs)
        if not missing <= self._masks.names or not set(kwargs) <= set(self._kwargs):
            raise InvalidArgument(f"expected the arguments {list(self._kwargs)} by name, as exported, "
                                  f"got {sorted(kwargs)} and {len(args)} without a name")
        leaves = _pytree.tree_leaves((args, {name: kwargs.get(name) for name in self._kwargs}))
        program, flat = self._program, []
        expected = len(program.graph_signature.user_inputs)
        if len(leaves) != expected:
            raise InvalidArgument(f"expected {expected} arguments, as exported, got {len(leaves)}")
        self._check_sizes(leaves)
        self._check_constants(leaves)
        self._masks.check_call(leaves, len(self.info.input_ids), self._row_lengths())
        user = iter(leaves)
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
        import torch
        from torch.utils import _pytree

        inputs = self._inputs(args, kwargs)
        self._shapes = self._token_shapes()
        self._attend.prepare()
        with torch.no_grad():  # through caches there is none
            flat = self._graph(*inputs)
        return _pytree.tree_unflatten(flat, self._program.call_spec.out_spec)


def _find_attention(program: Any, folder: Path) -> Mapping[str, Any]:
    """Where the graph attends, without any kernels."""
    import torch

    archive, plan = folder / "own.pt2", folder / "own.json"
    torch.export.save(program, archive)
    _run([find_compiler(), os.fspath(archive), "--quiet", "--graph-checked", f"--cached={plan}",
          "--emit=mla", "-o", os.fspath(folder / "own.mlir")], (), (os.fspath(folder),))
    found: Mapping[str, Any] = json.loads(plan.read_text())
    return found


def _check_masks(program: Any, plan: Mapping[str, Any], module: Any, example: Any, shapes: Any,
                 folder: Path) -> None:
    """Raises InvalidArgument where inputs that are masks say something else than steps do."""
    import torch

    masks = MaskInputs(program, plan)
    if not masks.names:
        return
    masks.check_example()
    if isinstance(module, torch.export.ExportedProgram):
        return
    without = masks.leave_out(module, example, shapes)
    if without is not None:
        masks.check_own(lambda: _find_attention(functional(_program_of(module, *without)), folder))


def cached(module: Any, example: Any = (), info: SequenceInfo | None = None, *,
           dynamic_shapes: Any = None, device: Device | None = None,
           archive: str | os.PathLike[str] | None = None, attention: str | None = None,
           check_rows: bool = True, check_masks: bool = True, **options: Any) -> CachedModel:
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
    check_rows: whether what is left to torch is run on random inputs, in doubles, to see that a
    token's row does not depend on the tokens beside it.
    check_masks: whether a mask that is an input must be causal in the example and, by a second
    export, be what the model does without it. Steps do not read it.
    The other options are those of mlac.compile.

    Needs torch. Raises CompileError at the node whose attention is not understood, or not causal,
    and InvalidArgument at what mixes tokens outside attention, or changes a buffer or an input, and
    at masks that say something else.
    """
    import torch

    from .sequence_info import SequenceInfo

    if not isinstance(info, SequenceInfo):
        raise InvalidArgument("info: expected a SequenceInfo, whose batch and pages are used, got "
                              f"{type(info).__name__}")
    if attention is not None:
        from .attention import AttentionRegistry

        AttentionRegistry.get(attention)
        for option in [*options, *(["device"] if device is not None else [])]:
            raise InvalidArgument(f"option '{option}' is of packages: attention '{attention}' makes "
                                  "its own")
    kwargs = tuple(example) if isinstance(example, Mapping) else ()
    program = functional(_program_of(module, example, dynamic_shapes))
    options.setdefault("dtype", _dtype_of(program))
    with tempfile.TemporaryDirectory(prefix="mlac-") as name:
        folder, package = Path(name), None
        path = Path(archive) if archive is not None else folder / "model.pt2"
        if attention is None or archive is not None:
            torch.export.save(program, path)
        if attention is not None:
            plan = _find_attention(program, folder)
        else:
            plan_path = folder / "cached.json"
            output, compiler = options.pop("output", None), options.pop("compiler", None)
            package = _compile(path, {"cached": os.fspath(plan_path), "graph_checked": True,
                                      "page_size": info.page_size, **options}, output, compiler,
                               hidden=name)
            plan = json.loads(plan_path.read_text())
        if check_masks:
            _check_masks(program, plan, module, example, dynamic_shapes, folder)
    attend: _PackagedSteps | _Operators
    if package is None:
        attend = _Operators(program, plan, info, str(attention))
    else:
        attend = _PackagedSteps(program, package, plan, info, device or Device("cpu"))
    model = CachedModel(program, package, plan, info, attend, kwargs)
    if check_rows:
        model.check_rows()
    return model

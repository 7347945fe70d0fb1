# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether what torch computes between attentions treats each token by itself. Steps over caches run
it on new tokens alone, so that a graph which rolls, sums or numbers tokens would compute something
else. Experts sort tokens and are independent all the same, which their nodes do not show: so it is
tried. Between two attentions, the rows of all tokens are compared with those of parts of them, in
another order, from the same random values. Numbers are doubles, in which no rounding lets
a router choose other experts."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ._errors import InvalidArgument

if TYPE_CHECKING:
    import torch

# Of the whole; enough that parts of several sizes and neighbours differ.
_BATCH, _TOKENS = 2, 6
# Of these sequences these tokens: the rest of a batch, a chunk, and tokens that are alone.
_PARTS = (((1,), (4, 0, 2, 5, 1, 3)), ((0,), (5, 1, 3)), ((0,), (0, 4)), ((0,), (2,)))
_TOLERANCE = 1e-6  # of the largest row's norm; doubles are off by 1e-14
# Where operators have no doubles: of sums of thousands of f32, and of numbers of shorter types,
# which are rounded once or twice.
_SHORT_TOLERANCE, _ROUNDINGS = 1e-4, 4


class _Run(NamedTuple):
    """Tokens that are computed together: those of the whole, or of a part of it."""

    batch: tuple[int, ...]
    tokens: tuple[int, ...]
    values: dict[Any, Any]  # of nodes

    def name_token(self, row: int) -> str:
        sequence, token = divmod(row, len(self.tokens))
        return f"token {self.tokens[token]} in sequence {self.batch[sequence]}"


def describe_node(node: Any) -> str:
    """As mla-compile does: node 'x' (aten.op) in path: Class."""
    stack = list(node.meta.get("nn_module_stack", {}).values())
    names = (stack[-1][0], str(stack[-1][1]).rsplit(".", 1)[-1]) if stack else ()
    path = " in " + ": ".join(filter(None, names)) if stack else ""  # the whole has no name
    target = str(node.target)
    if target.startswith("<"):  # a function, which would say where it lies in memory
        target = getattr(node.target, "__name__", target)
    return f"node '{node.name}' ({target}){path}"


def _explain(cause: Any) -> str:
    """What to do about a node that mixes tokens, where that is known."""
    if str(cause.target).startswith("aten.arange"):
        return ". It numbers the tokens of a call from 0: let positions be an input of the model"
    return ""


def _expression(size: Any) -> Any:
    """Of a symbol what it is made of; a number as it stands."""
    return size if isinstance(size, int) else size.node.expr


def _example_size(size: Any) -> int | None:
    """What a size was in the example; None: it is not known."""
    return size if isinstance(size, int) else getattr(size.node, "hint", None)


class _Labels:
    """Which dimensions are a batch ("b"), tokens ("t"), both ("bt"), or open and neither ("?")."""

    def __init__(self, attention: Any):
        shape = attention.meta["val"].shape  # [batch, heads, tokens, channels]
        self._batch, self._tokens = _expression(shape[0]), _expression(shape[2])
        self._batch_of_example = _example_size(shape[0])
        if isinstance(self._tokens, int):
            raise InvalidArgument(f"{describe_node(attention)}: its graph is of {self._tokens} tokens "
                                  "alone; dynamic_shapes must leave their number open, or check_rows "
                                  "be False")
        self.is_batch_open = not isinstance(self._batch, int)
        self.batch: int = _BATCH if self.is_batch_open else self._batch

    def of(self, node: Any) -> list[str]:
        shape: tuple[Any, ...] = getattr(node.meta.get("val"), "shape", ())
        labels = [self._of_size(_expression(size)) for size in shape]
        # An input of which the graph reads one sequence alone: nothing says that it has the others.
        if node.op == "placeholder" and labels == ["?", "t"] and \
                _example_size(shape[0]) == self._batch_of_example:
            labels[0] = "b"
        return labels

    def _of_size(self, size: Any) -> str:
        if size == self._tokens:
            return "t"
        if size == self._batch * self._tokens:
            return "bt"
        if isinstance(size, int):
            return ""
        return "b" if size == self._batch else "?"

    @staticmethod
    def are_rows(labels: list[str]) -> bool:
        """Of tokens, each once."""
        return "".join(labels) in ("t", "bt", "tb")


def _select(value: torch.Tensor, labels: list[str], whole: _Run, part: _Run) -> torch.Tensor:
    """A part's rows of a value of the whole."""
    import torch

    def index(dim: int, numbers: tuple[int, ...]) -> None:
        nonlocal value
        value = value.index_select(dim, torch.tensor(numbers, device=value.device))

    for dim, label in enumerate(labels):
        if label == "bt":
            index(dim, tuple(b * len(whole.tokens) + t for b in part.batch for t in part.tokens))
        elif label in ("b", "t"):
            index(dim, part.batch if label == "b" else part.tokens)
    return value


def _rows(value: torch.Tensor, labels: list[str]) -> torch.Tensor:
    """[tokens, numbers], doubles."""
    import torch

    # "b" before "t".
    dims = sorted((dim for dim, label in enumerate(labels) if label), key=labels.__getitem__)
    value = torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
    value = value.movedim(dims, list(range(len(dims)))).flatten(0, len(dims) - 1)
    return value.reshape(len(value), -1).double()


def _map(change: Callable[[Any], Any], value: Any) -> Any:
    from torch.utils import _pytree

    return _pytree.tree_map(change, value)


_WIDENED = ("float16", "bfloat16", "float32", "float64")


def _cast_type(value: Any, to: Any) -> Any:
    import torch

    is_wide = isinstance(value, torch.dtype) and str(value).removeprefix("torch.") in _WIDENED
    return to if is_wide else value


def _widen(value: Any) -> Any:
    """Floating numbers, and types of them, as doubles."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.to(_cast_type(value.dtype, torch.float64))
    return _cast_type(value, torch.float64)


class _Casts:
    """What a node's operands are in other types, once for all runs that share them."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, Any], Any] = {}
        self.types: set[Any] = set()  # that the graph has

    def get(self, used: Any, value: Any, dtype: Any) -> Any:
        """`dtype`: none is the graph's own."""
        import torch

        if not isinstance(value, torch.Tensor) or value.dtype != torch.float64:
            return value
        to = dtype or used.meta["val"].dtype
        self.types |= {to} - {dtype}
        if (id(value), to) not in self._made:
            self._made[id(value), to] = value.to(to)
        return self._made[id(value), to]


def _is_check(node: Any) -> bool:
    """Of a type, which is another as a double."""
    return "_assert_tensor_metadata" in str(node.target)


def _hold(program: Any) -> dict[str, Any]:
    """What a program's placeholders hold: weights, and the example's inputs."""
    from torch.utils import _pytree

    if program.example_inputs is None:
        raise InvalidArgument("module: the exported program has no example inputs, which others are "
                              "made of to compare rows of tokens; check_rows=False does not")
    user, held = iter(_pytree.tree_leaves(program.example_inputs)), {}
    for spec in program.graph_signature.input_specs:
        if spec.kind.name == "USER_INPUT":
            held[spec.arg.name] = next(user)
        else:
            weights = program.state_dict if spec.target in program.state_dict else \
                program.constants
            held[spec.arg.name] = weights[spec.target].detach()
    return held


class _Values:
    """Random ones, the same for every run: a row of each token, or one for all (`are_alike`), which
    all but a few experts do nothing for."""

    def __init__(self, labels: _Labels, device: Any, are_alike: bool):
        import torch

        self._labels, self._device, self._are_alike = labels, device, are_alike
        self._generator = torch.Generator().manual_seed(0)

    def make(self, node: Any, example: Any, whole: _Run, run: _Run) -> torch.Tensor:
        """What `run` has for an input or an attention; `example` is another value of it."""
        import torch

        labels = self._labels.of(node)
        if "?" in labels or labels.count("t") > 1:
            # A mask, which nothing reads any more but for its sizes.
            counts = {"b": len(run.batch), "bt": len(run.batch) * len(run.tokens)}
            shape = [counts.get(label, len(run.tokens)) if label else size
                     for label, size in zip(labels, example.shape)]
            return torch.full(shape, example.dtype == torch.bool, dtype=_widen(example.dtype),
                              device=self._device)
        if node not in whole.values:
            whole.values[node] = self._make_rows(example, labels, whole).to(self._device)
        return _select(whole.values[node], labels, whole, run)

    def _make_rows(self, example: torch.Tensor, labels: list[str], whole: _Run) -> torch.Tensor:
        import torch

        counts = {"b": len(whole.batch), "t": len(whole.tokens),
                  "bt": len(whole.batch) * len(whole.tokens)}
        shape = [counts.get(label, size) for label, size in zip(labels, example.shape)]
        if example.is_floating_point() or example.is_complex():
            dtype = torch.complex128 if example.is_complex() else torch.float64
            made = torch.randn(shape, generator=self._generator, dtype=dtype)
        else:
            # Numbers of rows of something that has at least as many as the example shows.
            least, most = min(int(example.min()), 0), max(int(example.max()), 1)
            made = torch.randint(least, most + 1, shape, generator=self._generator)
            made = made.to(example.dtype)
        for dim, label in enumerate(labels):
            if self._are_alike and label:
                made = made.narrow(dim, 0, 1).expand_as(made)
        return made


class TokenRows:
    """Runs a graph, whose attentions `is_attention` knows, on several sets of tokens, node by node:
    a weight is widened once for all, and freed."""

    def __init__(self, module: Any, program: Any, is_attention: Callable[[Any], bool]):
        self._module, self._is_attention = module, is_attention
        self._held = _hold(program)
        self._nodes = list(module.graph.nodes)
        self._labels = _Labels(next(filter(is_attention, self._nodes)))
        # Nodes up to an attention, or to the output.
        self._regions: dict[Any, int] = {}
        region = 0
        for node in self._nodes:
            region += is_attention(node) or node.op == "output"
            self._regions[node] = region
        self._last = {used: node for node in self._nodes for used in node.all_input_nodes}
        self._off: dict[Any, str] = {}  # of a region, nodes whose rows are others in a part, and how
        self._tolerance = _TOLERANCE
        device = next(iter(program.state_dict.values())).device
        self._draws = [(_Values(self._labels, device, are_alike), *self._make_runs())
                       for are_alike in (False, True)]

    def _make_runs(self) -> tuple[_Run, list[_Run]]:
        whole = _Run(tuple(range(self._labels.batch)), tuple(range(_TOKENS)), {})
        if self._labels.is_batch_open:
            return whole, [_Run(batch, tokens, {}) for batch, tokens in _PARTS]
        return whole, [_Run(whole.batch, tokens, {}) for _, tokens in _PARTS[1:]]

    def _fetch(self, node: Any) -> None:
        """What does not come of a call: weights, inputs, and results of attentions."""
        if node in self._draws[0][1].values:
            return
        if node.op == "get_attr":
            held = operator.attrgetter(node.target)(self._module)
        else:
            held = node.meta["val"] if self._is_attention(node) else self._held[node.name]
        wide = None if any(self._labels.of(node)) else _widen(held)
        for values, whole, parts in self._draws:
            for run in (whole, *parts):
                made = values.make(node, held, whole, run) if wide is None else wide
                if self._is_attention(node):  # tokens before heads, as it writes them
                    made = made.transpose(1, 2).contiguous().transpose(1, 2)
                run.values[node] = made

    def _call(self, node: Any, run: _Run, casts: _Casts) -> Any:
        """In doubles, else in f32, else in the types that the graph has: the first that the
        operator takes."""
        import torch
        from torch.fx.node import map_arg

        reason = ""
        for dtype in (torch.float64, torch.float32, None):
            args, kwargs = map_arg((node.args, node.kwargs),
                                   lambda used: casts.get(used, run.values[used], dtype))
            if dtype:
                args, kwargs = (_map(lambda each: _cast_type(each, dtype), part)
                                for part in (args, kwargs))
            try:
                result = node.target(*args, **kwargs)
            except (RuntimeError, TypeError, ValueError, IndexError) as error:
                reason = str(error)  # the error holds all that is here
                continue
            self._expect({dtype} if dtype else casts.types)
            return _map(_widen, result)
        raise InvalidArgument(f"{describe_node(node)} does not run on [{len(run.batch)}, "
                              f"{len(run.tokens)}] tokens: {reason}")

    def _expect(self, dtypes: set[Any]) -> None:
        """The roundings of these types."""
        import torch

        for dtype in dtypes - {torch.float64}:
            self._tolerance = max(self._tolerance, _SHORT_TOLERANCE,
                                  _ROUNDINGS * torch.finfo(dtype).eps)

    def _compare(self, node: Any, labels: list[str]) -> str:
        """How a token's row is another in a part; empty: it is not."""
        for _, whole, parts in self._draws:
            for part in parts:
                expected = _rows(_select(whole.values[node], labels, whole, part), labels)
                got = _rows(part.values[node], labels)
                same = (got == expected) | (got.isnan() & expected.isnan())
                # A row of zeros is as exact as the others are large.
                largest = float(expected.nan_to_num(0, 0, 0).norm(dim=1).max())
                off = (got - expected).masked_fill(same, 0).norm(dim=1).nan_to_num(float("inf"))
                row = int(off.argmax())
                if off[row] > self._tolerance * largest:
                    counts = [len(run.batch) * len(run.tokens) for run in (whole, part)]
                    return (f"{part.name_token(row)} of {counts[0]} is another among {counts[1]} of "
                            f"them: off by {float(off[row]):.2g}, where the largest row has the norm "
                            f"{largest:.2g}")
        return ""

    def _evaluate(self, node: Any) -> None:
        for used in node.all_input_nodes:
            self._fetch(used)
        runs = [run for _, whole, parts in self._draws for run in (whole, *parts)]
        # What is made of weights alone is the same for all.
        is_shared = all(run.values[used] is runs[0].values[used]
                        for used in node.all_input_nodes for run in runs)
        casts = _Casts()
        for run in runs:
            if _is_check(node):
                run.values[node] = None
            elif is_shared and run is not runs[0]:
                run.values[node] = runs[0].values[node]
            else:
                run.values[node] = self._call(node, run, casts)
        labels = self._labels.of(node)
        off = self._compare(node, labels) if _Labels.are_rows(labels) else ""
        if off:
            self._off[node] = off

    def _find_cause(self, node: Any) -> Any:
        """The first node of the region that `node` is made of and that is off."""
        made_of, left = {node}, [node]
        while left:
            for used in left.pop().all_input_nodes:
                if used not in made_of and self._regions[used] == self._regions[node]:
                    made_of.add(used)
                    left.append(used)
        return next(each for each in self._nodes if each in made_of and each in self._off)

    def _finish(self, region: int) -> None:
        """Rows that are used behind the region must be the whole's, and from then on are."""
        import torch

        for node in self._nodes:
            if self._regions[node] != region or node.op != "call_function" or \
                    self._is_attention(node) or \
                    all(self._regions[user] == region for user in node.users):
                continue
            labels = self._labels.of(node)
            if not _Labels.are_rows(labels):
                continue
            if node in self._off:
                cause = self._find_cause(node)
                raise InvalidArgument(
                    f"{describe_node(cause)} mixes tokens: with random inputs, the row of "
                    f"{self._off[cause]}; steps over caches compute new tokens alone"
                    f"{_explain(cause)}")
            if self._draws[0][1].values[node].isnan().any():
                raise InvalidArgument(f"{describe_node(node)} is not a number with random inputs, so "
                                      "that rows of tokens cannot be compared; check_rows=False does not")
            for _, whole, parts in self._draws:
                for part in parts:
                    rows = _select(whole.values[node], labels, whole, part)
                    part.values[node] = torch.empty_like(part.values[node]).copy_(rows)
        self._off = {}

    def _free(self, node: Any) -> None:
        for used in node.all_input_nodes:
            if self._last[used] is node:
                for _, whole, parts in self._draws:
                    for run in (whole, *parts):
                        run.values.pop(used, None)

    def check(self) -> None:
        """Raises InvalidArgument at the first node that mixes tokens."""
        import torch

        region = 0
        with torch.no_grad():
            for node in self._nodes:
                if self._regions[node] != region:
                    self._finish(region)
                    region = self._regions[node]
                if node.op == "call_function" and not self._is_attention(node):
                    self._evaluate(node)
                self._free(node)

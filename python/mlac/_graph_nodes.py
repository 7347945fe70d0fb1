# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Nodes of what torch.export records: found by a plan's names, replaced, and brought into a form that
mla-compile follows."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from ._errors import InvalidArgument
from ._token_rows import describe_node


def find_node(nodes: Mapping[str, Any], value: Any) -> Any:
    """The node of torch.fx that a value of the plan is: a name, or one of a node's results."""
    if isinstance(value, str):
        return nodes[value]
    node = nodes[value["node"]]
    # Archives name nodes of several results by the first of them.
    source = node.args[0] if node.target is operator.getitem else node
    return next(user for user in source.users
                if user.target is operator.getitem and user.args[1] == value["result"])


def _call_on(graph: Any, node: Any, operator_: Any, *args: Any) -> Any:
    """A node that `operator_` makes of another."""
    new = graph.call_function(operator_, (node, *args))
    new.meta = {**node.meta, "val": operator_(node.meta["val"], *args)}
    return new


# What a plan says of a value's dimensions: the factors of each, numbers or "batch" and "tokens".
# None: [batch, heads, tokens, channels].
Dims = list[list[int | str]]


def _order_of(dims: Dims, is_transposed: bool) -> list[int]:
    """Where batch, heads, tokens and channels (or transposed) are among the factors."""
    factors = [factor for dim in dims for factor in dim]
    batch, tokens = factors.index("batch"), factors.index("tokens")
    channels = sum(map(len, dims[:-2])) if is_transposed else len(factors) - 1
    heads = [at for at in range(len(factors)) if at not in (batch, tokens, channels)]
    last = [channels, tokens] if is_transposed else [tokens, channels]
    return [batch, *heads, *last]


def _change(value: Any, apply: Any, dims: Dims, is_transposed: bool) -> Any:
    """[batch, heads, tokens, channels] of a value; `apply` calls an operator."""
    import torch

    aten = torch.ops.aten
    for dim, factors in reversed(list(enumerate(dims))):
        if len(factors) > 1:
            sizes = [-1 if isinstance(factor, str) else factor for factor in factors]
            value = apply(aten.unflatten.int, value, dim, sizes)
    order = _order_of(dims, is_transposed)
    if order != sorted(order):
        value = apply(aten.permute.default, value, order)
    return value if len(order) == 4 else \
        apply(aten.flatten.using_ints, value, 1, len(order) - 3)


def to_heads(graph: Any, node: Any, dims: Dims | None, is_transposed: bool = False) -> Any:
    """[batch, heads, tokens, channels], or transposed, of a node with other dimensions."""
    def apply(operator_: Any, node: Any, *args: Any) -> Any:
        return _call_on(graph, node, operator_, *args)

    return node if dims is None else _change(node, apply, dims, is_transposed)


def from_heads(graph: Any, attention: Any, dims: Dims | None) -> Any:
    """What stands for an attention whose result had other dimensions than it gives."""
    import torch

    if dims is None:
        return attention
    aten, order = torch.ops.aten, _order_of(dims, False)
    factors = [factor for dim in dims for factor in dim]
    attention.meta["val"] = _change(attention.meta["val"],
                                    lambda operator_, *args: operator_(*args), dims, False)
    node, heads = attention, [factors[at] for at in order[1:-2]]
    if len(heads) > 1:
        node = _call_on(graph, node, aten.unflatten.int, 1, heads)
    if order != sorted(order):
        back = sorted(range(len(order)), key=order.__getitem__)
        node = _call_on(graph, node, aten.permute.default, back)
    for dim, each in enumerate(dims):
        if len(each) > 1:
            node = _call_on(graph, node, aten.flatten.using_ints, dim, dim + len(each) - 1)
    return node


def _name_of(node: Any) -> str:
    """Of an operator of aten, without its overload."""
    return str(node.target).split(".")[1] if str(node.target).startswith("aten.") else ""


def _is_check(node: Any) -> bool:
    return _name_of(node) == "_assert_tensor_metadata"


def erase_with_operands(graph: Any, *nodes: Any) -> None:
    """What only an attention read. torch's own elimination takes dropout for an effect, and what
    tracing saw of a tensor's type for a use."""
    following = dict.fromkeys(nodes)  # each once, and so no erased one
    while following:
        node, _ = following.popitem()
        if node.op != "call_function" or not all(map(_is_check, node.users)):
            continue
        for check in list(node.users):
            graph.erase_node(check)
        following.update(dict.fromkeys(node.all_input_nodes))
        graph.erase_node(node)


def _may_write(node: Any) -> bool:
    schema = getattr(node.target, "_schema", None)
    return node.op == "call_function" and schema is not None and \
        (schema.is_mutable or not str(node.target).startswith("aten."))


def _products_of_einsum(program: Any) -> dict[Any, Any]:
    """What torch makes of einsum, where the program has any: products, which are followed."""
    import torch

    einsum = torch.ops.aten.einsum.default
    if all(node.target != einsum for node in program.graph.nodes):
        return {}
    return {einsum: torch.export.default_decompositions()[einsum]}


def without_einsum(program: Any) -> Any:
    """The program, whose einsum are products."""
    products = _products_of_einsum(program)
    return program.run_decompositions(products) if products else program


def functional(program: Any) -> Any:
    """The program without writes to memory, and verified by torch to have none: operators of other
    libraries, as of experts, do not say by their names. Without such nodes the program itself."""
    products = _products_of_einsum(program)
    writes = program.dialect == "TRAINING" and any(map(_may_write, program.graph.nodes))
    if products or writes:
        program = program.run_decompositions(products)
    nodes = {node.name: node for node in program.graph.nodes}
    for spec in program.graph_signature.output_specs:
        if spec.kind.name != "USER_OUTPUT":
            raise InvalidArgument(f"the model changes {spec.target} ({spec.kind.name}) to "
                                  f"{describe_node(nodes[spec.arg.name])}, which steps over caches "
                                  "would not")
    return program

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


def split_batch(graph: Any, node: Any, heads: int) -> Any:
    """[batch, heads, ...] of a node that may be [batch * heads, ...], as torch.bmm takes it."""
    import torch

    if node.meta["val"].dim() == 4:
        return node
    return _call_on(graph, node, torch.ops.aten.unflatten.int, 0, [-1, heads])


def join_batch(graph: Any, attention: Any, heads: int) -> Any:
    """What stands for an attention whose result may have been [batch * heads, ...]: it gives
    [batch, heads, ...]."""
    import torch

    joined = attention.meta["val"]
    if joined.dim() == 4:
        return attention
    attention.meta["val"] = joined.unflatten(0, [-1, heads])
    return _call_on(graph, attention, torch.ops.aten.flatten.using_ints, 0, 1)


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

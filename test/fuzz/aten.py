# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the graph of a torch.export archive in NumPy, in float64: what a changed graph computes."""

import math

import numpy


def _softmax(x, axis):
    shifted = numpy.exp(x - x.max(axis=axis, keepdims=True))
    return shifted / shifted.sum(axis=axis, keepdims=True)


def _attend(query, key, value, attn_mask=None, scale=None, **rest):
    if any(rest.values()):
        raise ValueError(f"arguments {rest}")
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query @ key.swapaxes(-1, -2) * scale
    return _softmax(scores if attn_mask is None else scores + attn_mask, -1) @ value


def _slice(self, dim=0, start=0, end=2**63 - 1, step=1):
    index = [slice(None)] * self.ndim
    index[dim] = slice(start, end, step)
    return self[tuple(index)]


def _split(self, split_sizes, dim=0):
    if sum(split_sizes) != self.shape[dim] or min(split_sizes) < 0:
        raise ValueError("sizes")
    return numpy.split(self, numpy.cumsum(split_sizes)[:-1], axis=dim)


def _expand(self, size):
    lead = len(size) - self.ndim
    return numpy.broadcast_to(self, [self.shape[i - lead] if n == -1 else n
                                     for i, n in enumerate(size)])


def _linear(input, weight, bias=None):
    result = input @ weight.T
    return result if bias is None else result + bias


def _copy(self, src):
    self[...] = src
    return self


def _dropout(input, p, train):
    if p and train:
        raise ValueError("dropout")
    return input


def _mean(self, dim, keepdim=False):
    return self.mean(axis=tuple(dim), keepdims=keepdim)


def _alias(self, **_):
    return self


def _number(value):
    """JSON has no infinities: they are texts."""
    return float(value) if isinstance(value, str) else value


OPERATORS = {
    "sym_size.int": lambda self, dim: self.shape[dim],
    "linear.default": _linear,
    "to.dtype": _alias,
    "contiguous.default": lambda self, memory_format=None: numpy.ascontiguousarray(self),
    "detach.default": lambda self: self,
    "clone.default": lambda self, memory_format=None: self.copy(),
    "pow.Tensor_Scalar": lambda self, exponent: self**exponent,
    "mean.dim": _mean,
    "rsqrt.default": lambda self: 1 / numpy.sqrt(self),
    "neg.default": lambda self: -self,
    "add.Tensor": lambda self, other: self + other,
    "sub.Tensor": lambda self, other: self - other,
    "mul.Tensor": lambda self, other: self * other,
    "view.default": lambda self, size: self.reshape(size),
    "reshape.default": lambda self, shape: self.reshape(shape),
    "transpose.int": lambda self, dim0, dim1: self.swapaxes(dim0, dim1),
    "unsqueeze.default": lambda self, dim: numpy.expand_dims(self, dim),
    "slice.Tensor": _slice,
    "split_with_sizes.default": _split,
    "cat.default": lambda tensors, dim=0: numpy.concatenate(tensors, axis=dim),
    "expand.default": _expand,
    "new_empty.default": lambda self, size, **_: numpy.full(size, numpy.nan),
    "copy_.default": _copy,
    "matmul.default": lambda self, other: self @ other,
    "softmax.int": lambda self, dim, dtype=None: _softmax(self, dim),
    "dropout.default": _dropout,
    "scaled_dot_product_attention.default": _attend,
    # What run_decompositions() writes.
    "permute.default": lambda self, dims: self.transpose(dims),
    "mm.default": lambda self, mat2: self @ mat2,
    "bmm.default": lambda self, mat2: self @ mat2,
    "mul.Scalar": lambda self, other: self * other,
    "_softmax.default": lambda self, dim, half_to_float: _softmax(self, dim),
    "eq.Scalar": lambda self, other: self == _number(other),
    "logical_not.default": lambda self: ~self,
    "any.dim": lambda self, dim, keepdim=False: self.any(axis=dim, keepdims=keepdim),
    "full_like.default": lambda self, fill_value, **_: numpy.full(self.shape, fill_value, float),
    "where.self": lambda condition, self, other: numpy.where(condition, self, other),
}


class Failure:
    """What a node gives that cannot be run; matters where something is made of it."""

    def __init__(self, why):
        self.why = why


def _whole(value):
    """JSON has one type of number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _argument(argument, values):
    (kind, value), = argument.items()
    if kind == "as_none":
        return None
    if kind == "as_int":
        return _whole(value)
    if kind == "as_ints":
        return [_whole(item) for item in value]
    if kind == "as_tensor":
        return values[value["name"]]
    if kind == "as_tensors":
        return [values[tensor["name"]] for tensor in value]
    if kind == "as_sym_ints":
        return [values[item["as_name"]] if "as_name" in item else item["as_int"] for item in value]
    if kind == "as_sym_int":
        return values[value["as_name"]]
    return value


def _run(node, values):
    operator = OPERATORS[node["target"].removeprefix("torch.ops.aten.")]
    arguments = {each["name"]: _argument(each["arg"], values) for each in node["inputs"]}
    for value in arguments.values():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Failure):
                return each
    with numpy.errstate(all="ignore"):
        return operator(**arguments)


def _names(node):
    names = []
    for output in node["outputs"]:
        (kind, value), = output.items()
        names += ([each["name"] for each in value] if kind == "as_tensors" else
                  [value.get("name") or value.get("as_name")])
    return names


def run(model, weights, inputs):
    """The first output, or a Failure. `weights` by their names in the state, `inputs` by theirs."""
    graph, signature = model["graph_module"]["graph"], model["graph_module"]["signature"]
    values = {}
    for spec in signature["input_specs"]:
        if "parameter" in spec:
            values[spec["parameter"]["arg"]["name"]] = weights[spec["parameter"]["parameter_name"]]
        else:
            name = spec["user_input"]["arg"]["as_tensor"]["name"]
            values[name] = inputs[name]
    for node in graph["nodes"]:
        if not node["outputs"]:
            continue
        names = _names(node)
        try:
            result = _run(node, values)
        except Exception as error:  # of any kind: the graph is damaged
            result = Failure(f"{node['target']}: {error!r}")
        many = result if len(names) > 1 and not isinstance(result, Failure) else [result] * len(names)
        if len(many) != len(names):
            many = [Failure("results")] * len(names)
        values.update(zip(names, many))
    return values[graph["outputs"][0]["as_tensor"]["name"]]

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The buffers of a run, by name: which type each must have is looked up once for a set of names.

An array that lies as one did that passed every check is only asked where it lies: a tensor of
torch or an array of NumPy says so in a few attributes. All else takes the way of every check.
"""

from __future__ import annotations

from typing import Any

from ._library import Binding


def _is_torch(kind):
    return kind.__name__ == "Tensor" and kind.__module__ == "torch"


def _is_numpy(kind):
    return kind.__name__ == "ndarray" and kind.__module__ == "numpy"


class _Buffer:
    """An input or output. `kind` and `dtype` are those of the last array that was checked in full."""

    __slots__ = ("name", "is_written", "width", "binding", "kind", "is_torch", "dtype")

    def __init__(self, name, is_written, width, binding):
        self.name = name
        self.is_written = is_written
        self.width = width  # of its rows; 0: any
        self.binding = binding
        self.kind: Any = None
        self.is_torch = False
        self.dtype: Any = None

    def learn(self, array):
        """After every check: what an array like this one has."""
        kind = type(array)
        if _is_torch(kind):
            self.kind, self.is_torch, self.dtype = kind, True, array.dtype
        elif _is_numpy(kind):
            typestr = array.__array_interface__["typestr"]
            if typestr[1] != "V":  # which several types of eight and sixteen bits are
                self.kind, self.is_torch, self.dtype = kind, False, typestr

    def take_torch(self, tensor, is_cuda):
        """Whether the tensor is like the last one; then it is bound."""
        if (tensor.dtype is not self.dtype or not (tensor.is_cuda if is_cuda else tensor.is_cpu)
                or tensor.requires_grad or not tensor.is_contiguous() or tensor.is_neg()):
            return False
        if self.width:
            shape = tensor.shape
            if len(shape) != 2 or shape[1] != self.width:
                return False
        self.binding.data = tensor.data_ptr()
        self.binding.bytes = tensor.nbytes
        return True

    def take_numpy(self, array, is_cuda):
        """The same of an array of NumPy."""
        interface = array.__array_interface__
        address, is_read_only = interface["data"]
        if (interface["typestr"] != self.dtype or interface["strides"] is not None or is_cuda
                or (is_read_only and self.is_written)):
            return False
        if self.width:
            shape = interface["shape"]
            if len(shape) != 2 or shape[1] != self.width:
                return False
        self.binding.data = address
        self.binding.bytes = array.nbytes
        return True


class Bindings:
    """What mla_step_run_bound takes for buffers of these names."""

    def __init__(self, names, output_types, widths):
        self.array = (Binding * len(names))(*[Binding(name.encode()) for name in names])
        self._buffers = [
            _Buffer(name, name in output_types, widths.get(name, 0), self.array[index])
            for index, name in enumerate(names)]

    def take(self, arrays, is_cuda, check):
        """Binds the arrays, in the order of the names. `check(name, array)` is the view of one
        after every check; returns these, which keep memory alive."""
        views = []
        for buffer, array in zip(self._buffers, arrays):
            if type(array) is buffer.kind:
                try:
                    is_taken = (buffer.take_torch if buffer.is_torch
                                else buffer.take_numpy)(array, is_cuda)
                except RuntimeError:  # sparse ones, and those of torch.func, have no address
                    is_taken = False
                if is_taken:
                    continue
            view = check(buffer.name, array)
            views.append(view)
            buffer.binding.data, buffer.binding.bytes = view.address, view.nbytes
            buffer.learn(array)
        return views

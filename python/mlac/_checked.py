# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Integers and texts on their way into the library. ctypes keeps an integer's low bits and a text
up to its first zero, so that 2**32 + 1 tokens would run as one: here they are refused."""

import array
import ctypes
import os
from ctypes import c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_uint64
from operator import index
from typing import Any

from ._errors import InvalidArgument

_SIGNED = (c_int32, c_int64)
_UNSIGNED = (c_uint32, c_uint64, c_size_t)
# Codes of `array`, which refuses what does not fit: it checks many times as fast as Python does.
_CODES = {c_int32: "i", c_int64: "q", c_uint32: "I", c_uint64: "Q"}


def limits(kind):
    """Least and most of an integer type of ctypes; None for other types."""
    bits = 8 * ctypes.sizeof(kind)
    if kind in _SIGNED:
        return -(1 << bits - 1), (1 << bits - 1) - 1
    return (0, (1 << bits) - 1) if kind in _UNSIGNED else None


def _refuse(name, low, high, value):
    raise InvalidArgument(f"{name}expected an integer from {low} to {high}, got {value}")


def integer(name, value):
    """`value` as an integer; what is none is refused by `name`."""
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{name}: expected an integer, got {value!r}") from None


def real(name, value):
    """`value` as a number; what is none is refused by `name`."""
    if hasattr(value, "__float__") or hasattr(value, "__index__"):
        return float(value)
    raise TypeError(f"{name}: expected a number, got {value!r}")


def integers(name, kind, values):
    """`values` as an array of `kind`, of at least one element; what does not fit, or is no list, is
    refused by `name`."""
    code = _CODES.get(kind)
    if code and values.__class__ is list and values:
        try:
            return (kind * len(values)).from_buffer(array.array(code, values))
        except (OverflowError, TypeError):
            pass  # said below, with the value and its place
    length_of(name, values)
    given = values
    try:
        values = [index(value) for value in given]
    except TypeError:
        for place, value in enumerate(given):
            integer(f"{name}[{place}]", value)
        raise
    low, high = limits(kind)
    if values and (min(values) < low or max(values) > high):
        place = next(i for i, value in enumerate(values) if not low <= value <= high)
        _refuse(f"{name}[{place}]: ", low, high, values[place])
    return (kind * max(len(values), 1))(*values)


def length_of(name, values, what="integers"):
    """The elements of a list; what is none is refused by `name`."""
    try:
        return len(values)
    except TypeError:
        raise InvalidArgument(f"{name}: expected a list of {what}, got {values!r}") from None


def total(name, values):
    """Their sum; what is no integer is refused by `name`."""
    try:
        return sum(values)
    except TypeError:
        return sum(integer(f"{name}[{place}]", value) for place, value in enumerate(values))


def lengths(count, **lists):
    """Refuses, by its name, a list that has not `count` elements: the library reads as many."""
    for name, values in lists.items():
        if (given := length_of(name, values)) != count:
            raise InvalidArgument(f"{name}: expected {count} elements, got {given}")


def text(name, value):
    """`value` as the library takes texts; what is none is refused by `name`."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a str, got {value!r}")
    return value.encode()


def path(name, value):
    """`value` as the library takes names of files; what is none is refused by `name`."""
    try:
        return os.fsencode(value)
    except TypeError:
        raise TypeError(f"{name}: expected the name of a file, got {value!r}") from None


class Struct(ctypes.Structure):
    """A structure whose integers are compared with their fields' limits when they are set."""

    def __setattr__(self, name, value):
        bounds = self._bounds().get(name)
        if bounds is not None and not bounds[0] <= integer(name, value) <= bounds[1]:
            _refuse(f"{name}: ", *bounds, value)
        try:
            super().__setattr__(name, value)
        except TypeError as error:  # which names no field
            raise TypeError(f"{name}: {error}, got {value!r}") from None

    @classmethod
    def _bounds(cls):
        if "_limits" not in cls.__dict__:
            cls._limits = {name: limits(kind) for name, kind, *_ in cls._fields_
                           if kind in _SIGNED + _UNSIGNED}
        return cls._limits


class _Integer:
    """An argument of a function."""

    def __init__(self, kind):
        self._kind = kind
        self._low, self._high = limits(kind)

    def from_param(self, value):
        value = index(value)
        if not self._low <= value <= self._high:
            _refuse("", self._low, self._high, value)
        return self._kind.from_param(value)


class _Text:
    def from_param(self, value):
        if isinstance(value, bytes) and b"\0" in value:
            raise InvalidArgument(f"expected text without a zero, got {value!r}")
        return c_char_p.from_param(value)


_ARGUMENTS: dict[Any, Any] = {kind: _Integer(kind) for kind in _SIGNED + _UNSIGNED}
_ARGUMENTS[c_char_p] = _Text()


def argument(kind):
    """What checks an argument of `kind`, for a function's argtypes."""
    return _ARGUMENTS.get(kind, kind)


def reraised(name, error):
    """What `argument` raised in a call of `name`, which ctypes made an ArgumentError of."""
    text = str(error)
    for kind in (InvalidArgument, TypeError):
        if kind.__name__ in text:
            return kind(f"{name}: {text.replace(kind.__name__ + ': ', '')}")
    return TypeError(f"{name}: {text}")

# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The objects of the C API: released once, by the caller or when collected."""

from __future__ import annotations

from typing import Any, TypeVar

from ._errors import Error, InvalidArgument
from ._library import call

H = TypeVar("H", bound="Handle")


class Unique:
    """What cannot be copied: a copy would be a second owner, and collecting it would
    close the original. What is pickled would name nothing in another process."""

    def __reduce_ex__(self, protocol):  # copy, deepcopy and pickle all come here
        raise TypeError(f"cannot copy or pickle {self!r}: it stands for an object of the "
                        "native library in this process; share it, or make another")

    def _describe(self):
        """What repr() says besides the class."""
        raise NotImplementedError

    def __repr__(self):
        try:
            text = self._describe()
        except (Error, AttributeError) as error:  # stale, or never made
            text = f"unusable: {error}"
        return f"<mlac.{type(self).__name__} {text}>"


class Handle(Unique):
    """An object of the C API that is released once."""

    _release: str  # name of the function that releases it
    _number: Any = None  # in the library; None once it is closed

    def __init__(self, value: int):
        self._number = value

    @property
    def _value(self) -> Any:
        """Its number, for calls of the library."""
        if self._number is None:
            raise InvalidArgument(f"the mlac.{type(self).__name__} is closed")
        return self._number

    @property
    def is_closed(self) -> bool:
        return self._number is None

    def close(self) -> None:
        """Releases the object now; its methods fail afterwards. Twice is fine."""
        value, self._number = self._number, None
        if value is not None:
            call(self._release, value)

    def __repr__(self):
        return f"<mlac.{type(self).__name__} closed>" if self.is_closed else super().__repr__()

    def __enter__(self: H) -> H:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self):
        try:
            self.close()
        except Exception:  # the interpreter may be shutting down
            pass


def require(name: str, given: Any, kind: type) -> None:
    """Refuses, by its name, an argument that is no `kind`."""
    if not isinstance(given, kind):
        raise InvalidArgument(f"{name}: expected a mlac.{kind.__name__}, got {given!r}")


def address_of(stream: Any) -> int | None:
    """The address of a CUDA stream: None, an int, or a torch.cuda.Stream. ctypes would take a
    text's or an array's address for it."""
    address = getattr(stream, "cuda_stream", stream)
    if address is None or isinstance(address, int):
        return address
    raise TypeError("stream: expected None, the address of a stream or a torch.cuda.Stream, got "
                    f"{stream!r}")

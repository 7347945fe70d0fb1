# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One exception per status of the C API. What the caller can fix is a ValueError."""


class Error(Exception):
    """Base of all errors of the runtime."""


class InvalidArgument(Error, ValueError):
    """The call is wrong; the message names value and limit."""


class OutOfPages(Error):
    """The page pool cannot hold the new tokens now; nothing has changed."""


class NotFound(Error, LookupError):
    """A file, function, tensor or target that was named does not exist."""


class Corrupt(Error, ValueError):
    """A package or safetensors file is truncated or damaged."""


class Unsupported(Error):
    """Well-formed, but not for this machine or this version."""


class NoDevice(Error):
    """No GPU, no driver, or a driver that is too old."""


class DeviceError(Error):
    """The device reported a failure."""


class OutOfMemory(Error, MemoryError):
    """Host or device memory is exhausted."""


class WrongState(Error):
    """The call comes at the wrong time, for example before weights are bound."""


class Internal(Error):
    """A bug of the runtime."""


class CompileError(Error):
    """mla-compile refused its input or its options, or could not be run; the message is
    its diagnostics."""


# By the values of mla_status.
BY_STATUS = {
    1: InvalidArgument,
    2: OutOfPages,
    3: NotFound,
    4: Corrupt,
    5: Unsupported,
    6: NoDevice,
    7: DeviceError,
    8: OutOfMemory,
    9: WrongState,
    10: Internal,
}

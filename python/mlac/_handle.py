# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The objects of the C API: released once, by the caller or when collected."""

from ._library import call


class Handle:
    """An object of the C API that is released once."""

    _release = None  # name of the function that releases it

    def __init__(self, value):
        self._value = value

    def close(self):
        """Releases the object now; its methods fail afterwards. Twice is fine."""
        value, self._value = getattr(self, "_value", None), None
        if value is not None:
            call(self._release, value)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __del__(self):
        try:
            self.close()
        except Exception:  # the interpreter may be shutting down
            pass

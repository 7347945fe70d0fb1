# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays on the CPU (NumPy) and on the GPU (torch), as far as the checks need them.

Both libraries agree on operators, `axis=` and `keepdims=`; what differs is here.
"""

import ctypes

ITEM_BYTES = {"bf16": 2, "f16": 2, "f32": 4, "u8": 1}


class NumpyArrays:
    """Host memory; f16 and f32."""

    device = "cpu"

    def __init__(self):
        import numpy

        self.xp = numpy
        self.dtypes = {"f16": numpy.float16, "f32": numpy.float32}

    def random(self, shape, dtype, seed, factor=0.1, limit=1.0):
        values = self.xp.random.default_rng(seed).standard_normal(shape) * factor
        return values.clip(-limit, limit).astype(self.dtypes[dtype])

    def nan(self, shape, dtype):
        return self.xp.full(shape, self.xp.nan, self.dtypes[dtype])

    def double(self, array):
        return array.astype(self.xp.float64)

    def i64(self, values):
        return self.xp.asarray(values, dtype=self.xp.int64)

    def ints(self, buffer):
        """i64 of a buffer of i32."""
        return self.xp.frombuffer(buffer, dtype=self.xp.int32).astype(self.xp.int64)

    def arange(self, count):
        return self.xp.arange(count)

    def repeat(self, array, counts):
        return self.xp.repeat(array, counts)

    def rows_at(self, address, rows, width, dtype):
        """The memory at an address as [rows, width]."""
        size = rows * width * ITEM_BYTES[dtype]
        memory = (ctypes.c_uint8 * size).from_address(address)
        return self.xp.frombuffer(memory, dtype=self.dtypes[dtype]).reshape(rows, width)

    def concatenate(self, arrays):
        return self.xp.concatenate(arrays)

    def contiguous(self, array):
        return self.xp.ascontiguousarray(array)

    def count_different_bits(self, a, b):
        kind = {2: self.xp.uint16, 4: self.xp.uint32}[a.itemsize]
        return int((a.view(kind) != b.view(kind)).sum())

    def synchronize(self):
        pass

    def stream(self):
        """What a plan runs on."""
        return None


class TorchArrays:
    """Device memory of the current CUDA device."""

    def __init__(self, device="cuda"):
        import torch

        self.device = device
        self.xp = torch
        self.dtypes = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32,
                       "u8": torch.uint8}

    def random(self, shape, dtype, seed, factor=0.1, limit=1.0):
        generator = self.xp.Generator(self.device).manual_seed(seed)
        values = self.xp.randn(shape, generator=generator, device=self.device)
        return (values * factor).clamp(-limit, limit).to(self.dtypes[dtype])

    def nan(self, shape, dtype):
        return self.xp.full(shape, float("nan"), dtype=self.dtypes[dtype], device=self.device)

    def double(self, array):
        return array.double()

    def i64(self, values):
        return self.xp.as_tensor(values, dtype=self.xp.int64).to(self.device)

    def ints(self, buffer):
        return self.xp.frombuffer(buffer, dtype=self.xp.int32).to(self.device).long()

    def arange(self, count):
        return self.xp.arange(count, device=self.device)

    def repeat(self, array, counts):
        return self.xp.repeat_interleave(array, counts)

    def rows_at(self, address, rows, width, dtype):
        words = width * ITEM_BYTES[dtype] // 2

        class Memory:  # torch knows no bf16 in this protocol, so 16-bit integers
            __cuda_array_interface__ = {"shape": (rows, words), "typestr": "<i2",
                                        "data": (address, False), "version": 3}

        return self.xp.as_tensor(Memory(), device=self.device).view(self.dtypes[dtype])

    def concatenate(self, arrays):
        return self.xp.cat(arrays)

    def contiguous(self, array):
        return array.contiguous()

    def count_different_bits(self, a, b):
        kind = {2: self.xp.int16, 4: self.xp.int32}[a.element_size()]
        return int((a.view(kind) != b.view(kind)).sum())

    def synchronize(self):
        self.xp.cuda.synchronize()

    def stream(self):
        return self.xp.cuda.current_stream()

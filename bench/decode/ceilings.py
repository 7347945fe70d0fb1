# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the machine can do, in the same run: a read stream and a matrix product."""

import ctypes
import pathlib
from ctypes import byref, c_void_p

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class ReadStream:
    """A kernel that only reads: the PTX of `mla-run bench`, through the driver."""

    THREADS, BLOCKS, WORDS_A_TURN, WORD_BYTES = 512, 2048, 4, 16

    def __init__(self):
        text = (ROOT / "tools/mla-run/read_stream.ptx").read_bytes() + b"\0"
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.sink = torch.zeros(4, dtype=torch.int32, device="cuda")  # makes the context, too
        module, self.kernel = c_void_p(), c_void_p()
        self._call("cuModuleLoadData", byref(module), text)
        self._call("cuModuleGetFunction", byref(self.kernel), module, b"mla_read_stream")

    def _call(self, name, *arguments):
        status = getattr(self.driver, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} failed with CUDA error {status}")

    def bytes_of(self, tensor):
        """What launch() reads of a tensor: whole turns of all threads."""
        turn = self.THREADS * self.BLOCKS * self.WORDS_A_TURN * self.WORD_BYTES
        return tensor.numel() * tensor.element_size() // turn * turn

    def launch(self, tensor):
        words = ctypes.c_uint64(self.bytes_of(tensor) // self.WORD_BYTES)
        data, sink = ctypes.c_uint64(tensor.data_ptr()), ctypes.c_uint64(self.sink.data_ptr())
        arguments = (c_void_p * 3)(*[ctypes.cast(byref(a), c_void_p) for a in (data, words, sink)])
        stream = c_void_p(torch.cuda.current_stream().cuda_stream)
        self._call("cuLaunchKernel", self.kernel, self.BLOCKS, 1, 1, self.THREADS, 1, 1, 0, stream,
                   arguments, None)


def measure_stream(rounds):
    """Bytes a second of a kernel that only reads."""
    stream, data = ReadStream(), torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
    return stream.bytes_of(data) / seconds_of(lambda: stream.launch(data), rounds)


def seconds_of(body, repeats):
    """Median time of body() by events, after a warm-up."""
    body()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        body()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return sorted(times)[len(times) // 2]


def measure_ceilings(stream):
    """Read stream of 4 GiB in bytes/s, bf16 product 8192^3 of random data in FLOP/s."""
    data = torch.empty(1 << 31, dtype=torch.int16, device="cuda").random_()
    read = stream.bytes_of(data) / seconds_of(lambda: stream.launch(data), 10)
    del data
    a, b = (torch.randn(8192, 8192, device="cuda").bfloat16() for _ in range(2))
    product = 2 * 8192 ** 3 / seconds_of(lambda: a @ b.T, 10)
    return {"read_bytes_per_s": read, "matmul_flops_per_s": product}

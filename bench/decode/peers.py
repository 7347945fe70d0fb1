# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the attention is measured against: FlashMLA, a read stream, a matrix product."""

import ctypes
import pathlib
from ctypes import POINTER, byref, c_float, c_int32, c_void_p

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class FlashMlaStep(ctypes.Structure):
    """FlashMlaStep of bench/peers/flashmla/peer.cu."""

    _fields_ = [(name, c_int32) for name in ("batch", "queryLen", "heads", "pages", "tableWidth",
                                             "parts", "isCausal")]
    _fields_ += [("scale", c_float)]
    _fields_ += [(name, c_void_p) for name in ("query", "cache", "seqLens", "blockTable",
                                               "metadata", "numSplits", "output", "lse",
                                               "outputAccum", "lseAccum", "stream")]


class FlashMla:
    """The library of bench/peers/flashmla."""

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        for name in ("flashmla_metadata", "flashmla_decode"):
            getattr(self.library, name).argtypes = [POINTER(FlashMlaStep)]
            getattr(self.library, name).restype = None
        size = self.library.flashmla_step_bytes()
        if size != ctypes.sizeof(FlashMlaStep):
            raise RuntimeError(f"{path}: FlashMlaStep has {size} bytes, expected "
                               f"{ctypes.sizeof(FlashMlaStep)}: build it again")

    @staticmethod
    def find(given, directory):
        """The library that was named or lies beside the packages, else None."""
        for path in (given, directory / "libflashmla_peer.so"):
            if path and path.exists():
                return FlashMla(path.resolve())
        return None

    def parts(self, query_len, heads):
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        return self.library.flashmla_num_parts(sms, query_len, heads)


class FlashMlaBatch:
    """One batch: its tensors, and what may be launched on the current stream."""

    def __init__(self, peer, query, pool, seq_lens, table, scale, shared):
        batch, query_len, heads, _ = query.shape
        parts = peer.parts(query_len, heads)
        make = lambda shape, dtype: torch.empty(shape, dtype=dtype, device="cuda")
        self.peer = peer
        self.output = make((batch, query_len, heads, 512), query.dtype).fill_(float("nan"))
        self.lse = make((batch, query_len, heads), torch.float32).fill_(float("nan"))
        # Entries past a request's pages are out of range on purpose; FlashMLA may
        # read them.
        table = torch.where(table >= pool.shape[0] // 64, torch.zeros_like(table), table)
        self.tensors = {
            "query": query, "cache": pool, "seqLens": seq_lens, "blockTable": table.contiguous(),
            "metadata": make((parts, 8), torch.int32), "numSplits": make(batch + 1, torch.int32),
            "output": self.output, "lse": self.lse, **shared(batch + parts, query_len * heads)}
        self.step = FlashMlaStep(batch=batch, queryLen=query_len, heads=heads,
                                 pages=pool.shape[0] // 64, tableWidth=table.shape[1], parts=parts,
                                 isCausal=1, scale=scale)
        for name, tensor in self.tensors.items():
            setattr(self.step, name, tensor.data_ptr())
        self.metadata()

    def metadata(self):
        self.step.stream = torch.cuda.current_stream().cuda_stream
        self.peer.library.flashmla_metadata(byref(self.step))

    def decode(self):
        self.step.stream = torch.cuda.current_stream().cuda_stream
        self.peer.library.flashmla_decode(byref(self.step))


class Accumulators:
    """FlashMLA's partial results, shared by the batches of a shape."""

    def __init__(self):
        self.tensors = None

    def __call__(self, pieces, rows):
        if self.tensors is None or self.tensors["lseAccum"].shape != (pieces, rows):
            self.tensors = {
                "outputAccum": torch.empty((pieces, rows, 512), dtype=torch.float32,
                                           device="cuda"),
                "lseAccum": torch.empty((pieces, rows), dtype=torch.float32, device="cuda")}
        return self.tensors


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

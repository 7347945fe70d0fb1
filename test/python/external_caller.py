# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What test_external.py's tests run on: modules, memory of the caller on the CPU or a GPU, and a
caller with pages, tables and slots of its own."""

import array
import ctypes
import mmap
import os
import pathlib

COMPILE = os.environ["MLAC_COMPILE"]
# Attention alone: queries and new latents in, outputs and log-sum-exps out.
ATTENTION = """
!cache = !mla.cache<page_size = 16, fields = [latent: 64, rope: 16], element = bf16,
                    rope_order = interleaved>
!latent = tensor<?x4x64xbf16>
!rope = tensor<?x4x16xbf16>
!lse = tensor<?x4xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>
func.func @decode(%q_lat: !latent {mla.input = "q_lat"}, %q_pe: !rope {mla.input = "q_pe"},
    %c: tensor<?x64xbf16> {mla.input = "latent"}, %k_pe: tensor<?x16xbf16> {mla.input = "k_pe"},
    %batch: !mla.batch<query_len = 2>, %cache: !cache)
    -> (!latent {mla.output = "output"}, !lse {mla.output = "lse"}, !cache) {
  %after = mla.append %c, %k_pe into %cache, %batch
      : tensor<?x64xbf16>, tensor<?x16xbf16> into !cache, !mla.batch<query_len = 2>
  %output, %lse = mla.absorbed_attention query(%q_lat, %q_pe : !latent, !rope)
      over %after, %batch : !cache, !mla.batch<query_len = 2> scale 0.1 -> !latent, !lse
  return %output, %lse, %after : !latent, !lse, !cache
}
"""
# Rows alone, of two pools of different pages, or of heads' keys and values without any latent.
LATENTS = """!mla.cache<page_size = 16, fields = [latent: 64, rope: 16], element = bf16,
                        rope_order = interleaved>"""
PAIRS = '!mla.cache<page_size = 4, fields = [key: 2x32, value: 2x16], element = bf16, format = "kv_nhd">'
POOLS = f"""
!latents = {LATENTS}
!pairs = {PAIRS}
!batch = !mla.batch<query_len = ?>
!one = !mla.batch<query_len = 1>
func.func @append(%c: tensor<?x64xbf16> {{mla.input = "latent"}},
    %k_pe: tensor<?x16xbf16> {{mla.input = "rope"}}, %k: tensor<?x2x32xbf16> {{mla.input = "key"}},
    %v: tensor<?x32xbf16> {{mla.input = "value"}}, %batch: !batch, %latents: !latents,
    %pairs: !pairs {{mla.pool = "pairs"}}) -> (!latents, !pairs) {{
  %0 = mla.append %c, %k_pe into %latents, %batch
      : tensor<?x64xbf16>, tensor<?x16xbf16> into !latents, !batch
  %1 = mla.append %k, %v into %pairs, %batch
      : tensor<?x2x32xbf16>, tensor<?x32xbf16> into !pairs, !batch
  return %0, %1 : !latents, !pairs
}}
func.func @append_one(%c: tensor<?x64xbf16> {{mla.input = "latent"}},
    %k_pe: tensor<?x16xbf16> {{mla.input = "rope"}}, %k: tensor<?x2x32xbf16> {{mla.input = "key"}},
    %v: tensor<?x32xbf16> {{mla.input = "value"}}, %batch: !one, %latents: !latents,
    %pairs: !pairs {{mla.pool = "pairs"}}) -> (!latents, !pairs) {{
  %0 = mla.append %c, %k_pe into %latents, %batch
      : tensor<?x64xbf16>, tensor<?x16xbf16> into !latents, !one
  %1 = mla.append %k, %v into %pairs, %batch
      : tensor<?x2x32xbf16>, tensor<?x32xbf16> into !pairs, !one
  return %0, %1 : !latents, !pairs
}}
func.func @gather(%batch: !batch, %latents: !latents, %pairs: !pairs {{mla.pool = "pairs"}})
    -> (tensor<?x64xbf16> {{mla.output = "latent"}}, tensor<?x16xbf16> {{mla.output = "rope"}},
        tensor<?x64xbf16> {{mla.output = "key"}}, tensor<?x2x16xbf16> {{mla.output = "value"}}) {{
  %chunk = arith.constant 0 : index
  %c, %k_pe = mla.gather %latents, %batch chunk %chunk
      : !latents, !batch -> tensor<?x64xbf16>, tensor<?x16xbf16>
  %k, %v = mla.gather %pairs, %batch chunk %chunk
      : !pairs, !batch -> tensor<?x64xbf16>, tensor<?x2x16xbf16>
  return %c, %k_pe, %k, %v
      : tensor<?x64xbf16>, tensor<?x16xbf16>, tensor<?x64xbf16>, tensor<?x2x16xbf16>
}}
"""
HEADS = f"""
!pairs = {PAIRS}
!batch = !mla.batch<query_len = ?>
func.func @append(%k: tensor<?x2x32xbf16> {{mla.input = "key"}},
    %v: tensor<?x2x16xbf16> {{mla.input = "value"}}, %batch: !batch, %pairs: !pairs) -> !pairs {{
  %0 = mla.append %k, %v into %pairs, %batch
      : tensor<?x2x32xbf16>, tensor<?x2x16xbf16> into !pairs, !batch
  return %0 : !pairs
}}
func.func @gather(%batch: !batch, %pairs: !pairs) -> (tensor<?x2x32xbf16> {{mla.output = "key"}},
    tensor<?x2x16xbf16> {{mla.output = "value"}}) {{
  %chunk = arith.constant 0 : index
  %k, %v = mla.gather %pairs, %batch chunk %chunk
      : !pairs, !batch -> tensor<?x2x32xbf16>, tensor<?x2x16xbf16>
  return %k, %v : tensor<?x2x32xbf16>, tensor<?x2x16xbf16>
}}
"""
# What DeepSeek-V4 keeps: rows of all tokens, of four tokens each, and of the last sixteen.
KEPT = """
!all = !mla.cache<page_size = 16, fields = [latent: 64], element = bf16>
!fours = !mla.cache<page_size = 2, fields = [latent: 64], element = bf16, tokens_per_row = 4>
!window = !mla.cache<page_size = 4, fields = [latent: 64], element = bf16, window = 16>
!batch = !mla.batch<query_len = ?>
func.func @append(%c: tensor<?x64xbf16> {mla.input = "latent"}, %batch: !batch, %all: !all,
    %fours: !fours {mla.pool = "fours"}, %window: !window {mla.pool = "window"})
    -> (!all, !fours, !window) {
  %0 = mla.append %c into %all, %batch : tensor<?x64xbf16> into !all, !batch
  %1 = mla.append %c into %fours, %batch : tensor<?x64xbf16> into !fours, !batch
  %2 = mla.append %c into %window, %batch : tensor<?x64xbf16> into !window, !batch
  return %0, %1, %2 : !all, !fours, !window
}
"""
WIDTHS = {"latent": 64, "rope": 16, "key": 64, "value": 32}  # of each field, all heads
DEVICE = os.environ.get("MLAC_TEST_DEVICE", "cpu")
CONFIG = pathlib.Path(__file__).parent.parent / "data/configs/deepseek_v3_tiny.json"
FP8 = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "head_dim": 64}
# Format, what replaces parts of the configuration, options, page sizes.
CASES = (
    ("mla_16", {}, ("--dtype=bf16",), (1, 16, 64)),
    ("mla_f32", {}, ("--dtype=f32",), (1, 16, 64)),
    ("fp8_ds_mla", FP8, ("--cache-format=fp8_ds_mla",), (1, 16, 64)),
    ("split_ckv_kpe", {}, ("--dtype=bf16", "--cache-format=split_ckv_kpe"), (16,)),
)
REQUESTS, LONGEST = 3, 200
# Function and new tokens of each request: without context, over it in chunks, decodes and a
# prefill in one step, decodes.
STEPS = (("prefill", (70, 5, 33)), ("prefill", (9, 1, 60)), ("step", (1, 1, 40)),
         ("decode", (1, 1, 1)), ("step", (1, 1, 1)))
NAN = 0xFF  # all bits set is a NaN in every type
TYPES = {"bf16": ("<u2", 2), "f32": ("<f4", 4), "u8": ("|u1", 1), "i32": ("<i4", 4),
         "i64": ("<i8", 8)}


class Memory:
    """Bytes on the device, and arrays of them."""

    driver = None

    def __init__(self, size):
        self.size = size
        if DEVICE == "cpu":
            self.bytes = mmap.mmap(-1, size)
            self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.bytes))
        else:
            address = ctypes.c_uint64()
            self.check("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
            self.address = address.value

    @classmethod
    def check(cls, name, *arguments):
        if cls.driver is None:
            cls.driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
            cls.check("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
            cls.check("cuCtxPushCurrent_v2", context)
        if code := getattr(cls.driver, name)(*arguments):
            raise RuntimeError(f"{name}: {code}")

    def write(self, data):
        if DEVICE == "cpu":
            ctypes.memmove(self.address, data, len(data))
        else:
            self.check("cuMemcpyHtoD_v2", ctypes.c_uint64(self.address), data,
                       ctypes.c_size_t(len(data)))
        return self

    def read(self):
        if DEVICE == "cpu":
            return ctypes.string_at(self.address, self.size)
        data = ctypes.create_string_buffer(self.size)
        self.check("cuMemcpyDtoH_v2", data, ctypes.c_uint64(self.address),
                   ctypes.c_size_t(self.size))
        return data.raw

    def array(self, shape, dtype, strides=None, offset=0, is_read_only=False):
        return Array(self, shape, dtype, strides, offset, is_read_only)


class Array:
    """What NumPy or torch would hand over; strides in elements."""

    def __init__(self, memory, shape, dtype, strides, offset, is_read_only):
        self.memory = memory
        typestr, item = TYPES[dtype]
        name = "__array_interface__" if DEVICE == "cpu" else "__cuda_array_interface__"
        setattr(self, name, {
            "data": (memory.address + offset, is_read_only), "shape": tuple(shape),
            "typestr": typestr, "strides": strides and tuple(s * item for s in strides),
            "version": 3})


def bits(generator, count, dtype, scale=1.0):
    """Random numbers as the bytes of a type."""
    values = array.array("f", [generator.gauss(0, scale) for _ in range(count)])
    if dtype == "f32":
        return values.tobytes()
    return b"".join(values.tobytes()[i + 2:i + 4] for i in range(0, 4 * count, 4))


def random_weights(info, generator):
    weights = {}
    for weight in info["weights"]:
        shape, dtype = weight["shape"], weight["dtype"]
        count = 1
        for extent in shape:
            count *= extent
        data = bits(generator, count, dtype, shape[-1] ** -0.5)
        weights[weight["name"]] = memoryview(data).cast("f" if dtype == "f32" else "H", shape)
    return weights


class Caller:
    """Who owns memory and pages: requests and their tables."""

    def __init__(self, engine, generator, extra=48):
        self.cache = engine.package_info["pools"][0]
        self.page, self.row = self.cache["page_size"], self.cache["row_bytes"]
        self.stride = self.page * self.row + extra
        self.columns = -(-LONGEST // self.page)
        self.pages = list(range(REQUESTS * self.columns + 3))
        self.memory = Memory(len(self.pages) * self.stride)
        self.memory.write(bytes([NAN]) * self.memory.size)
        generator.shuffle(self.pages)
        self.lengths = [0] * REQUESTS
        self.rows = [[generator.choice((-1, 1 << 20))] * self.columns for _ in range(REQUESTS)]
        self.free = list(self.pages)

    def pool(self):
        dtype = self.cache["dtype"]
        item = TYPES[dtype][1]
        if self.cache["format"] == "split_ckv_kpe":
            widths = [field["columns"] for field in self.cache["fields"]]
            offsets = 0, self.page * widths[0] * item
            return [self.memory.array((len(self.pages), self.page, width), dtype,
                                      (self.stride // item, width, 1), offset)
                    for width, offset in zip(widths, offsets)]
        width = self.row // item
        return self.memory.array((len(self.pages), self.page, width), dtype,
                                 (self.stride // item, width, 1))

    def slot(self, request, position):
        return self.rows[request][position // self.page] * self.page + position % self.page

    def advance(self, counts):
        """Takes pages for new tokens; their slots."""
        slots = []
        for request, count in enumerate(counts):
            for position in range(self.lengths[request], self.lengths[request] + count):
                if position % self.page == 0:
                    self.rows[request][position // self.page] = self.free.pop()
                slots.append(self.slot(request, position))
            self.lengths[request] += count
        return array.array("q", slots)

    def table(self):
        flat = array.array("i", [page for row in self.rows for page in row])
        return memoryview(flat).cast("B").cast("i", (REQUESTS, self.columns))

    def address(self, slot, part, widths):
        """Where a part of a token's bytes begins."""
        start = slot // self.page * self.stride + slot % self.page * widths[part]
        return start + self.page * sum(widths[:part])

    def take(self, data, slot):
        """A token's bytes in `data`, which are then NaN."""
        widths, row = (self.row,), b""
        if self.cache["format"] == "split_ckv_kpe":
            rank, rope = [field["columns"] for field in self.cache["fields"]]
            widths = rank * self.row // (rank + rope), rope * self.row // (rank + rope)
        for part, width in enumerate(widths):
            begin = self.address(slot, part, widths)
            row += data[begin:begin + width]
            data[begin:begin + width] = bytes([NAN]) * width
        return bytes(row)

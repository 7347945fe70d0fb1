# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Addresses, shapes and dtypes of callers' arrays, without importing their library.

Tried in this order: plain tensors of torch, DLPack (NumPy, other tensors, JAX, CuPy),
__array_interface__ (read-only NumPy arrays, ml_dtypes), __cuda_array_interface__ (Numba, this package's device memory), the
buffer protocol (array.array, memoryview, bytes).
"""

import ctypes
from ctypes import c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint64, c_void_p

# By the values of mla_dtype.
DTYPES = ("bf16", "f16", "f32", "e4m3", "i32", "i64", "u8")
ITEM_BYTES = {"bf16": 2, "f16": 2, "f32": 4, "e4m3": 1, "i32": 4, "i64": 8, "u8": 1}

# DLDeviceType of dlpack.h.
_DEVICE_CPU, _DEVICE_CUDA, _DEVICE_CUDA_HOST, _DEVICE_CUDA_MANAGED = 1, 2, 3, 13

# (DLDataTypeCode, bits) of dlpack.h; 2: float, 4: bfloat, 0: int, 1: uint, 10: float8_e4m3fn.
_DLPACK_DTYPES = {
    (10, 8): "e4m3",
    (4, 16): "bf16",
    (2, 16): "f16",
    (2, 32): "f32",
    (0, 32): "i32",
    (0, 64): "i64",
    (1, 8): "u8",
    (1, 16): "u16",
}

# Kind and size of __array_interface__ typestr, and struct codes of buffers.
_TYPESTR_DTYPES = {"f2": "f16", "f4": "f32", "i4": "i32", "i8": "i64", "u1": "u8",
                   "u2": "u16"}
_NAMED_DTYPES = {"bfloat16": "bf16", "float8_e4m3fn": "e4m3", "torch.float8_e4m3fn": "e4m3"}
_TORCH_DTYPES = {"torch.float8_e4m3fn": "e4m3", "torch.bfloat16": "bf16", "torch.float16": "f16",
                 "torch.float32": "f32", "torch.int32": "i32", "torch.int64": "i64",
                 "torch.uint8": "u8", "torch.uint16": "u16"}
_FORMAT_DTYPES = {"e": "f16", "f": "f32", "i": "i32", "q": "i64", "B": "u8", "H": "u16"}


class _DLDevice(ctypes.Structure):
    _fields_ = [("type", c_int32), ("id", c_int32)]


class _DLDataType(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device", _DLDevice),
        ("ndim", c_int32),
        ("dtype", _DLDataType),
        ("shape", ctypes.POINTER(c_int64)),
        ("strides", ctypes.POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class View:
    """Where an array lies: `strides` in elements, None where it is dense. `owner` keeps the
    memory alive."""

    def __init__(self, address, shape, dtype, is_cuda, owner, is_writable=True, strides=None):
        self.address = address
        self.shape = tuple(shape)
        self.dtype = dtype
        self.is_cuda = is_cuda
        self.owner = owner
        self.is_writable = is_writable
        self.strides = None if strides is None or _is_dense(shape, strides) else tuple(strides)

    @property
    def nbytes(self):
        count = ITEM_BYTES.get(self.dtype, 2)
        for extent in self.shape:
            count *= extent
        return count


def _is_dense(shape, strides):
    """Whether element strides are those of a row-major array without gaps; without elements, any."""
    if 0 in shape:
        return True
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent > 1 and stride != expected:
            return False
        expected *= extent
    return True


def _require_dense(name, is_dense, shape, strides):
    if not is_dense:
        raise ValueError(f"{name}: expected a contiguous row-major array, got shape {list(shape)} "
                         f"with strides of {[int(stride) for stride in strides]} elements")


def _from_torch(name, tensor):
    """The View of a plain tensor, by what it says of itself: an engine's step passes many of them,
    and a capsule costs several times as much. None: DLPack says what is wrong, or takes it."""
    kind = type(tensor)
    if kind.__name__ != "Tensor" or kind.__module__ != "torch" or tensor.requires_grad:
        return None
    dtype, device = _TORCH_DTYPES.get(str(tensor.dtype)), tensor.device.type
    if dtype is None or device not in ("cpu", "cuda"):
        return None
    if tensor.is_neg():  # DLPack would give the numbers without their sign, as they lie in memory
        raise ValueError(f"{name}: expected a tensor's numbers in memory, got a view that negates "
                         "them: tensor.resolve_neg() writes them")
    try:
        return View(tensor.data_ptr(), tensor.shape, dtype, device == "cuda", tensor,
                    strides=None if tensor.is_contiguous() else tensor.stride())
    except RuntimeError:  # sparse ones, and those of torch.func, have no address
        return None


def _from_dlpack(name, array):
    device_type, _ = array.__dlpack_device__()
    is_cuda = device_type in (_DEVICE_CUDA, _DEVICE_CUDA_MANAGED)
    if not is_cuda and device_type not in (_DEVICE_CPU, _DEVICE_CUDA_HOST):
        raise ValueError(f"{name}: expected CPU or CUDA memory, got DLPack device "
                         f"type {device_type}")
    # -1: do not synchronise; the step's stream is the caller's concern.
    capsule = array.__dlpack__(stream=-1) if is_cuda else array.__dlpack__()
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype = c_void_p
    get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    tensor = _DLTensor.from_address(get_pointer(capsule, b"dltensor"))
    shape = tensor.shape[: tensor.ndim]
    strides = tensor.strides[: tensor.ndim] if tensor.strides else None
    code = (tensor.dtype.code, tensor.dtype.bits)
    dtype = _DLPACK_DTYPES.get(code) if tensor.dtype.lanes == 1 else None
    if dtype is None:
        known = getattr(array, "dtype", f"(DLPack code and bits {code})")
        raise ValueError(f"{name}: unsupported dtype {known}, expected one of {', '.join(DTYPES)}")
    address = (tensor.data or 0) + tensor.byte_offset
    return View(address, shape, dtype, is_cuda, (array, capsule), strides=strides)


def _from_array_interface(name, array, is_cuda=False):
    interface = array.__cuda_array_interface__ if is_cuda else array.__array_interface__
    address, is_read_only = interface["data"]
    shape = interface["shape"]
    typestr = interface["typestr"]
    # The types of ml_dtypes present themselves as bytes without a type.
    dtype = _NAMED_DTYPES.get(str(getattr(array, "dtype", "")),
                              _TYPESTR_DTYPES.get(typestr[1:]))
    if dtype is None or typestr[0] == ">":
        raise ValueError(f"{name}: unsupported dtype {typestr}")
    strides = interface.get("strides")
    item = int(typestr[2:])
    if strides is not None:
        strides = [stride / item for stride in strides]
    return View(address, shape, dtype, is_cuda, array, not is_read_only, strides)


def _from_buffer(name, array, reason=None):
    """`reason`: why the array's DLPack did not do."""
    try:
        view = memoryview(array)
    except TypeError:
        raise ValueError(
            f"{name}: expected an array (DLPack, __array_interface__ or buffer "
            f"protocol), got {type(array).__name__}" + (f": {reason}" if reason else "")
        ) from None
    _require_dense(name, view.c_contiguous, view.shape,
                   [stride // view.itemsize for stride in view.strides or ()])
    dtype = _FORMAT_DTYPES.get(view.format.lstrip("@=<"))
    if dtype is None:
        raise ValueError(f"{name}: unsupported element format '{view.format}'")
    # A zero-length c_char array of a read-only buffer cannot be made from it, so
    # ask Python for the address.
    address = _buffer_address(view)
    return View(address, view.shape, dtype, False, view, not view.readonly)


class _PyBuffer(ctypes.Structure):
    """Py_buffer of the stable ABI (Python 3.11); older versions agree."""

    _fields_ = [
        ("buf", c_void_p),
        ("obj", ctypes.py_object),
        ("len", c_size_t),
        ("itemsize", c_size_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("suboffsets", c_void_p),
        ("internal", c_void_p),
    ]


_get_buffer, _release_buffer = (ctypes.pythonapi.PyObject_GetBuffer,
                                ctypes.pythonapi.PyBuffer_Release)
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
_release_buffer.argtypes = [ctypes.POINTER(_PyBuffer)]


def _buffer_address(view):
    buffer = _PyBuffer()
    simple = 0  # PyBUF_SIMPLE; the memoryview keeps the memory in place
    _get_buffer(view, ctypes.byref(buffer), simple)
    address = buffer.buf or 0
    _release_buffer(ctypes.byref(buffer))
    return address


def strided(name, array, bits_of="bf16"):
    """The View of `array`, whatever its strides; `name` is for messages.

    Two-byte unsigned integers stand for the bits of `bits_of`, since NumPy has no
    bfloat16.
    """
    result, reason = _from_torch(name, array), None
    if result is None and hasattr(array, "__dlpack__"):
        try:
            result = _from_dlpack(name, array)
        except (BufferError, RuntimeError, TypeError) as error:
            reason = error  # read-only arrays, and dtypes that the producer cannot export
        except ValueError as error:  # torch's, of tensors without memory, names no array
            text = str(error)
            raise error if text.startswith(f"{name}: ") else ValueError(f"{name}: {text}") from None
    if result is None and hasattr(array, "__array_interface__"):
        result = _from_array_interface(name, array)
    if result is None and hasattr(array, "__cuda_array_interface__"):
        result = _from_array_interface(name, array, is_cuda=True)
    if result is None:
        result = _from_buffer(name, array, reason)
    if result.dtype == "u16":
        result.dtype = bits_of
    return result


def view(name, array, bits_of="bf16"):
    """The same of a dense array; others are refused."""
    result = strided(name, array, bits_of)
    _require_dense(name, result.strides is None, result.shape, result.strides)
    return result


def empty_like(array, shape):
    """An uninitialised array of the same kind, dtype and device."""
    module = type(array).__module__.split(".")[0]
    if module == "torch":
        return array.new_empty(shape)
    if module == "numpy":
        import numpy

        return numpy.empty(shape, array.dtype)
    raise ValueError(f"output: give one, for {type(array).__name__} none can be made")

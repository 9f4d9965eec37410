"""Anything that speaks DLPack: CuPy, JAX and other arrays that neither NumPy nor torch made."""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Optional

from tilesmith._errors import Error, Unsupported, WrongType
from tilesmith._library import CPU, CUDA
from tilesmith._views import View, dense_strides, shown

# (DLDataTypeCode, bits), one lane.
_TYPES = {(2, 32): "fp32", (2, 16): "fp16", (4, 16): "bf16", (10, 8): "fp8", (12, 8): "bf8", (0, 8): "int8", (1, 8): "uint8",
          (0, 32): "int32", (1, 32): "uint32"}  # fmt: skip
_NUMPY_TYPES = {"fp32": "float32", "fp16": "float16"}  # that NumPy exports
_PINNED_KINDS = {3: CPU, 13: CUDA}  # host memory CUDA has pinned, CUDA's managed memory


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]  # fmt: skip


class _DLVersioned(ctypes.Structure):
    """DLManagedTensorVersioned; the older DLManagedTensor begins with its tensor."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _DLTensor)]  # fmt: skip


_READ_ONLY = 1

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.restype, _capsule_is.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


class Borrowed:
    """A tensor seen through its capsule, which is never consumed: while it lives, so does the memory."""

    def __init__(self, name: str, array: Any, stream: Optional[int]) -> None:
        if not hasattr(array, "__dlpack__"):
            raise WrongType(f"{name} is a {type(array).__name__}", "arrays with __dlpack__, all of one kind")
        self.capsule = _export(name, array, stream)
        if _capsule_is(self.capsule, b"dltensor_versioned"):
            managed = _DLVersioned.from_address(_capsule_pointer(self.capsule, b"dltensor_versioned"))
            if managed.major != 1:
                raise Unsupported(f"{name} exports DLPack {managed.major}.{managed.minor}", "DLPack 1", "unsupported")
            tensor, self.read_only = managed.tensor, bool(managed.flags & _READ_ONLY)
        elif _capsule_is(self.capsule, b"dltensor"):
            tensor, self.read_only = _DLTensor.from_address(_capsule_pointer(self.capsule, b"dltensor")), False
        else:
            raise WrongType(f"{name}.__dlpack__ gives {shown(self.capsule)}", "a capsule of DLPack's that nobody took yet")
        self.address = (tensor.data or 0) + tensor.byte_offset
        shape = tuple(tensor.shape[: tensor.ndim])
        strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else dense_strides(shape)
        data_type = _TYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
        kind = _PINNED_KINDS.get(tensor.device_type, tensor.device_type)
        self.view = View(data_type or f"DLPack type {tensor.code} of {tensor.bits} bits", shape, strides, kind,
                         tensor.device_id if kind == CUDA else 0)  # fmt: skip


def _export(name: str, array: Any, stream: Optional[int]) -> Any:
    arguments = {} if stream is None else {"stream": stream}
    try:
        try:
            return array.__dlpack__(**arguments, max_version=(1, 0))
        except TypeError:  # written before DLPack 1
            return array.__dlpack__(**arguments)
    except (Error, MemoryError):
        raise
    except Exception as error:
        raise Unsupported(f"{name} is a {type(array).__name__}, which refuses to be exported: {shown(error)}",
                          "an array that DLPack can tell of", "unsupported") from error  # fmt: skip


def stream_of(name: str, array: Any) -> Optional[int]:
    """The stream the call runs on: CuPy's current one, else the default stream, which the producer then waits into; None
    on the CPU."""
    try:
        kind = int(array.__dlpack_device__()[0])
    except MemoryError:
        raise
    except Exception as error:
        raise WrongType(f"{name}.__dlpack_device__ fails: {shown(error)}", "(a device type of DLPack's, its index)") from error
    if _PINNED_KINDS.get(kind, kind) != CUDA:
        return None
    if (cupy := sys.modules.get("cupy")) is not None and isinstance(array, cupy.ndarray):
        return cupy.cuda.get_current_stream().ptr or 1
    return 1  # the array API's number for CUDA's legacy default stream


class New:
    """A new array of q's kind, by the array API, and where to write it. Kinds whose arrays never change (JAX) take memory
    of NumPy's over when it is written."""

    def __init__(self, q: Any, like: View, shape: tuple[int, ...], data_type: str, stream: Optional[int]) -> None:
        self._space = _namespace_of(q)
        if data_type != like.data_type and data_type != "fp32":
            raise Unsupported(f"no way to make a {data_type} array of q's kind", "pass out", "unsupported")
        dtype = q.dtype if data_type == like.data_type else self._space.float32
        device = {"device": q.device} if hasattr(q, "device") else {}
        self._array = self._space.empty(shape, dtype=dtype, **device)
        self.borrowed = Borrowed("the output", self._array, stream)
        self._unchanging = self.borrowed.read_only
        if self._unchanging:
            self._array = _numpy_memory(type(q), like.kind, shape, data_type)
            self.borrowed = Borrowed("the output", self._array, None)

    def written(self) -> Any:
        return self._space.from_dlpack(self._array) if self._unchanging else self._array


def _namespace_of(array: Any) -> Any:
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__()
    return sys.modules[type(array).__module__.split(".")[0]]


def _numpy_memory(kind: type, device_kind: int, shape: tuple[int, ...], data_type: str) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is None or device_kind != CPU or data_type not in _NUMPY_TYPES:
        raise Unsupported(f"arrays of the kind {kind.__name__} cannot be written to, and no {data_type} memory can be made for "
                          "them", "call it on torch.from_dlpack(q), ...", "unsupported")  # fmt: skip
    return numpy.empty(shape, _NUMPY_TYPES[data_type])

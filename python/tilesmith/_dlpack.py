"""Anything that speaks DLPack: CuPy, JAX and other arrays that neither NumPy nor torch made."""

from __future__ import annotations

import ctypes
import random
import sys
from typing import Any, Optional

from tilesmith._call import Calls, Options, Tensors, View, check_seed, dense_strides, prepare
from tilesmith._errors import InvalidArgument, Unsupported, WrongType
from tilesmith._library import CPU, CUDA

_calls = Calls()

# (DLDataTypeCode, bits), one lane.
_TYPES = {(2, 32): "fp32", (2, 16): "fp16", (4, 16): "bf16", (10, 8): "fp8", (12, 8): "bf8", (0, 32): "int32"}
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


class _Borrowed:
    """A tensor seen through its capsule, which is never consumed: while it lives, so does the memory."""

    def __init__(self, name: str, array: Any, stream: Optional[int]) -> None:
        if not hasattr(array, "__dlpack__"):
            raise WrongType(f"{name} is a {type(array).__name__}", "arrays with __dlpack__, all of one kind")
        self.capsule = _export(array, stream)
        if _capsule_is(self.capsule, b"dltensor_versioned"):
            managed = _DLVersioned.from_address(_capsule_pointer(self.capsule, b"dltensor_versioned"))
            if managed.major != 1:
                raise Unsupported(f"{name} exports DLPack {managed.major}.{managed.minor}", "DLPack 1", "unsupported")
            tensor, self.read_only = managed.tensor, bool(managed.flags & _READ_ONLY)
        else:
            tensor, self.read_only = _DLTensor.from_address(_capsule_pointer(self.capsule, b"dltensor")), False
        self.address = (tensor.data or 0) + tensor.byte_offset
        shape = tuple(tensor.shape[: tensor.ndim])
        strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else dense_strides(shape)
        data_type = _TYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
        kind = _PINNED_KINDS.get(tensor.device_type, tensor.device_type)
        self.view = View(data_type or f"DLPack type {tensor.code} of {tensor.bits} bits", shape, strides, kind,
                         tensor.device_id if kind == CUDA else 0)  # fmt: skip


def _export(array: Any, stream: Optional[int]) -> Any:
    arguments = {} if stream is None else {"stream": stream}
    try:
        return array.__dlpack__(**arguments, max_version=(1, 0))
    except TypeError:  # written before DLPack 1
        return array.__dlpack__(**arguments)


def _stream_of(array: Any) -> Optional[int]:
    """The stream the call runs on: CuPy's current one, else the default stream, which the producer then waits into; None
    on the CPU."""
    kind, _ = array.__dlpack_device__()
    if _PINNED_KINDS.get(int(kind), int(kind)) != CUDA:
        return None
    if (cupy := sys.modules.get("cupy")) is not None and isinstance(array, cupy.ndarray):
        return cupy.cuda.get_current_stream().ptr or 1
    return 1  # the array API's number for CUDA's legacy default stream


def _new(q: Any, q_view: View, shape: tuple[int, ...], data_type: str) -> Any:
    """A new array of q's kind, by the array API."""
    if data_type != q_view.data_type and data_type != "fp32":
        raise Unsupported(f"no way to make a {data_type} array of q's kind", "pass out", "unsupported")
    space = q.__array_namespace__() if hasattr(q, "__array_namespace__") else sys.modules[type(q).__module__.split(".")[0]]
    dtype = q.dtype if data_type == q_view.data_type else space.float32
    return space.empty(shape, dtype=dtype, device=q.device) if hasattr(q, "device") else space.empty(shape, dtype=dtype)


def attention(q, k, v, layout, causal, mask, window, scale, softcap, bias, alibi, sink, dropout_p, seed, cu_seqlens_q,
              cu_seqlens_k, max_seqlen_q, max_seqlen_k, return_lse, out) -> Any:  # fmt: skip
    """tilesmith.attention on DLPack arrays."""
    stream = _stream_of(q)
    given = (q, k, v, bias, alibi, sink, cu_seqlens_q, cu_seqlens_k, out)
    borrowed = [None if array is None else _Borrowed(name, array, stream)
                for name, array in zip(Tensors._fields, given)]  # fmt: skip
    views = Tensors(*(None if b is None else b.view for b in borrowed))
    if views.cu_seqlens_q is not None and (max_seqlen_q is None or max_seqlen_k is None):
        raise InvalidArgument("max_seqlen_q or max_seqlen_k is not given", "the longest of the sequences")
    options = Options(layout, bool(causal), mask, tuple(window), scale, softcap, dropout_p, max_seqlen_q, max_seqlen_k,
                      bool(return_lse))  # fmt: skip
    call = _calls.by_key.get(key := (options, views)) or _calls.keep(key, prepare(views, options))
    result, lse = out, None
    if out is not None:
        call.check_apart(*(0 if b is None else b.address for b in borrowed))
    else:
        result = _new(q, views.q, call.out_shape, call.out_type)
        borrowed[-1] = _Borrowed("the output", result, stream)
    if return_lse:
        lse = _new(q, views.q, call.lse_shape, "fp32")
    lse_borrowed = None if lse is None else _Borrowed("the log-sum-exp", lse, stream)
    for written in (borrowed[-1], lse_borrowed):
        if written is not None and written.read_only:
            raise Unsupported(f"arrays of the kind {type(q).__name__} cannot be written to",
                              "view them as NumPy or torch: numpy.from_dlpack(q), torch.from_dlpack(q)",
                              "unsupported")  # fmt: skip
    if dropout_p:
        call.seed(random.getrandbits(64) if seed is None else check_seed(seed))
    addresses = [0 if b is None else b.address for b in borrowed]
    call.run(*addresses[:3], addresses[-1], 0 if lse_borrowed is None else lse_borrowed.address, *addresses[3:-1],
             0 if stream in (None, 1) else stream)  # fmt: skip
    return (result, lse) if return_lse else result

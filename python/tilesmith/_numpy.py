"""NumPy arrays."""

from __future__ import annotations

import random
from typing import Any, Optional

import numpy as np

from tilesmith._call import Calls, Options, Tensors, View, check_seed, prepare
from tilesmith._errors import InvalidArgument, WrongType
from tilesmith._library import CPU

_calls = Calls()

_TYPES: dict[np.dtype, str] = {
    np.dtype(np.float32): "fp32",
    np.dtype(np.float16): "fp16",
    np.dtype(np.int32): "int32",
}
# By the name ml_dtypes gives them, so that it need not be imported.
_EXTENSION_TYPES = {"bfloat16": "bf16", "float8_e4m3fn": "fp8", "float8_e5m2": "bf8"}


def _type_of(dtype: np.dtype) -> str:
    known = _TYPES.get(dtype)
    if known is None and dtype.name in _EXTENSION_TYPES and dtype.itemsize in (1, 2):
        known = _TYPES[dtype] = _EXTENSION_TYPES[dtype.name]
    return known or str(dtype)


def _dtype_of(data_type: str, q: np.dtype) -> np.dtype:
    """The dtype of an output: the inputs', or, for float8 inputs, another one of the package that made theirs."""
    if _type_of(q) == data_type:
        return q
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)


def view_of(name: str, array: Optional[np.ndarray]) -> Optional[View]:
    if array is None:
        return None
    size = array.itemsize
    if any(stride % size for stride in array.strides) or not array.flags.aligned:
        raise InvalidArgument(f"{name} is not aligned to its elements of {size} bytes", "an aligned copy of it")
    return View(_type_of(array.dtype), array.shape, tuple(stride // size for stride in array.strides), CPU, 0)


def _describe(array: Optional[np.ndarray]) -> object:
    return None if array is None else (array.dtype, array.shape, array.strides, array.flags.aligned)


def _address(array: Optional[np.ndarray]) -> int:
    return 0 if array is None else array.ctypes.data


def _check_arrays(**arrays: Any) -> None:
    for name, array in arrays.items():
        if array is not None and (not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray)):
            raise WrongType(f"{name} is a {type(array).__name__}, q is a NumPy array", "NumPy arrays, none of them masked")


def _longest(given: Optional[int], offsets: np.ndarray) -> int:
    if given is not None:
        return given
    return int(np.diff(offsets).max(initial=0)) if offsets.ndim == 1 else 0


def attention(q, k, v, layout, causal, mask, window, scale, softcap, bias, alibi, sink, q_scale, k_scale, v_scale,
              dropout_p, seed, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, return_lse, out) -> Any:  # fmt: skip
    """tilesmith.attention on NumPy arrays."""
    _check_arrays(q=q, k=k, v=v, bias=bias, alibi=alibi, sink=sink, q_scale=q_scale, k_scale=k_scale, v_scale=v_scale,
                  cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, out=out)  # fmt: skip
    if cu_seqlens_q is not None and cu_seqlens_k is not None:
        max_seqlen_q, max_seqlen_k = _longest(max_seqlen_q, cu_seqlens_q), _longest(max_seqlen_k, cu_seqlens_k)
    options = Options(layout, bool(causal), mask, tuple(window), scale, softcap, dropout_p, max_seqlen_q, max_seqlen_k,
                      bool(return_lse))  # fmt: skip
    arrays = (q, k, v, bias, alibi, sink, q_scale, k_scale, v_scale, cu_seqlens_q, cu_seqlens_k, out)
    key = (options, *map(_describe, arrays))
    call = _calls.by_key.get(key)
    if call is None:
        views = Tensors(*(view_of(name, array) for name, array in zip(Tensors._fields, arrays)))
        call = _calls.keep(key, prepare(views, options))
    if out is None:
        out = np.empty(call.out_shape, _dtype_of(call.out_type, q.dtype))
    elif not out.flags.writeable:
        raise InvalidArgument("out is read-only", "a writable array")
    else:
        call.check_apart(*map(_address, arrays))
    lse = np.empty(call.lse_shape, np.float32) if return_lse else None
    if dropout_p:
        call.seed(random.getrandbits(64) if seed is None else check_seed(seed))
    if call.scaled:
        call.scales(_address(q_scale), _address(k_scale), _address(v_scale))
    call.run(_address(q), _address(k), _address(v), _address(out), _address(lse), _address(bias), _address(alibi),
             _address(sink), _address(cu_seqlens_q), _address(cu_seqlens_k), 0)  # fmt: skip
    return (out, lse) if return_lse else out

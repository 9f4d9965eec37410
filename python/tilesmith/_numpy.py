"""NumPy arrays: what they look like."""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, c_int, c_ssize_t, c_void_p
from typing import Any, Optional, Sequence, overload

import numpy as np

from tilesmith._errors import InvalidArgument, WrongType
from tilesmith._library import CPU
from tilesmith._repeated import Asked, RepeatedCalls
from tilesmith._views import View

_TYPES: dict[np.dtype, str] = {
    np.dtype(np.float32): "fp32",
    np.dtype(np.float16): "fp16",
    np.dtype(np.int8): "int8",
    np.dtype(np.int32): "int32",
    np.dtype(np.uint32): "uint32",
    np.dtype(np.uint8): "uint8",
}
# By the name ml_dtypes gives them, so that it need not be imported.
_EXTENSION_TYPES = {"bfloat16": "bf16", "float8_e4m3fn": "fp8", "float8_e5m2": "bf8"}


def type_of(dtype: np.dtype) -> str:
    known = _TYPES.get(dtype)
    if known is None and dtype.name in _EXTENSION_TYPES and dtype.itemsize in (1, 2):
        known = _TYPES[dtype] = _EXTENSION_TYPES[dtype.name]
    return known or str(dtype)


def dtype_of(data_type: str, like: np.dtype) -> np.dtype:
    """The dtype of an output: the inputs' where it has that type, else NumPy's or ml_dtypes' own."""
    if type_of(like) == data_type:
        return like
    for dtype, name in _TYPES.items():
        if name == data_type:
            return dtype
    import ml_dtypes

    made: np.dtype[Any] = np.dtype(getattr(ml_dtypes, next(name for name, known in _EXTENSION_TYPES.items() if known == data_type)))
    return made


@overload
def view_of(name: str, array: np.ndarray) -> View: ...
@overload
def view_of(name: str, array: None) -> None: ...
def view_of(name: str, array: Optional[np.ndarray]) -> Optional[View]:
    if array is None:
        return None
    size = array.itemsize
    if any(stride % size for stride in array.strides) or not array.flags.aligned:
        raise InvalidArgument(f"{name} is not aligned to its elements of {size} bytes", "an aligned copy of it")
    return View(type_of(array.dtype), array.shape, tuple(stride // size for stride in array.strides), CPU, 0)


def describe(array: Optional[np.ndarray]) -> object:
    return None if array is None else (array.dtype, array.shape, array.strides, array.flags.aligned)


def address(array: Optional[np.ndarray]) -> int:
    return 0 if array is None else array.ctypes.data


class _Fields(ctypes.Structure):
    """What NumPy's C API calls PyArrayObject_fields, behind what every object of Python begins with; the library reads it."""

    _fields_ = [("data", c_void_p), ("rank", c_int), ("shape", POINTER(c_ssize_t)), ("strides", POINTER(c_ssize_t)), ("base", c_void_p),
                ("dtype", c_void_p), ("flags", c_int)]  # fmt: skip


_ALIGNED, _WRITEABLE = 0x100, 0x400


def _has_fields(array: np.ndarray) -> bool:
    x = _Fields.from_address(id(array) + object.__basicsize__)
    rank = array.ndim
    return (x.rank == rank and (x.data or 0) == array.ctypes.data and x.dtype == id(array.dtype) and tuple(x.shape[:rank]) == array.shape
            and tuple(x.strides[:rank]) == array.strides and bool(x.flags & _ALIGNED) == array.flags.aligned
            and bool(x.flags & _WRITEABLE) == array.flags.writeable)  # fmt: skip


def repeated_calls(kinds: str) -> RepeatedCalls:
    """Of arrays, of no subclass."""
    if sys.implementation.name != "cpython":
        return RepeatedCalls("", (), None)
    constant = np.zeros((3, 1), np.float32)
    constant.flags.writeable = False
    tried = (np.zeros((4, 6), np.float16)[::2, 1:], np.frombuffer(b"12345", np.int32, 1, 1), constant)
    return RepeatedCalls(kinds, (np.ndarray,), Asked(np.dtype) if all(_has_fields(each) for each in tried) else None)


def described(arrays: Sequence[Optional[np.ndarray]]) -> tuple[tuple[object, ...], tuple[int, ...]]:
    """What a kept call is found by, and the arrays' addresses, 0 for None."""
    return tuple(map(describe, arrays)), tuple(map(address, arrays))


def check_arrays(names: Sequence[str], arrays: Sequence[Any]) -> None:
    """All are arrays, as the first is, or None."""
    for name, array in zip(names, arrays):
        if array is not None and (not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray)):
            beside = "" if name == names[0] else f", {names[0]} is a NumPy array"
            raise WrongType(f"{name} is a {type(array).__name__}{beside}", "NumPy arrays, none of them masked")


def longest(given: Optional[int], offsets: np.ndarray) -> int:
    """Of the sequences that the offsets divide packed rows into, where it is not given."""
    if given is not None:
        return given
    # What is no contiguous dimension is refused later, and may be one number in 2**45 places.
    return int(np.diff(offsets).max(initial=0)) if offsets.ndim == 1 and offsets.flags.c_contiguous else 0

"""Weights packed once into the form that the CPU's kernels read."""

from __future__ import annotations

import ctypes
import importlib
import sys
from typing import Any, Callable

from tilesmith._errors import InvalidArgument, Unsupported, WrongType
from tilesmith._gemm_call import packing_call
from tilesmith._interruptible import checked
from tilesmith._library import CPU, check, library
from tilesmith._refusals import refusing
from tilesmith._tensor_library import library_of
from tilesmith._views import View, flag, one_of, whole

_ALIGNMENT = 64
_TYPES = ("fp32", "fp16", "bf16", "fp8", "bf8", "int8")


class PackedWeight:
    """What pack_weight made of a weight of torch.nn.Linear's shape, (n, k); linear takes it as w.

    data: bytes, as a flat uint8 tensor or array of the weight's library; of a CUDA tensor, the weight itself. It is kept
        as it is: copies and pickles (torch.save's too) hold these bytes, which begin with the machine's kind, types and
        sizes that they were made for. linear refuses them elsewhere.
    data_type: "fp32", "fp16", "bf16", "fp8", "bf8" or "int8".
    """

    __slots__ = ("data", "n", "k", "data_type", "is_packed")

    def __init__(self, data: Any, n: int, k: int, data_type: str, is_packed: bool = True) -> None:
        self.is_packed = flag("is_packed", is_packed)  #: not on CUDA devices, where data is the weight
        self.n, self.k = whole("n", n), whole("k", k)
        if self.n < 0 or self.k < 0:
            raise InvalidArgument(f"n is {n}, k is {k}", "0 or more")
        self.data_type = one_of("data_type", data_type, _TYPES)
        self.data = packed_bytes(data) if is_packed else data

    @property
    def shape(self) -> tuple[int, int]:
        """Of the weight."""
        return self.n, self.k

    @property
    def view(self) -> View:
        """The weight as linear's shapes, types and devices see it."""
        return View(self.data_type, self.shape, (max(self.k, 1), 1), CPU, 0)

    @property
    def nbytes(self) -> int:
        count: int = self.data.nbytes
        return count

    def __repr__(self) -> str:
        how = f"packed in {self.nbytes} bytes" if self.is_packed else "as it is"
        return f"PackedWeight(({self.n}, {self.k}), {self.data_type}, {how})"

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedWeight, (self.data, self.n, self.k, self.data_type, self.is_packed)


@refusing
def pack_weight(w: Any) -> PackedWeight:
    """Packs a weight once, for any number of calls of linear with x of w's type, of any shape.

    w: (n, k), torch.nn.Linear's: float32, float16, bfloat16, float8 or int8, a torch tensor on the CPU or a NumPy array,
        contiguous along n or k (transposed views are). It is read, and not kept. Of a torch tensor on a CUDA device
        nothing is packed and w itself is kept: those kernels read plain matrices at full speed.

        packed = tilesmith.pack_weight(layer.weight)
        y = tilesmith.linear(x, packed, layer.bias, activation="gelu")

    On the CPU calls of few to hundreds of rows spare what packing takes each time: most where n k is large beside the
    rows. Integer weights with scales (int4, or int8 beside floating x) are not packed; linear reads them as they lie.

    Errors: linear's. InvalidArgument by linear, when the bytes were made for a machine of another kind.
    """
    w, view, empty = source_of("pack_weight", w)
    if len(view.shape) != 2:
        raise InvalidArgument(f"w has the shape {view.shape}", "(n, k)")
    n, k = view.shape
    call = packing_call(view)
    if view.kind != CPU:
        return PackedWeight(w, n, k, view.data_type, False)
    call.b.data = address_of(w)
    data = packed_by("tilesmith_gemm_packed_bytes", "tilesmith_gemm_pack_b", call, empty)
    return PackedWeight(data, n, k, view.data_type)


def source_of(function: str, w: Any) -> tuple[Any, View, Callable[[int], Any]]:
    """The weight without its gradient, its view, and what makes bytes of its library."""
    name = library_of("w", w)
    if name == "torch":
        torch = sys.modules["torch"]
        from tilesmith import _torch

        if _torch.is_recorded():  # the graph would hold the memory of the packed bytes without their packing
            raise Unsupported(f"{function}, where torch compiles or traces", f"{function} before, and what it made in the traced function", "unsupported")
        if not _torch.is_plain(w):
            raise Unsupported(f"w is a {type(w).__name__}", "a plain torch tensor", "unsupported")
        _torch.check_no_tangents(function, (w,))
        w = w.detach()
        return w, _torch.view_of("w", w), lambda size: torch.empty(size, dtype=torch.uint8)
    if name == "numpy":
        import numpy as np

        from tilesmith import _numpy

        _numpy.check_arrays(("w",), (w,))
        return w, _numpy.view_of("w", w), lambda size: np.empty(size, np.uint8)
    raise WrongType(f"w is a {type(w).__name__}", "a torch tensor or a NumPy array")


def packed_by(measure: str, pack: str, call: ctypes.Structure, empty: Callable[[int], Any]) -> Any:
    """What these two functions of the library make of a call's weight."""
    needed = ctypes.c_uint64()
    checked(getattr(library(), measure), None, ctypes.addressof(call), ctypes.addressof(needed))
    data = _aligned_empty(empty, needed.value)
    check(getattr(library(), pack)(None, ctypes.addressof(call), address_of(data), needed.value))
    return data


def packed_bytes(data: Any) -> Any:
    """The bytes of a packed weight, as they came through a pickle or a user's hands, where kernels can read them."""
    return _aligned(_checked_bytes(data))


def _checked_bytes(data: Any) -> Any:
    """What was packed, as it came through a pickle or a user's hands."""
    name = library_of("data", data)
    module: Any = None if name == "dlpack" else importlib.import_module(f"tilesmith._{name}")
    if module is None or (name == "torch" and not module.is_plain(data)):
        raise WrongType(f"data is a {type(data).__name__}", "a torch tensor or a NumPy array of bytes, as pack_weight makes it")
    if name == "numpy":
        module.check_arrays(("data",), (data,))
    view: View = module.view_of("data", data)
    if view.data_type != "uint8" or len(view.shape) != 1 or view.strides != (1,) or view.kind != CPU:
        raise WrongType(f"data has the type {view.data_type}, the shape {view.shape} and the strides {view.strides}",
                        "uint8, one contiguous dimension, on the CPU")  # fmt: skip
    return data


def address_of(data: Any) -> int:
    address: int = data.ctypes.data if hasattr(data, "ctypes") else data.data_ptr()
    return address


def _aligned_empty(empty: Callable[[int], Any], size: int) -> Any:
    room = empty(size + _ALIGNMENT)
    start = -address_of(room) % _ALIGNMENT
    return room[start : start + size]


def _aligned(data: Any) -> Any:
    """The bytes, or a copy where they lie as kernels cannot read them: unpickled, or copied."""
    if address_of(data) % _ALIGNMENT == 0:
        return data
    empty = (lambda size: data.new_empty(size)) if hasattr(data, "new_empty") else (lambda size: type(data)(size, data.dtype))
    moved = _aligned_empty(empty, len(data))
    moved[:] = data
    return moved

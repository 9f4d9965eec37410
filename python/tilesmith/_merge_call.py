"""One call of merge_states as the C structure, kept for repeated calls."""

from __future__ import annotations

import ctypes
import struct
from typing import Optional, Sequence

from tilesmith._errors import InvalidArgument, WrongType
from tilesmith._library import CUDA, States, Strides, library, raise_last_error, sized
from tilesmith._serving_dims import CODES, dims_of, strides_of
from tilesmith._views import View, check_devices, dense_strides

# In the order of the structure.
_RESULTS = struct.Struct("@3P")
_RESULTS_AT = States.o.offset


class MergeCall:
    """Belongs to the thread that made it: the structure is filled anew for each run."""

    __slots__ = ("_call", "_address", "_merge", "_parts", "_pack", "shape", "lse_shape", "data_type", "index")

    def __init__(self, call: States, shape: tuple[int, ...], lse_shape: tuple[int, ...], data_type: str) -> None:
        self._call = call
        self._address = ctypes.addressof(call)
        self._merge = library().tilesmith_merge_states
        self._parts = (ctypes.c_void_p * (2 * call.states))()  #: addresses of the outputs, then of their lses
        self._pack = struct.Struct(f"@{2 * call.states}P").pack_into
        call.outputs = ctypes.addressof(self._parts)
        call.lses = call.outputs + ctypes.sizeof(ctypes.c_void_p) * call.states
        self.shape, self.lse_shape, self.data_type = shape, lse_shape, data_type
        self.index = call.device.index if call.device.kind == CUDA else -1  #: of the device whose stream it runs on; -1: none

    def run(self, parts: Sequence[int], o: int, lse: int, stream: int) -> None:
        """On outputs and then their lses at these addresses."""
        self._pack(self._parts, 0, *parts)
        _RESULTS.pack_into(self._call, _RESULTS_AT, o, lse, stream)
        if status := self._merge(None, self._address):
            raise_last_error(status)


def merge_names(parts: int) -> list[str]:
    return [*(f"{name}[{i}]" for name in ("outputs", "lses") for i in range(parts)), "out"]


def prepare_merge(tensors: Sequence[Optional[View]], layout: str) -> MergeCall:
    """Of outputs, lses, and the output there is or None."""
    names = merge_names(len(tensors) // 2)
    given = [(name, view) for name, view in zip(names, tensors) if view is not None]
    if missing := [name for name, view in zip(names[:-1], tensors) if view is None]:
        raise WrongType(f"{missing[0]} is None", "a tensor")
    parts = len(tensors) // 2
    views = [view for _, view in given[: 2 * parts]]
    first, first_lse = views[0], views[parts]
    check_devices([name for name, _ in given], first, [view for _, view in given])
    if first.data_type not in CODES:
        raise WrongType(f"outputs[0] is {first.data_type}", "float32, float16 or bfloat16")
    dims = dims_of(layout, "outputs[0]", first)
    rows = (first.shape[dims.row],) if len(first.shape) == 3 else (first.shape[0], first.shape[dims.row])
    lse_shape = (*rows[:-1], first.shape[dims.head], rows[-1])
    for number, (name, view) in enumerate(given[: 2 * parts]):
        like, shape, data_type = (first, first.shape, first.data_type) if number < parts else (first_lse, lse_shape, "fp32")
        if view.shape != shape or view.data_type != data_type:
            raise InvalidArgument(f"{name} has the shape {view.shape} and the type {view.data_type}",
                                  f"{shape}, {'float32' if data_type == 'fp32' else data_type}")  # fmt: skip
        if view.strides != like.strides and 0 not in shape:
            raise InvalidArgument(f"{name} has the strides {view.strides}, the first {like.strides}", "the same for all")
    out = tensors[-1] or View(first.data_type, first.shape, dense_strides(first.shape), first.kind, first.index)
    if out.shape != first.shape or out.data_type != first.data_type:
        raise InvalidArgument(f"out has the shape {out.shape} and the type {out.data_type}", f"{first.shape}, {first.data_type}")
    call = sized(States)
    call.device.kind, call.device.index = first.kind, first.index
    call.data_type = CODES[first.data_type]
    call.states = parts
    call.batch = first.shape[0] if len(first.shape) == 4 else 1
    call.heads, call.seqlen, call.head_dim = first.shape[dims.head], first.shape[dims.row], first.shape[-1]
    call.output_strides = strides_of("outputs[0]", first, dims)
    call.o_strides = strides_of("out", out, dims)
    call.input_lse_strides = Strides(*_padded(first_lse.strides))
    call.lse_strides = Strides(*_padded(dense_strides(lse_shape)))
    return MergeCall(call, first.shape, lse_shape, first.data_type)


def _padded(strides: tuple[int, ...]) -> tuple[int, ...]:
    """Of (batch, heads, seqlen), whether there is a batch or not."""
    return (0,) * (3 - len(strides)) + tuple(strides)

"""What tensors look like, without where they are: the same words for every tensor library and every operation."""

from __future__ import annotations

import numbers
import operator
from typing import NamedTuple, Optional, Sequence

from tilesmith._errors import InvalidArgument, Unsupported, WrongType
from tilesmith._library import CPU, KIND_NAMES

BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "bf8": 1, "int8": 1, "uint8": 1, "int32": 4}


class View(NamedTuple):
    data_type: str  #: "fp32", ..., "int32"; else the name its library has for it
    shape: tuple[int, ...]
    strides: tuple[int, ...]  #: in elements
    kind: int  #: CPU or CUDA
    index: int  #: of the device


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def span(view: View) -> int:
    """Bytes from the first element to behind the last."""
    if 0 in view.shape:
        return 0
    return (1 + sum((size - 1) * stride for size, stride in zip(view.shape, view.strides))) * BYTES[view.data_type]


def broadcast(name: str, view: View, text: str, full: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of the tensor seen in its full shape, by the usual broadcasting; `text` names the full shape's parts."""
    missing = len(full) - len(view.shape)
    if missing < 0 or any(size not in (1, wanted) for size, wanted in zip(view.shape, full[missing:])):
        raise InvalidArgument(f"{name} has the shape {view.shape}", f"what broadcasts to {text} = {full}")
    strides = [0 if size == 1 else stride for size, stride in zip(view.shape, view.strides)]
    return (0,) * missing + tuple(strides)


def check_devices(names: Sequence[str], views: Sequence[Optional[View]]) -> None:
    """All on the device of the first, which is there."""
    first = views[0]
    if first.kind not in KIND_NAMES:
        raise Unsupported(f"{names[0]} is on a device of the DLPack kind {first.kind}", "the CPU, or a CUDA device")
    for name, view in zip(names, views):
        if view is not None and (view.kind, view.index) != (first.kind, first.index):
            raise InvalidArgument(f"{names[0]} is on {_device_text(first)}, {name} on {_device_text(view)}",
                                  "one device for all")  # fmt: skip


def _device_text(view: View) -> str:
    name = KIND_NAMES.get(view.kind, f"kind {view.kind}")
    return name if view.kind == CPU else f"{name}:{view.index}"


def whole(name: str, value: object) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise WrongType(f"{name} is {value!r}", "a whole number") from None


def number(name: str, value: object) -> float:
    # No tensors: their value could change while the prepared call stays.
    if not isinstance(value, numbers.Real):
        raise WrongType(f"{name} is {value!r}", "a number")
    return float(value)

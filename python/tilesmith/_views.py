"""What tensors look like, without where they are: the same words for every tensor library and every operation."""

from __future__ import annotations

import math
import numbers
import operator
from typing import Iterable, NamedTuple, Optional, Sequence

from tilesmith._errors import InvalidArgument, Unsupported, WrongType
from tilesmith._library import CPU, KIND_NAMES

_MOST = 1 << 62
_MOST_FLOAT32 = (2 - 2**-23) * 2.0**127

BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "bf8": 1, "int8": 1, "uint8": 1, "int32": 4}


class View(NamedTuple):
    data_type: str  #: "fp32", ..., "int32"; else the name its library has for it
    shape: tuple[int, ...]
    strides: tuple[int, ...]  #: in elements
    kind: int  #: CPU or CUDA
    index: int  # type: ignore[assignment]  #: of the device; hides tuple's search


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


def check_devices(names: Sequence[str], first: View, views: Sequence[Optional[View]]) -> None:
    """All on the device of the first of them."""
    if first.kind not in KIND_NAMES:
        raise Unsupported(f"{names[0]} is on a device of the DLPack kind {first.kind}", "the CPU, or a CUDA device")
    for name, view in zip(names, views):
        if view is not None and (view.kind, view.index) != (first.kind, first.index):
            raise InvalidArgument(f"{names[0]} is on {_device_text(first)}, {name} on {_device_text(view)}",
                                  "one device for all")  # fmt: skip


def _device_text(view: View) -> str:
    name = KIND_NAMES.get(view.kind, f"kind {view.kind}")
    return name if view.kind == CPU else f"{name}:{view.index}"


def shown(value: object) -> str:
    """For messages: no longer than a line, whatever it is."""
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def whole(name: str, value: object) -> int:
    try:
        # operator.index would have torch.compile make a graph for each number that may be a symbol.
        index = value if isinstance(value, int) else operator.index(value)  # type: ignore[arg-type]
    except Exception:  # the value's own class may raise anything
        raise WrongType(f"{name} is {shown(value)}", "a whole number") from None
    if not -_MOST <= index < _MOST:  # the structure's fields have 64 bits, and would take the lower ones
        if name != "seed":  # check_seed has its bounds
            raise InvalidArgument(f"{name} is {shown(value)}", "a whole number of at most 62 bits")
    return index


def number(name: str, value: object) -> float:
    if value.__class__ is float and -_MOST_FLOAT32 <= value <= _MOST_FLOAT32:
        return value
    # No tensors: their value could change while the prepared call stays.
    if not isinstance(value, numbers.Real):
        raise WrongType(f"{name} is {shown(value)}", "a number")
    try:
        own = float(value)
    except OverflowError:
        own = _MOST_FLOAT32 * 2
    if _MOST_FLOAT32 < abs(own) < math.inf:  # the structure's fields would take it for infinity
        raise InvalidArgument(f"{name} is {shown(value)}", "a number that float32 can hold") from None
    return own


def flag(name: str, value: object) -> bool:
    """True or False, NumPy's too; 1 and 0 are found where calls with True and False are kept."""
    if type(value).__name__ in ("bool", "bool_") or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise WrongType(f"{name} is {shown(value)}", "True or False")


def check_cache(name: str, shape: tuple[int, ...], hint: str) -> None:
    """Of a cache of pages. Errors: one that has not four dimensions."""
    if len(shape) == 5:  # (pages, heads, dim / x, page size, x) of keys, (pages, heads, page size / x, dim, x) of values
        raise InvalidArgument(f"{name} has the shape {shape}, five dimensions as Composable Kernel's vectorized caches have",
                              f"{hint}; attention reads such pages with kv_layout 'vectorized'")  # fmt: skip
    if len(shape) != 4:
        raise InvalidArgument(f"{name} has the shape {shape}", hint)


def one_of(name: str, value: object, known: Iterable[str]) -> str:
    *others, last = map(repr, known := tuple(known))
    if not isinstance(value, str) or value not in known:
        raise InvalidArgument(f"{name} is {shown(value)}", f"{', '.join(others)} or {last}" if others else last)
    return value

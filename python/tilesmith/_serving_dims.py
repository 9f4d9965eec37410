"""Which dimension of a tensor of the serving functions is which, and its strides."""

from __future__ import annotations

from typing import NamedTuple, Optional

from tilesmith._errors import InvalidArgument
from tilesmith._library import Strides
from tilesmith._views import View, dense_strides, one_of

#: Data types of the tensors as the library numbers them.
CODES = {"fp32": 0, "fp16": 1, "bf16": 2}


class Dims(NamedTuple):
    """Which dimension of a tensor is which; the last is the head's."""

    batch: Optional[int]
    head: int
    row: int


def dims_of(layout: str, name: str, view: View) -> Dims:
    one_of("layout", layout, ("bhsd", "bshd"))
    if len(view.shape) not in (3, 4):
        raise InvalidArgument(f"{name} has the shape {view.shape}", "three or four dimensions")
    first = len(view.shape) - 3
    return Dims(0 if first else None, first + (layout == "bshd"), first + (layout == "bhsd"))


def strides_of(name: str, view: View, dims: Dims) -> Strides:
    if 0 in view.shape:
        view = view._replace(strides=dense_strides(view.shape))
    if view.strides[-1] != 1 and view.shape[-1] > 1:
        raise InvalidArgument(f"{name} has the strides {view.strides}", "a contiguous head dim, the last one")
    return Strides(0 if dims.batch is None else view.strides[dims.batch], view.strides[dims.head], view.strides[dims.row])

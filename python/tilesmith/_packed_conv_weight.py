"""Filters of convolutions packed once into the form that the CPU's kernels read."""

from __future__ import annotations

from typing import Any

from tilesmith._conv_call import PACKED_TYPES, Sizes, check_rank, packing_call, sizes_of
from tilesmith._errors import InvalidArgument
from tilesmith._library import CPU
from tilesmith._packed_weight import address_of, packed_by, packed_bytes, source_of
from tilesmith._refusals import refusing
from tilesmith._views import View, dense_strides, flag, one_of, whole


class PackedConvWeight:
    """What pack_conv_weight made of filters (filters, channels of a group, taps...); convolutions take it as w.

    data: bytes, as a flat uint8 tensor or array of the filters' library; of a CUDA tensor, the filters themselves. It is
        kept as it is: copies and pickles (torch.save's too) hold these bytes, which begin with the machine's kind, types
        and sizes that they were made for. Convolutions refuse them elsewhere.
    data_type: "fp32", "fp16", "bf16", "fp8" or "int8".
    """

    __slots__ = ("data", "shape", "data_type", "view", "is_packed")

    def __init__(self, data: Any, shape: tuple[int, ...], data_type: str, is_packed: bool = True) -> None:
        self.is_packed = flag("is_packed", is_packed)  #: not on CUDA devices, where data is the filters
        self.shape = tuple(whole("shape", each) for each in shape)
        check_rank("shape", self.shape, None)
        if min(self.shape) < 1:
            raise InvalidArgument(f"shape is {self.shape}", "1 or more each")
        self.data_type = one_of("data_type", data_type, PACKED_TYPES)
        self.data = packed_bytes(data) if is_packed else data
        #: The filters as shapes, types and devices of a call see them.
        self.view = View(self.data_type, self.shape, dense_strides(self.shape), CPU, 0)

    @property
    def nbytes(self) -> int:
        count: int = self.data.nbytes
        return count

    def __repr__(self) -> str:
        how = f"packed in {self.nbytes} bytes" if self.is_packed else "as it is"
        return f"PackedConvWeight({self.shape}, {self.data_type}, {how})"

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedConvWeight, (self.data, self.shape, self.data_type, self.is_packed)


def as_repeated(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments of a forward call, (count, x, w, ...), with the memory of w and how it is packed in w's place."""
    count, x, w, *more = arguments
    if w.__class__ is PackedConvWeight:
        return (count, x, w.data, w.view if w.is_packed else None, *more)
    return (count, x, w, None, *more)


@refusing
def pack_conv_weight(w: Any, *, groups: int = 1, dilation: Sizes = 1, transposed: bool = False) -> PackedConvWeight:
    """Packs the filters of a convolution once, for any number of calls with x of w's type, of any batch and image.

    w: as conv1d, conv2d and conv3d take it, or with `transposed` conv_transpose1d, 2d and 3d (and conv_backward_data):
        float32, float16 or bfloat16, not transposed also float8 (e4m3) and int8; a torch tensor on the CPU or a NumPy
        array, of any strides. It is read, and not kept. Of a torch tensor on a CUDA device nothing is packed and w itself
        is kept: those kernels read plain filters at full speed.
    groups, dilation: the calls'.

        packed = tilesmith.pack_conv_weight(layer.weight)
        y = tilesmith.conv2d(x, packed, layer.bias, padding=1, activation="relu")

    On the CPU calls spare what packing takes each time: most where filters are large beside the image.

    Errors: those of convolutions. InvalidArgument by them, when the bytes were made for a machine of another kind, or for
    other groups, direction or dilation.
    """
    w, view, empty = source_of("pack_conv_weight", w)
    check_rank("w", view.shape, None)
    count = len(view.shape) - 2
    call = packing_call(view, whole("groups", groups), sizes_of("dilation", dilation, count), flag("transposed", transposed))
    if view.kind != CPU:
        return PackedConvWeight(w, view.shape, view.data_type, False)
    call.w = address_of(w)
    data = packed_by("tilesmith_conv_packed_bytes", "tilesmith_conv_pack_w", call, empty)
    return PackedConvWeight(data, view.shape, view.data_type)

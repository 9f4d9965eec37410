"""Convolution of DLPack arrays."""

from __future__ import annotations

from typing import Any, Optional

from tilesmith._conv_call import BESIDE, FORMS, Call, Described, Geometry, Views, default_type
from tilesmith._dlpack import Borrowed, New, stream_of
from tilesmith._errors import InvalidArgument, Unsupported
from tilesmith._kept_calls import KeptCalls
from tilesmith._packed_conv_weight import PackedConvWeight

_calls: KeptCalls[Call] = KeptCalls()


def conv(form: str, a: Any, b: Any, scale: Any, bias: Any, residual: Any, out: Any, shape: tuple[int, ...], g: Geometry, out_dtype: Any,
         activation: Optional[str]) -> Any:  # fmt: skip
    """Convolution, transposed convolution and the gradients of DLPack arrays."""
    if out_dtype is not None:
        raise Unsupported("out_dtype with arrays of this kind", "out, an array of that type", "unsupported")
    if b.__class__ is PackedConvWeight:
        raise Unsupported("w is packed, and x an array of this kind", "torch tensors or NumPy arrays", "unsupported")
    names = (*FORMS[form].names, *BESIDE)
    stream = stream_of(names[0], a)
    given = [None if array is None else Borrowed(name, array, stream) for name, array in zip(names, (a, b, scale, bias, residual, out))]
    made = None
    if given[-1] is None:
        assert given[0] is not None
        made = New(a, given[0].view, shape, default_type(given[0].view.data_type), stream)
        given[-1] = made.borrowed
    elif given[-1].read_only:
        raise InvalidArgument("out is read-only", "an array that can be written to")
    views = Views._make(None if each is None else each.view for each in given)
    described = Described(form, views, shape, g, None, activation, 0)
    call = _calls.by_key.get(described) or _calls.keep(described, Call(described))
    call.run((0 if each is None else each.address for each in given), 0 if stream is None or stream == 1 else stream)
    return out if made is None else made.written()


def bias_gradient(dy: Any, dtype: Any) -> Any:
    raise Unsupported("bias=True with arrays of this kind", "torch tensors, NumPy arrays, or the sum of dy by channels", "unsupported")


def joined_scales(x: Any, filters: int, scale_x: Any, scale_w: Any) -> Any:
    if scale_x is not None or isinstance(scale_w, (int, float)):
        raise Unsupported("scales that are to be joined, with arrays of this kind", f"scale_w alone, of both, of shape ({filters},)", "unsupported")
    return scale_w

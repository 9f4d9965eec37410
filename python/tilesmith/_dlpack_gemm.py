"""matmul, linear and grouped_matmul on DLPack arrays."""

from __future__ import annotations

import numbers
from typing import Any

from tilesmith._dlpack import Borrowed, New, stream_of
from tilesmith._errors import InvalidArgument, Unsupported
from tilesmith._gemm_call import Call, prepare
from tilesmith._gemm_operands import ADDRESSED, NAMES, Operands, Options, Views
from tilesmith._kept_calls import KeptCalls
from tilesmith._views import number

_calls: KeptCalls[Call] = KeptCalls()


def gemm(form: Any, a: Any, b: Any, c: Any, bias: Any, multiply: Any, residual: Any, scale_a: Any, scale_b: Any, out: Any,
         groups: Any, zero_b: Any, a2: Any, b2: Any, amax: Any, out_dtype: Any, alpha: Any, beta: Any, activation: Any,
         gate: Any, clamp: Any, tf32: Any, prefetch_weights: Any) -> Any:  # fmt: skip
    """matmul, mm_plus_mm, linear and grouped_matmul on DLPack arrays."""
    if amax is True:
        raise Unsupported("amax=True with arrays of this kind", "amax, a float32 array of one zero", "unsupported")
    if form == "packed":
        raise Unsupported("w is packed, and x an array of this kind", "torch tensors or NumPy arrays", "unsupported")
    names = NAMES[form]
    if out_dtype is not None:
        raise Unsupported("out_dtype with arrays of this kind", "out, an array of that type", "unsupported")
    alpha = number("alpha", alpha)
    scaled = scale_a is not None or scale_b is not None
    alpha, scale_a = _fold(alpha, scale_a)
    alpha, scale_b = _fold(alpha, scale_b)
    stream = stream_of(names.a, a)
    given = (a, b, c, bias, multiply, residual, scale_a, scale_b, out, groups, zero_b, a2, b2, amax)
    borrowed: Operands[Any, Any] = Operands(*(None if array is None else Borrowed(name, array, stream) for name, array in zip(names, given)))
    seen: list[Any] = [None if each is None else each.view for each in borrowed]
    views: Views = Operands(*seen)
    options = Options(form, None, activation, gate, clamp, tf32, prefetch_weights, scaled)
    call = _calls.by_key.get(key := (options, beta, views)) or _calls.keep(key, prepare(views, options, beta))
    for name, written in (("out", borrowed.out), ("amax", borrowed.amax)):
        if written is not None and written.read_only:
            raise InvalidArgument(f"{name} is read-only", "an array that can be written to")
    result = New(a, views.a, call.out_shape, call.out_type, stream) if out is None else None
    addresses: Operands[int, int] = Operands(*(0 if each is None else each.address for each in borrowed))
    call.run_all(alpha, addresses.a, addresses.b, addresses.out if result is None else result.borrowed.address, 0 if stream in (None, 1) else stream,
                 *map(addresses.__getattribute__, ADDRESSED))  # fmt: skip
    return out if result is None else result.written()


def _fold(alpha: float, scale: Any) -> tuple[float, Any]:
    """A scale that is a number becomes part of alpha."""
    return (alpha * float(scale), None) if isinstance(scale, numbers.Real) else (alpha, scale)

"""Convolution of NumPy arrays."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from tilesmith._conditions import conditions
from tilesmith._conv import repeating
from tilesmith._conv_call import BESIDE, FORMS, KINDS, WORD_OUT, Call, Described, Geometry, Views, latest
from tilesmith._errors import InvalidArgument, WrongType
from tilesmith._kept_calls import KeptCalls
from tilesmith._numpy import address, check_arrays, dtype_of, repeated_calls, type_of, view_of
from tilesmith._packed_conv_weight import PackedConvWeight, as_repeated
from tilesmith._repeated import Output
from tilesmith._views import number, shown

_calls: KeptCalls[Call] = KeptCalls()
_repeated = repeated_calls(KINDS)
_run = _repeated.run


def conv(form: str, a: Any, b: Any, scale: Any, bias: Any, residual: Any, out: Any, shape: tuple[int, ...], g: Geometry, out_dtype: Any,
         activation: Optional[str]) -> np.ndarray:  # fmt: skip
    """Convolution, transposed convolution and the gradients of NumPy arrays."""
    packed = None
    if b.__class__ is PackedConvWeight:
        packed, b = b, b.data
    names, arrays = (*FORMS[form].names, *BESIDE), (a, b, scale, bias, residual, out)
    check_arrays(names, arrays)
    views = Views._make(view_of(name, array) for name, array in zip(names, arrays))
    if packed is not None:
        views = views._replace(b=packed.view)
    described = Described(form, views, shape, g, _type_name(out_dtype), activation, 0, 0 if packed is None else packed.nbytes)
    call = _calls.by_key.get(described) or _calls.keep(described, Call(described))
    latest.call = call
    if out is None:
        out = _new(shape, call.out_strides, dtype_of(call.out_type, a.dtype))
    elif not out.flags.writeable:
        raise InvalidArgument("out is read-only", "a writable array")
    call.run(map(address, (a, b, scale, bias, residual, out)), 0)
    result: np.ndarray = out
    return result


def again(*arguments: Any) -> tuple[Optional[tuple[Any, ...]], Optional[np.ndarray]]:
    """A forward call as one before: what remember() takes, and the result. None: what is not repeated, or has not been there."""
    result = _run(conditions.now, *as_repeated(arguments))
    return (arguments, None) if result is NotImplemented else (None, result)


def remember(key: object, arguments: tuple[Any, ...], scale: Optional[np.ndarray], result: np.ndarray) -> None:
    """The call just made, for again()."""
    call = latest.call
    numbers_alone = not any(isinstance(each, np.ndarray) for each in arguments[3:])  # the scales are joined into one, once
    if call is not None and call.repeats and numbers_alone:
        call.repeats -= 1
        out = Output(WORD_OUT, -1, _new, (result.shape, call.out_strides, result.dtype))
        _repeated.keep(conditions.now, as_repeated(arguments), call.repetition(scale, out))


repeating[np.ndarray] = (again, remember)


def bias_gradient(dy: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The sums of dy by channels."""
    sums: np.ndarray = dy.sum((0, *range(2, dy.ndim)), np.float32)
    return sums.astype(dtype)


def joined_scales(x: np.ndarray, filters: int, scale_x: Any, scale_w: Any) -> np.ndarray:
    """One scale for each filter, of both."""
    vector = np.ones(filters, np.float32)
    for name, scale in (("scale_x", scale_x), ("scale_w", scale_w)):
        if scale is None:
            continue
        if not isinstance(scale, np.ndarray):
            vector *= np.float32(number(name, scale))
            continue
        if scale.dtype != np.float32:
            raise WrongType(f"{name} is {scale.dtype}", "float32")
        if scale.size != 1 and (name == "scale_x" or scale.shape != (filters,)):
            raise InvalidArgument(f"{name} has the shape {scale.shape}", "one element" + ("" if name == "scale_x" else f", or ({filters},)"))
        vector *= scale.reshape(-1)
    return vector


def _new(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if strides[1] == 1 and len(shape) > 2:  # channels last
        return np.moveaxis(np.empty((shape[0], *shape[2:], shape[1]), dtype), -1, 1)
    return np.empty(shape, dtype)


def _type_name(dtype: Any) -> Optional[str]:
    if dtype is None:
        return None
    try:
        return type_of(np.dtype(dtype))
    except (TypeError, ValueError):
        raise WrongType(f"out_dtype is {shown(dtype)}", "a NumPy dtype") from None

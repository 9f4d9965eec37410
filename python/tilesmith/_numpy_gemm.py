"""matmul, linear and grouped_matmul on NumPy arrays."""

from __future__ import annotations

import numbers
from typing import Any, Optional

import numpy as np

from tilesmith._errors import InvalidArgument, WrongType
from tilesmith._gemm_call import NAMES, Call, Operands, Options, has_weights, prepare
from tilesmith._kept_calls import KeptCalls
from tilesmith._numpy import address, check_arrays, describe, dtype_of, type_of, view_of
from tilesmith._views import number

_calls: KeptCalls[Call] = KeptCalls()


def gemm(form, a, b, c, bias, multiply, residual, scale_a, scale_b, out, groups, out_dtype, alpha, beta, activation, gate, clamp,
         tf32) -> Any:  # fmt: skip
    """matmul, linear and grouped_matmul on NumPy arrays."""
    names = NAMES[form]
    scaled = scale_a is not None or scale_b is not None
    alpha, scale_a = _fold(number("alpha", alpha), names[6], scale_a)
    if not isinstance(b, np.ndarray) or not has_weights(type_of(a.dtype), type_of(b.dtype)):
        alpha, scale_b = _fold(alpha, names[7], scale_b)
    arrays = (a, b, c, bias, multiply, residual, scale_a, scale_b, out, groups)
    check_arrays(names, arrays)
    if out_dtype is not None:
        try:
            out_dtype = np.dtype(out_dtype)
        except TypeError:
            raise WrongType(f"out_dtype is {out_dtype!r}", "a NumPy dtype") from None
    key = (form, out_dtype, activation, gate, clamp, tf32, beta, scaled, *map(describe, arrays))
    call = _calls.by_key.get(key)
    if call is None:
        views = Operands(*(view_of(name, array) for name, array in zip(names, arrays)))
        out_type = None if out_dtype is None else type_of(out_dtype)
        options = Options(form, out_type, activation, gate, clamp, bool(tf32), scaled)
        call = _calls.keep(key, prepare(views, options, beta))
    if out is None:
        out = np.empty(call.out_shape, dtype_of(call.out_type, a.dtype))
    elif not out.flags.writeable:
        raise InvalidArgument("out is read-only", "a writable array")
    call.run_all(alpha, address(a), address(b), address(out), 0, address(c), address(bias), address(multiply),
                 address(residual), address(scale_a), address(scale_b), address(groups))  # fmt: skip
    return out


def _fold(alpha: float, name: str, scale: Any) -> tuple[float, Optional[np.ndarray]]:
    """A scale of one number becomes part of alpha."""
    if scale is None or (isinstance(scale, np.ndarray) and scale.size != 1):
        return alpha, scale
    if isinstance(scale, np.ndarray):
        if scale.dtype != np.float32:
            raise WrongType(f"{name} is {scale.dtype}", "float32")
        return alpha * scale.item(), None
    if not isinstance(scale, numbers.Real):
        raise WrongType(f"{name} is a {type(scale).__name__}", "a number or a NumPy array")
    return alpha * float(scale), None

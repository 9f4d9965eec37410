"""matmul, linear and grouped_matmul of groups on NumPy arrays."""

from __future__ import annotations

import numbers
from typing import Any, Optional

import numpy as np

from tilesmith._conditions import conditions
from tilesmith._errors import InvalidArgument, WrongType
from tilesmith._gemm_call import KINDS, OUT, SCALE_A, SCALE_B, WORD_D, A, Call, prepare
from tilesmith._gemm_operands import NAMES, Operands, Options, has_weights, is_only_block
from tilesmith._kept_calls import KeptCalls
from tilesmith._numpy import address, check_arrays, describe, dtype_of, repeated_calls, type_of, view_of
from tilesmith._repeated import Output
from tilesmith._views import number, shown

calls: KeptCalls[Call] = KeptCalls()
_repeated = repeated_calls(KINDS)
_run = _repeated.run


def gemm(form: Any, a: Any, b: Any, c: Any, bias: Any, multiply: Any, residual: Any, scale_a: Any, scale_b: Any, out: Any,
         groups: Any, zero_b: Any, a2: Any, b2: Any, amax: Any, out_dtype: Any, alpha: Any, beta: Any, activation: Any,
         gate: Any, clamp: Any, tf32: Any, prefetch_weights: Any) -> Any:  # fmt: skip
    """matmul, mm_plus_mm, linear and grouped_matmul on NumPy arrays."""
    repeated = _run(conditions.now, form, a, b, c, bias, multiply, residual, scale_a, scale_b, out, groups, zero_b, a2, b2, amax, out_dtype, alpha,
                    beta, activation, gate, clamp, tf32, prefetch_weights)  # fmt: skip
    if repeated is not NotImplemented:
        return repeated
    if amax is True:
        amax = np.zeros((), np.float32)
        return gemm(form, a, b, c, bias, multiply, residual, scale_a, scale_b, out, groups, zero_b, a2, b2, amax, out_dtype, alpha, beta, activation,
                    gate, clamp, tf32, prefetch_weights), amax  # fmt: skip
    names = NAMES[form]
    scaled = scale_a is not None or scale_b is not None
    given_alpha, given_scales, given_type = number("alpha", alpha), (scale_a, scale_b), out_dtype
    alpha, scale_a, scale_b = fold(form, number("alpha", alpha), a, b, scale_a, scale_b)
    packed = None
    if form == "packed":
        packed, b = b, b.data
    arrays = (a, b, c, bias, multiply, residual, scale_a, scale_b, out, groups, zero_b, a2, b2, amax)
    check_arrays(names, arrays)
    out_dtype = given_dtype(out_dtype)
    key = (form if packed is None else packed.view, out_dtype, activation, gate, clamp, tf32, prefetch_weights, beta, scaled, *map(describe, arrays))
    call = calls.by_key.get(key)
    if call is None:
        views = Operands(*(view_of(name, array) for name, array in zip(names, arrays)))
        if packed is not None:
            views = views._replace(b=packed.view)
        options = Options(form, type_name(out_dtype), activation, gate, clamp, tf32, prefetch_weights, scaled,
                          0 if packed is None else packed.nbytes)  # fmt: skip
        call = calls.keep(key, prepare(views, options, beta))
    for name, written in (("out", out), ("amax", amax)):
        if written is not None and not written.flags.writeable:
            raise InvalidArgument(f"{name} is read-only", "a writable array")
    given_out = out
    if out is None:
        out = new_result(call, a)
    call.run_all(alpha, address(a), address(b), address(out), 0, address(c), address(bias), address(multiply),
                 address(residual), address(scale_a), address(scale_b), address(groups), address(zero_b), address(a2), address(b2),
                 address(amax))  # fmt: skip
    if call.repeats:
        call.repeats -= 1
        _keep(call, (form, a, b, c, bias, multiply, residual, *given_scales, given_out, groups, zero_b, a2, b2, amax, given_type, given_alpha, beta,
                     activation, gate, clamp, tf32, prefetch_weights), (scale_a, scale_b))  # fmt: skip
    return out


def _keep(call: Call, arguments: tuple[Any, ...], scales: tuple[Any, Any]) -> None:
    """For calls like this one. scales: what is left of those that were given."""
    folded = [at for at, left in zip((SCALE_A, SCALE_B), scales) if left is not arguments[at]]
    if not all(isinstance(arguments[at], np.ndarray) for at in folded):
        return  # a number
    out = None
    if arguments[OUT] is None:
        out = Output(WORD_D, -1, np.empty, (call.out_shape, dtype_of(call.out_type, arguments[A].dtype)))
    _repeated.keep(conditions.now, arguments, call.repetition(tuple(folded), out))


def given_dtype(dtype: Any) -> Optional[np.dtype]:
    try:
        return None if dtype is None else np.dtype(dtype)
    except (TypeError, ValueError):
        raise WrongType(f"out_dtype is {shown(dtype)}", "a NumPy dtype") from None


def type_name(dtype: Optional[np.dtype]) -> Optional[str]:
    return None if dtype is None else type_of(dtype)


def new_result(call: Call, a: np.ndarray) -> np.ndarray:
    return np.empty(call.out_shape, dtype_of(call.out_type, a.dtype))


def fold(form: str, alpha: float, a: Any, b: Any, scale_a: Any, scale_b: Any) -> tuple[float, Any, Any]:
    """Scales of one number become part of alpha."""
    names = NAMES[form]
    beside = scale_b.size if isinstance(scale_a, np.ndarray) and isinstance(scale_b, np.ndarray) else 0
    if not (beside and is_only_block(type_of(a.dtype), a.shape, scale_a.shape, beside)):
        alpha, scale_a = _fold_one(alpha, names.scale_a, scale_a)
    if not isinstance(b, np.ndarray) or not has_weights(type_of(a.dtype), type_of(b.dtype)):
        alpha, scale_b = _fold_one(alpha, names.scale_b, scale_b)
    return alpha, scale_a, scale_b


def _fold_one(alpha: float, name: str, scale: Any) -> tuple[float, Optional[np.ndarray]]:
    if scale is None or (isinstance(scale, np.ndarray) and scale.size != 1):
        return alpha, scale
    if isinstance(scale, np.ndarray):
        if scale.dtype != np.float32:
            raise WrongType(f"{name} is {scale.dtype}", "float32")
        return alpha * scale.item(), None
    if not isinstance(scale, numbers.Real):
        raise WrongType(f"{name} is a {type(scale).__name__}", "a number or a NumPy array")
    return alpha * float(scale), None

"""matmul, mm_plus_mm, linear and grouped_matmul of groups on torch tensors, and their operator."""

from __future__ import annotations

import numbers
from typing import Any, Optional

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad

from tilesmith._conditions import conditions
from tilesmith._errors import InvalidArgument, WrongType
from tilesmith._gemm_call import KINDS, OUT, SCALE_A, SCALE_B, WORD_D, A, Call, prepare
from tilesmith._gemm_operands import NAMES, Operands, Options
from tilesmith._kept_calls import KeptCalls
from tilesmith._packed_weight import PackedWeight
from tilesmith._torch import (
    DTYPES,
    OPTION_ARGUMENTS,
    TYPES,
    address,
    all_plain,
    argument_names,
    check_memory,
    check_no_tangents,
    check_sign,
    define,
    define_gradient,
    describe,
    differentiated,
    grad_enabled,
    is_dynamo_compiling,
    is_traced,
    new_output,
    options_here,
    raw_stream,
    repeated_calls,
    tell_written,
    torch_threads,
    under,
    view_of,
)
from tilesmith._torch_gemm_gradient import check_differentiable, finish, gradient_of
from tilesmith._torch_gemm_scales import fold
from tilesmith._torch_packed_gemm import linear_operator
from tilesmith._torch_product import TrainedProduct, differentiated as differentiated_product, trained_product
from tilesmith._views import number, shown

calls: KeptCalls[Call] = KeptCalls()
_products: KeptCalls[Optional[TrainedProduct]] = KeptCalls()
_repeated = repeated_calls(KINDS)
_run = _repeated.run
_PLAIN = {Tensor, torch.nn.Parameter, type(None)}


def gemm(form: Any, a: Any, b: Any, c: Any, bias: Any, multiply: Any, residual: Any, scale_a: Any, scale_b: Any, out: Any,
         groups: Any, zero_b: Any, a2: Any, b2: Any, amax: Any, out_dtype: Any, alpha: Any, beta: Any, activation: Any,
         gate: Any, clamp: Any, tf32: Any, prefetch_weights: Any) -> Any:  # fmt: skip
    """matmul and its like on plain torch tensors. Every call passes here, so it is written for speed."""
    if not is_dynamo_compiling():
        repeated = _run(conditions.now, form, a, b, c, bias, multiply, residual, scale_a, scale_b, out, groups, zero_b, a2, b2, amax, out_dtype, alpha,
                        beta, activation, gate, clamp, tf32, prefetch_weights)  # fmt: skip
        if repeated is not NotImplemented:
            if out is not None:
                tell_written(out)
            if amax is not None:
                tell_written(amax)
            return repeated
    if is_traced():
        return gemm_op(form, a, b, c, bias, multiply, residual, scale_a, scale_b, out, groups, zero_b, a2, b2, amax, out_dtype, alpha, beta, activation,
                       gate, clamp, tf32, prefetch_weights)  # fmt: skip
    if alpha.__class__ is not float:
        alpha = number("alpha", alpha)
    scaled = scale_a is not None or scale_b is not None
    alone = (c is None and multiply is None and not scaled and out is None and groups is None and zero_b is None and a2 is None
             and amax is None)  # but for a bias and a residual  # fmt: skip
    plain = alone and residual is None
    if amax is True:
        amax = a.new_zeros((), dtype=torch.float32)
        return gemm(form, a, b, c, bias, multiply, residual, scale_a, scale_b, out, groups, zero_b, a2, b2, amax, out_dtype, alpha, beta, activation,
                    gate, clamp, tf32, prefetch_weights), amax  # fmt: skip
    packed = None
    if form == "packed":
        packed, b = b, b.data
    if alone and type(b) in _PLAIN and type(bias) in _PLAIN and type(residual) in _PLAIN:
        differentiable = (a.requires_grad or b.requires_grad or (bias is not None and bias.requires_grad)
                          or (residual is not None and residual.requires_grad))  # fmt: skip
    else:
        differentiable = _check_tensors(form, (a, b, c, bias, multiply, residual, scale_a, scale_b, out, groups, zero_b, a2, b2, amax))
    if differentiable and grad_enabled():
        if alone and gate is None and clamp is None and out_dtype is None and packed is None:
            v = _trained(form, a, b, bias, residual if activation is None else None, alpha, tf32, prefetch_weights)
            if v is not None:
                return v if activation is None else finish(v, activation, None, None, residual, None, False)
        return gemm_op(form, a, b, c, bias, multiply, residual, scale_a, scale_b, out, groups, zero_b, a2, b2, amax, out_dtype, alpha, beta, activation,
                       gate, clamp, tf32, prefetch_weights, options_here())  # fmt: skip
    given_alpha, given_scales = alpha, (scale_a, scale_b)
    if scaled:
        alpha, scale_a, scale_b = fold(form, alpha, a, b, scale_a, scale_b)
    # get_device() as in attention
    key: tuple[Any, ...] = (form if packed is None else packed.view, a.dtype, a.shape, a.stride(), a.get_device(), b.dtype, b.shape, b.stride(), b.get_device(), out_dtype,
           activation, gate, clamp, tf32, prefetch_weights, torch_threads())  # fmt: skip
    if bias is not None:
        key += (bias.dtype, bias.shape, bias.stride(), bias.get_device())
    if not plain:
        key += (beta, scaled, bias is None, *map(describe, (c, multiply, residual, scale_a, scale_b, out, groups, zero_b, a2, b2, amax)))
    call = calls.by_key.get(key)
    if call is None:
        call = _prepared(key, form, (a, b, c, bias, multiply, residual, scale_a, scale_b, out, groups, zero_b, a2, b2, amax), out_dtype,
                         beta, activation, gate, clamp, tf32, prefetch_weights, scaled, packed)  # fmt: skip
    if forward_ad._current_level >= 0:
        check_no_tangents(form, (a, b, c, bias, multiply, residual, scale_a, scale_b, out, zero_b, a2, b2, amax))
    if call.parts:
        operands = (a, b, c, bias, multiply, residual, scale_a, scale_b, out, groups, zero_b, a2, b2, amax)
        for at in call.parts:
            check_sign(NAMES[form][at], operands[at])
    if out is None:
        # The sizes as arguments of their own: torch takes a microsecond longer to read a tuple of them.
        shape: tuple[Any, ...] = call.out_shape
        if not shape:
            shape = ((),)
        result = a.new_empty(*shape) if call.same_type else a.new_empty(*shape, dtype=DTYPES[call.out_type])
    else:
        result = out
    stream = raw_stream(call.stream_device) if call.stream_device >= 0 else 0
    try:
        if plain:
            call.run(alpha, a.data_ptr(), b.data_ptr(), result.data_ptr(), stream, None if bias is None else bias.data_ptr())
        else:
            call.run_all(alpha, a.data_ptr(), b.data_ptr(), result.data_ptr(), stream, address(c), address(bias),
                         address(multiply), address(residual), address(scale_a), address(scale_b), address(groups), address(zero_b),
                         address(a2), address(b2), address(amax))  # fmt: skip
    except InvalidArgument:  # the library knows but null pointers
        for name, tensor in zip(NAMES[form], (a, b, c, bias, multiply, residual, scale_a, scale_b, out, groups, zero_b, a2, b2, amax)):
            if tensor is not None:
                check_memory(name, tensor)
        raise
    if call.repeats:
        call.repeats -= 1
        _keep(call, (form, a, b, c, bias, multiply, residual, *given_scales, out, groups, zero_b, a2, b2, amax, out_dtype, given_alpha, beta,
                     activation, gate, clamp, tf32, prefetch_weights), (scale_a, scale_b))  # fmt: skip
    if out is not None:
        tell_written(out)
    if amax is not None:
        tell_written(amax)
    return result


def _keep(call: Call, arguments: tuple[Any, ...], scales: tuple[Any, Any]) -> None:
    """For calls like this one. scales: what is left of those that were given."""
    factors = []
    for at, left in zip((SCALE_A, SCALE_B), scales):
        given = arguments[at]
        if given is None or left is given:
            continue
        if not isinstance(given, Tensor) or (left is not None and left.data_ptr() != given.data_ptr()):
            return  # a number, or made anew each time
        if left is None:
            factors.append(at)
    out = None
    if arguments[OUT] is None:
        a = arguments[A]
        out = new_output(WORD_D, A, a, call.out_shape, a.dtype if call.same_type else DTYPES[call.out_type])
    _repeated.keep(conditions.now, arguments, call.repetition(tuple(factors), out))


def _trained(form: str, a: Tensor, b: Tensor, bias: Optional[Tensor], residual: Optional[Tensor], alpha: float, tf32: Any,
             prefetch_weights: Any) -> Optional[Tensor]:  # fmt: skip
    """A product with a gradient, by prepared calls both ways; None where there are none."""
    if forward_ad._current_level >= 0 or not (type(b) in _PLAIN and type(bias) in _PLAIN and type(residual) in _PLAIN):
        return None
    key: tuple[Any, ...] = (form, alpha, tf32, prefetch_weights, torch_threads(), a.dtype, a.shape, a.stride(), a.get_device(), a.requires_grad, b.dtype, b.shape,
           b.stride(), b.get_device(), b.requires_grad)  # fmt: skip
    if bias is not None:
        key += (bias.dtype, bias.shape, bias.stride(), bias.get_device(), bias.requires_grad)
    if residual is not None:
        key += (bias is None, residual.dtype, residual.shape, residual.stride(), residual.get_device(), residual.requires_grad)
    try:
        product = _products.by_key[key]
    except KeyError:
        check_differentiable(form, a, None, None, None, None)
        tensors = (a, b, None, bias, None, residual, *(None,) * 8)
        call = _prepared(key, form, tensors, None, 1.0, None, None, None, tf32, prefetch_weights, False, None)
        product = _products.keep(key, trained_product(call, form, a, b, bias, residual, alpha, tf32, options_here(), _product))
    if product is None:
        return None
    result: Tensor = differentiated_product(a, b, bias, residual, product)
    return result


def _prepared(key: object, form: str, tensors: tuple[Any, ...], out_dtype: Any, beta: Any, activation: Any, gate: Any,
              clamp: Any, tf32: Any, prefetch_weights: Any, scaled: bool, packed: Optional[PackedWeight]) -> Call:  # fmt: skip
    views = Operands(*(view_of(name, tensor) for name, tensor in zip(NAMES[form], tensors)))
    if packed is not None:
        views = views._replace(b=packed.view)
    options = Options(form, type_name(out_dtype), activation, gate, clamp, tf32, prefetch_weights, scaled,
                      0 if packed is None else packed.nbytes)  # fmt: skip
    return calls.keep(key, prepare(views, options, beta, torch_threads()))


def type_name(dtype: Any) -> Optional[str]:
    if dtype is not None and not isinstance(dtype, torch.dtype):
        raise WrongType(f"out_dtype is {shown(dtype)}", "a torch.dtype")
    return None if dtype is None else TYPES.get(dtype, str(dtype))


def _check_tensors(form: str, tensors: tuple[Any, ...]) -> bool:
    """Whether any of them requires a gradient. Errors: one that is none of torch's."""
    names = NAMES[form]
    differentiable = False
    for name, tensor in zip(names, tensors):
        if tensor is None or isinstance(tensor, Tensor):
            if isinstance(tensor, FakeTensor):
                check_memory(name, tensor)
            differentiable |= tensor is not None and tensor.requires_grad
            continue
        if not name.startswith("scale_"):
            raise WrongType(f"{name} is a {type(tensor).__name__}, {names.a} is a torch tensor", "torch tensors")
        if not isinstance(tensor, numbers.Real):
            raise WrongType(f"{name} is a {type(tensor).__name__}", "a number or a torch tensor")
    return differentiable


# ------------------------------------------------------------------------------------------------------ the operator

_ARGUMENTS = (
    "str form, Tensor a, Tensor b, Tensor? c, Tensor? bias, Tensor? multiply, Tensor? residual, Tensor? scale_a, "
    "Tensor? scale_b, Tensor? groups, Tensor? zero_b, Tensor? a2, Tensor? b2, ScalarType? out_dtype, float alpha, float beta, str? activation, str? gate, "
    f"float[]? clamp, bool tf32, bool prefetch_weights=False, {OPTION_ARGUMENTS}"
)


def gemm_op(form: Any, a: Any, b: Any, c: Any, bias: Any, multiply: Any, residual: Any, scale_a: Any, scale_b: Any,
            out: Any, groups: Any, zero_b: Any, a2: Any, b2: Any, amax: Any, out_dtype: Any, alpha: Any, beta: Any,
            activation: Any, gate: Any, clamp: Any, tf32: Any, prefetch_weights: Any, options: tuple[Any, ...] = ()) -> Any:  # fmt: skip
    """matmul and its like as the operator: what torch.compile traces."""
    differentiable = torch.is_grad_enabled() and any(
        isinstance(each, Tensor) and each.requires_grad
        for each in (a, b, c, bias, multiply, residual, scale_a, scale_b, out, a2, b2, amax))  # fmt: skip
    if differentiable:
        check_differentiable(form, a, scale_a, scale_b, out, amax)
    if forward_ad._current_level >= 0:
        check_no_tangents(form, (a, b, c, bias, multiply, residual, scale_a, scale_b, out, zero_b, a2, b2, amax))
    for scale in (scale_a, scale_b):
        if isinstance(scale, (int, float)):
            alpha = alpha * scale
            if a.dtype == torch.int8 and out is None and out_dtype is None:
                out_dtype = torch.float32
    scale_a, scale_b = (scale if isinstance(scale, torch.Tensor) else None for scale in (scale_a, scale_b))
    if amax is not None and a.dtype == torch.int8 and out is None and out_dtype is None:
        out_dtype = torch.float32
    most = a.new_zeros((), dtype=torch.float32) if amax is True else amax
    if form == "packed":
        result = _packed_op(a, b, bias, multiply, residual, scale_a, scale_b, zero_b, out_dtype, alpha, activation, gate,
                            None if clamp is None else list(clamp), bool(tf32), bool(prefetch_weights), *options, out=out, amax=most)  # fmt: skip
        return (result, most) if amax is True else result
    if differentiable and not (activation is gate is multiply is clamp is None):
        v = gemm_op(form, a, b, c, bias, None, None, None, None, None, None, None, a2, b2, None, out_dtype, alpha, beta, None, None, None,
                    tf32, prefetch_weights, options)  # fmt: skip
        return finish(v, activation, gate, multiply, residual, clamp, a.dim() == 1 or b.dim() == 1)
    arguments = (form, a, b, c, bias, multiply, residual, scale_a, scale_b, groups, zero_b, a2, b2, out_dtype, alpha, beta, activation,
                 gate, None if clamp is None else list(clamp), bool(tf32), bool(prefetch_weights), *options)  # fmt: skip
    if out is None and amax is None:
        eager = differentiable and not is_traced() and all_plain((a, b, c, bias, residual, a2, b2))
        return (_differentiated if eager else torch.ops.tilesmith.gemm)(*arguments)
    if out is None:
        out = _fake_gemm(*arguments)
    torch.ops.tilesmith.gemm_out(*arguments, out=out, amax=most)
    return (out, most) if amax is True else out


def _gemm(form: Any, a: Any, b: Any, c: Any, bias: Any, multiply: Any, residual: Any, scale_a: Any, scale_b: Any,
          groups: Any, zero_b: Any, a2: Any, b2: Any, out_dtype: Any, alpha: Any, beta: Any, activation: Any, gate: Any,
          clamp: Any, tf32: Any, prefetch_weights: Any = False, *options: Any, out: Any = None, amax: Any = None) -> Any:  # fmt: skip
    with torch.no_grad(), under(options):
        return gemm(form, a, b, c, bias, multiply, residual, scale_a, scale_b, out, groups, zero_b, a2, b2, amax, out_dtype, alpha, beta,
                    activation, gate, None if clamp is None else tuple(clamp), tf32, prefetch_weights)  # fmt: skip


def _gemm_here(form: Any, a: Any, b: Any, c: Any, bias: Any, multiply: Any, residual: Any, scale_a: Any, scale_b: Any,
               groups: Any, zero_b: Any, a2: Any, b2: Any, out_dtype: Any, alpha: Any, beta: Any, activation: Any, gate: Any,
               clamp: Any, tf32: Any, prefetch_weights: Any = False, *options: Any) -> Any:  # fmt: skip
    """The same where the options hold already and no gradient is recorded."""
    return gemm(form, a, b, c, bias, multiply, residual, scale_a, scale_b, None, groups, zero_b, a2, b2, None, out_dtype, alpha, beta,
                activation, gate, clamp, tf32, prefetch_weights)  # fmt: skip


def _gemm_out(*arguments: Any, out: Any, amax: Any = None) -> None:
    _gemm(*arguments, out=out, amax=amax)


def _result_dtype(a: Tensor, out_dtype: Optional[torch.dtype], *beside: Any) -> torch.dtype:
    """beside: what follows the sums."""
    if out_dtype is not None:
        return out_dtype
    if a.dtype == torch.int8:
        return torch.int32 if all(x is None for x in beside) else torch.float32
    return torch.bfloat16 if TYPES.get(a.dtype) in ("fp8", "bf8") else a.dtype


def _fake_gemm(form: Any, a: Any, b: Any, c: Any, bias: Any, multiply: Any, residual: Any, scale_a: Any, scale_b: Any,
               groups: Any, zero_b: Any, a2: Any, b2: Any, out_dtype: Any, alpha: Any, beta: Any, activation: Any,
               gate: Any, clamp: Any, tf32: Any, prefetch_weights: Any = False, *options: Any) -> Any:  # fmt: skip
    """Shape and type alone."""
    out_dtype = _result_dtype(a, out_dtype, bias, multiply, residual, scale_a, scale_b, activation, gate, clamp)
    columns = b.shape[0] if form == "linear" else b.shape[-1]
    columns = columns // 2 if gate is not None else columns
    if form not in ("matmul", "mm_plus_mm"):
        shape = (*a.shape[:-1], columns)
    else:
        batch = torch.broadcast_shapes(*(x.shape[:-2] for x in (a, b, a2, b2) if x is not None))  # type: ignore[no-untyped-call]
        shape = (*batch, *(() if a.dim() == 1 else (a.shape[-2],)), *(() if b.dim() == 1 else (columns,)))
    return a.new_empty(shape, dtype=out_dtype)


def _fake_gemm_out(*arguments: Any, out: Any, amax: Any = None) -> None:
    pass


def _product(a: Tensor, b: Tensor, out_dtype: Optional[torch.dtype], alpha: float, tf32: bool, options: tuple[Any, ...]) -> Tensor:
    """What a gradient is made of."""
    if not grad_enabled() and all_plain((a, b)):
        with under(options):
            plain: Tensor = gemm("matmul", a, b, None, None, None, None, None, None, None, None, None, None, None, None, out_dtype, alpha,
                                 1.0, None, None, None, tf32, False)  # fmt: skip
            return plain
    product: Tensor = gemm_op("matmul", a, b, None, None, None, None, None, None, None, None, None, None, None, None, out_dtype, alpha, 1.0,
                              None, None, None, tf32, False, options)  # fmt: skip
    return product


define(f"gemm({_ARGUMENTS}) -> Tensor", _gemm, _fake_gemm)
_gradient = gradient_of(argument_names(_ARGUMENTS), _product)
define_gradient("gemm", *_gradient)
_differentiated = differentiated(_gemm_here, *_gradient)
define(f"gemm_out({_ARGUMENTS}, *, Tensor(a!) out, Tensor(b!)? amax=None) -> ()", _gemm_out, _fake_gemm_out)
_packed_op = linear_operator(gemm, _result_dtype)

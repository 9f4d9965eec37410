"""Convolution of torch tensors, its operator and its gradients."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad

from tilesmith._conditions import conditions
from tilesmith._conv import repeating
from tilesmith._conv_call import BESIDE, FORMS, KINDS, NARROW, WORD_OUT, X, Call, Described, Geometry, Views, default_type, in_memory_as, latest
from tilesmith._errors import InvalidArgument, Unsupported, WrongType
from tilesmith._kept_calls import KeptCalls
from tilesmith._library import CUDA
from tilesmith._packed_conv_weight import PackedConvWeight, as_repeated
from tilesmith._torch import (
    DTYPES,
    OPTION_ARGUMENTS,
    TYPES,
    address,
    all_plain,
    argument_names,
    check_no_tangents,
    define,
    define_gradient,
    describe,
    differentiated,
    grad_enabled,
    is_compiling,
    is_plain,
    is_traced,
    jit_traces,
    new_output,
    options_here,
    raw_stream,
    refuse_gradient,
    repeated_calls,
    tell_written,
    torch_threads,
    under,
    view_of,
)
from tilesmith._torch_gemm_gradient import ACTIVATIONS
from tilesmith._torch_packed_conv import conv_operator
from tilesmith._views import number, one_of, shown

_calls: KeptCalls[Call] = KeptCalls()


def conv(form: str, a: Any, b: Any, scale: Any, bias: Any, residual: Any, out: Any, shape: tuple[int, ...], g: Geometry, out_dtype: Any,
         activation: Optional[str]) -> Tensor:  # fmt: skip
    """Convolution, transposed convolution and the gradients of plain torch tensors."""
    packed = None
    if b.__class__ is PackedConvWeight:
        packed, b = b, b.data
    tensors = (a, b, scale, bias, residual, out)
    alone = bias is None and scale is None and residual is None and out is None  # most calls, which take microseconds
    plain = is_plain(a) and is_plain(b) and (alone or all_plain(tensors[2:]))
    if is_traced() or not plain:
        return conv_op(form, a, b if packed is None else packed, scale, bias, residual, out, shape, g, out_dtype, activation)
    if grad_enabled() and _wants_gradient(tensors):
        return conv_op(form, a, b if packed is None else packed, scale, bias, residual, out, shape, g, out_dtype, activation, options_here())
    if forward_ad._current_level >= 0:
        check_no_tangents("convolution", tensors)
    # get_device() as in attention
    key: tuple[Any, ...] = (form if packed is None else packed.view, a.dtype, a.shape, a.stride(), a.get_device(), b.dtype, b.shape, b.stride(), b.get_device(),
                            shape, g, out_dtype, activation, torch_threads())  # fmt: skip
    if not alone:
        key += tuple(map(describe, tensors[2:]))
    call = _calls.by_key.get(key)
    if call is None:
        call = _calls.keep(key, _prepared(form, tensors, packed, shape, g, out_dtype, activation))
    latest.call = call
    result: Tensor = a.new_empty_strided(shape, call.out_strides, dtype=DTYPES[call.out_type]) if out is None else out
    addresses = (a.data_ptr(), b.data_ptr(), 0, 0, 0, result.data_ptr()) if alone else map(address, (a, b, scale, bias, residual, result))
    call.run(addresses, raw_stream(call.index) if call.kind == CUDA else 0)
    if out is not None:
        tell_written(out)
    return result


class Repeated(NamedTuple):
    """What a forward call of the same arguments needs, other tensors but for the scale."""

    call: Call
    shape: tuple[int, ...]
    dtype: torch.dtype
    scale: Optional[Tensor]


_repeated: KeptCalls[Repeated] = KeptCalls()
_repeated_calls = repeated_calls(KINDS)
_run = _repeated_calls.run


def again(count: int, x: Tensor, w: Any, stride: Any, padding: Any, dilation: Any, groups: Any, scale_x: Any, scale_w: Any,
          out_dtype: Any) -> tuple[Optional[tuple[Any, ...]], Optional[Tensor]]:  # fmt: skip
    """A forward call as one before, whose shapes were looked at then: what it is known by, and its result. None: what has to go
    the long way, or has not been there. A small convolution takes less time than its Python."""
    if is_compiling() or not (stride.__class__ is padding.__class__ is dilation.__class__ is groups.__class__ is int):
        return None, None
    if (scale_x is not None and scale_x.__class__ is not float) or (scale_w is not None and scale_w.__class__ is not float):
        return None, None
    view = None
    if w.__class__ is PackedConvWeight:
        view, w = w.view if w.is_packed else None, w.data
    result = _run(conditions.now, count, x, w, view, stride, padding, dilation, groups, scale_x, scale_w, out_dtype)
    if result is not NotImplemented:
        return None, result
    if is_traced() or not is_plain(w) or forward_ad._current_level >= 0 or (grad_enabled() and (x.requires_grad or w.requires_grad)):
        return None, None
    key = (count, x.dtype, x.shape, x.stride(), x.get_device(), w.dtype, w.shape, w.stride(), w.get_device(), view, stride, padding, dilation, groups,
           scale_x, scale_w, out_dtype, torch_threads())  # fmt: skip
    known = _repeated.by_key.get(key)
    if known is None:
        return key, None
    call, shape, dtype, scale = known
    out = x.new_empty_strided(shape, call.out_strides, dtype=dtype)
    addresses = (x.data_ptr(), w.data_ptr(), 0 if scale is None else scale.data_ptr(), 0, 0, out.data_ptr())
    call.run(addresses, raw_stream(call.index) if call.kind == CUDA else 0)
    return key, out


def remember(key: tuple[Any, ...], arguments: tuple[Any, ...], scale: Optional[Tensor], result: Tensor) -> None:
    """The call just made, for again(), which was given these arguments."""
    if (call := latest.call) is not None:
        _repeated.keep(key, Repeated(call, tuple(result.shape), result.dtype, scale))
        if call.repeats:
            call.repeats -= 1
            given = as_repeated(arguments)
            out = new_output(WORD_OUT, X, given[X], result.shape, result.dtype, result.stride())
            _repeated_calls.keep(conditions.now, given, call.repetition(scale, out))


repeating.update({Tensor: (again, remember), torch.nn.Parameter: (again, remember)})


def _prepared(form: str, tensors: Sequence[Any], packed: Optional[PackedConvWeight], shape: tuple[int, ...], g: Geometry, out_dtype: Any,
              activation: Optional[str]) -> Call:  # fmt: skip
    """The call of tensors like these."""
    views = Views._make(view_of(name, tensor) for name, tensor in zip((*FORMS[form].names, *BESIDE), tensors))
    if packed is not None:
        views = views._replace(b=packed.view)
    return Call(Described(form, views, shape, g, _type_name(out_dtype), activation, torch_threads(), 0 if packed is None else packed.nbytes))


def bias_gradient(dy: Tensor, dtype: torch.dtype) -> Tensor:
    """The sums of dy by channels."""
    return dy.sum((0, *range(2, dy.dim())), dtype=torch.float32).to(dtype)


bias_gradient_op = bias_gradient


_same: dict[tuple[float, int], Tensor] = {}


def _same_scales(factor: float, filters: int) -> Tensor:
    """A vector of one number on the CPU, kept for later calls: making it takes as long as a small convolution."""
    kept = _same.get((factor, filters))
    if kept is None:
        kept = torch.full((filters,), factor, dtype=torch.float32)
        if is_plain(kept):  # not under a mode that makes other tensors
            if len(_same) == 256:
                _same.clear()
            _same[factor, filters] = kept
    return kept


def joined_scales(x: Tensor, filters: int, scale_x: Any, scale_w: Any) -> Tensor:
    """One scale for each filter, of both."""
    vector: Optional[Tensor] = None
    factor = 1.0
    for name, scale in (("scale_x", scale_x), ("scale_w", scale_w)):
        if scale is None:
            continue
        if not isinstance(scale, Tensor):
            factor *= number(name, scale)
            continue
        if scale.dtype != torch.float32:
            raise WrongType(f"{name} is {scale.dtype}", "float32")
        if scale.device != x.device and scale.numel() != 1:
            raise InvalidArgument(f"x is on {x.device}, {name} on {scale.device}", "one device for all")
        if scale.numel() != 1 and (name == "scale_x" or scale.shape != (filters,)):
            raise InvalidArgument(f"{name} has the shape {tuple(scale.shape)}", "one element" + ("" if name == "scale_x" else f", or ({filters},)"))
        own = scale if scale.numel() != 1 else scale.reshape(1).to(x.device)
        vector = own if vector is None else vector * own
    if vector is None:
        if is_plain(x) and x.device.type == "cpu" and not is_traced():
            return _same_scales(factor, filters)
        return torch.full((filters,), factor, dtype=torch.float32, device=x.device)
    if factor != 1:
        vector = vector * factor
    return vector.expand(filters).contiguous()


joined_scales_op = joined_scales


def _wants_gradient(tensors: Sequence[Any]) -> bool:
    for tensor in tensors:  # a generator takes three times as long
        if isinstance(tensor, Tensor) and tensor.requires_grad:
            return True
    return False


def _type_name(dtype: Any) -> Optional[str]:
    if dtype is not None and not isinstance(dtype, torch.dtype):
        raise WrongType(f"out_dtype is {shown(dtype)}", "a torch.dtype")
    return None if dtype is None else TYPES.get(dtype, str(dtype))


# ------------------------------------------------------------------------------------------------------ the operator

_ARGUMENTS = (
    "str form, Tensor a, Tensor b, Tensor? scale, Tensor? bias, Tensor? residual, SymInt[] shape, int[] stride, int[] pad, int[] pad_high, "
    f"int[] dilation, int groups, ScalarType? out_dtype, str? activation, {OPTION_ARGUMENTS}"
)
_NAMES = argument_names(_ARGUMENTS)


def conv_op(form: str, a: Any, b: Any, scale: Any, bias: Any, residual: Any, out: Any, shape: Sequence[int], g: Geometry, out_dtype: Any,
            activation: Optional[str], options: tuple[Any, ...] = ()) -> Tensor:  # fmt: skip
    """The same as the operator: what torch.compile traces."""
    packed = None
    if b.__class__ is PackedConvWeight:
        packed, b = b, b.data
    tensors = (a, b, scale, bias, residual, out)
    for name, tensor in zip((*FORMS[form].names, *BESIDE), tensors):
        if tensor is not None and not isinstance(tensor, Tensor):
            raise WrongType(f"{name} is a {type(tensor).__name__}", "a torch tensor, as the first is")
    if forward_ad._current_level >= 0:
        check_no_tangents("convolution", tensors)
    differentiable = torch.is_grad_enabled() and _wants_gradient(tensors)
    if differentiable and packed is not None:
        raise Unsupported("w is packed, and a tensor requires a gradient", "the plain filters, or torch.no_grad()", "unsupported")
    if differentiable and out is not None:
        raise Unsupported("out is given, and a tensor requires a gradient", "no out, or torch.no_grad()", "unsupported")
    if differentiable and TYPES.get(a.dtype) in NARROW:
        raise Unsupported(f"a gradient of a convolution of {a.dtype}", "float32, float16 or bfloat16, or torch.no_grad()", "unsupported")
    if differentiable and activation is not None:  # by torch, whose autograd knows it
        one_of("activation", activation, ACTIVATIONS)
        v = conv_op(form, a, b, scale, bias, residual, None, shape, g, out_dtype, None, options)
        return ACTIVATIONS[activation](v)
    sizes = list(map(int, shape)) if not is_compiling() and jit_traces() else list(shape)  # torch.jit.trace has tensors of the sizes it computes
    more = (scale, bias, residual, sizes, list(g.stride), [low for low, _ in g.padding], [high for _, high in g.padding], list(g.dilation), g.groups,
            out_dtype, activation, *options)  # fmt: skip
    if packed is not None:
        return _packed_op(form, a, packed, *more, out=out)
    arguments = (form, a, b, *more)
    if out is not None:
        torch.ops.tilesmith.conv_out(*arguments, out=out)
        given: Tensor = out
        return given
    eager = differentiable and not is_traced() and all_plain(tensors)
    result: Tensor = (_differentiated if eager else torch.ops.tilesmith.conv)(*arguments)
    return result


def _conv(form: str, a: Tensor, b: Tensor, scale: Optional[Tensor], bias: Optional[Tensor], residual: Optional[Tensor],
          shape: Sequence[int], stride: Sequence[int], pad: Sequence[int], pad_high: Sequence[int], dilation: Sequence[int], groups: int,
          out_dtype: Optional[torch.dtype], activation: Optional[str], *options: Any, out: Optional[Tensor] = None) -> Tensor:  # fmt: skip
    _check_form(form)
    with torch.no_grad(), under(options):
        g = Geometry(tuple(stride), tuple(zip(pad, pad_high)), tuple(dilation), groups)
        return conv(form, a, b, scale, bias, residual, out, tuple(shape), g, out_dtype, activation)


def _conv_out(*arguments: Any, out: Tensor) -> None:
    _conv(*arguments, out=out)


def _fake_conv(form: str, a: Tensor, b: Tensor, scale: Optional[Tensor], bias: Optional[Tensor], residual: Optional[Tensor],
               shape: Sequence[int], stride: Sequence[int], pad: Sequence[int], pad_high: Sequence[int], dilation: Sequence[int], groups: int,
               out_dtype: Optional[torch.dtype], activation: Optional[str], *options: Any) -> Tensor:  # fmt: skip
    """Shape, type and order in memory alone."""
    _check_form(form)
    like = b if form == "backward_weight" else a
    return a.new_empty_strided(shape, in_memory_as(like.shape, like.stride(), shape), dtype=out_dtype or DTYPES[default_type(TYPES.get(a.dtype, "fp32"))])


def _fake_conv_out(*arguments: Any, out: Tensor) -> None:
    pass


def _check_form(form: str) -> None:
    one_of("form", form, FORMS)


# ------------------------------------------------------------------------------------------------------ its gradients

#: The gradients by a and b, each as a convolution of two of a, b and dy, the gradient by the result.
_GRADIENTS = {
    "conv": (("backward_data", "dy", "b"), ("backward_weight", "dy", "a")),
    "transposed": (("conv", "dy", "b"), ("backward_weight", "a", "dy")),
    "backward_data": (("conv", "dy", "b"), ("backward_weight", "a", "dy")),
    "backward_weight": (("conv", "b", "dy"), ("backward_data", "a", "dy")),
}


def _convolved(form: str, a: Tensor, b: Tensor, shape: Sequence[int], g: Geometry, options: tuple[Any, ...]) -> Tensor:
    """What a gradient is made of."""
    if not grad_enabled() and all_plain((a, b)):
        with under(options):
            return conv(form, a, b, None, None, None, None, tuple(shape), g, None, None)
    return conv_op(form, a, b, None, None, None, None, shape, g, None, None, options)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    given = dict(zip(_NAMES, inputs))
    needed = dict(zip(_NAMES, ctx.needs_input_grad))
    # Each is read for the gradient of the one that it is convolved with.
    ctx.save_for_backward(given["a"] if needed["b"] else None, given["b"] if needed["a"] else None)
    ctx.shapes = {name: (value.shape, value.dtype) for name, value in given.items() if isinstance(value, Tensor)}
    ctx.rest = {name: value for name, value in given.items() if not isinstance(value, Tensor)}


def _backward(ctx: Any, dy: Tensor) -> tuple[Optional[Tensor], ...]:
    a, b = ctx.saved_tensors
    rest, shapes = ctx.rest, ctx.shapes
    if rest["activation"] is not None:
        refuse_gradient("the operator with activation")
    needed = dict(zip(_NAMES, ctx.needs_input_grad))  # without the last arguments, where they equal their defaults
    g = Geometry(tuple(rest["stride"]), tuple(zip(rest["pad"], rest["pad_high"])), tuple(rest["dilation"]), rest["groups"])
    options = (None, rest["threads"], rest["build"], rest["determinism"], rest["tuning"])  # the kernel's name is the forward's own
    tensors = {"a": a, "b": b, "dy": dy.to(shapes["a"][1])}
    made: dict[str, Tensor] = {}
    for name, (form, first, second) in zip(("a", "b"), _GRADIENTS[rest["form"]]):
        if needed[name]:
            made[name] = _convolved(form, tensors[first], tensors[second], shapes[name][0], g, options)
    if needed["bias"]:
        made["bias"] = bias_gradient(dy, shapes["bias"][1])
    if needed["residual"]:
        made["residual"] = dy.to(shapes["residual"][1])
    return tuple(made.get(name) if need else None for name, need in needed.items())


define(f"conv({_ARGUMENTS}) -> Tensor", _conv, _fake_conv)
define_gradient("conv", _backward, _keep)
_differentiated = differentiated(_conv, _backward, _keep)
define(f"conv_out({_ARGUMENTS}, *, Tensor(a!) out) -> ()", _conv_out, _fake_conv_out)
_packed_op = conv_operator(conv, _fake_conv)

"""torch tensors, and the torch operator that torch.compile sees.

Plain tensors go straight to the library. Everything else (a function being compiled, fake tensors, subclasses) goes
through torch.ops.tilesmith, whose implementations on the CPU and on CUDA are the same straight way.
"""

from __future__ import annotations

import numbers
from typing import Any, Optional

import torch
from torch import Tensor

from tilesmith._call import Calls, Options, Tensors, View, check_seed, prepare
from tilesmith._errors import InvalidArgument, Unsupported, WrongType
from tilesmith._library import CPU, CUDA

_calls = Calls()

_TYPES: dict[torch.dtype, str] = {
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "fp8",
    torch.float8_e5m2: "bf8",
    torch.int32: "int32",
}
_KINDS = {"cpu": CPU, "cuda": CUDA}

_is_compiling = torch.compiler.is_compiling
_grad_enabled = torch.is_grad_enabled
# The same as torch.cuda.current_stream(index).cuda_stream without making an object for it.
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
    lambda index: torch.cuda.current_stream(index).cuda_stream)  # fmt: skip


def attention(q, k, v, layout, causal, mask, window, scale, softcap, bias, alibi, sink, q_scale, k_scale, v_scale,
              dropout_p, seed, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, return_lse, out) -> Any:  # fmt: skip
    """tilesmith.attention on plain torch tensors. Every call passes here, so it is written for speed."""
    if _is_compiling():
        return attention_op(q, k, v, layout, causal, mask, window, scale, softcap, bias, alibi, sink, q_scale, k_scale,
                            v_scale, dropout_p, seed, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, return_lse,
                            out)  # fmt: skip
    plain = (bias is None and alibi is None and sink is None and q_scale is None and k_scale is None and v_scale is None
             and cu_seqlens_q is None and cu_seqlens_k is None and out is None)  # fmt: skip
    if not plain or type(k) is not Tensor or type(v) is not Tensor:
        _check_tensors((q, k, v, bias, alibi, sink, q_scale, k_scale, v_scale, cu_seqlens_q, cu_seqlens_k, out))
        max_seqlen_q, max_seqlen_k = _longest(max_seqlen_q, cu_seqlens_q), _longest(max_seqlen_k, cu_seqlens_k)
    if type(window) is not tuple:
        window = tuple(window)
    # get_device() is the device's index, -1 for the CPU: a device object takes longer to hash. Meta tensors have -1 too, but
    # the library refuses their null pointers.
    key = (q.dtype, q.shape, q.stride(), q.get_device(), k.dtype, k.shape, k.stride(), k.get_device(), v.dtype, v.shape,
           v.stride(), v.get_device(), layout, causal, mask, window, scale, softcap, dropout_p, max_seqlen_q,
           max_seqlen_k, return_lse)  # fmt: skip
    if not plain:
        key += tuple(map(_describe, (bias, alibi, sink, q_scale, k_scale, v_scale, cu_seqlens_q, cu_seqlens_k, out)))
    call = _calls.by_key.get(key)
    if call is None:
        options = Options(layout, causal, mask, window, scale, softcap, dropout_p, max_seqlen_q, max_seqlen_k,
                          return_lse)  # fmt: skip
        tensors = (q, k, v, bias, alibi, sink, q_scale, k_scale, v_scale, cu_seqlens_q, cu_seqlens_k, out)
        views = Tensors(*(_view_of(name, tensor) for name, tensor in zip(Tensors._fields, tensors)))
        call = _calls.keep(key, prepare(views, options))

    if _grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        raise _no_gradient()
    if dropout_p:
        call.seed(_draw_seed() if seed is None else check_seed(seed))
    if out is None:
        # The sizes as arguments of their own: torch takes a microsecond longer to read a tuple of them.
        result = q.new_empty(*call.out_shape) if call.same_type else q.new_empty(*call.out_shape, dtype=torch.bfloat16)
    else:
        result = out
        call.check_apart(q.data_ptr(), k.data_ptr(), v.data_ptr(), _address(bias), _address(alibi), _address(sink),
                         _address(q_scale), _address(k_scale), _address(v_scale), _address(cu_seqlens_q),
                         _address(cu_seqlens_k), out.data_ptr())  # fmt: skip
    stream = _raw_stream(call.stream_device) if call.stream_device >= 0 else 0
    if plain and not return_lse:
        call.run(q.data_ptr(), k.data_ptr(), v.data_ptr(), result.data_ptr(), 0, 0, 0, 0, 0, 0, stream)
        return result
    if call.scaled:
        call.scales(_address(q_scale), _address(k_scale), _address(v_scale))
    lse = q.new_empty(*call.lse_shape, dtype=torch.float32) if return_lse else None
    call.run(q.data_ptr(), k.data_ptr(), v.data_ptr(), result.data_ptr(), _address(lse), _address(bias), _address(alibi),
             _address(sink), _address(cu_seqlens_q), _address(cu_seqlens_k), stream)  # fmt: skip
    return (result, lse) if return_lse else result


def _check_tensors(tensors: tuple[Any, ...]) -> None:
    for tensor in tensors:
        if tensor is not None and not isinstance(tensor, Tensor):
            name = next(name for name, each in zip(Tensors._fields, tensors) if each is tensor)
            number = name.endswith("_scale") and isinstance(tensor, numbers.Real)
            hint = "torch.tensor(..., device=q.device): kernels read it there" if number else "torch tensors"
            raise WrongType(f"{name} is a {type(tensor).__name__}, q is a torch tensor", hint)
    if _grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors):
        raise _no_gradient()


def _no_gradient() -> Unsupported:
    return Unsupported("a tensor requires a gradient, and attention is forward only",
                       "call it under torch.no_grad(), or on detached tensors", "unsupported")  # fmt: skip


def _view_of(name: str, tensor: Optional[Tensor]) -> Optional[View]:
    if tensor is None:
        return None
    if tensor.device.type not in _KINDS or tensor.layout is not torch.strided:
        raise Unsupported(f"{name} is a {tensor.layout} tensor on {tensor.device}",
                          "strided tensors on the CPU or a CUDA device", "unsupported")  # fmt: skip
    if tensor.is_neg():  # a view of the imaginary part of a conjugate: its memory has the other sign
        raise InvalidArgument(f"{name} is a lazily negated view", f"{name}.resolve_neg()")
    return View(_TYPES.get(tensor.dtype, str(tensor.dtype)), tuple(tensor.shape), tensor.stride(),
                _KINDS[tensor.device.type], tensor.device.index or 0)  # fmt: skip


def _describe(tensor: Optional[Tensor]) -> object:
    return None if tensor is None else (tensor.dtype, tensor.shape, tensor.stride(), tensor.device)


def _address(tensor: Optional[Tensor]) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _longest(given: Optional[int], offsets: Optional[Tensor]) -> Optional[int]:
    if given is not None or offsets is None or offsets.dim() != 1 or offsets.numel() < 2:
        return given if given is not None or offsets is None else 0
    return int((offsets[1:] - offsets[:-1]).max())


def _draw_seed() -> int:
    """From torch's default generator, so that torch.manual_seed decides it."""
    return int(torch.randint((1 << 63) - 1, ()))


# ------------------------------------------------------------------------------------------------------ the operator

_ARGUMENTS = (
    "Tensor q, Tensor k, Tensor v, str layout, bool causal, str mask, SymInt window_left, SymInt window_right, float? scale, "
    "float softcap, Tensor? bias, Tensor? alibi, Tensor? sink, Tensor? q_scale, Tensor? k_scale, Tensor? v_scale, "
    "float dropout_p, int? seed, Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, SymInt? max_seqlen_q, SymInt? max_seqlen_k, "
    "bool return_lse"
)
_library = torch.library.Library("tilesmith", "DEF")
_library.define(f"attention_fwd({_ARGUMENTS}) -> (Tensor, Tensor)")
_library.define(f"attention_fwd_out({_ARGUMENTS}, *, Tensor(a!) out) -> Tensor")


def attention_op(q, k, v, layout, causal, mask, window, scale, softcap, bias, alibi, sink, q_scale, k_scale, v_scale,
                 dropout_p, seed, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, return_lse,
                 out) -> Any:  # fmt: skip
    """tilesmith.attention as the operator: what torch.compile traces."""
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        raise _no_gradient()
    if seed is not None:
        seed = check_seed(seed)
        seed -= (1 << 64) if seed >> 63 else 0  # the operator's integers are signed
    arguments = (q, k, v, layout, bool(causal), mask, window[0], window[1], scale, softcap, bias, alibi, sink, q_scale,
                 k_scale, v_scale, dropout_p, seed, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k,
                 bool(return_lse))  # fmt: skip
    if out is None:
        result, lse = torch.ops.tilesmith.attention_fwd(*arguments)
    else:
        result, lse = out, torch.ops.tilesmith.attention_fwd_out(*arguments, out=out)
    return (result, lse) if return_lse else result


def _attention_fwd(q, k, v, layout, causal, mask, window_left, window_right, scale, softcap, bias, alibi, sink, q_scale,
                   k_scale, v_scale, dropout_p, seed, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, return_lse,
                   out=None):  # fmt: skip
    result = attention(q, k, v, layout, causal, mask, (window_left, window_right), scale, softcap, bias, alibi, sink,
                       q_scale, k_scale, v_scale, dropout_p, None if seed is None else seed % (1 << 64), cu_seqlens_q,
                       cu_seqlens_k, max_seqlen_q, max_seqlen_k, return_lse, out)  # fmt: skip
    return result if return_lse else (result, q.new_empty(0, dtype=torch.float32))


def _attention_fwd_out(*arguments, out):
    return _attention_fwd(*arguments, out=out)[1]


def _fake_attention_fwd(q, k, v, layout, *rest):
    """Shapes and types alone."""
    return_lse, group = rest[-1], rest[-5] is not None
    dtype = torch.bfloat16 if _TYPES.get(q.dtype) in ("fp8", "bf8") else q.dtype
    head, row = (0, 1) if layout == "bhsd" else (1, 0)
    shape = (q.shape[head], q.shape[row]) if group else (q.shape[0], q.shape[1 + head], q.shape[1 + row])
    return (q.new_empty((*q.shape[:-1], v.shape[-1]), dtype=dtype),
            q.new_empty(shape if return_lse else (0,), dtype=torch.float32))  # fmt: skip


def _fake_attention_fwd_out(*arguments, out):
    return _fake_attention_fwd(*arguments)[1]


def _backward(context, *gradients):
    raise _no_gradient()


for _key in ("CPU", "CUDA"):
    _library.impl("attention_fwd", _attention_fwd, _key)
    _library.impl("attention_fwd_out", _attention_fwd_out, _key)
torch.library.register_fake("tilesmith::attention_fwd", _fake_attention_fwd, lib=_library)
torch.library.register_fake("tilesmith::attention_fwd_out", _fake_attention_fwd_out, lib=_library)
torch.library.register_autograd("tilesmith::attention_fwd", _backward, lib=_library)

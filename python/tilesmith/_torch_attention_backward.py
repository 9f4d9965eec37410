"""attention_backward on torch tensors, and its operator."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor
from torch.autograd import forward_ad

from tilesmith._attention_backward_call import Arguments, Call, Results, Tensors, Wanted, prepare, seed_of, wanted_of
from tilesmith._attention_arguments import as_window
from tilesmith._errors import Unsupported, WrongType
from tilesmith._kept_calls import KeptCalls
from tilesmith._torch import (
    NO_OPTIONS,
    OPTION_ARGUMENTS,
    address,
    check_no_tangents,
    define,
    describe,
    grad_enabled,
    is_traced,
    longest,
    raw_stream,
    refuse_gradient,
    signed_seed,
    tell_all_written,
    torch_threads,
    under,
    view_of,
)

_calls: KeptCalls[Call] = KeptCalls()


def attention_backward(*given: Any) -> Any:
    """tilesmith.attention_backward on plain torch tensors."""
    if is_traced():
        return attention_backward_op(*given)
    x = Arguments(*given)
    tensors, own = x.tensors, (x.dq, x.dk, x.dv)
    for name, tensor in zip((*Tensors._fields, *Results._fields), (*tensors, *own)):
        if tensor is not None and not isinstance(tensor, Tensor):
            raise WrongType(f"{name} is a {type(tensor).__name__}, do is a torch tensor", "torch tensors")
    _check_no_gradient((*tensors, *own))
    return tuple(tensor for tensor in _computed(x) if tensor is not None)


def _computed(x: Arguments) -> tuple[Optional[Tensor], ...]:
    """In the order of Results; None where it is not wanted."""
    wanted = wanted_of(x)
    if x.cu_seqlens_q is not None:
        x = x._replace(max_seqlen_q=longest(x.max_seqlen_q, x.cu_seqlens_q), max_seqlen_k=longest(x.max_seqlen_k, x.cu_seqlens_k))
    tensors, own, options = x.tensors, (x.dq, x.dk, x.dv), x.options
    key = (options, wanted, torch_threads(), *map(describe, (*tensors, *own)))
    call = _calls.by_key.get(key)
    results = _results(x, wanted, own)
    if call is None:
        views: Any = (view_of(name, tensor) for name, tensor in zip(Tensors._fields, tensors))
        places: Any = (view_of(name, tensor) for name, tensor in zip(Results._fields, results))
        call = _calls.keep(key, prepare(Tensors(*views), Results(*places), options, torch_threads()))
    seed = seed_of(x) if x.dropout_p else 0
    inputs, outputs = tuple(map(address, tensors)), tuple(map(address, results))
    if own != (None, None, None):
        call.check_apart(inputs, outputs)
    call.run(inputs, outputs, seed, raw_stream(call.stream_device) if call.stream_device >= 0 else 0)
    tell_all_written(*own)
    return results


def _results(x: Arguments, wanted: Wanted, own: tuple[Optional[Tensor], ...]) -> tuple[Optional[Tensor], ...]:
    """The caller's tensors, else new ones: dq, dk and dv in memory as q, k and v are, with zeros where rows may belong to no
    sequence."""
    new = torch.empty_like if x.cu_seqlens_q is None else torch.zeros_like
    return (*(new(like) if mine is None else mine for mine, like in zip(own, (x.q, x.k, x.v))),
            *(like.new_empty(like.shape) if needed else None for needed, like in zip(wanted, (x.bias, x.alibi, x.sink))))  # fmt: skip


def _check_no_gradient(tensors: tuple[Any, ...]) -> None:
    if grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors):
        refuse_gradient("attention_backward")
    if forward_ad._current_level >= 0:
        check_no_tangents("attention_backward", tensors)


# ------------------------------------------------------------------------------------------------------ the operator

_ARGUMENTS = (
    "Tensor do, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, str layout, bool causal, str mask, SymInt window_left, "
    "SymInt window_right, float? scale, float softcap, Tensor? bias, Tensor? alibi, Tensor? sink, float dropout_p, int? seed, "
    "Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, SymInt? max_seqlen_q, SymInt? max_seqlen_k, SymInt diagonal, bool tf32, "
    "Tensor? dlse, bool need_dbias, bool need_dalibi, bool need_dsink, Tensor? drawn_seed=None, "
    f"{OPTION_ARGUMENTS}"
)


def attention_backward_op(*given: Any, options: tuple[Any, ...] = ()) -> Any:
    """tilesmith.attention_backward as the operator: what torch.compile traces."""
    x = Arguments(*given)
    _check_no_gradient((x.do, x.q, x.k, x.v, x.o, x.lse, x.bias, x.alibi, x.sink, x.dlse))
    for name, mine in (("dq", x.dq), ("dk", x.dk), ("dv", x.dv)):
        if mine is not None:
            raise Unsupported(f"{name} is given, and torch compiles this or do is no plain tensor", "new results", "unsupported")
    window, wanted = as_window(x.window), wanted_of(x)
    seed = None if not x.dropout_p else signed_seed(seed_of(x))
    results = torch.ops.tilesmith.attention_bwd(
        x.do, x.q, x.k, x.v, x.o, x.lse, x.layout, bool(x.causal), x.mask, window[0], window[1], x.scale, x.softcap, x.bias,
        x.alibi, x.sink, x.dropout_p, seed, x.cu_seqlens_q, x.cu_seqlens_k, x.max_seqlen_q, x.max_seqlen_k, x.diagonal,
        bool(x.tf32), x.dlse, *wanted, None, *options)  # fmt: skip
    return (*results[:3], *(result for result, needed in zip(results[3:], wanted) if needed))


_WINDOW = Arguments._fields.index("window")  # one argument of attention_backward's, two of the operator's
_DRAWN_SEED = Arguments._fields.index("need_dsink") + 2


def attention_bwd(*given: Any) -> tuple[Tensor, ...]:
    """The operator's implementation."""
    given += (None, *NO_OPTIONS)[len(given) - _DRAWN_SEED :]  # torch leaves out arguments that equal their defaults
    x = Arguments(*(*given[:_WINDOW], given[_WINDOW : _WINDOW + 2], *given[_WINDOW + 2 : _DRAWN_SEED], None, None, None))
    drawn = given[_DRAWN_SEED]
    x = x._replace(do=contiguous_rows(x.do), seed=int(drawn) if drawn is not None else None if x.seed is None else x.seed % (1 << 64))
    if forward_ad._current_level >= 0:
        check_no_tangents("attention_backward", x.tensors)
    with under(given[_DRAWN_SEED + 1 :]):
        results = _computed(x)
    return tuple(x.lse.new_empty(0) if each is None else each for each in results)


def _fake_attention_bwd(*given: Any) -> tuple[Tensor, ...]:
    """Shapes and types alone."""
    x = Arguments(*(*given[:_WINDOW], None, *given[_WINDOW + 2 : _DRAWN_SEED], None, None, None))
    wanted = Wanted(x.need_dbias, x.need_dalibi, x.need_dsink)
    return tuple(x.lse.new_empty(0) if result is None else result for result in _results(x, wanted, (None, None, None)))


def contiguous_rows(gradient: Tensor) -> Tensor:
    """With a contiguous head dim, as kernels read it; what torch expands, such as the gradient of a sum, has none."""
    return gradient if gradient.shape[-1] <= 1 or gradient.stride(-1) == 1 else gradient.contiguous()


define(f"attention_bwd({_ARGUMENTS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)", attention_bwd, _fake_attention_bwd,
       "attention_backward")  # fmt: skip

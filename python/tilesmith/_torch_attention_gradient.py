"""The gradient of attention's operator: what a call keeps for it, and how it is computed."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional

import torch
from torch import Tensor

from tilesmith._attention_arguments import Arguments
from tilesmith._errors import Unsupported
from tilesmith._torch import TYPES, all_plain, named_arguments
from tilesmith._torch_attention_backward import attention_bwd

_SAVED = ("q", "k", "v", "bias", "alibi", "sink", "cu_seqlens_q", "cu_seqlens_k", "drawn_seed")
_DIFFERENTIABLE = ("q", "k", "v", "bias", "alibi", "sink")


def check_differentiable(x: Arguments) -> None:
    """Of a call with a tensor that requires a gradient. Errors: Unsupported, what has none."""
    if x.seqlens_k is not None:
        raise _none_of("keys and values in a cache")
    if x.latent:
        raise _none_of("latent rows")
    if TYPES.get(x.q.dtype) not in ("fp8", "bf8") and TYPES.get(x.k.dtype) in ("fp8", "int8"):
        raise _none_of("keys and values of 8 bits beside a wider q")
    if TYPES.get(x.q.dtype) in ("fp8", "bf8"):
        raise _none_of("float8 tensors")
    if x.out is not None:
        raise Unsupported("out is given, and a tensor requires a gradient", "no out, or torch.no_grad()", "unsupported")


def _none_of(what: str) -> Unsupported:
    return Unsupported(f"a tensor requires a gradient, and attention has none of {what}",
                       "call it under torch.no_grad(), or on detached tensors", "unsupported")  # fmt: skip


def gradient_of(names: tuple[str, ...], defaults: tuple[Any, ...]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """(backward, keep) of the operator whose arguments have these names, the last ones these defaults."""
    named = named_arguments(names, defaults)
    saved = tuple(map(names.index, _SAVED))
    places = tuple(map(names.index, _DIFFERENTIABLE))

    def keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        x = named(*inputs)
        ctx.set_materialize_grads(False)  # None for an output that the loss does not depend on
        ctx.save_for_backward(*output, *(x[at] for at in saved))
        ctx.cached, ctx.return_lse = x.seqlens_k is not None, x.return_lse
        ctx.before_bias = x.layout, x.causal, x.mask, x.window_left, x.window_right, x.scale, x.softcap
        ctx.dropout, ctx.lengths = (x.dropout_p, x.seed), (x.max_seqlen_q, x.max_seqlen_k, x.diagonal, x.tf32)
        ctx.options = None, x.threads, x.build, x.determinism, x.tuning  # the kernel's name is the forward's own

    def backward(ctx: Any, do: Optional[Tensor], dlse: Optional[Tensor]) -> tuple[Optional[Tensor], ...]:
        o, lse, q, k, v, bias, alibi, sink, cu_seqlens_q, cu_seqlens_k, drawn_seed = ctx.saved_tensors
        if ctx.cached:
            raise _none_of("keys and values in a cache")
        if not ctx.return_lse:
            raise Unsupported("the operator's return_lse is False, and its gradient needs the log-sum-exp", "return_lse=True, or "
                              "tilesmith.attention, which sees to it", "unsupported")  # fmt: skip
        needed = ctx.needs_input_grad
        # A gradient of the gradient is refused by the operator.
        eager = not torch.is_grad_enabled() and all_plain((do, dlse, q))
        compute = attention_bwd if eager else torch.ops.tilesmith.attention_bwd
        made = compute(torch.zeros_like(o) if do is None else do, q, k, v, o, lse, *ctx.before_bias, bias, alibi, sink, *ctx.dropout, cu_seqlens_q,
                       cu_seqlens_k, *ctx.lengths, dlse, *(needed[at] for at in places[3:]), drawn_seed, *ctx.options)  # fmt: skip
        computed: list[Optional[Tensor]] = [None] * len(needed)
        for at, gradient in zip(places, made):
            if needed[at]:
                computed[at] = gradient
        return tuple(computed)

    return backward, keep

"""The gradient of attention's operator: what a call keeps for it, and how it is computed."""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch
from torch import Tensor

from tilesmith._attention_call import Arguments
from tilesmith._errors import Unsupported
from tilesmith._torch import TYPES, all_plain
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


def gradient_of(names: tuple[str, ...]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """(backward, keep) of the operator whose arguments have these names."""

    def keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        given = dict(zip(names, inputs))
        ctx.set_materialize_grads(False)  # None for an output that the loss does not depend on
        ctx.save_for_backward(*output, *(given[name] for name in _SAVED))
        ctx.rest = {name: value for name, value in given.items() if not isinstance(value, Tensor)}

    def backward(context: Any, do: Optional[Tensor], dlse: Optional[Tensor]) -> tuple[Optional[Tensor], ...]:
        o, lse, q, k, v, bias, alibi, sink, cu_seqlens_q, cu_seqlens_k, drawn_seed = context.saved_tensors
        rest = context.rest
        if "seqlens_k" not in rest:
            raise _none_of("keys and values in a cache")
        if not rest["return_lse"]:
            raise Unsupported("the operator's return_lse is False, and its gradient needs the log-sum-exp", "return_lse=True, or "
                              "tilesmith.attention, which sees to it", "unsupported")  # fmt: skip
        needed = dict(zip(names, context.needs_input_grad))  # without the last arguments, where they equal their defaults
        # A gradient of the gradient is refused by the operator.
        eager = not torch.is_grad_enabled() and all_plain((do, dlse, q))
        compute = attention_bwd if eager else torch.ops.tilesmith.attention_bwd
        dq, dk, dv, dbias, dalibi, dsink = compute(
            torch.zeros_like(o) if do is None else do, q, k, v, o, lse, rest["layout"], rest["causal"], rest["mask"],
            rest["window_left"], rest["window_right"], rest["scale"], rest["softcap"], bias, alibi, sink, rest["dropout_p"],
            rest["seed"], cu_seqlens_q, cu_seqlens_k, rest["max_seqlen_q"], rest["max_seqlen_k"], rest["diagonal"], rest["tf32"],
            dlse, needed["bias"], needed["alibi"], needed["sink"], drawn_seed, None,  # the kernel's name is the forward's own
            rest["threads"], rest["build"], rest["determinism"], rest["tuning"])  # fmt: skip
        computed = dict(zip(_DIFFERENTIABLE, (dq, dk, dv, dbias, dalibi, dsink)))
        return tuple(computed.get(name) if need else None for name, need in needed.items())

    return backward, keep

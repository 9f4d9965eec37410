"""The operator of attention on a cache that the call appends to, which torch.compile sees."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tilesmith import _append_attention
from tilesmith._attention_arguments import Arguments, as_window, check_seed
from tilesmith._errors import InvalidArgument
from tilesmith._torch import NO_OPTIONS, OPTION_ARGUMENTS, argument_names, define, draw_seed, named_arguments, refuse_gradient, signed_seed, under

_ARGUMENTS = (
    "Tensor q, Tensor(a!) k, Tensor(b!) v, str layout, bool causal, str mask, SymInt window_left, SymInt window_right, float? scale, "
    "float softcap, Tensor? bias, Tensor? alibi, Tensor? sink, Tensor? q_scale, Tensor? k_scale, Tensor? v_scale, "
    "float dropout_p, int? seed, Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, SymInt? max_seqlen_q, SymInt? max_seqlen_k, "
    "bool return_lse, SymInt diagonal, bool tf32, Tensor? block_table, Tensor? seqlens_k, Tensor? page_indices, Tensor? page_indptr, "
    "SymInt num_splits, bool batch_invariant, str kv_layout, Tensor? drawn_seed, Tensor? k_new, Tensor? v_new, Tensor? rotary_cos, "
    "Tensor? rotary_sin, Tensor? positions, Tensor? slots, Tensor(c!)? k_row_scale, Tensor(d!)? v_row_scale, str rotary_style, "
    f"{OPTION_ARGUMENTS}"
)
_Given = named_arguments(argument_names(_ARGUMENTS), tuple(NO_OPTIONS))


def append_attention_op(given: tuple[Any, ...], new: tuple[Any, ...], rotary_style: str, options: tuple[Any, ...] = NO_OPTIONS) -> Any:
    """_append_attention.append_attention as the operator."""
    x = Arguments(*given)
    if torch.is_grad_enabled() and any(isinstance(each, Tensor) and each.requires_grad for each in (*given, *new)):
        refuse_gradient("serving")
    drawn = draw_seed() if x.dropout_p and x.seed is None else None
    seed = None if x.seed is None else signed_seed(check_seed(x.seed))  # the operator's integers are signed
    window = as_window(x.window)
    if len(window) != 2:
        raise InvalidArgument(f"window is {window}", "(left, right), bounds of 0 or more, or -1 for none")
    arguments = (x.q, x.k, x.v, x.layout, bool(x.causal), x.mask, window[0], window[1], x.scale, x.softcap, x.bias, x.alibi, x.sink,
                 x.q_scale, x.k_scale, x.v_scale, x.dropout_p, seed, x.cu_seqlens_q, x.cu_seqlens_k, x.max_seqlen_q, x.max_seqlen_k,
                 bool(x.return_lse), x.diagonal, bool(x.tf32), x.block_table, x.seqlens_k, x.page_indices, x.page_indptr, x.num_splits,
                 bool(x.batch_invariant), x.kv_layout, drawn, *new, rotary_style, *options)  # fmt: skip
    if x.out is None:
        result, lse = torch.ops.tilesmith.append_attention(*arguments)
    else:
        result, lse = x.out, torch.ops.tilesmith.append_attention_out(*arguments, out=x.out)
    return (result, lse) if x.return_lse else result


def _append_attention_fwd(*given: Any, out: Any = None) -> tuple[Tensor, Tensor]:
    x = _Given(*given)
    seed = int(x.drawn_seed) if x.drawn_seed is not None else None if x.seed is None else x.seed % (1 << 64)
    arguments = (x.q, x.k, x.v, x.layout, x.causal, x.mask, (x.window_left, x.window_right), x.scale, x.softcap, x.bias, x.alibi, x.sink,
                 x.q_scale, x.k_scale, x.v_scale, x.dropout_p, seed, x.cu_seqlens_q, x.cu_seqlens_k, x.max_seqlen_q, x.max_seqlen_k,
                 x.return_lse, x.diagonal, x.tf32, x.block_table, x.seqlens_k, x.page_indices, x.page_indptr, x.num_splits,
                 x.batch_invariant, False, x.kv_layout, out)  # fmt: skip
    new = (x.k_new, x.v_new, x.rotary_cos, x.rotary_sin, x.positions, x.slots, x.k_row_scale, x.v_row_scale)
    with torch.no_grad(), under((x.kernel_name, x.threads, x.build, x.determinism, x.tuning)):
        result = _append_attention.append_attention(arguments, new, x.rotary_style)
    return result if x.return_lse else (result, x.q.new_empty(0, dtype=torch.float32))


def _append_attention_out(*given: Any, out: Tensor) -> Tensor:
    return _append_attention_fwd(*given, out=out)[1]


def _fake_append_attention(*given: Any) -> tuple[Tensor, Tensor]:
    """Shapes and types alone."""
    x = _Given(*given)
    packed = x.cu_seqlens_q is not None
    head, row = (-3, -2) if x.layout == "bhsd" else (-2, -3)
    lse_shape = (*(() if packed else (x.q.shape[0],)), x.q.shape[head], x.q.shape[row]) if x.return_lse else (0,)
    return (x.q.new_empty((*x.q.shape[:-1], x.v.shape[3 if x.v.dim() == 5 else -1])),
            x.q.new_empty(lse_shape, dtype=torch.float32))  # fmt: skip


def _fake_append_attention_out(*given: Any, out: Tensor) -> Tensor:
    return _fake_append_attention(*given)[1]


define(f"append_attention({_ARGUMENTS}) -> (Tensor, Tensor)", _append_attention_fwd, _fake_append_attention)
define(f"append_attention_out({_ARGUMENTS}, *, Tensor(e!) out) -> Tensor", _append_attention_out, _fake_append_attention_out)

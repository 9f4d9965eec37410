"""attention on torch tensors, and its operator."""

from __future__ import annotations

import numbers
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from tilesmith._attention_arguments import Arguments, Tensors, as_window, check_seed
from tilesmith._attention_call import KINDS, WORD_LSE, WORD_OUT, Call, prepare
from tilesmith._conditions import conditions
from tilesmith._errors import InvalidArgument, WrongType
from tilesmith._kept_calls import KeptCalls
from tilesmith._torch import (
    NO_OPTIONS,
    OPTION_ARGUMENTS,
    TYPES,
    address,
    all_plain,
    argument_names,
    check_no_tangents,
    define,
    define_gradient,
    described,
    differentiated,
    draw_seed,
    grad_enabled,
    is_dynamo_compiling,
    is_traced,
    longest,
    new_output,
    options_here,
    raw_stream,
    repeated_calls,
    signed_seed,
    tell_written,
    torch_threads,
    under,
    view_of,
)
from tilesmith._torch_attention_gradient import check_differentiable, gradient_of
from tilesmith._torch_trained_attention import TrainedAttention, differentiated as differentiated_attention
from tilesmith._views import flag

calls: KeptCalls[Call] = KeptCalls()
_trained_calls: KeptCalls[TrainedAttention] = KeptCalls()
_repeated = repeated_calls(KINDS)
_run = _repeated.run


def attention(q: Any, k: Any, v: Any, layout: Any, causal: Any, mask: Any, window: Any, scale: Any, softcap: Any, bias: Any,
              alibi: Any, sink: Any, q_scale: Any, k_scale: Any, v_scale: Any, dropout_p: Any, seed: Any, cu_seqlens_q: Any,
              cu_seqlens_k: Any, max_seqlen_q: Any, max_seqlen_k: Any, return_lse: Any, diagonal: Any, tf32: Any,
              block_table: Any, seqlens_k: Any, page_indices: Any, page_indptr: Any, num_splits: Any, batch_invariant: Any, latent: Any, kv_layout: Any,
              out: Any) -> Any:  # fmt: skip
    """tilesmith.attention on plain torch tensors. Every call passes here, so it is written for speed."""
    if not is_dynamo_compiling():
        repeated = _run(conditions.now, q, k, v, layout, causal, mask, window, scale, softcap, bias, alibi, sink, q_scale, k_scale, v_scale, dropout_p,
                        seed, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, return_lse, diagonal, tf32, block_table, seqlens_k, page_indices,
                        page_indptr, num_splits, batch_invariant, latent, kv_layout, out)  # fmt: skip
        if repeated is not NotImplemented:
            if out is not None:
                tell_written(out)
            return repeated
    if is_traced():
        return attention_op(q, k, v, layout, causal, mask, window, scale, softcap, bias, alibi, sink, q_scale, k_scale,
                            v_scale, dropout_p, seed, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, return_lse,
                            diagonal, tf32, block_table, seqlens_k, page_indices, page_indptr, num_splits, batch_invariant, latent, kv_layout, out)  # fmt: skip
    longest_given = max_seqlen_q, max_seqlen_k
    plain = (bias is None and alibi is None and sink is None and q_scale is None and k_scale is None and v_scale is None
             and cu_seqlens_q is None and cu_seqlens_k is None and seqlens_k is None and block_table is None
             and page_indptr is None and page_indices is None and out is None)  # fmt: skip
    grad = grad_enabled()
    beside: tuple[Any, ...] = ()
    if not plain or type(k) is not Tensor or type(v) is not Tensor:
        beside = (bias, alibi, sink, q_scale, k_scale, v_scale, cu_seqlens_q, cu_seqlens_k, block_table, seqlens_k, page_indices,
                  page_indptr, out)  # fmt: skip
        differentiable = False
        if grad or not {Tensor}.issuperset(map(type, (k, v))) or not _PLAIN_TYPES.issuperset(map(type, beside)):
            differentiable = _check_tensors((q, k, v, *beside))
        if cu_seqlens_q is not None:
            max_seqlen_q = longest(max_seqlen_q, cu_seqlens_q)
        if cu_seqlens_k is not None:
            max_seqlen_k = longest(max_seqlen_k, cu_seqlens_k)
        if page_indptr is not None and max_seqlen_k is None and seqlens_k is not None and seqlens_k.numel():
            fits = seqlens_k.dim() == page_indptr.dim() == 1 and seqlens_k.numel() == page_indptr.numel() - 1  # else it is refused unread
            max_seqlen_k = int(seqlens_k.max()) if fits else 0
    else:
        differentiable = grad and (q.requires_grad or k.requires_grad or v.requires_grad)
    if differentiable and grad:
        if plain and not dropout_p and page_indices is None and type(k) in _TRAINED_TYPES and type(v) in _TRAINED_TYPES and forward_ad._current_level < 0:
            return _trained(q, k, v, layout, causal, mask, window, scale, softcap, max_seqlen_q, max_seqlen_k, return_lse, diagonal, tf32, num_splits,
                            batch_invariant, latent, kv_layout)  # fmt: skip
        return attention_op(q, k, v, layout, causal, mask, window, scale, softcap, bias, alibi, sink, q_scale, k_scale,
                            v_scale, dropout_p, seed, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, return_lse,
                            diagonal, tf32, block_table, seqlens_k, page_indices, page_indptr, num_splits, batch_invariant, latent, kv_layout, out,
                            options=options_here())  # fmt: skip
    if type(window) is not tuple:
        window = as_window(window)
    looks, places = described((q, k, v) if plain else (q, k, v, *beside))
    key = (looks, layout, causal, mask, window, scale, softcap, dropout_p, max_seqlen_q, max_seqlen_k, return_lse, diagonal, tf32, num_splits,
           batch_invariant, latent, kv_layout, torch_threads())  # fmt: skip
    call = calls.by_key.get(key)
    if call is None:
        x = Arguments(q, k, v, layout, causal, mask, window, scale, softcap, bias, alibi, sink, q_scale, k_scale, v_scale,
                      dropout_p, seed, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, return_lse, diagonal, tf32,
                      block_table, seqlens_k, page_indices, page_indptr, num_splits, batch_invariant, latent, kv_layout, out)  # fmt: skip
        views = Tensors(*(view_of(name, tensor) for name, tensor in zip(Tensors._fields, x.tensors)))
        call = calls.keep(key, prepare(views, x.options, torch_threads()))
    if forward_ad._current_level >= 0:
        check_no_tangents("attention", (q, k, v, bias, alibi, sink, q_scale, k_scale, v_scale, out))
    if dropout_p:
        call.seed(int(draw_seed()) if seed is None else check_seed(seed))
    # The sizes as arguments of their own: torch takes a microsecond longer to read a tuple of them.
    if out is not None:
        result = out
    else:
        result = q.new_empty(*call.out_shape) if call.same_type else q.new_empty(*call.out_shape, dtype=torch.bfloat16)
    stream = raw_stream(call.stream_device) if call.stream_device >= 0 else 0
    lse = q.new_empty(*call.lse_shape, dtype=torch.float32) if return_lse else None
    if plain:
        at_q, at_k, at_v = places
        call.run(at_q, at_k, at_v, result.data_ptr(), address(lse), 0, 0, 0, 0, 0, stream)
        if call.repeats:
            call.repeats -= 1
            _keep(call, (q, k, v, layout, causal, mask, window, scale, softcap, None, None, None, None, None, None, dropout_p, seed, None, None,
                         max_seqlen_q, max_seqlen_k, return_lse, diagonal, tf32, None, None, None, None, num_splits, batch_invariant, latent,
                         kv_layout, None))  # fmt: skip
        return (result, lse) if return_lse else result
    (at_q, at_k, at_v, at_bias, at_alibi, at_sink, at_q_scale, at_k_scale, at_v_scale, at_cu_seqlens_q, at_cu_seqlens_k, at_table, at_lengths,
     at_indices, at_indptr, at_out) = places  # fmt: skip
    if out is not None:
        call.check_apart(*places)
    if call.scaled:
        call.scales(at_q_scale, at_k_scale, at_v_scale)
    if call.paged:
        call.pages(at_table, at_lengths, at_indices, at_indptr, at_cu_seqlens_q)
    call.run(at_q, at_k, at_v, at_out or result.data_ptr(), address(lse), at_bias, at_alibi, at_sink, at_cu_seqlens_q, at_cu_seqlens_k,
             stream)  # fmt: skip
    if call.repeats and longest_given == (max_seqlen_q, max_seqlen_k):  # else the host reads them each time
        call.repeats -= 1
        _keep(call, (q, k, v, layout, causal, mask, window, scale, softcap, bias, alibi, sink, q_scale, k_scale, v_scale, dropout_p, seed, cu_seqlens_q,
                     cu_seqlens_k, max_seqlen_q, max_seqlen_k, return_lse, diagonal, tf32, block_table, seqlens_k, page_indices, page_indptr, num_splits,
                     batch_invariant, latent, kv_layout, out))  # fmt: skip
    if out is not None:
        tell_written(out)
    return (result, lse) if return_lse else result


def _keep(call: Call, arguments: tuple[Any, ...]) -> None:
    """For calls like this one."""
    q = arguments[0]
    out = lse = None
    if arguments[-1] is None:
        out = new_output(WORD_OUT, 0, q, call.out_shape, q.dtype if call.same_type else torch.bfloat16)
    if call.lse_shape:
        lse = new_output(WORD_LSE, 0, q, call.lse_shape, torch.float32)
    _repeated.keep(conditions.now, arguments, call.repetition(out, lse))


def _trained(q: Tensor, k: Tensor, v: Tensor, layout: Any, causal: Any, mask: Any, window: Any, scale: Any, softcap: Any, max_seqlen_q: Any, max_seqlen_k: Any,
             return_lse: Any, diagonal: Any, tf32: Any, num_splits: Any, batch_invariant: Any, latent: Any, kv_layout: Any) -> Any:  # fmt: skip
    """Attention of q, k and v alone with a gradient, by prepared calls both ways."""
    if type(window) is not tuple:
        window = as_window(window)
    key: tuple[Any, ...] = (q.dtype, q.shape, q.stride(), q.get_device(), k.dtype, k.shape, k.stride(), k.get_device(), v.dtype, v.shape, v.stride(), v.get_device(),
           layout, causal, mask, window, scale, softcap, max_seqlen_q, max_seqlen_k, return_lse, diagonal, tf32, num_splits, batch_invariant,
           latent, kv_layout, torch_threads())  # fmt: skip
    trained = _trained_calls.by_key.get(key)
    if trained is None:
        x = Arguments(q, k, v, layout, causal, mask, window, scale, softcap, None, None, None, None, None, None, 0.0, None, None, None, max_seqlen_q,
                      max_seqlen_k, return_lse, diagonal, tf32, None, None, None, None, num_splits, batch_invariant, latent, kv_layout, None)  # fmt: skip
        check_differentiable(x)
        flag("return_lse", return_lse)
        views = Tensors(*(view_of(name, tensor) for name, tensor in zip(Tensors._fields, x.tensors)))
        trained = _trained_calls.keep(key, TrainedAttention(prepare(views, x.options._replace(return_lse=True), torch_threads()), x, options_here()))
    return differentiated_attention(q, k, v, trained)


_TRAINED_TYPES = {Tensor, torch.nn.Parameter}
_PLAIN_TYPES = {Tensor, type(None)}


def _check_tensors(tensors: tuple[Any, ...]) -> bool:
    """Whether any of them requires a gradient. Errors: one that is none of torch's."""
    differentiable = False
    for tensor in tensors:
        if tensor is None:
            continue
        if not isinstance(tensor, Tensor):
            name = next(name for name, each in zip(Tensors._fields, tensors) if each is tensor)
            number = name.endswith("_scale") and isinstance(tensor, numbers.Real)
            hint = "torch.tensor(..., device=q.device): kernels read it there" if number else "torch tensors"
            raise WrongType(f"{name} is a {type(tensor).__name__}, q is a torch tensor", hint)
        differentiable |= tensor.requires_grad
    return differentiable


# ------------------------------------------------------------------------------------------------------ the operator

_ARGUMENTS = (
    "Tensor q, Tensor k, Tensor v, str layout, bool causal, str mask, SymInt window_left, SymInt window_right, float? scale, "
    "float softcap, Tensor? bias, Tensor? alibi, Tensor? sink, Tensor? q_scale, Tensor? k_scale, Tensor? v_scale, "
    "float dropout_p, int? seed, Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, SymInt? max_seqlen_q, SymInt? max_seqlen_k, "
    "bool return_lse, SymInt diagonal=0, bool tf32=False, Tensor? block_table=None, Tensor? seqlens_k=None, "
    "Tensor? page_indices=None, Tensor? page_indptr=None, SymInt num_splits=0, bool batch_invariant=False, bool latent=False, str kv_layout=\"nhd\", "
    f"Tensor? drawn_seed=None, {OPTION_ARGUMENTS}"
)


def attention_op(*given: Any, options: tuple[Any, ...] = ()) -> Any:
    """tilesmith.attention as the operator: what torch.compile traces."""
    x = Arguments(*given)
    differentiable = torch.is_grad_enabled() and any(
        each is not None and each.requires_grad
        for each in (x.q, x.k, x.v, x.bias, x.alibi, x.sink, x.q_scale, x.k_scale, x.v_scale, x.out))  # fmt: skip
    if differentiable:
        check_differentiable(x)
    if forward_ad._current_level >= 0:
        check_no_tangents("attention", x.tensors)
    # Drawn here, where torch sees it: backward reads it, and torch.compile and checkpoints repeat or keep it.
    drawn = draw_seed() if x.dropout_p and x.seed is None else None
    seed = None if x.seed is None else signed_seed(check_seed(x.seed))  # the operator's integers are signed
    window = as_window(x.window)
    if len(window) != 2:
        raise InvalidArgument(f"window is {window}", "(left, right), bounds of 0 or more, or -1 for none")
    # One by one: what changes a named tuple or a list is not traced by every version of torch.compile.
    arguments = (x.q, x.k, x.v, x.layout, bool(x.causal), x.mask, window[0], window[1], x.scale, x.softcap, x.bias, x.alibi,
                 x.sink, x.q_scale, x.k_scale, x.v_scale, x.dropout_p, seed, x.cu_seqlens_q, x.cu_seqlens_k, x.max_seqlen_q,
                 x.max_seqlen_k, bool(x.return_lse) or differentiable, x.diagonal, bool(x.tf32), x.block_table, x.seqlens_k,
                 x.page_indices, x.page_indptr, x.num_splits, bool(x.batch_invariant), x.latent, x.kv_layout, drawn, *options)  # fmt: skip
    out = x.out
    if out is None:
        eager = differentiable and not is_traced() and all_plain(x.tensors)
        result, lse = (_differentiated if eager else torch.ops.tilesmith.attention_fwd)(*arguments)
    else:
        result, lse = out, torch.ops.tilesmith.attention_fwd_out(*arguments, out=out)
    return (result, lse) if x.return_lse else result


_WINDOW = Arguments._fields.index("window")  # one argument of attention's, two of the operator's
_RETURN_LSE = Arguments._fields.index("return_lse") + 1  # likewise, among the operator's
# The defaults behind it: torch leaves out arguments that equal theirs.
_TAIL = (0, False, None, None, None, None, 0, False, False, "nhd", None, *NO_OPTIONS)
_OPTIONS = _RETURN_LSE + 1 + len(_TAIL) - len(NO_OPTIONS)
_DRAWN_SEED = _OPTIONS - 1


def _attention_fwd(*given: Any, out: Any = None) -> tuple[Tensor, Tensor]:
    given += _TAIL[len(given) - _RETURN_LSE - 1 :]
    x = Arguments(*(*given[:_WINDOW], given[_WINDOW : _WINDOW + 2], *given[_WINDOW + 2 : _DRAWN_SEED], out))
    drawn = given[_DRAWN_SEED]
    seed = int(drawn) if drawn is not None else None if x.seed is None else x.seed % (1 << 64)
    with torch.no_grad(), under(given[_OPTIONS:]):
        result = attention(*x._replace(seed=seed))
    return result if x.return_lse else (result, x.q.new_empty(0, dtype=torch.float32))


def _attention_here(q: Any, k: Any, v: Any, layout: Any, causal: Any, mask: Any, window_left: Any, window_right: Any, scale: Any, softcap: Any,
                    bias: Any, alibi: Any, sink: Any, q_scale: Any, k_scale: Any, v_scale: Any, dropout_p: Any, seed: Any, cu_seqlens_q: Any,
                    cu_seqlens_k: Any, max_seqlen_q: Any, max_seqlen_k: Any, return_lse: Any, diagonal: Any, tf32: Any, block_table: Any,
                    seqlens_k: Any, page_indices: Any, page_indptr: Any, num_splits: Any, batch_invariant: Any, latent: Any, kv_layout: Any, drawn_seed: Any,
                    *options: Any) -> Any:  # fmt: skip
    """The same where the options hold already, no gradient is recorded, and the log-sum-exp is wanted."""
    seed = int(drawn_seed) if drawn_seed is not None else None if seed is None else seed % (1 << 64)
    return attention(q, k, v, layout, causal, mask, (window_left, window_right), scale, softcap, bias, alibi, sink, q_scale, k_scale, v_scale,
                     dropout_p, seed, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, return_lse, diagonal, tf32, block_table, seqlens_k,
                     page_indices, page_indptr, num_splits, batch_invariant, latent, kv_layout, None)  # fmt: skip


def _attention_fwd_out(*given: Any, out: Tensor) -> Tensor:
    return _attention_fwd(*given, out=out)[1]


def _fake_attention_fwd(*given: Any) -> Any:
    """Shapes and types alone."""
    q, k, v, layout = given[:4]
    return_lse, group = given[_RETURN_LSE], given[_RETURN_LSE - 4] is not None
    dtype = torch.bfloat16 if TYPES.get(q.dtype) in ("fp8", "bf8") else q.dtype
    head, row = (0, 1) if layout == "bhsd" else (1, 0)
    shape = (q.shape[head], q.shape[row]) if group else (q.shape[0], q.shape[1 + head], q.shape[1 + row])
    return (q.new_empty((*q.shape[:-1], v.shape[3 if v.dim() == 5 else -1]), dtype=dtype),
            q.new_empty(shape if return_lse else (0,), dtype=torch.float32))  # fmt: skip


def _fake_attention_fwd_out(*arguments: Any, out: Any) -> Any:
    return _fake_attention_fwd(*arguments)[1]


define(f"attention_fwd({_ARGUMENTS}) -> (Tensor, Tensor)", _attention_fwd, _fake_attention_fwd)
_gradient = gradient_of(argument_names(_ARGUMENTS), _TAIL)
define_gradient("attention_fwd", *_gradient)
_differentiated = differentiated(_attention_here, *_gradient)
define(f"attention_fwd_out({_ARGUMENTS}, *, Tensor(a!) out) -> Tensor", _attention_fwd_out, _fake_attention_fwd_out)

"""The public function: it only finds out whose tensors these are."""

from __future__ import annotations

from typing import Any, Optional, TypeVar, Unpack

from tilesmith._candidates import listed_functions
from tilesmith._errors import Error, InvalidArgument, WrongType
from tilesmith._options import under
from tilesmith._refusals import refusal
from tilesmith._tensor_library import Servers
from tilesmith._views import flag
from tilesmith.typing import CallOptions, Layout, Mask

_servers = Servers("attention_backward", "attention_backward")

Array = TypeVar("Array")  #: torch.Tensor, numpy.ndarray, ...


def attention_backward(
    do: Array,
    q: Any,
    k: Any,
    v: Any,
    o: Any,
    lse: Any,
    *,
    layout: Layout = "bhsd",
    causal: bool = False,
    mask: Mask = "none",
    window: tuple[int, int] = (-1, -1),
    scale: Optional[float] = None,
    softcap: float = 0.0,
    bias: Any = None,
    alibi: Any = None,
    sink: Any = None,
    dropout_p: float = 0.0,
    seed: Optional[int] = None,
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    max_seqlen_q: Optional[int] = None,
    max_seqlen_k: Optional[int] = None,
    diagonal: int = 0,
    tf32: bool = False,
    dlse: Any = None,
    deterministic: Optional[bool] = None,
    need_dbias: bool = False,
    need_dalibi: bool = False,
    need_dsink: bool = False,
    dq: Any = None,
    dk: Any = None,
    dv: Any = None,
    **options: Unpack[CallOptions],
) -> tuple[Array, ...]:
    """Attention backward: the gradients of a loss by q, k and v, from its gradient by the output. torch tensors need no
    call of it: `attention` is differentiable.

        o, lse = tilesmith.attention(q, k, v, causal=True, return_lse=True)
        dq, dk, dv = tilesmith.attention_backward(do, q, k, v, o, lse, causal=True)

    do: the gradient by the output, of o's shape and data type. Any strides with a contiguous head dim, as q, k, v and o.
    q, k, v: float32, float16 or bfloat16, as `attention` was given them.
    o, lse: what `attention` returned for them.
    layout, causal, mask, window, scale, softcap, bias, alibi, sink, dropout_p, cu_seqlens_q, cu_seqlens_k, max_seqlen_q,
        max_seqlen_k, diagonal, tf32: as `attention` was given them.
    seed: with dropout_p the one that `attention` was given; there is no other way to know which weights were dropped.
    dlse: float32, of lse's shape: the gradient by lse, for a loss that depends on it. None is 0.
    deterministic: True is determinism="bitwise", False "tolerant"; None leaves it to the options.
    need_dbias, need_dalibi, need_dsink: True computes the gradient by bias, alibi or sink too: float32, of its shape, summed
        over what it broadcasts.
    dq, dk, dv: where to write the results: of q's, k's and v's shapes and data type, any strides with a contiguous head dim,
        apart from the inputs and one another. None makes new tensors.
    kernel, threads, build, determinism, tuning: tilesmith.options', for this call alone.

    Returns (dq, dk, dv) and behind them what is wanted of dbias, dalibi and dsink, in this order, of the inputs' kind, on
    their device; on a GPU they are queued on the current stream. Sums are float32, rounded once. A query that sees no key
    adds nothing. With variable lengths, rows of new tensors that belong to no sequence are 0.

    Errors: as `attention`. A device without kernels of it raises NotImplementedError (tilesmith.Unsupported).
    """
    for name, tensor in (("q", q), ("k", k), ("v", v), ("o", o), ("lse", lse)):
        if tensor is None:
            raise WrongType(f"{name} is None", "a tensor, as do is")
    serve = _servers.by_type.get(type(do))
    if serve is None:
        serve = _servers.find("do", do)
    if deterministic is not None:
        if options.get("determinism") is not None:
            raise InvalidArgument("deterministic and determinism are given", "one of them")
        options["determinism"] = "bitwise" if flag("deterministic", deterministic) else "tolerant"
    if options:
        serve = under("attention_backward", options, _servers, serve)
    try:
        results: tuple[Array, ...] = serve(
            do, q, k, v, o, lse, layout, causal, mask, window, scale, softcap, bias, alibi, sink, dropout_p, seed, cu_seqlens_q,
            cu_seqlens_k, max_seqlen_q, max_seqlen_k, diagonal, tf32, dlse, need_dbias, need_dalibi, need_dsink, dq, dk, dv)  # fmt: skip
        return results
    except Error:
        raise
    except Exception as error:
        raise refusal("attention_backward", error, locals()) from error


listed_functions.add(attention_backward)

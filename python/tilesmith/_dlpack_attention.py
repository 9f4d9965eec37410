"""attention on DLPack arrays."""

from __future__ import annotations

import random
from typing import Any

from tilesmith._attention_arguments import Arguments, Tensors, check_seed
from tilesmith._attention_call import Call, prepare
from tilesmith._dlpack import Borrowed, New, stream_of
from tilesmith._errors import InvalidArgument
from tilesmith._kept_calls import KeptCalls

_calls: KeptCalls[Call] = KeptCalls()


def attention(*given: Any) -> Any:
    """tilesmith.attention on DLPack arrays."""
    x = Arguments(*given)
    stream = stream_of("q", x.q)
    borrowed = [None if array is None else Borrowed(name, array, stream)
                for name, array in zip(Tensors._fields, x.tensors)]  # fmt: skip
    seen: list[Any] = [None if b is None else b.view for b in borrowed]
    views = Tensors(*seen)
    if views.cu_seqlens_q is not None and (x.max_seqlen_q is None or (x.max_seqlen_k is None and x.seqlens_k is None)):
        raise InvalidArgument("max_seqlen_q or max_seqlen_k is not given", "the longest of the sequences")
    options = x.options
    call = _calls.by_key.get(key := (options, views)) or _calls.keep(key, prepare(views, options))
    addresses: list[Any] = [0 if b is None else b.address for b in borrowed]
    if (out := borrowed[-1]) is not None:
        if out.read_only:
            raise InvalidArgument("out is read-only", "an array that can be written to")
        call.check_apart(*addresses)
    result = New(x.q, views.q, call.out_shape, call.out_type, stream) if out is None else None
    lse = New(x.q, views.q, call.lse_shape, "fp32", stream) if x.return_lse else None
    if x.dropout_p:
        call.seed(random.getrandbits(64) if x.seed is None else check_seed(x.seed))
    at: Any = Tensors(*addresses)
    if call.scaled:
        call.scales(at.q_scale, at.k_scale, at.v_scale)
    if call.paged:
        call.pages(at.block_table, at.seqlens_k, at.page_indices, at.page_indptr, at.cu_seqlens_q)
    call.run(at.q, at.k, at.v, at.out if result is None else result.borrowed.address,
             0 if lse is None else lse.borrowed.address, at.bias, at.alibi, at.sink, at.cu_seqlens_q, at.cu_seqlens_k,
             0 if stream in (None, 1) else stream)  # fmt: skip
    made = x.out if result is None else result.written()
    return made if lse is None else (made, lse.written())

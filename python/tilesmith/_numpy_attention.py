"""attention on NumPy arrays."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tilesmith._attention_arguments import Arguments, Tensors, check_seed
from tilesmith._attention_call import KINDS, WORD_LSE, WORD_OUT, Call, prepare
from tilesmith._conditions import conditions
from tilesmith._errors import InvalidArgument
from tilesmith._kept_calls import KeptCalls
from tilesmith._numpy import address, check_arrays, describe, dtype_of, longest, repeated_calls, view_of
from tilesmith._repeated import Output

_calls: KeptCalls[Call] = KeptCalls()
_repeated = repeated_calls(KINDS)
_run = _repeated.run


def attention(*given: Any) -> Any:
    """tilesmith.attention on NumPy arrays."""
    repeated = _run(conditions.now, *given)
    if repeated is not NotImplemented:
        return repeated
    x = asked = Arguments(*given)
    arrays = x.tensors
    check_arrays(Tensors._fields, arrays)
    out = x.out
    if x.cu_seqlens_q is not None and x.cu_seqlens_k is not None:
        x = x._replace(max_seqlen_q=longest(x.max_seqlen_q, x.cu_seqlens_q),
                       max_seqlen_k=longest(x.max_seqlen_k, x.cu_seqlens_k))  # fmt: skip
    elif x.cu_seqlens_q is not None and x.seqlens_k is not None:
        x = x._replace(max_seqlen_q=longest(x.max_seqlen_q, x.cu_seqlens_q))
    if x.page_indptr is not None and x.max_seqlen_k is None and x.seqlens_k is not None:
        fits = x.seqlens_k.ndim == x.page_indptr.ndim == 1 and len(x.seqlens_k) == len(x.page_indptr) - 1  # else it is refused unread
        x = x._replace(max_seqlen_k=int(x.seqlens_k.max(initial=0)) if fits else 0)
    options = x.options
    key = (options, *map(describe, arrays))
    call = _calls.by_key.get(key)
    if call is None:
        views = Tensors(*(view_of(name, array) for name, array in zip(Tensors._fields, arrays)))
        call = _calls.keep(key, prepare(views, options))
    if out is None:
        out = np.empty(call.out_shape, dtype_of(call.out_type, x.q.dtype))
    elif not out.flags.writeable:
        raise InvalidArgument("out is read-only", "a writable array")
    else:
        call.check_apart(*map(address, arrays))
    lse = np.empty(call.lse_shape, np.float32) if x.return_lse else None
    if x.dropout_p:
        call.seed(random.getrandbits(64) if x.seed is None else check_seed(x.seed))
    if call.scaled:
        call.scales(address(x.q_scale), address(x.k_scale), address(x.v_scale))
    if call.paged:
        call.pages(*map(address, (x.block_table, x.seqlens_k, x.page_indices, x.page_indptr, x.cu_seqlens_q)))
    call.run(address(x.q), address(x.k), address(x.v), address(out), address(lse), address(x.bias), address(x.alibi),
             address(x.sink), address(x.cu_seqlens_q), address(x.cu_seqlens_k), 0)  # fmt: skip
    if call.repeats and (asked.max_seqlen_q, asked.max_seqlen_k) == (x.max_seqlen_q, x.max_seqlen_k):  # else they are read each time
        call.repeats -= 1
        made = None if x.out is not None else Output(WORD_OUT, -1, np.empty, (call.out_shape, out.dtype))
        made_lse = Output(WORD_LSE, -1, np.empty, (call.lse_shape, lse.dtype)) if lse is not None else None
        _repeated.keep(conditions.now, asked, call.repetition(made, made_lse))
    return (out, lse) if x.return_lse else out

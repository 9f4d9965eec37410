"""attention_backward on NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilesmith._attention_backward_call import Arguments, Call, Results, Tensors, prepare, seed_of, wanted_of
from tilesmith._errors import InvalidArgument
from tilesmith._kept_calls import KeptCalls
from tilesmith._numpy import address, check_arrays, describe, longest, view_of

_calls: KeptCalls[Call] = KeptCalls()


def attention_backward(*given: Any) -> Any:
    """tilesmith.attention_backward on NumPy arrays."""
    x = Arguments(*given)
    arrays = x.tensors
    own = (x.dq, x.dk, x.dv)
    check_arrays((*Tensors._fields, *Results._fields), (*arrays, *own))
    wanted = wanted_of(x)
    if x.cu_seqlens_q is not None and x.cu_seqlens_k is not None:
        x = x._replace(max_seqlen_q=longest(x.max_seqlen_q, x.cu_seqlens_q), max_seqlen_k=longest(x.max_seqlen_k, x.cu_seqlens_k))
    for name, array in zip(Results._fields, own):
        if array is not None and not array.flags.writeable:
            raise InvalidArgument(f"{name} is read-only", "a writable array")
    # Rows of packed tensors that belong to no sequence are not written.
    new = np.empty_like if x.cu_seqlens_q is None else np.zeros_like
    results = (*(new(like, subok=False) if array is None else array for array, like in zip(own, (x.q, x.k, x.v))),
               *(np.empty(like.shape, np.float32) if needed else None
                 for needed, like in zip(wanted, (x.bias, x.alibi, x.sink))))  # fmt: skip
    key = (x.options, wanted, *map(describe, (*arrays, *own)))
    call = _calls.by_key.get(key)
    if call is None:
        views: Any = (view_of(name, array) for name, array in zip(Tensors._fields, arrays))
        places: Any = (view_of(name, array) for name, array in zip(Results._fields, results))
        call = _calls.keep(key, prepare(Tensors(*views), Results(*places), x.options))
    seed = seed_of(x) if x.dropout_p else 0
    inputs, outputs = tuple(map(address, arrays)), tuple(map(address, results))
    if any(array is not None for array in own):
        call.check_apart(inputs, outputs)
    call.run(inputs, outputs, seed, 0)
    return tuple(array for array in results if array is not None)

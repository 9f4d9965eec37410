"""attention_backward on DLPack arrays."""

from __future__ import annotations

from typing import Any

from tilesmith._attention_backward_call import Arguments, Call, Results, Tensors, prepare, seed_of, wanted_of
from tilesmith._dlpack import Borrowed, New, stream_of
from tilesmith._errors import InvalidArgument
from tilesmith._kept_calls import KeptCalls

_calls: KeptCalls[Call] = KeptCalls()


def attention_backward(*given: Any) -> Any:
    """tilesmith.attention_backward on DLPack arrays."""
    x = Arguments(*given)
    stream = stream_of("do", x.do)

    def borrow(name: str, array: Any) -> Any:
        return None if array is None else Borrowed(name, array, stream)

    borrowed = list(map(borrow, Tensors._fields, x.tensors))
    views: list[Any] = [None if each is None else each.view for each in borrowed]
    seen: Any = Tensors(*views)
    if seen.cu_seqlens_q is not None:
        if x.max_seqlen_q is None or x.max_seqlen_k is None:
            raise InvalidArgument("max_seqlen_q or max_seqlen_k is not given", "the longest of the sequences")
        if x.dq is None or x.dk is None or x.dv is None:
            raise InvalidArgument("dq, dk or dv is not given", "arrays of zeros: rows that belong to no sequence are not written")
    wanted = wanted_of(x)
    own = list(map(borrow, Results._fields, (x.dq, x.dk, x.dv)))
    for name, each in zip(Results._fields, own):
        if each is not None and each.read_only:
            raise InvalidArgument(f"{name} is read-only", "an array that can be written to")
    made = [None if mine is not None else New(x.q, seen.q, like.shape, like.data_type, stream)
            for mine, like in zip(own, (seen.q, seen.k, seen.v))]  # fmt: skip
    made += [New(x.q, seen.q, like.shape, "fp32", stream) if needed else None
             for needed, like in zip(wanted, (seen.bias, seen.alibi, seen.sink))]  # fmt: skip
    places: list[Any] = [mine if new is None else new.borrowed for mine, new in zip((*own, None, None, None), made)]
    views = [None if place is None else place.view for place in places]
    results = Results(*views)
    key = (x.options, seen, results)
    call = _calls.by_key.get(key) or _calls.keep(key, prepare(seen, results, x.options))
    seed = seed_of(x) if x.dropout_p else 0
    inputs = tuple(0 if each is None else each.address for each in borrowed)
    outputs = tuple(0 if each is None else each.address for each in places)
    if any(each is not None for each in own):
        call.check_apart(inputs, outputs)
    call.run(inputs, outputs, seed, 0 if stream in (None, 1) else stream)
    given_results = (x.dq, x.dk, x.dv, None, None, None)
    return tuple(mine if new is None else new.written() for mine, new in zip(given_results, made)
                 if mine is not None or new is not None)  # fmt: skip

"""attention on NumPy arrays."""

from __future__ import annotations

import random
from typing import Any, Optional

import numpy as np

from tilesmith._attention_call import Call, Options, Tensors, check_seed, prepare
from tilesmith._errors import InvalidArgument
from tilesmith._kept_calls import KeptCalls
from tilesmith._numpy import address, check_arrays, describe, dtype_of, view_of

_calls: KeptCalls[Call] = KeptCalls()


def _longest(given: Optional[int], offsets: np.ndarray) -> int:
    if given is not None:
        return given
    return int(np.diff(offsets).max(initial=0)) if offsets.ndim == 1 else 0


def attention(q, k, v, layout, causal, mask, window, scale, softcap, bias, alibi, sink, q_scale, k_scale, v_scale,
              dropout_p, seed, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, return_lse, out) -> Any:  # fmt: skip
    """tilesmith.attention on NumPy arrays."""
    arrays = (q, k, v, bias, alibi, sink, q_scale, k_scale, v_scale, cu_seqlens_q, cu_seqlens_k, out)
    check_arrays(Tensors._fields, arrays)
    if cu_seqlens_q is not None and cu_seqlens_k is not None:
        max_seqlen_q, max_seqlen_k = _longest(max_seqlen_q, cu_seqlens_q), _longest(max_seqlen_k, cu_seqlens_k)
    options = Options(layout, bool(causal), mask, tuple(window), scale, softcap, dropout_p, max_seqlen_q, max_seqlen_k,
                      bool(return_lse))  # fmt: skip
    key = (options, *map(describe, arrays))
    call = _calls.by_key.get(key)
    if call is None:
        views = Tensors(*(view_of(name, array) for name, array in zip(Tensors._fields, arrays)))
        call = _calls.keep(key, prepare(views, options))
    if out is None:
        out = np.empty(call.out_shape, dtype_of(call.out_type, q.dtype))
    elif not out.flags.writeable:
        raise InvalidArgument("out is read-only", "a writable array")
    else:
        call.check_apart(*map(address, arrays))
    lse = np.empty(call.lse_shape, np.float32) if return_lse else None
    if dropout_p:
        call.seed(random.getrandbits(64) if seed is None else check_seed(seed))
    if call.scaled:
        call.scales(address(q_scale), address(k_scale), address(v_scale))
    call.run(address(q), address(k), address(v), address(out), address(lse), address(bias), address(alibi),
             address(sink), address(cu_seqlens_q), address(cu_seqlens_k), 0)  # fmt: skip
    return (out, lse) if return_lse else out

"""attention on a cache that the call appends to, on torch tensors and NumPy arrays."""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Callable, Optional

from tilesmith._append_attention_call import APPEND_KINDS, WORD_TURNED, AppendAttentionCall, NewTensors, prepare_append_attention
from tilesmith._attention_arguments import Arguments, Tensors, check_seed
from tilesmith._attention_call import WORD_LSE, WORD_OUT
from tilesmith._conditions import conditions
from tilesmith._errors import InvalidArgument
from tilesmith._given_tensors import library_for
from tilesmith._kept_calls import KeptCalls
from tilesmith._tensor_library import Traced

_traced = Traced("_torch_append_attention", "append_attention_op")
_calls: KeptCalls[AppendAttentionCall] = KeptCalls()
_NAMES = (*Tensors._fields, *NewTensors._fields)


class _Operator:
    """As Servers has it: who serves where torch traces the call."""

    def operator(self, serve: Callable[..., Any]) -> Optional[Callable[..., Any]]:
        return _traced.serve("append_attention_op") if _traced.now(None) else None


append_operator = _Operator()


def append_attention(given: tuple[Any, ...], new: tuple[Any, ...], rotary_style: str) -> Any:
    """tilesmith.attention of these arguments, in the order of Arguments, with new keys, in that of NewTensors."""
    if _traced.now(given[0]):
        return _traced.serve("append_attention_op")(given, new, rotary_style)
    x = asked = Arguments(*given)
    library = library_for("q", x.q)
    repeated = library.repeated("append_attention", APPEND_KINDS)
    done = repeated.run(conditions.now, *given, *new, rotary_style)
    if done is not NotImplemented:
        library.wrote(x.k, x.v, x.out, *new[-2:])
        return done
    if x.cu_seqlens_q is not None:
        x = x._replace(max_seqlen_q=library.longest(x.max_seqlen_q, x.cu_seqlens_q))
    if x.page_indptr is not None and x.max_seqlen_k is None and x.seqlens_k is not None:
        fits = len(x.seqlens_k.shape) == len(x.page_indptr.shape) == 1 and len(x.seqlens_k) == len(x.page_indptr) - 1  # else it is refused unread
        x = x._replace(max_seqlen_k=int(x.seqlens_k.max()) if fits and len(x.seqlens_k) else 0)
    tensors = (*x.tensors, *new)
    described, places = library.described(tensors, lambda: _NAMES)
    options, threads = x.options, library.threads()
    call = _calls.by_key.get(key := (options, rotary_style, threads, described))
    if call is None:
        views: list[Any] = [library.view(name, tensor) for name, tensor in zip(_NAMES, tensors)]
        count = len(Tensors._fields)
        call = _calls.keep(key, prepare_append_attention(Tensors(*views[:count]), NewTensors(*views[count:]), options, rotary_style, threads))
    (q, k, v, bias, alibi, sink, q_scale, k_scale, v_scale, cu_seqlens_q, cu_seqlens_k, block_table, seqlens_k, page_indices, page_indptr, out, k_new,
     v_new, cos, sin, positions, slots, k_row_scale, v_row_scale) = places  # fmt: skip
    if x.out is not None:
        if library.kind == "numpy" and not x.out.flags.writeable:
            raise InvalidArgument("out is read-only", "a writable array")
        call.check_apart(*places[: len(Tensors._fields)])
    if library.kind == "numpy":
        _check_writable(x.k, x.v, *new[-2:])
    if x.dropout_p:
        call.seed(library.draw_seed() if x.seed is None else check_seed(x.seed))
    result = library.new(x.q, call.out_shape, call.out_type) if x.out is None else x.out
    lse = library.new(x.q, call.lse_shape, "fp32") if x.return_lse else None
    # On the CPU nobody reads them after the call: fresh memory would cost more than turning.
    turned = library.new(x.q, call.q_shape, call.out_type) if call.q_shape and call.stream_device >= 0 else None
    at_turned = library.address(turned) if turned is not None else _room.of(call.turned_bytes)
    if call.scaled:
        call.scales(q_scale, k_scale or k_row_scale, v_scale or v_row_scale)
    call.pages(block_table, seqlens_k, page_indices, page_indptr, cu_seqlens_q)
    call.new_tokens(k_new, v_new, at_turned, slots, positions, cos, sin)
    call.run(q, k, v, out or library.address(result), library.address(lse), bias, alibi, sink, cu_seqlens_q, cu_seqlens_k,
             library.stream(call.stream_device))  # fmt: skip
    library.wrote(x.k, x.v, x.out, *new[-2:])
    if call.repeats and library.kind == "torch" and (x.max_seqlen_q, x.max_seqlen_k) == (asked.max_seqlen_q, asked.max_seqlen_k):
        call.repeats -= 1
        outputs = (None if x.out is not None else library.output(WORD_OUT, 0, x.q, call.out_shape, call.out_type),
                   None if lse is None else library.output(WORD_LSE, 0, x.q, call.lse_shape, "fp32"),
                   None if turned is None else library.output(WORD_TURNED, 0, x.q, call.q_shape, call.out_type, True))  # fmt: skip
        arguments = (*given, *new, rotary_style)
        repeated.keep(conditions.now, arguments, call.appending(outputs, arguments))
    return (result, lse) if x.return_lse else result


class _Room(threading.local):
    """A thread's memory for turned queries, which grows to what the largest call needs."""

    def __init__(self) -> None:
        self._memory = ctypes.create_string_buffer(0)

    def of(self, size: int) -> int:
        if size > len(self._memory):
            self._memory = ctypes.create_string_buffer(size)
        return ctypes.addressof(self._memory) if size else 0


_room = _Room()


def _check_writable(*written: Any) -> None:
    for name, array in zip(("k", "v", "k_row_scale", "v_row_scale"), written):
        if array is not None and not array.flags.writeable:
            raise InvalidArgument(f"{name} is read-only, and new rows are written to it", "a writable array")

"""One attention-backward call as the C structure, like _attention_structure of the forward, whose structure it points to."""

from __future__ import annotations

import ctypes
import struct
from typing import Any, NamedTuple, Optional

from tilesmith import _attention_arguments as forward, _attention_structure as structure
from tilesmith._attention_call import POINTERS, POINTERS_AT
from tilesmith._candidates import entry
from tilesmith._errors import InvalidArgument, WrongType
from tilesmith._library import CUDA, Attention, AttentionGradients, raise_last_error, sized
from tilesmith._options import options_now
from tilesmith._views import View, broadcast, check_devices, dense_strides, flag, span

_DLSE, _DBIAS, _DALIBI, _DSINK = 1, 2, 4, 8
# In the order of the structure: eight tensors and the stream.
_POINTERS = struct.Struct("@9P")
_POINTERS_AT = AttentionGradients.dout.offset


class Tensors(NamedTuple):
    do: View
    q: View
    k: View
    v: View
    o: View
    lse: View
    bias: Optional[View] = None
    alibi: Optional[View] = None
    sink: Optional[View] = None
    cu_seqlens_q: Optional[View] = None
    cu_seqlens_k: Optional[View] = None
    dlse: Optional[View] = None


class Results(NamedTuple):
    """Where the gradients go: a view, None where it is not wanted."""

    dq: View
    dk: View
    dv: View
    dbias: Optional[View] = None
    dalibi: Optional[View] = None
    dsink: Optional[View] = None


class Wanted(NamedTuple):
    """Which gradients a call computes beside dq, dk and dv."""

    dbias: bool = False
    dalibi: bool = False
    dsink: bool = False


class Arguments(NamedTuple):
    """What `attention_backward` was called with, in the order in which it tells it to who serves the tensors."""

    do: Any
    q: Any
    k: Any
    v: Any
    o: Any
    lse: Any
    layout: Any
    causal: Any
    mask: Any
    window: Any
    scale: Any
    softcap: Any
    bias: Any
    alibi: Any
    sink: Any
    dropout_p: Any
    seed: Any
    cu_seqlens_q: Any
    cu_seqlens_k: Any
    max_seqlen_q: Any
    max_seqlen_k: Any
    diagonal: Any
    tf32: Any
    dlse: Any
    need_dbias: Any
    need_dalibi: Any
    need_dsink: Any
    dq: Any
    dk: Any
    dv: Any

    @property
    def tensors(self) -> tuple[Any, ...]:
        """In the order of Tensors."""
        return (self.do, self.q, self.k, self.v, self.o, self.lse, self.bias, self.alibi, self.sink, self.cu_seqlens_q,
                self.cu_seqlens_k, self.dlse)  # fmt: skip

    @property
    def options(self) -> forward.Options:
        return forward.Options(self.layout, self.causal, self.mask, forward.as_window(self.window), self.scale, self.softcap,
                               self.dropout_p, self.max_seqlen_q, self.max_seqlen_k, True, self.diagonal, self.tf32)  # fmt: skip


# Functions, not properties: torch.compile does not trace those of named tuples.


def wanted_of(x: Arguments) -> Wanted:
    """Errors: a gradient without the input that it belongs to."""
    for name, needed, tensor in (("bias", x.need_dbias, x.bias), ("alibi", x.need_dalibi, x.alibi), ("sink", x.need_dsink, x.sink)):
        if flag(f"need_d{name}", needed) and tensor is None:
            raise InvalidArgument(f"need_d{name} is set, and there is no {name}", f"{name}, or need_d{name}=False")
    return Wanted(bool(x.need_dbias), bool(x.need_dalibi), bool(x.need_dsink))


def seed_of(x: Arguments) -> int:
    """Of dropout. A call of attention backward draws none: it has that of the forward."""
    if x.seed is None:
        raise InvalidArgument(f"dropout_p is {x.dropout_p}, and there is no seed", "the seed of the call of attention")
    return forward.check_seed(x.seed)


class Call:
    """A prepared call. It belongs to the thread that made it: the structures are filled anew for each run."""

    __slots__ = ("_call", "_forward", "_address", "_compute", "_spans", "stream_device")

    def __init__(self, call: AttentionGradients, attention: Attention, spans: tuple[list[tuple[str, int]], list[tuple[str, int]]]) -> None:
        self._call = call
        self._forward = attention
        self._address = ctypes.addressof(call)
        self._compute = entry(self, "_compute", call.device.kind, "tilesmith_attention_backward_plan_for",
                              "tilesmith_attention_backward", "tilesmith_attention_backward_candidates")  # fmt: skip
        self._spans = spans
        self.stream_device = call.device.index if call.device.kind == CUDA else -1  #: whose stream; -1: none

    def run(self, inputs: tuple[int, ...], results: tuple[int, ...], seed: int, stream: int) -> None:
        """Runs on these addresses, in the orders of Tensors and Results; 0 is none."""
        do, q, k, v, o, lse, bias, alibi, sink, cu_seqlens_q, cu_seqlens_k, dlse = inputs
        POINTERS.pack_into(self._forward, POINTERS_AT, q, k, v, o, lse, bias, alibi, sink, cu_seqlens_q,
                                   cu_seqlens_k, 0)  # fmt: skip
        self._forward.seed = seed
        _POINTERS.pack_into(self._call, _POINTERS_AT, do, dlse, *results, stream)
        status = self._compute(None, self._address)
        if status:
            raise_last_error(status)

    def check_apart(self, inputs: tuple[int, ...], results: tuple[int, ...]) -> None:
        """For a caller's own dq, dk or dv: they are written while inputs and one another are still read and written."""
        read = [(name, begin, length) for (name, length), begin in zip(self._spans[0], inputs)]
        for (name, length), begin in zip(self._spans[1], results):
            for other, other_begin, other_length in read:
                if other_begin < begin + length and begin < other_begin + other_length:
                    raise InvalidArgument(f"{name} and {other} may share memory", "a result of its own")
            read.append((name, begin, length))


def prepare(tensors: Tensors, results: Results, options: forward.Options, threads: int = 0) -> Call:
    """Checks everything that can be checked without the data, and fills in the structures."""
    t = tensors
    if t.q.data_type in ("fp8", "bf8"):
        raise WrongType(f"q, k and v are {t.q.data_type}", "float32, float16 or bfloat16: float8 has no gradient")
    filled = structure.fill(forward.Tensors(t.q, t.k, t.v, t.bias, t.alibi, t.sink, cu_seqlens_q=t.cu_seqlens_q,
                                          cu_seqlens_k=t.cu_seqlens_k), options)  # fmt: skip
    check_devices((*Tensors._fields, *Results._fields), t.do, (*tensors, *results))
    attention, group = filled.call, bool(filled.call.mode)
    dims = structure.dims_of(options.layout, group)
    call = sized(AttentionGradients)
    call.forward = ctypes.pointer(attention)
    call.device = attention.device
    if (given := options_now(t.q.kind, threads)) is not None:
        call.options = ctypes.pointer(given)

    for name, view, shape in (("do", t.do, filled.out_shape), ("o", t.o, filled.out_shape), ("dq", results.dq, t.q.shape),
                              ("dk", results.dk, t.k.shape), ("dv", results.dv, t.v.shape)):  # fmt: skip
        _check(name, view, t.q.data_type, shape)
    call.dout_strides = structure.strides_of("do", t.do, dims)
    attention.o_strides = structure.strides_of("o", t.o, dims)
    call.dq_strides, call.dk_strides, call.dv_strides = (
        structure.strides_of(name, view, dims) for name, view in (("dq", results.dq), ("dk", results.dk), ("dv", results.dv)))  # fmt: skip
    _check("lse", t.lse, "fp32", filled.lse_shape)
    attention.lse_strides = _row_strides(t.lse)
    if t.dlse is not None:
        _check("dlse", t.dlse, "fp32", filled.lse_shape)
        call.traits |= _DLSE
        call.dlse_strides = _row_strides(t.dlse)
    if results.dbias is not None:
        call.traits |= _DBIAS
        full = (attention.batch, attention.heads_q, attention.seqlen_q, attention.seqlen_k)
        call.dbias_strides = broadcast("dbias", results.dbias, "(batch, heads_q, seqlen_q, seqlen_k)", full)
    if results.dalibi is not None:
        call.traits |= _DALIBI
        call.dalibi_batch_stride = attention.heads_q if len(results.dalibi.shape) == 2 else 0
    if results.dsink is not None:
        call.traits |= _DSINK
    return Call(call, attention, (_spans(tensors), _spans(results)))


def _check(name: str, view: View, data_type: str, shape: tuple[int, ...]) -> None:
    if view.data_type != data_type:
        raise WrongType(f"{name} is {view.data_type}", {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}[data_type])
    if view.shape != shape:
        raise InvalidArgument(f"{name} has the shape {view.shape}", str(shape))


def _row_strides(view: View) -> tuple[int, ...]:
    """Of a log-sum-exp: (batch, heads, rows), or (heads, rows)."""
    strides = view.strides if 0 not in view.shape else dense_strides(view.shape)
    return (0,) * (3 - len(strides)) + strides


def _spans(views: Any) -> list[tuple[str, int]]:
    return [(name, 0 if view is None else span(view)) for name, view in zip(views._fields, views)]

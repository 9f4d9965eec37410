"""One attention call, prepared: the C structure of what its tensors look like, checked, and what runs it.

The tensor libraries (_numpy, _torch, _dlpack) describe tensors as views and keep what `prepare` makes for each distinct
description; a repeated call then stores its pointers and runs.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Optional

from tilesmith._attention_arguments import Arguments, Options, Tensors
from tilesmith._attention_structure import fill
from tilesmith._candidates import entry
from tilesmith._errors import InvalidArgument
from tilesmith._library import CPU, CUDA, Attention, raise_last_error
from tilesmith._options import options_now
from tilesmith._repeated import TIMES_KEPT, Output, Repetition
from tilesmith._views import span

# In the order of the structure: ten tensors and the stream.
POINTERS = struct.Struct("@11P")
POINTERS_AT = Attention.q.offset


class Call:
    """A prepared call. It belongs to the thread that made it: the structure is filled anew for each run."""

    __slots__ = ("_call", "_address", "_forward", "_inputs", "_listed_pages", "_out_span", "out_shape", "out_type", "same_type",
                 "lse_shape", "stream_device", "scaled", "paged", "repeats")  # fmt: skip

    def __init__(self, call: Attention, tensors: Tensors, out_shape: tuple[int, ...], out_type: str,
                 lse_shape: tuple[int, ...]) -> None:  # fmt: skip
        self._call = call
        self._address = ctypes.addressof(call)
        self._forward = entry(self, "_forward", call.device.kind, "tilesmith_attention_plan_for",
                              "tilesmith_attention_forward", "tilesmith_attention_candidates")  # fmt: skip
        #: of the inputs there are: name, position in Tensors, bytes
        self._inputs = [(name, at, span(view)) for at, (name, view) in enumerate(zip(Tensors._fields, tensors[:-1]))
                        if view is not None]  # fmt: skip
        self._out_span = 0 if tensors.out is None else span(tensors.out)
        self.out_shape = out_shape
        self.out_type = out_type
        self.same_type = out_type == tensors.q.data_type
        pages = tensors.page_indices
        self._listed_pages = -1 if pages is None or pages.kind != CPU else pages.shape[0]  #: -1: no list that can be read
        self.lse_shape = lse_shape  #: () when no log-sum-exp is wanted
        self.stream_device = call.device.index if call.device.kind == CUDA else -1  #: whose stream; -1: none
        #: whether `scales` is to be called before each run
        self.scaled = any(view is not None for view in (tensors.q_scale, tensors.k_scale, tensors.v_scale))
        self.paged = call.page_size != 0  #: whether `pages` is to be called before each run
        #: How often it is still told to repeated calls: not where the host reads numbers of the pages, or draws a seed.
        self.repeats = TIMES_KEPT if self._listed_pages < 0 and not call.dropout_probability else 0

    def repetition(self, out: Optional[Output], lse: Optional[Output]) -> Repetition:
        """What it does with Arguments. out, lse: how the results are made, where they are none of the arguments and wanted."""
        given = {_TENSORS[at] for _, at, _ in self._inputs} | ({_OUT} if out is None else set())
        pointers = [(at, word) for at, word in _WORDS if at in given]
        apart = [(_OUT, self._out_span), *((_TENSORS[at], span) for _, at, span in self._inputs)] if out is None else []
        stream = ((self.stream_device, _STREAM),) if self.stream_device >= 0 else ()
        return Repetition("attention", self._call, tuple(pointers), (), stream, _OUT if out is None else -1,
                          tuple(each for each in (out, lse) if each is not None), apart=tuple(each for span in apart for each in span))  # fmt: skip

    def run(self, q: int, k: int, v: int, out: int, lse: int, bias: int, alibi: int, sink: int, cu_seqlens_q: int,
            cu_seqlens_k: int, stream: int) -> None:  # fmt: skip
        """Runs on these addresses, and on those `scales` was given; 0 is none."""
        POINTERS.pack_into(self._call, POINTERS_AT, q, k, v, out, lse, bias, alibi, sink, cu_seqlens_q, cu_seqlens_k,
                            stream)  # fmt: skip
        status = self._forward(None, self._address)
        if status:
            raise_last_error(status)

    def check_apart(self, *addresses: int) -> None:
        """An output must not lie on an input: rows are written while others are still read. Takes the addresses of all
        tensors, the caller's output last."""
        first = addresses[-1]
        last = first + self._out_span
        for name, at, span in self._inputs:
            begin = addresses[at]
            if begin < last and first < begin + span:
                raise InvalidArgument(f"out and {name} may share memory", "an output of its own")

    def seed(self, value: int) -> None:
        self._call.seed = value

    def scales(self, q: int, k: int, v: int) -> None:
        """Addresses of the scales. They lie apart from the other pointers, so that calls without any do not store them."""
        call = self._call
        call.q_scale.data, call.k_scale.data, call.v_scale.data = q, k, v

    def pages(self, block_table: int, seqlens_k: int, page_indices: int, page_indptr: int, cu_seqlens_q: int) -> None:
        """Addresses of what says where keys lie, apart from the other pointers as `scales` is."""
        call = self._call
        if self._listed_pages >= 0 and seqlens_k and page_indptr:
            self._check_list(seqlens_k, page_indptr, cu_seqlens_q)
        call.seqlens_k, call.page_numbers, call.page_offsets = seqlens_k, block_table or page_indices, page_indptr

    def _check_list(self, seqlens_k: int, page_indptr: int, cu_seqlens_q: int) -> None:
        """The library knows where a sequence's pages begin in their list, and not where the list ends."""
        call, count = self._call, self._call.batch
        numbers = ctypes.c_int32 * count
        lengths, begins = numbers.from_address(seqlens_k)[:], numbers.from_address(page_indptr)[:]
        offsets = (ctypes.c_int32 * (count + 1)).from_address(cu_seqlens_q)[:] if cu_seqlens_q else None
        for b, (length, begin) in enumerate(zip(lengths, begins)):
            if begin + (length - 1) // call.page_size >= self._listed_pages and length > 0:
                if offsets is not None and offsets[b] == offsets[b + 1]:  # without queries nothing is read
                    continue
                raise InvalidArgument(f"sequence {b} has {length} keys in pages of {call.page_size}, its pages begin at entry {begin} of "
                                      f"page_indices, and there are {self._listed_pages}", "an entry for each page")  # fmt: skip


#: Letters of the arguments, as of RepeatedCalls.
KINDS = "".join("t" if name in Tensors._fields else "o" for name in Arguments._fields)
WORD_OUT, WORD_LSE, _STREAM = Attention.o.offset // 8, Attention.lse.offset // 8, Attention.stream.offset // 8
_TENSORS = tuple(map(Arguments._fields.index, Tensors._fields))
_OUT = Arguments._fields.index("out")


def _words(**names: str) -> tuple[tuple[int, int], ...]:
    """Of arguments and where their addresses go."""
    return tuple((Arguments._fields.index(name), getattr(Attention, field).offset // 8) for name, field in names.items())


_WORDS = _words(q="q", k="k", v="v", out="o", bias="bias", alibi="alibi", sink="sink", cu_seqlens_q="cu_seqlens_q", cu_seqlens_k="cu_seqlens_k", q_scale="q_scale",
                k_scale="k_scale", v_scale="v_scale", seqlens_k="seqlens_k", block_table="page_numbers", page_indices="page_numbers", page_indptr="page_offsets")  # fmt: skip


def prepare(tensors: Tensors, options: Options, threads: int = 0) -> Call:
    """Checks everything that can be checked without the data, and fills in the structure. `threads`: as of options_now."""
    filled = fill(tensors, options)
    if (given := options_now(tensors.q.kind, threads)) is not None:
        filled.call.options = ctypes.pointer(given)
    return Call(filled.call, tensors, filled.out_shape, filled.out_type, filled.lse_shape)

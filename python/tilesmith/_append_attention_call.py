"""One attention call that writes its new keys and values first, as the C structure: attention's own, and behind it what is new."""

from __future__ import annotations

import ctypes
import math
import struct
from typing import Any, NamedTuple, Optional, Sequence

from tilesmith._append_call import check_integers, check_row_scale, set_rotary
from tilesmith._attention_arguments import Arguments, Options, Tensors
from tilesmith._attention_call import KINDS, Call
from tilesmith._attention_structure import dims_of, fill, strides_of
from tilesmith._errors import InvalidArgument, WrongType
from tilesmith._library import Attention
from tilesmith._options import options_now
from tilesmith._repeated import Output, Repetition
from tilesmith._views import BYTES, View, check_devices, dense_strides

_APPEND = 512
_CHOOSE_K_SCALE, _CHOOSE_V_SCALE = 1, 2
_NEW = struct.Struct("@3P")  # k_new, v_new, q_out
_TABLES = struct.Struct("@5P")  # slots, positions, seqlens_before, rotary_cos, rotary_sin


class NewTensors(NamedTuple):
    k_new: Optional[View]
    v_new: Optional[View]
    rotary_cos: Optional[View]
    rotary_sin: Optional[View]
    positions: Optional[View]
    slots: Optional[View]
    k_row_scale: Optional[View]
    v_row_scale: Optional[View]


class AppendAttentionCall(Call):
    """Belongs to the thread that made it: the structure is filled anew for each run."""

    __slots__ = ("q_shape", "turned_bytes")

    def __init__(self, call: Attention, tensors: Tensors, out_shape: tuple[int, ...], out_type: str, lse_shape: tuple[int, ...]) -> None:
        super().__init__(call, tensors, out_shape, out_type, lse_shape)
        self.q_shape = tensors.q.shape if call.rotary_dim else ()  #: of the queries that are turned; () where none are
        self.turned_bytes = math.prod(self.q_shape) * BYTES[tensors.q.data_type] if self.q_shape else 0
        if self.turned_bytes and self.stream_device < 0:  # in a thread's memory
            self.repeats = 0

    def appending(self, outputs: Sequence[Optional[Output]], given: Sequence[Any]) -> Repetition:
        """What it does with the arguments of attention, the new tensors and the style, in this order. outputs: how the result, its log-sum-exp
        and the memory of turned queries are made, where they are."""
        out, lse, turned = outputs
        attention = self.repetition(out, lse)
        pointers = [place for place in attention.pointers if place[1] not in _CHOSEN]
        pointers += [(at, word) for at, word in _NEW_WORDS if given[at] is not None]
        return attention._replace(pointers=tuple(pointers), outputs=attention.outputs if turned is None else (*attention.outputs, turned))

    def new_tokens(self, k_new: int, v_new: int, turned: int, slots: int, positions: int, cos: int, sin: int) -> None:
        """Addresses of what is new, and of where turned queries go."""
        call = self._call
        _NEW.pack_into(call, Attention.k_new.offset, k_new, v_new, turned)
        _TABLES.pack_into(call, Attention.slots.offset, slots, positions, 0, cos, sin)


_FIELDS = (*Arguments._fields, *NewTensors._fields)
#: Letters of the arguments, as of RepeatedCalls.
APPEND_KINDS = KINDS + "t" * len(NewTensors._fields) + "o"
WORD_TURNED = Attention.q_out.offset // 8
_CHOSEN = (Attention.k_scale.offset // 8, Attention.v_scale.offset // 8)
_NEW_WORDS = tuple(
    (_FIELDS.index(name), getattr(Attention, field).offset // 8)
    for name, field in (("k_new", "k_new"), ("v_new", "v_new"), ("slots", "slots"), ("positions", "positions"), ("rotary_cos", "rotary_cos"),
                        ("rotary_sin", "rotary_sin"), ("k_scale", "k_scale"), ("v_scale", "v_scale"), ("k_row_scale", "k_scale"),
                        ("v_row_scale", "v_scale")))  # fmt: skip


def prepare_append_attention(tensors: Tensors, new: NewTensors, options: Options, rotary_style: str, threads: int) -> AppendAttentionCall:
    """Checks everything that can be checked without the data, and fills in the structure. `threads`: as of options_now."""
    if tensors.seqlens_k is None:
        raise InvalidArgument("k_new is given without seqlens_k", "seqlens_k: the keys of each sequence in the cache, the new ones included")
    for name in ("k", "v"):
        if getattr(new, f"{name}_row_scale") is None:
            continue
        if tensors.k.data_type not in ("fp8", "int8"):
            raise InvalidArgument(f"{name}_row_scale is given, and the cache is {tensors.k.data_type}", "a cache of float8_e4m3fn or int8")
        if getattr(tensors, f"{name}_scale") is not None:
            raise InvalidArgument(f"{name}_scale and {name}_row_scale are given", "one of both: a scale that is read, or one that the call chooses")
    # What the call chooses it reads too.
    scaled = tensors._replace(k_scale=new.k_row_scale or tensors.k_scale, v_scale=new.v_row_scale or tensors.v_scale)
    call, out_shape, out_type, lse_shape = fill(scaled, options)
    given = {name: view for name, view in new._asdict().items() if view is not None}
    check_devices(("q", *given), tensors.q, (tensors.q, *given.values()))
    if tensors.q.data_type not in ("fp32", "fp16", "bf16"):
        raise WrongType(f"q is {tensors.q.data_type}, and new keys are given", "float32, float16 or bfloat16")
    call.traits |= _APPEND
    dims = dims_of(options.layout, call.mode == 1)
    for name, dim in (("k_new", call.head_dim_qk), ("v_new", call.head_dim_v)):
        view = given.get(name)
        if view is None:
            raise WrongType(f"{name} is None", "a tensor, as the other of k_new and v_new is")
        shape = list(tensors.q.shape)
        shape[dims.head], shape[-1] = call.heads_kv, dim
        if view.shape != tuple(shape):
            raise InvalidArgument(f"{name} has the shape {view.shape}", f"{tuple(shape)}: a head of keys or values for each of q's tokens")
        if view.data_type != tensors.q.data_type:
            raise WrongType(f"{name} is {view.data_type}, q {tensors.q.data_type}", "one data type for q, k_new and v_new")
        setattr(call, f"{name}_strides", strides_of(name, view, dims))
    tokens = call.total_q if call.mode == 1 else call.batch * call.seqlen_q
    for name in ("slots", "positions"):
        if (view := given.get(name)) is not None:
            check_integers(name, view, "int64", tokens)
    set_rotary(call, new.rotary_cos, new.rotary_sin, rotary_style)
    if call.rotary_dim:
        turned = tensors.q._replace(strides=dense_strides(tensors.q.shape))
        call.q_out_strides = strides_of("q", turned, dims)
    for name, chosen in (("k_row_scale", _CHOOSE_K_SCALE), ("v_row_scale", _CHOOSE_V_SCALE)):
        if (view := given.get(name)) is not None:
            check_row_scale(call, name, view, options.kv_layout)
            call.chosen_scales |= chosen
    if (now := options_now(tensors.q.kind, threads)) is not None:
        call.options = ctypes.pointer(now)
    return AppendAttentionCall(call, scaled, out_shape, out_type, lse_shape)

"""The C structure of an attention call, filled from what the tensors look like and checked; it lacks only its pointers."""

from __future__ import annotations

import math
from typing import NamedTuple, Optional

from tilesmith import _nvrtc
from tilesmith._attention_arguments import Options, Tensors
from tilesmith._errors import InvalidArgument, WrongType
from tilesmith._library import CUDA, Attention, sized
from tilesmith._page_views import rows_of_vectors, scale_by_pages
from tilesmith._views import View, broadcast, check_cache, check_devices, dense_strides, flag, number, one_of, shown, whole

_INPUT_CODES = {"fp32": 0, "fp16": 1, "bf16": 2, "fp8": 3, "bf8": 4}
# fp8 inputs have outputs of another type; the type of `out` chooses, bf16 when there is none.
_FP8_CODES = {"fp16": 10, "bf16": 11, "fp32": 12}
_TF32 = 8
_MASKS = {"none": 0, "top_left": 1, "bottom_right": 2}
_CACHES = {"fp8": 1, "int8": 2}  #: elements of keys and values beside queries of 16 or 32 bits
_SOFT_CAP, _SINK, _DROPOUT, _LSE, _BLOCK_SCALE, _PAGE_SCALE, _LATENT, _BATCH_INVARIANT, _VECTORIZED_PAGES = 1, 2, 4, 8, 16, 32, 64, 128, 256
_ELEMENTWISE, _ALIBI = 1, 2
_SCALE_BLOCK = 128


class Filled(NamedTuple):
    call: Attention  #: without its pointers and options
    out_shape: tuple[int, ...]
    out_type: str
    lse_shape: tuple[int, ...]  #: () when no log-sum-exp is wanted


def fill(tensors: Tensors, options: Options) -> Filled:
    """The structure of a call, checked."""
    call = sized(Attention)
    group = _set_mode(call, tensors)
    dims = dims_of(options.layout, group)
    paged = _set_pages(call, tensors, options)
    dims_k = _CACHE_DIMS[one_of("kv_layout", options.kv_layout, tuple(_CACHE_DIMS))] if paged else dims
    if paged and options.kv_layout == "vectorized":
        call.traits |= _VECTORIZED_PAGES
        tensors = tensors._replace(k=rows_of_vectors("k", tensors.k, True), v=rows_of_vectors("v", tensors.v, False))
    _set_shape(call, tensors, dims, dims_k, options, group)
    if paged:
        _set_lengths(call, tensors, dims_k, options)
    out_type = _set_data_type(call, tensors)
    if flag("tf32", options.tf32):
        if tensors.q.data_type != "fp32":
            raise InvalidArgument(f"tf32 is set, and q is {tensors.q.data_type}", "float32")
        call.data_type = _TF32
    _set_mask(call, options)
    call.device.kind, call.device.index = tensors.q.kind, tensors.q.index
    check_devices(tensors._fields, tensors.q, tensors)
    if tensors.q.kind == CUDA:
        _nvrtc.find()
    call.q_strides, call.k_strides, call.v_strides = (
        strides_of(name, getattr(tensors, name), d) for name, d in (("q", dims), ("k", dims_k), ("v", dims_k)))  # fmt: skip
    out_shape = _like(tensors.q.shape, dims, tensors.v.shape[-1])
    _set_out(call, tensors.out, out_shape, dims)
    _set_numbers(call, options)
    _set_optional(call, tensors, group)
    _set_scales(call, tensors, options)
    if (splits := whole("num_splits", options.num_splits)) < 0:
        raise InvalidArgument(f"num_splits is {splits}", "a number of pieces, or 0 for a model's")
    call.splits = splits
    if flag("batch_invariant", options.batch_invariant):
        call.traits |= _BATCH_INVARIANT
    if options.latent:
        call.traits |= _LATENT
    lse_shape: tuple[int, ...] = ()
    if flag("return_lse", options.return_lse):
        call.traits |= _LSE
        rows = call.total_q if group else call.seqlen_q
        lse_shape = (call.heads_q, rows) if group else (call.batch, call.heads_q, rows)
        call.lse_strides.batch, call.lse_strides.head, call.lse_strides.row = call.heads_q * rows, rows, 1
    return Filled(call, out_shape, out_type, lse_shape)


class Dims(NamedTuple):
    """Which dimension of a tensor is which."""

    rank: int
    batch: Optional[int]
    head: int
    row: int
    text: str


_DIMS = {
    ("bhsd", False): Dims(4, 0, 1, 2, "(batch, heads, seqlen, dim)"),
    ("bshd", False): Dims(4, 0, 2, 1, "(batch, seqlen, heads, dim)"),
    ("bhsd", True): Dims(3, None, 0, 1, "(heads, total, dim)"),
    ("bshd", True): Dims(3, None, 1, 0, "(total, heads, dim)"),
}


#: of caches; their first dimension are pages
_CACHE_DIMS = {
    "hnd": Dims(4, 0, 1, 2, "(pages, heads, page size, dim)"),
    "nhd": Dims(4, 0, 2, 1, "(pages, page size, heads, dim)"),
    "vectorized": Dims(4, 0, 1, 2, "(pages, heads, page size, dim)"),
}


def dims_of(layout: str, group: bool) -> Dims:
    return _DIMS[one_of("layout", layout, ("bhsd", "bshd")), group]


def _set_mode(call: Attention, tensors: Tensors) -> bool:
    if tensors.seqlens_k is not None:
        if tensors.cu_seqlens_k is not None:
            raise InvalidArgument("cu_seqlens_k and seqlens_k are given", "seqlens_k alone for keys in a cache")
    elif (tensors.cu_seqlens_q is None) != (tensors.cu_seqlens_k is None):
        raise InvalidArgument("one of cu_seqlens_q and cu_seqlens_k is given", "both (variable lengths) or neither")
    call.mode = int(tensors.cu_seqlens_q is not None)
    return bool(call.mode)


def _set_pages(call: Attention, tensors: Tensors, options: Options) -> bool:
    """Whether keys lie in a cache: of pages, or of sequences with lengths of their own."""
    table, indices, indptr = tensors.block_table, tensors.page_indices, tensors.page_indptr
    if tensors.seqlens_k is None:
        for name in ("block_table", "page_indices", "page_indptr"):
            if getattr(tensors, name) is not None:
                raise InvalidArgument(f"{name} is given without seqlens_k", "seqlens_k: the keys of each sequence")
        return False
    if table is not None and (indices is not None or indptr is not None):
        raise InvalidArgument("block_table and page_indices are given", "a table, or a list with page_indptr")
    if (indices is None) != (indptr is None):
        raise InvalidArgument("one of page_indices and page_indptr is given", "both, or a block_table")
    for name, rank in (("block_table", 2), ("seqlens_k", 1), ("page_indices", 1), ("page_indptr", 1)):
        view = getattr(tensors, name)
        if view is None:
            continue
        if view.data_type != "int32" or len(view.shape) != rank or (view.strides[-1] != 1 and view.shape[-1] > 1 and 0 not in view.shape):
            raise WrongType(f"{name} has the type {view.data_type}, the shape {view.shape} and the strides {view.strides}",
                            f"int32, {rank} dimension{'s' * (rank > 1)}, the last one contiguous")  # fmt: skip
    return True


def _set_lengths(call: Attention, tensors: Tensors, dims: Dims, options: Options) -> None:
    """The sizes of a cache."""
    table, lengths, indptr = tensors.block_table, tensors.seqlens_k, tensors.page_indptr
    call.num_pages, call.page_size = tensors.k.shape[dims.batch or 0], tensors.k.shape[dims.row]
    if call.page_size == 0:
        raise InvalidArgument(f"k has the shape {tensors.k.shape}: its pages have no rows", dims.text)
    assert lengths is not None
    if lengths.shape != (call.batch,):
        raise InvalidArgument(f"seqlens_k has the shape {lengths.shape}", f"({call.batch},): (batch,)")
    longest = call.page_size
    if table is not None:
        if table.shape[0] != call.batch:
            raise InvalidArgument(f"block_table has the shape {table.shape}", f"({call.batch}, pages of the longest)")
        call.page_stride = table.strides[0] if table.shape[0] > 1 else table.shape[1]
        longest = table.shape[1] * call.page_size
    if indptr is not None and indptr.shape[0] not in (call.batch, call.batch + 1):
        raise InvalidArgument(f"page_indptr has the shape {indptr.shape}", f"({call.batch + 1},): (batch + 1,)")
    if options.max_seqlen_k is not None:
        given = whole("max_seqlen_k", options.max_seqlen_k)
        if given > longest and indptr is None:
            raise InvalidArgument(f"max_seqlen_k is {given}, and the cache holds {longest} keys of a sequence",
                                  f"at most {longest}")  # fmt: skip
        longest = given
    elif indptr is not None:
        raise InvalidArgument("page_indptr is given without max_seqlen_k", "max_seqlen_k: a bound of seqlens_k")
    call.seqlen_k = longest


def _set_shape(call: Attention, tensors: Tensors, dims: Dims, dims_k: Dims, options: Options, group: bool) -> None:
    paged = tensors.seqlens_k is not None
    for name, wanted in (("q", dims), ("k", dims_k), ("v", dims_k)):
        shape = getattr(tensors, name).shape
        if paged and name != "q":
            check_cache(name, shape, wanted.text)
        elif len(shape) != wanted.rank:
            hint = wanted.text if group else f"{wanted.text}; variable lengths need cu_seqlens_q and cu_seqlens_k"
            raise InvalidArgument(f"{name} has the shape {shape}", hint)
    q, k, v = tensors.q.shape, tensors.k.shape, tensors.v.shape
    if k[:-1] != v[:-1]:
        raise InvalidArgument(f"k has the shape {k}, v {v}", "the same, but for the head dim")
    if q[-1] != k[-1]:
        raise InvalidArgument(f"the head dim of q is {q[-1]}, of k {k[-1]}", "the same")
    call.heads_q, call.heads_kv, call.head_dim_qk, call.head_dim_v = q[dims.head], k[dims_k.head], q[-1], v[-1]
    offsets_q, offsets_k = tensors.cu_seqlens_q, tensors.cu_seqlens_k
    if offsets_q is not None:
        for name, offsets in (("cu_seqlens_q", offsets_q), ("cu_seqlens_k", offsets_k)):
            if offsets is None:
                continue
            if offsets.data_type != "int32" or len(offsets.shape) != 1 or offsets.strides[0] != 1:
                raise WrongType(f"{name} has the type {offsets.data_type}, the shape {offsets.shape} and the strides "
                                f"{offsets.strides}", "int32, one contiguous dimension, batch + 1 offsets")  # fmt: skip
        length_k = offsets_q.shape[0] if offsets_k is None else offsets_k.shape[0]
        if offsets_q.shape[0] != length_k or offsets_q.shape[0] < 1:
            raise InvalidArgument(f"cu_seqlens_q has {offsets_q.shape[0]} offsets, cu_seqlens_k {length_k}",
                                  "batch + 1 each")  # fmt: skip
        call.batch = offsets_q.shape[0] - 1
        call.total_q = q[dims.row]
        call.seqlen_q = whole("max_seqlen_q", options.max_seqlen_q)
        if not paged:
            call.total_k = k[dims.row]
            call.seqlen_k = whole("max_seqlen_k", options.max_seqlen_k)
        return
    batch, batch_k = q[dims.batch or 0], k[dims.batch or 0]
    if batch != batch_k and not paged:
        raise InvalidArgument(f"the batch of q is {batch}, of k and v {batch_k}", "the same")
    for name in ("max_seqlen_q",) if paged else ("max_seqlen_q", "max_seqlen_k"):
        if getattr(options, name) is not None:
            raise InvalidArgument(f"{name} is given without cu_seqlens", "with variable lengths only")
    call.batch, call.seqlen_q, call.seqlen_k = batch, q[dims.row], k[dims_k.row]


def _set_data_type(call: Attention, tensors: Tensors) -> str:
    data_type = tensors.q.data_type
    if data_type in ("fp32", "fp16", "bf16"):
        call.cache = _CACHES.get(tensors.k.data_type, 0)
    if call.cache and tensors.v.data_type != tensors.k.data_type:
        raise WrongType(f"k is {tensors.k.data_type}, v is {tensors.v.data_type}", "one data type for k and v")
    for name in () if call.cache else ("k", "v"):
        if (other := getattr(tensors, name).data_type) != data_type:
            raise WrongType(f"q is {data_type}, {name} is {other}",
                            "one data type for q, k and v, or k and v of float8 (e4m3) or int8 beside a wider q")  # fmt: skip
    if data_type not in _INPUT_CODES:
        raise WrongType(f"q, k and v are {data_type}", "float32, float16, bfloat16, or float8 (e4m3)")
    out_type = data_type if data_type not in ("fp8", "bf8") else "bf16"
    if tensors.out is not None and tensors.out.data_type != out_type:
        if data_type != "fp8" or tensors.out.data_type not in _FP8_CODES:
            raise WrongType(f"out is {tensors.out.data_type}", out_type)
        out_type = tensors.out.data_type
    call.data_type = _FP8_CODES[out_type] if data_type == "fp8" else _INPUT_CODES[data_type]
    return out_type


def _set_mask(call: Attention, options: Options) -> None:
    one_of("mask", options.mask, _MASKS)
    if flag("causal", options.causal) and options.mask == "top_left":
        raise InvalidArgument("causal=True is mask='bottom_right', and mask is 'top_left'", "one of the two")
    call.mask = _MASKS["bottom_right" if options.causal else options.mask]
    window = [whole("a bound of the window", bound) for bound in options.window]
    if len(window) != 2 or not all(-1 <= bound < 1 << 62 for bound in window):
        raise InvalidArgument(f"window is {shown(options.window)}", "(left, right), bounds of 0 or more, or -1 for none")
    call.window_left, call.window_right = window
    call.diagonal = whole("diagonal", options.diagonal)


def strides_of(name: str, view: View, dims: Dims) -> tuple[int, int, int]:
    if 0 in view.shape:  # no element has a place, and libraries write what they like here
        view = view._replace(strides=dense_strides(view.shape))
    if view.strides[-1] != 1 and view.shape[-1] > 1:
        raise InvalidArgument(f"{name} has the strides {view.strides}", "a contiguous head dim, the last one")
    return (0 if dims.batch is None else view.strides[dims.batch], view.strides[dims.head], view.strides[dims.row])


def _like(shape: tuple[int, ...], dims: Dims, head_dim: int) -> tuple[int, ...]:
    return (*shape[: dims.rank - 1], head_dim)


def _set_out(call: Attention, out: Optional[View], shape: tuple[int, ...], dims: Dims) -> None:
    if out is None:
        out = View("", shape, dense_strides(shape), 0, 0)
    elif out.shape != shape:
        raise InvalidArgument(f"out has the shape {out.shape}", str(shape))
    call.o_strides = strides_of("out", out, dims)


def _set_numbers(call: Attention, options: Options) -> None:
    default = 1 / math.sqrt(max(call.head_dim_qk, 1))
    call.scale = default if options.scale is None else number("scale", options.scale)
    softcap, dropout_p = number("softcap", options.softcap), number("dropout_p", options.dropout_p)
    if not 0 <= softcap < math.inf:
        raise InvalidArgument(f"softcap is {softcap}", "a positive number, or 0 for none")
    if softcap != 0:
        call.traits |= _SOFT_CAP
        call.soft_cap = softcap
    if not 0 <= dropout_p < 1:
        raise InvalidArgument(f"dropout_p is {dropout_p}", "0 or more, below 1")
    if dropout_p > 0:
        call.traits |= _DROPOUT
        call.dropout_probability = dropout_p


def _set_optional(call: Attention, tensors: Tensors, group: bool) -> None:
    for name in ("bias", "alibi", "sink", "q_scale", "k_scale", "v_scale"):
        view = getattr(tensors, name)
        if view is not None and view.data_type != "fp32":
            raise WrongType(f"{name} is {view.data_type}", "float32")
    if tensors.bias is not None and tensors.alibi is not None:
        raise InvalidArgument("bias and alibi are given", "one of the two; ALiBi can be written into the bias")
    if (bias := tensors.bias) is not None:
        full = (call.batch, call.heads_q, call.seqlen_q, call.seqlen_k)
        call.bias_kind = _ELEMENTWISE
        call.bias_strides = broadcast("bias", bias, "(batch, heads_q, seqlen_q, seqlen_k)", full)
    if (alibi := tensors.alibi) is not None:
        if alibi.shape not in ((call.heads_q,), (call.batch, call.heads_q)) or alibi.strides[-1] != 1:
            raise InvalidArgument(f"alibi has the shape {alibi.shape} and the strides {alibi.strides}",
                                  f"({call.heads_q},) or ({call.batch}, {call.heads_q}), the last one contiguous")  # fmt: skip
        call.bias_kind = _ALIBI
        call.alibi_batch_stride = alibi.strides[0] if len(alibi.shape) == 2 else 0
    if (sink := tensors.sink) is not None:
        if sink.shape != (call.heads_q,) or sink.strides != (1,):
            raise InvalidArgument(f"sink has the shape {sink.shape} and the strides {sink.strides}",
                                  f"({call.heads_q},), contiguous")  # fmt: skip
        call.traits |= _SINK


def _set_scales(call: Attention, tensors: Tensors, options: Options) -> None:
    fp8 = tensors.q.data_type == "fp8"
    for name, heads, seqlen in (("q_scale", "heads_q", "seqlen_q"), ("k_scale", "heads_kv", "seqlen_k"),
                                ("v_scale", "heads_kv", "seqlen_k")):  # fmt: skip
        if (view := getattr(tensors, name)) is None:
            continue
        if not fp8 and (name == "q_scale" or not call.cache):
            raise InvalidArgument(f"{name} is given, and q, k and v are {tensors.q.data_type}",
                                  "no scales, or float8 (e4m3) tensors, or k and v of float8 or int8")  # fmt: skip
        scale = getattr(call, name)
        if call.cache and len(view.shape) > 2:
            _set_page_scale(call, name, view, options.kv_layout)
            continue
        full: tuple[int, ...] = (call.batch, getattr(call, heads))
        text = f"(batch, {heads})"
        if len(view.shape) > 2:
            full += (-(-getattr(call, seqlen) // _SCALE_BLOCK),)
            text = f"(batch, {heads}, {seqlen} / {_SCALE_BLOCK} rounded up)"
        scale.batch, scale.head, *block = broadcast(name, view, text, full)
        if any(block):  # a scale that every block shares does not need a kernel that looks for more
            scale.block = block[0]
            call.traits |= _BLOCK_SCALE
    if call.traits & _PAGE_SCALE:
        for name in ("k_scale", "v_scale"):
            if (view := getattr(tensors, name)) is not None and len(view.shape) <= 2 and math.prod(view.shape) > 1:
                raise InvalidArgument(f"{name} has the shape {view.shape}, the other scale is one of pages",
                                      "both by sequence and head, or both by page")  # fmt: skip


def _set_page_scale(call: Attention, name: str, view: View, kv_layout: str) -> None:
    """A scale that lies beside the pages of a cache, a number for each row or page."""
    if call.page_size == 0:
        raise InvalidArgument(f"{name} has the shape {view.shape}, and keys do not lie in pages",
                              "(batch, heads_kv), dimensions of 1 broadcast")  # fmt: skip
    scale = getattr(call, name)
    scale.batch, scale.head, scale.block = scale_by_pages(name, view, kv_layout, call.num_pages, call.heads_kv, call.page_size)
    call.traits |= _PAGE_SCALE

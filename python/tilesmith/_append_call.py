"""One call of append_kv as the C structure, kept for repeated calls: from what the tensors look like to a structure that lacks
only its pointers, and checks of what the tensors hold, on the CPU."""

from __future__ import annotations

import ctypes
import struct
from typing import Any, Iterator, NamedTuple, Optional, Sequence, Union

from tilesmith._errors import InvalidArgument, WrongType
from tilesmith._library import CPU, CUDA, Attention, KvAppend, Strides, library, raise_last_error, sized
from tilesmith._serving_dims import CODES, dims_of, strides_of
from tilesmith._page_views import rows_of_vectors, scale_by_pages
from tilesmith._views import View, check_cache, check_devices, dense_strides, one_of, shown

_CACHES = {"fp8": 1, "int8": 2}  #: others are as k
_STYLES = {"half": 0, "interleaved": 1}
_CACHES_AS = {"nhd": "bshd", "hnd": "bhsd", "vectorized": "bhsd"}  #: the layout that has heads and rows in the same places
_PAGE_SCALE, _VECTORIZED_PAGES, _LENGTHS_AFTER = 32, 256, 1024
# In the order of the structure: all pointers but the scales' and the stream.
_POINTERS = struct.Struct("@14P")
_POINTERS_AT = KvAppend.q.offset


class AppendTensors(NamedTuple):
    k: Optional[View]
    v: Optional[View]
    k_cache: Optional[View]
    v_cache: Optional[View]
    seqlens_k: Optional[View]
    block_table: Optional[View]
    page_indices: Optional[View]
    page_indptr: Optional[View]
    slots: Optional[View]
    cu_seqlens: Optional[View]
    q: Optional[View]
    rotary_cos: Optional[View]
    rotary_sin: Optional[View]
    positions: Optional[View]
    out_q: Optional[View]
    k_scale: Optional[View]
    v_scale: Optional[View]
    k_row_scale: Optional[View]
    v_row_scale: Optional[View]


class AppendCall:
    """Belongs to the thread that made it: the structure is filled anew for each run."""

    __slots__ = ("_call", "_address", "_append", "_scaled", "_on_cpu", "_keys", "_entries", "_stream", "q_shape", "data_type", "index")  # fmt: skip

    def __init__(self, call: KvAppend, tensors: AppendTensors, data_type: str) -> None:
        self._call = call
        self._address = ctypes.addressof(call)
        self._append = library().tilesmith_append_kv
        self._scaled = any(each is not None for each in (tensors.k_scale, tensors.v_scale, tensors.k_row_scale, tensors.v_row_scale))
        self._on_cpu = call.device.kind == CPU
        #: that the table, or the list of pages, has room for; -1: the library knows it
        by_slots = tensors.slots is not None or call.page_size == 0
        self._keys = -1 if by_slots or tensors.block_table is None else tensors.block_table.shape[1] * call.page_size
        self._entries = -1 if by_slots or tensors.page_indices is None else tensors.page_indices.shape[0]
        self._stream = 0
        self.q_shape = () if tensors.q is None else tensors.q.shape
        self.data_type = data_type
        self.index = call.device.index if call.device.kind == CUDA else -1  #: of the device whose stream it runs on; -1: none

    def run(self, places: Sequence[int], turned: int, stream: int) -> None:
        """On tensors at these addresses, in the order of AppendTensors; 0 is none."""
        (k, v, k_cache, v_cache, seqlens_k, block_table, page_indices, page_indptr, slots, cu_seqlens, q, rotary_cos, rotary_sin, positions,
         _, k_scale, v_scale, k_row_scale, v_row_scale) = places  # fmt: skip
        call = self._call
        if self._on_cpu:
            self._check_data(cu_seqlens, seqlens_k, page_indptr)
        _POINTERS.pack_into(call, _POINTERS_AT, q, k, v, turned, k_cache, v_cache, cu_seqlens, seqlens_k, block_table or page_indices,
                            page_indptr, slots, positions, rotary_cos, rotary_sin)  # fmt: skip
        if self._scaled:
            call.k_scale.data, call.v_scale.data, call.k_row_scale, call.v_row_scale = k_scale, v_scale, k_row_scale, v_row_scale
        if stream != self._stream:
            call.stream = self._stream = stream
        if status := self._append(None, self._address):
            raise_last_error(status)

    def _check_data(self, cu_seqlens: int, seqlens_k: int, page_offsets: int) -> None:
        """What the library cannot know: where packed tokens, the table and the list of pages end."""
        call = self._call
        if cu_seqlens:
            last = ctypes.c_int32.from_address(cu_seqlens + 4 * call.batch).value
            if last > call.total:
                raise InvalidArgument(f"cu_seqlens ends at {last}", f"at most {call.total}, the rows of k")
        if self._keys >= 0:
            for b, end in self._ends(cu_seqlens, seqlens_k):
                if end > self._keys:
                    raise InvalidArgument(f"sequence {b} would have {end} keys", f"at most {self._keys}, by block_table")
        elif self._entries >= 0:
            begins = (ctypes.c_int32 * call.batch).from_address(page_offsets)[:] if call.batch else ()
            for b, end in self._ends(cu_seqlens, seqlens_k):
                if begins[b] < 0 or begins[b] + (end - 1) // call.page_size >= self._entries:
                    raise InvalidArgument(f"sequence {b} would have {end} keys in pages of {call.page_size}, its pages begin at entry "
                                          f"{begins[b]} of page_indices, and there are {self._entries}", "an entry for each page")  # fmt: skip

    def _ends(self, cu_seqlens: int, seqlens_k: int) -> Iterator[tuple[int, int]]:
        """Sequences with new tokens, and how many keys they then have."""
        call = self._call
        if call.seqlen == 0 or call.batch == 0:
            return
        lengths = (ctypes.c_int32 * call.batch).from_address(seqlens_k)[:]
        after = call.traits & _LENGTHS_AFTER
        offsets = (ctypes.c_int32 * (call.batch + 1)).from_address(cu_seqlens)[:] if cu_seqlens else None
        for b, length in enumerate(lengths):
            new = call.seqlen if offsets is None else offsets[b + 1] - offsets[b]
            if new > 0 and (length or not after):
                yield b, length if after else length + new


def prepare_append(tensors: AppendTensors, layout: str, kv_layout: str, rotary_style: str, lengths_after: bool) -> AppendCall:
    """Checks everything that can be checked without the data, and fills in the structure."""
    for name in ("k", "v", "k_cache", "v_cache"):
        if getattr(tensors, name) is None:
            raise WrongType(f"{name} is None", "a tensor")
    key, value, k_cache, v_cache = tensors.k, tensors.v, tensors.k_cache, tensors.v_cache
    assert key is not None and value is not None and k_cache is not None and v_cache is not None
    given = {name: view for name, view in tensors._asdict().items() if view is not None}
    check_devices(list(given), key, list(given.values()))
    if key.data_type not in CODES:
        raise WrongType(f"k is {key.data_type}", "float32, float16 or bfloat16")
    group = tensors.cu_seqlens is not None
    dims = dims_of(layout, "k", key)
    caches_as = _CACHES_AS[one_of("kv_layout", kv_layout, _CACHES_AS)]
    if kv_layout == "vectorized":
        k_cache, v_cache = rows_of_vectors("k_cache", k_cache, True), rows_of_vectors("v_cache", v_cache, False)
        given.update(k_cache=k_cache, v_cache=v_cache)
    for name, cache in (("k_cache", k_cache), ("v_cache", v_cache)):
        check_cache(name, cache.shape, "(pages, page size, heads, dim), or with kv_layout 'hnd' (pages, heads, page size, dim)")
    cache_dims = dims_of(caches_as, "k_cache", k_cache)
    if len(key.shape) != (3 if group else 4) or len(k_cache.shape) != 4:
        raise InvalidArgument(f"k has the shape {key.shape}, k_cache {k_cache.shape}",
                              "four dimensions; k has three with cu_seqlens, and four without")  # fmt: skip
    call = sized(KvAppend)
    call.device.kind, call.device.index = key.kind, key.index
    call.data_type, call.mode = CODES[key.data_type], int(group)
    call.traits = (_VECTORIZED_PAGES if kv_layout == "vectorized" else 0) | (_LENGTHS_AFTER if lengths_after else 0)
    call.heads_kv, call.head_dim_qk, call.head_dim_v = key.shape[dims.head], key.shape[-1], value.shape[-1]
    call.num_pages, call.page_size = k_cache.shape[0], k_cache.shape[cache_dims.row]
    tokens = key.shape[dims.row]
    if tensors.cu_seqlens is not None:
        check_integers("cu_seqlens", tensors.cu_seqlens, "int32", None)
        if tensors.cu_seqlens.shape[0] < 1:
            raise InvalidArgument("cu_seqlens has no offsets", "batch + 1")
        call.batch, call.seqlen = tensors.cu_seqlens.shape[0] - 1, tokens
        total = call.total = tokens
    else:
        call.batch, call.seqlen = key.shape[0], tokens
        total = call.batch * tokens
    if k_cache.shape[cache_dims.head] != call.heads_kv or k_cache.shape[-1] != call.head_dim_qk:
        raise InvalidArgument(f"k_cache has the shape {k_cache.shape}, k {key.shape}", "the same heads and head dim")
    for name, view, shape in (("v", value, (*key.shape[:-1], call.head_dim_v)),
                              ("v_cache", v_cache, (*k_cache.shape[:-1], call.head_dim_v))):  # fmt: skip
        if view.shape != shape:
            raise InvalidArgument(f"{name} has the shape {view.shape}", str(shape))
    call.cache = _CACHES.get(k_cache.data_type, 0)
    for name in ("v", "k_cache", "v_cache", "q", "out_q"):
        if call.cache and name in ("k_cache", "v_cache"):
            if given[name].data_type != k_cache.data_type:
                raise WrongType(f"{name} is {given[name].data_type}, k_cache {k_cache.data_type}", "one data type for both")
        elif name in given and given[name].data_type != key.data_type:
            raise WrongType(f"{name} is {given[name].data_type}, k {key.data_type}", "one data type for all")
    if (query := tensors.q) is not None:
        call.heads_q = query.shape[dims.head] if len(query.shape) == len(key.shape) else 0
        like = list(key.shape)
        like[dims.head] = call.heads_q
        if query.shape != tuple(like):
            raise InvalidArgument(f"q has the shape {query.shape}, k {key.shape}", "the same but for the heads")
        out = tensors.out_q or query._replace(strides=dense_strides(query.shape))
        if out.shape != query.shape:
            raise InvalidArgument(f"out_q has the shape {out.shape}", str(query.shape))
        call.q_strides, call.q_out_strides = strides_of("q", query, dims), strides_of("out_q", out, dims)
    elif tensors.out_q is not None:
        raise InvalidArgument("out_q is given without q", "q: the queries to turn")
    call.k_strides, call.v_strides = strides_of("k", key, dims), strides_of("v", value, dims)
    call.k_cache_strides = strides_of("k_cache", k_cache, cache_dims)
    call.v_cache_strides = strides_of("v_cache", v_cache, cache_dims)
    _set_places(call, tensors, total)
    set_rotary(call, tensors.rotary_cos, tensors.rotary_sin, rotary_style)
    _set_scales(call, tensors, k_cache.data_type, kv_layout)
    return AppendCall(call, tensors, key.data_type)


def _set_places(call: KvAppend, tensors: AppendTensors, total: int) -> None:
    """Where the new tokens go, and their positions."""
    for name, data_type, count in (("seqlens_k", "int32", call.batch), ("page_indices", "int32", None), ("page_indptr", "int32", None),
                                   ("slots", "int64", total), ("positions", "int64", total)):  # fmt: skip
        if (view := getattr(tensors, name)) is not None:
            check_integers(name, view, data_type, count)
    table, indices, indptr = tensors.block_table, tensors.page_indices, tensors.page_indptr
    if (indices is None) != (indptr is None) or (table is not None and indptr is not None):
        raise InvalidArgument("block_table, page_indices and page_indptr do not fit together",
                              "a block_table, or page_indices with page_indptr")  # fmt: skip
    if indptr is not None and indptr.shape[0] < call.batch + 1:
        raise InvalidArgument(f"page_indptr has the shape {indptr.shape}", f"({call.batch + 1},)")
    if tensors.slots is None and tensors.seqlens_k is None:
        raise InvalidArgument("neither seqlens_k nor slots is given", "one of them: where the new tokens go")
    if table is not None:
        if table.data_type != "int32" or len(table.shape) != 2 or (table.shape[1] > 1 and table.strides[1] != 1 and 0 not in table.shape):
            raise WrongType(f"block_table has the type {table.data_type}, the shape {table.shape} and the strides "
                            f"{table.strides}", "int32, (batch, pages), the last one contiguous")  # fmt: skip
        if table.shape[0] != call.batch:
            raise InvalidArgument(f"block_table has the shape {table.shape}", f"({call.batch}, pages)")
        call.page_stride = table.strides[0] if call.batch > 1 else table.shape[1]


def set_rotary(call: Union[KvAppend, Attention], cos: Optional[View], sin: Optional[View], style: str) -> None:
    call.rotary_style = _STYLES[one_of("rotary_style", style, _STYLES)]
    if cos is None and sin is None:
        return
    if cos is None or sin is None:
        raise InvalidArgument("one of rotary_cos and rotary_sin is given", "both or neither")
    for name, view in (("rotary_cos", cos), ("rotary_sin", sin)):
        if view.data_type != "fp32" or len(view.shape) != 2 or (view.shape[1] > 1 and view.strides[1] != 1):
            raise WrongType(f"{name} has the type {view.data_type}, the shape {view.shape} and the strides {view.strides}",
                            "float32, (positions, rotary_dim / 2), the last one contiguous")  # fmt: skip
    if cos.shape != sin.shape or (cos.strides != sin.strides and cos.shape[0] > 1):
        raise InvalidArgument(f"rotary_cos has the shape {cos.shape} and the strides {cos.strides}, rotary_sin {sin.shape} "
                              f"and {sin.strides}", "the same")  # fmt: skip
    call.rotary_positions, call.rotary_dim, call.rotary_row_stride = cos.shape[0], 2 * cos.shape[1], cos.strides[0]


def _set_scales(call: KvAppend, tensors: AppendTensors, cache_type: str, kv_layout: str) -> None:
    for name in ("k_scale", "v_scale", "k_row_scale", "v_row_scale"):
        if (view := getattr(tensors, name)) is None:
            continue
        if not call.cache:
            raise InvalidArgument(f"{name} is given, and the cache is {cache_type}", "a cache of float8_e4m3fn or int8")
        if "row" in name:
            _set_row_scale(call, name, view, kv_layout)
        elif view.data_type == "fp32" and len(view.shape) == 3:
            scale = getattr(call, name)
            scale.batch, scale.head, scale.block = scale_by_pages(name, view, kv_layout, call.num_pages, call.heads_kv, call.page_size)
            call.traits |= _PAGE_SCALE
        else:
            _set_scale(call, name, view)
    if call.traits & _PAGE_SCALE:
        for name in ("k_scale", "v_scale"):
            if (view := getattr(tensors, name)) is not None and len(view.shape) < 3 and view.shape not in ((), (1,)):
                raise InvalidArgument(f"{name} has the shape {view.shape}, the other scale is one of pages",
                                      "both by sequence and head, or both by page")  # fmt: skip


def _set_scale(call: KvAppend, name: str, view: View) -> None:
    whole = (call.batch, call.heads_kv)
    if view.data_type != "fp32" or view.shape not in ((), (1,), whole[1:], whole):
        raise WrongType(f"{name} has the type {view.data_type} and the shape {view.shape}",
                        f"float32, (1,), {whole[1:]} or {whole}, or three dimensions beginning with the pages")  # fmt: skip
    steps: Any = view.strides if view.shape == whole else (0, *view.strides) if view.shape == whole[1:] else (0, 0)
    scale = getattr(call, name)
    scale.batch, scale.head = steps
    scale.block = 0


def _set_row_scale(call: KvAppend, name: str, view: View, kv_layout: str) -> None:
    """A scale of each row of the cache, which the call writes."""
    check_row_scale(call, name, view, kv_layout)
    batch, head, row = scale_by_pages(name, view, kv_layout, call.num_pages, call.heads_kv, call.page_size)
    setattr(call, f"{name}_strides", Strides(batch, head, row))


def check_row_scale(call: Union[KvAppend, Attention], name: str, view: View, kv_layout: str) -> None:
    shape = (call.num_pages, call.page_size, call.heads_kv) if kv_layout == "nhd" else (call.num_pages, call.heads_kv, call.page_size)
    if view.data_type != "fp32" or view.shape != shape:
        raise WrongType(f"{name} has the type {view.data_type} and the shape {view.shape}", f"float32, {shape}")


def check_integers(name: str, view: View, data_type: str, count: Optional[int]) -> None:
    if view.data_type != data_type or len(view.shape) != 1 or (view.shape[0] > 1 and view.strides[0] != 1):
        raise WrongType(f"{name} has the type {view.data_type}, the shape {view.shape} and the strides {view.strides}",
                        f"{data_type}, one contiguous dimension")  # fmt: skip
    if count is not None and view.shape[0] != count:
        raise InvalidArgument(f"{name} has the shape {shown(view.shape)}", f"({count},)")

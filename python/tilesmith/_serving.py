"""What serving needs beside attention: merging partial results, and writing new keys and values into a cache."""

from __future__ import annotations

import ctypes
from typing import Any, Iterator, Literal, NamedTuple, Optional, Sequence, TypeVar

from tilesmith._candidates import refuse_listing
from tilesmith._errors import InvalidArgument, WrongType
from tilesmith._given_tensors import GivenTensors
from tilesmith._library import CPU, KvAppend, Scale, States, Strides, check, library, sized
from tilesmith._refusals import refusing
from tilesmith._tensor_library import Traced
from tilesmith._views import View, check_devices, dense_strides, one_of, shown
from tilesmith.typing import Layout

Array = TypeVar("Array")  #: torch.Tensor or numpy.ndarray

_CODES = {"fp32": 0, "fp16": 1, "bf16": 2}
_CACHES = {"fp8": 1, "int8": 2}  #: others are as k
_STYLES = {"half": 0, "interleaved": 1}
_traced = Traced("_torch_serving", "merge_states_op", "append_kv_op")


@refusing
def merge_states(
    outputs: Sequence[Array], lses: Sequence[Any], *, layout: Layout = "bhsd", out: Optional[Array] = None
) -> tuple[Array, Array]:
    """Attention over several parts of the keys, merged into attention over all of them.

    outputs: of each part, tensors of one shape and data type (float32, float16, bfloat16) and of the same strides, with a
        contiguous head dim: (batch, heads, seqlen, dim) for layout "bhsd", (batch, seqlen, heads, dim) for "bshd"; without
        the batch for sequences packed behind one another. One tensor with a leading dimension of parts will do.
    lses: of each part, float32 in natural logarithms, as attention(..., return_lse=True) gives them: (batch, heads,
        seqlen), or (heads, seqlen). -inf: the part saw nothing, and its output is not read.
    out: where to write the output; None makes a new tensor. It may be one of the outputs, in its place.

    Returns (output, lse). With L the largest of the lses and w_i = exp(lses[i] - L), the output is the sum of w_i
    outputs[i] over the sum of w_i, and the lse L + log(sum of w_i), in the parts' order and in fp32. A part that saw
    nothing changes no bit. Where all of them are empty the output is 0 and the lse -inf. On a GPU it is queued on the
    current stream; there may be 64 tensors of parts, or one tensor of any number.

    Errors: as of attention.
    """
    refuse_listing("merge_states")
    for name, parts in (("outputs", outputs), ("lses", lses)):
        if not hasattr(parts, "__iter__"):
            raise WrongType(f"{name} is {shown(parts)}", "a list of tensors, one for each part")
    outputs, lses = list(outputs), list(lses)
    if not outputs or len(outputs) != len(lses):
        raise InvalidArgument(f"there are {len(outputs)} outputs and {len(lses)} lses", "as many, one or more")
    if _traced.now():
        merged: tuple[Array, Array] = _traced.serve("merge_states_op")(outputs, lses, layout, out)
        return merged
    tensors = GivenTensors("outputs[0]", outputs[0])
    views = [tensors.view(f"outputs[{i}]", each) for i, each in enumerate(outputs)]
    lse_views = [tensors.view(f"lses[{i}]", each) for i, each in enumerate(lses)]
    first, first_lse = views[0], lse_views[0]
    names = [f"{name}[{i}]" for name in ("outputs", "lses") for i in range(len(outputs))]
    check_devices(names, first, views + lse_views)
    if first.data_type not in _CODES:
        raise WrongType(f"outputs[0] is {first.data_type}", "float32, float16 or bfloat16")
    dims = _dims(layout, "outputs[0]", first)
    rows = (first.shape[dims.row],) if len(first.shape) == 3 else (first.shape[0], first.shape[dims.row])
    lse_shape = (*rows[:-1], first.shape[dims.head], rows[-1])
    for name, view, like, shape in [
        *zip(names, views, [first] * len(views), [first.shape] * len(views)),
        *zip(names[len(views) :], lse_views, [first_lse] * len(views), [lse_shape] * len(views)),
    ]:
        if view.shape != shape or view.data_type != (first.data_type if like is first else "fp32"):
            raise InvalidArgument(f"{name} has the shape {view.shape} and the type {view.data_type}",
                                  f"{shape}, {first.data_type if like is first else 'float32'}")  # fmt: skip
        if view.strides != like.strides and 0 not in shape:
            raise InvalidArgument(f"{name} has the strides {view.strides}, the first {like.strides}", "the same for all")
    result = tensors.new(outputs[0], first.shape, first.data_type) if out is None else out
    lse = tensors.new(outputs[0], lse_shape, "fp32")
    result_view = tensors.view("out", result)
    if result_view.shape != first.shape or result_view.data_type != first.data_type:
        raise InvalidArgument(f"out has the shape {result_view.shape} and the type {result_view.data_type}",
                              f"{first.shape}, {first.data_type}")  # fmt: skip
    call = sized(States)
    call.device.kind, call.device.index = first.kind, first.index
    call.data_type = _CODES[first.data_type]
    call.states = len(outputs)
    call.batch = first.shape[0] if len(first.shape) == 4 else 1
    call.heads, call.seqlen, call.head_dim = first.shape[dims.head], first.shape[dims.row], first.shape[-1]
    call.output_strides = _strides("outputs[0]", first, dims)
    call.o_strides = _strides("out", result_view, dims)
    call.input_lse_strides = Strides(*_padded(first_lse.strides))
    call.lse_strides = Strides(*_padded(dense_strides(lse_shape)))
    pointers = ctypes.c_void_p * len(outputs)
    call.outputs = ctypes.addressof(output_pointers := pointers(*map(tensors.address, outputs)))
    call.lses = ctypes.addressof(lse_pointers := pointers(*map(tensors.address, lses)))
    call.o, call.lse = tensors.address(result), tensors.address(lse)
    call.stream = tensors.stream(first)
    check(library().tilesmith_merge_states(None, ctypes.addressof(call)))
    del output_pointers, lse_pointers  # alive until here
    return result, lse


@refusing
def append_kv(
    k: Array,
    v: Array,
    k_cache: Array,
    v_cache: Array,
    *,
    layout: Layout = "bhsd",
    seqlens_k: Optional[Array] = None,
    block_table: Optional[Array] = None,
    page_indices: Optional[Array] = None,
    page_indptr: Optional[Array] = None,
    slots: Optional[Array] = None,
    cu_seqlens: Optional[Array] = None,
    q: Optional[Array] = None,
    rotary_cos: Optional[Array] = None,
    rotary_sin: Optional[Array] = None,
    rotary_style: Literal["half", "interleaved"] = "half",
    positions: Optional[Array] = None,
    out_q: Optional[Array] = None,
    k_scale: Optional[Array] = None,
    v_scale: Optional[Array] = None,
) -> Optional[Array]:
    """Writes new keys and values into a cache, turned by their positions (RoPE), and turns the queries.

    k, v: (batch, heads_kv, new, dim) for layout "bhsd", (batch, new, heads_kv, dim) for "bshd"; with cu_seqlens
        (heads_kv, total, dim) and (total, heads_kv, dim). float32, float16 or bfloat16, any strides with a contiguous head dim.
    k_cache, v_cache: (pages, heads_kv, page_size, dim) or (pages, page_size, heads_kv, dim), as attention reads them: of k's
        type, torch.float8_e4m3fn, or int8. The last two hold values divided by k_scale and v_scale.
    seqlens_k: int32, (batch,): keys of each sequence before this call. New token t of sequence b becomes its key
        seqlens_k[b] + t, in the page that block_table or page_indices and page_indptr name (as for attention; their int32
        entries must reach that far), or with neither in row seqlens_k[b] + t of page b, a dense cache.
    slots: int64, a number for each new token: it goes to row slots % page_size of page slots // page_size instead, and
        nowhere where slots is negative. Tokens count b * new + t, or with cu_seqlens cu_seqlens[b] + t.
    cu_seqlens: int32, (batch + 1,): sequence b has the new tokens cu_seqlens[b] to cu_seqlens[b + 1].
    rotary_cos, rotary_sin: float32, (positions, rotary_dim / 2): the first rotary_dim elements of each head of k and q turn.
        None: nothing does.
    rotary_style: "half" turns elements i and i + rotary_dim / 2 together (GPT-NeoX, Llama), "interleaved" 2 i and 2 i + 1
        (GPT-J).
    positions: int64, of each new token; None: seqlens_k[b] + t.
    q: queries of the same tokens, (batch, heads_q, new, dim) in the layout's order.
    out_q: where the turned queries go; may be q. None makes a new tensor.
    k_scale, v_scale: float32 of one number, (heads_kv,) or (batch, heads_kv); None: 1. Values beyond the type's range become
        its largest.

    Returns the turned queries, None without q. Arithmetic is float32, rounded once. Tokens, pages and positions out of range
    are refused before anything is written on the CPU. On a GPU the call is queued on the current stream and reads nothing back:
    a token that has no row in the rotary table or no place in the cache is written nowhere there. A block_table ends at its
    stride, page_indices must reach far enough.

    Errors: as of attention.
    """
    refuse_listing("append_kv")
    if _traced.now():
        traced: Optional[Array] = _traced.serve("append_kv_op")(
            k, v, k_cache, v_cache, layout, seqlens_k, block_table, page_indices, page_indptr, slots, cu_seqlens, q, rotary_cos,
            rotary_sin, rotary_style, positions, k_scale, v_scale, out_q=out_q)  # fmt: skip
        return traced
    tensors = GivenTensors("k", k)
    given = {"k": k, "v": v, "k_cache": k_cache, "v_cache": v_cache, "seqlens_k": seqlens_k, "block_table": block_table,
             "page_indices": page_indices, "page_indptr": page_indptr, "slots": slots, "cu_seqlens": cu_seqlens, "q": q,
             "rotary_cos": rotary_cos, "rotary_sin": rotary_sin, "positions": positions, "out_q": out_q, "k_scale": k_scale,
             "v_scale": v_scale}  # fmt: skip
    views = {name: None if each is None else tensors.view(name, each) for name, each in given.items()}
    seen: dict[str, View] = {name: view for name, view in views.items() if view is not None}
    for name in ("k", "v", "k_cache", "v_cache"):
        if name not in seen:
            raise WrongType(f"{name} is None", "a tensor")
    check_devices(list(seen), seen["k"], list(seen.values()))
    key = seen["k"]
    if key.data_type not in _CODES:
        raise WrongType(f"k is {key.data_type}", "float32, float16 or bfloat16")
    group = cu_seqlens is not None
    dims, cache_dims = _dims(layout, "k", key), _dims(layout, "k_cache", seen["k_cache"])
    if len(key.shape) != (3 if group else 4) or len(seen["k_cache"].shape) != 4:
        raise InvalidArgument(f"k has the shape {key.shape}, k_cache {seen['k_cache'].shape}",
                              "four dimensions; k has three with cu_seqlens, and four without")  # fmt: skip
    call = sized(KvAppend)
    call.device.kind, call.device.index = key.kind, key.index
    call.data_type, call.mode = _CODES[key.data_type], int(group)
    call.rotary_style = _STYLES[one_of("rotary_style", rotary_style, _STYLES)]
    call.heads_kv, call.head_dim_qk, call.head_dim_v = key.shape[dims.head], key.shape[-1], seen["v"].shape[-1]
    call.num_pages, call.page_size = seen["k_cache"].shape[0], seen["k_cache"].shape[cache_dims.row]
    tokens = key.shape[dims.row]
    if group:
        _check_integers("cu_seqlens", seen["cu_seqlens"], "int32", None)
        if seen["cu_seqlens"].shape[0] < 1:
            raise InvalidArgument("cu_seqlens has no offsets", "batch + 1")
        call.batch, call.seqlen = seen["cu_seqlens"].shape[0] - 1, tokens
        total = call.total = tokens
        if key.kind == CPU and (last := int(cu_seqlens[-1])) > tokens:  # type: ignore[index]
            raise InvalidArgument(f"cu_seqlens ends at {last}", f"at most {tokens}, the rows of k")
    else:
        call.batch, call.seqlen = key.shape[0], tokens
        total = call.batch * tokens
    wanted = {"v": (*key.shape[:-1], call.head_dim_v),
              "v_cache": (*seen["k_cache"].shape[:-1], call.head_dim_v)}  # fmt: skip
    heads_axis = cache_dims.head
    if seen["k_cache"].shape[heads_axis] != call.heads_kv or seen["k_cache"].shape[-1] != call.head_dim_qk:
        raise InvalidArgument(f"k_cache has the shape {seen['k_cache'].shape}, k {key.shape}", "the same heads and head dim")
    for name, shape in wanted.items():
        if seen[name].shape != shape:
            raise InvalidArgument(f"{name} has the shape {seen[name].shape}", str(shape))
    call.cache = _CACHES.get(seen["k_cache"].data_type, 0)
    for name in ("v", "k_cache", "v_cache", "q", "out_q"):
        if call.cache and name in ("k_cache", "v_cache"):
            if seen[name].data_type != seen["k_cache"].data_type:
                raise WrongType(f"{name} is {seen[name].data_type}, k_cache {seen['k_cache'].data_type}", "one data type for both")
        elif name in seen and seen[name].data_type != key.data_type:
            raise WrongType(f"{name} is {seen[name].data_type}, k {key.data_type}", "one data type for all")
    turned = None
    if q is not None:
        query = seen["q"]
        call.heads_q = query.shape[dims.head] if len(query.shape) == len(key.shape) else 0
        like = list(key.shape)
        like[dims.head] = call.heads_q
        if query.shape != tuple(like):
            raise InvalidArgument(f"q has the shape {query.shape}, k {key.shape}", "the same but for the heads")
        turned = tensors.new(q, query.shape, query.data_type) if out_q is None else out_q
        turned_view = tensors.view("out_q", turned)
        if turned_view.shape != query.shape:
            raise InvalidArgument(f"out_q has the shape {turned_view.shape}", str(query.shape))
        call.q, call.q_out = tensors.address(q), tensors.address(turned)
        call.q_strides, call.q_out_strides = _strides("q", query, dims), _strides("out_q", turned_view, dims)
    elif out_q is not None:
        raise InvalidArgument("out_q is given without q", "q: the queries to turn")
    call.k_strides, call.v_strides = _strides("k", key, dims), _strides("v", seen["v"], dims)
    call.k_cache_strides = _strides("k_cache", seen["k_cache"], cache_dims)
    call.v_cache_strides = _strides("v_cache", seen["v_cache"], cache_dims)
    call.k, call.v = tensors.address(k), tensors.address(v)
    call.k_cache, call.v_cache = tensors.address(k_cache), tensors.address(v_cache)
    _set_places(call, tensors, given, seen, total)
    _set_rotary(call, tensors, given, seen)
    _set_scales(call, tensors, given, seen)
    call.stream = tensors.stream(key)
    check(library().tilesmith_append_kv(None, ctypes.addressof(call)))
    return turned


def _set_places(call: KvAppend, tensors: GivenTensors, given: dict[str, Any], seen: dict[str, View], total: int) -> None:
    """Where the new tokens go, and their positions."""
    for name, count in (("seqlens_k", call.batch), ("page_indices", None), ("page_indptr", None)):
        if name in seen:
            _check_integers(name, seen[name], "int32", count)
    for name in ("slots", "positions"):
        if name in seen:
            _check_integers(name, seen[name], "int64", total)
    if ("page_indices" in seen) != ("page_indptr" in seen) or ("block_table" in seen and "page_indptr" in seen):
        raise InvalidArgument("block_table, page_indices and page_indptr do not fit together",
                              "a block_table, or page_indices with page_indptr")  # fmt: skip
    if "page_indptr" in seen and seen["page_indptr"].shape[0] < call.batch + 1:
        raise InvalidArgument(f"page_indptr has the shape {seen['page_indptr'].shape}", f"({call.batch + 1},)")
    if "slots" not in seen and "seqlens_k" not in seen:
        raise InvalidArgument("neither seqlens_k nor slots is given", "one of them: where the new tokens go")
    if "block_table" in seen:
        table = seen["block_table"]
        if table.data_type != "int32" or len(table.shape) != 2 or (table.shape[1] > 1 and table.strides[1] != 1):
            raise WrongType(f"block_table has the type {table.data_type}, the shape {table.shape} and the strides "
                            f"{table.strides}", "int32, (batch, pages), the last one contiguous")  # fmt: skip
        if table.shape[0] != call.batch:
            raise InvalidArgument(f"block_table has the shape {table.shape}", f"({call.batch}, pages)")
        call.page_stride = table.strides[0] if call.batch > 1 else table.shape[1]
        _check_reach(call, given, table.shape[1])
    elif "page_indptr" in seen:
        _check_list(call, given, seen["page_indices"].shape[0])
    for name, field in (("cu_seqlens", "cu_seqlens"), ("seqlens_k", "seqlens_k"), ("block_table", "page_numbers"),
                        ("page_indices", "page_numbers"), ("page_indptr", "page_offsets"), ("slots", "slots"),
                        ("positions", "positions")):  # fmt: skip
        if name in seen:
            setattr(call, field, tensors.address(given[name]))


def _check_reach(call: KvAppend, given: dict[str, Any], width: int) -> None:
    """A sequence's last new token has an entry in the table."""
    for b, end in _ends(call, given):
        if end > width * call.page_size:
            raise InvalidArgument(f"sequence {b} would have {end} keys", f"at most {width * call.page_size}, by block_table")


def _check_list(call: KvAppend, given: dict[str, Any], entries: int) -> None:
    """The same of the list."""
    for b, end in _ends(call, given):
        begin = int(given["page_indptr"][b])
        if begin < 0 or begin + (end - 1) // call.page_size >= entries:
            raise InvalidArgument(f"sequence {b} would have {end} keys in pages of {call.page_size}, its pages begin at entry {begin} of "
                                  f"page_indices, and there are {entries}", "an entry for each page")  # fmt: skip


def _ends(call: KvAppend, given: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """Sequences with new tokens that go behind their keys, and how many keys they then have."""
    if given["slots"] is not None or call.seqlen == 0 or call.page_size == 0 or call.device.kind != CPU:
        return
    offsets = given["cu_seqlens"]
    for b in range(call.batch):
        new = call.seqlen if offsets is None else int(offsets[b + 1]) - int(offsets[b])
        if new > 0:
            yield b, int(given["seqlens_k"][b]) + new


def _set_rotary(call: KvAppend, tensors: GivenTensors, given: dict[str, Any], seen: dict[str, View]) -> None:
    if "rotary_cos" not in seen and "rotary_sin" not in seen:
        return
    if "rotary_cos" not in seen or "rotary_sin" not in seen:
        raise InvalidArgument("one of rotary_cos and rotary_sin is given", "both or neither")
    cos, sin = seen["rotary_cos"], seen["rotary_sin"]
    for name, view in (("rotary_cos", cos), ("rotary_sin", sin)):
        if view.data_type != "fp32" or len(view.shape) != 2 or (view.shape[1] > 1 and view.strides[1] != 1):
            raise WrongType(f"{name} has the type {view.data_type}, the shape {view.shape} and the strides {view.strides}",
                            "float32, (positions, rotary_dim / 2), the last one contiguous")  # fmt: skip
    if cos.shape != sin.shape or (cos.strides != sin.strides and cos.shape[0] > 1):
        raise InvalidArgument(f"rotary_cos has the shape {cos.shape} and the strides {cos.strides}, rotary_sin {sin.shape} "
                              f"and {sin.strides}", "the same")  # fmt: skip
    call.rotary_positions, call.rotary_dim, call.rotary_row_stride = cos.shape[0], 2 * cos.shape[1], cos.strides[0]
    call.rotary_cos, call.rotary_sin = tensors.address(given["rotary_cos"]), tensors.address(given["rotary_sin"])


def _set_scales(call: KvAppend, tensors: GivenTensors, given: dict[str, Any], seen: dict[str, View]) -> None:
    for name in ("k_scale", "v_scale"):
        if name not in seen:
            continue
        if not call.cache:
            raise InvalidArgument(f"{name} is given, and the cache is {seen['k_cache'].data_type}", "a cache of float8_e4m3fn or int8")
        view = seen[name]
        whole = (call.batch, call.heads_kv)
        if view.data_type != "fp32" or view.shape not in ((), (1,), whole[1:], whole):
            raise WrongType(f"{name} has the type {view.data_type} and the shape {view.shape}", f"float32, (1,), {whole[1:]} or {whole}")
        steps = view.strides if view.shape == whole else (0, *view.strides) if view.shape == whole[1:] else (0, 0)
        setattr(call, name, Scale(tensors.address(given[name]), *steps, 0))


class _Dims(NamedTuple):
    """Which dimension of a tensor is which; the last is the head's."""

    batch: Optional[int]
    head: int
    row: int


def _dims(layout: str, name: str, view: View) -> _Dims:
    one_of("layout", layout, ("bhsd", "bshd"))
    if len(view.shape) not in (3, 4):
        raise InvalidArgument(f"{name} has the shape {view.shape}", "three or four dimensions")
    first = len(view.shape) - 3
    return _Dims(0 if first else None, first + (layout == "bshd"), first + (layout == "bhsd"))


def _strides(name: str, view: View, dims: _Dims) -> Strides:
    if 0 in view.shape:
        view = view._replace(strides=dense_strides(view.shape))
    if view.strides[-1] != 1 and view.shape[-1] > 1:
        raise InvalidArgument(f"{name} has the strides {view.strides}", "a contiguous head dim, the last one")
    return Strides(0 if dims.batch is None else view.strides[dims.batch], view.strides[dims.head], view.strides[dims.row])


def _padded(strides: tuple[int, ...]) -> tuple[int, ...]:
    """Of (batch, heads, seqlen), whether there is a batch or not."""
    return (0,) * (3 - len(strides)) + tuple(strides)


def _check_integers(name: str, view: View, data_type: str, count: Optional[int]) -> None:
    if view.data_type != data_type or len(view.shape) != 1 or (view.shape[0] > 1 and view.strides[0] != 1):
        raise WrongType(f"{name} has the type {view.data_type}, the shape {view.shape} and the strides {view.strides}",
                        f"{data_type}, one contiguous dimension")  # fmt: skip
    if count is not None and view.shape[0] != count:
        raise InvalidArgument(f"{name} has the shape {shown(view.shape)}", f"({count},)")

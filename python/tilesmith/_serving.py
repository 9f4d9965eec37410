"""What serving needs beside attention: merging partial results, and writing new keys and values into a cache."""

from __future__ import annotations

from typing import Any, Optional, Sequence, TypeVar

from tilesmith._append_call import AppendCall, AppendTensors, prepare_append
from tilesmith._candidates import refuse_listing
from tilesmith._errors import Error, InvalidArgument, WrongType
from tilesmith._given_tensors import library_for
from tilesmith._kept_calls import KeptCalls
from tilesmith._merge_call import MergeCall, merge_names, prepare_merge
from tilesmith._refusals import refusal
from tilesmith._tensor_library import Traced
from tilesmith._views import shown
from tilesmith.typing import Layout, PageLayout, RotaryStyle

Array = TypeVar("Array")  #: torch.Tensor or numpy.ndarray

_traced = Traced("_torch_serving", "merge_states_op", "append_kv_op")
_merges: KeptCalls[MergeCall] = KeptCalls()
_appends: KeptCalls[AppendCall] = KeptCalls()


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
    try:
        o, lse = _merged(outputs, lses, layout, out)
        return o, lse
    except Error:
        raise
    except Exception as error:
        raise refusal("merge_states", error, locals()) from error


def _merged(outputs: Any, lses: Any, layout: Layout, out: Any) -> Any:
    refuse_listing("merge_states")
    for name, parts in (("outputs", outputs), ("lses", lses)):
        if not hasattr(parts, "__iter__"):
            raise WrongType(f"{name} is {shown(parts)}", "a list of tensors, one for each part")
    outputs, lses = list(outputs), list(lses)
    parts = len(outputs)
    if not parts or parts != len(lses):
        raise InvalidArgument(f"there are {parts} outputs and {len(lses)} lses", "as many, one or more")
    if _traced.now(outputs[0]):
        return _traced.serve("merge_states_op")(outputs, lses, layout, out)
    first = outputs[0]
    library = library_for("outputs[0]", first)
    given = (*outputs, *lses, out)
    described, places = library.described(given, lambda: merge_names(parts))
    call = _merges.by_key.get(key := (parts, layout, described))
    if call is None:
        views = [library.view(name, each) for name, each in zip(merge_names(parts), given)]
        call = _merges.keep(key, prepare_merge(views, layout))
    result = library.new(first, call.shape, call.data_type) if out is None else out
    lse = library.new(first, call.lse_shape, "fp32")
    call.run(places[:-1], library.address(result), library.address(lse), library.stream(call.index))
    library.wrote(out)
    return result, lse


def append_kv(
    k: Array,
    v: Array,
    k_cache: Array,
    v_cache: Array,
    *,
    layout: Layout = "bhsd",
    kv_layout: PageLayout = "nhd",
    seqlens_k: Optional[Array] = None,
    block_table: Optional[Array] = None,
    page_indices: Optional[Array] = None,
    page_indptr: Optional[Array] = None,
    slots: Optional[Array] = None,
    cu_seqlens: Optional[Array] = None,
    q: Optional[Array] = None,
    rotary_cos: Optional[Array] = None,
    rotary_sin: Optional[Array] = None,
    rotary_style: RotaryStyle = "half",
    positions: Optional[Array] = None,
    out_q: Optional[Array] = None,
    k_scale: Optional[Array] = None,
    v_scale: Optional[Array] = None,
    k_row_scale: Optional[Array] = None,
    v_row_scale: Optional[Array] = None,
    lengths_after: bool = False,
) -> Optional[Array]:
    """Writes new keys and values into a cache, turned by their positions (RoPE), and turns the queries.

    k, v: (batch, heads_kv, new, dim) for layout "bhsd", (batch, new, heads_kv, dim) for "bshd"; with cu_seqlens
        (heads_kv, total, dim) and (total, heads_kv, dim). float32, float16 or bfloat16, any strides with a contiguous head dim.
    k_cache, v_cache: (pages, page_size, heads_kv, dim) for kv_layout "nhd", (pages, heads_kv, page_size, dim) for "hnd", as
        attention reads them; "vectorized", as Composable Kernel has them, k (pages, heads_kv, dim / x, page_size, x) and v
        (pages, heads_kv, page_size / x, dim, x) with x elements of 16 bytes. Of k's type, torch.float8_e4m3fn, or int8: the
        last two hold values divided by their scales.
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
    k_scale, v_scale: float32 of one number, (heads_kv,) or (batch, heads_kv), or of pages or their rows, (pages, page_size,
        heads_kv) for "nhd" and else (pages, heads_kv, page_size), dimensions of 1 broadcast; None: 1. Values beyond the
        type's range become its largest.
    k_row_scale, v_row_scale: float32, those shapes whole: written. Each new row is divided by its largest magnitude over the
        type's largest (448, 127), which goes to the row's place in them (1 of a row of zeros); attention takes them as its
        k_scale and v_scale. In place of k_scale, v_scale.

    lengths_after: seqlens_k counts the new tokens too, as attention's does: token t of n becomes key seqlens_k[b] - n + t. A
        sequence of no keys is padding: its tokens go nowhere. So a step needs one tensor of lengths for both calls.

    Returns the turned queries, None without q. Arithmetic is float32, rounded once. Tokens, pages and positions out of range
    are refused before anything is written on the CPU. On a GPU the call is queued on the current stream and reads nothing back:
    a token that has no row in the rotary table or no place in the cache is written nowhere there. A block_table ends at its
    stride, page_indices must reach far enough.

    Errors: as of attention.
    """
    try:
        return _appended(k, v, k_cache, v_cache, layout, kv_layout, seqlens_k, block_table, page_indices, page_indptr, slots, cu_seqlens, q,
                         rotary_cos, rotary_sin, rotary_style, positions, out_q, k_scale, v_scale, k_row_scale, v_row_scale, lengths_after)  # fmt: skip
    except Error:
        raise
    except Exception as error:
        raise refusal("append_kv", error, locals()) from error


def _appended(k: Any, v: Any, k_cache: Any, v_cache: Any, layout: Any, kv_layout: Any, seqlens_k: Any, block_table: Any, page_indices: Any,
              page_indptr: Any, slots: Any, cu_seqlens: Any, q: Any, rotary_cos: Any, rotary_sin: Any, rotary_style: Any, positions: Any,
              out_q: Any, k_scale: Any, v_scale: Any, k_row_scale: Any, v_row_scale: Any, lengths_after: Any) -> Optional[Any]:  # fmt: skip
    refuse_listing("append_kv")
    if _traced.now(k):
        return _traced.serve("append_kv_op")(
            k, v, k_cache, v_cache, layout, kv_layout, seqlens_k, block_table, page_indices, page_indptr, slots, cu_seqlens, q,
            rotary_cos, rotary_sin, rotary_style, positions, k_scale, v_scale, k_row_scale, v_row_scale, lengths_after, out_q=out_q)  # fmt: skip
    library = library_for("k", k)
    given = (k, v, k_cache, v_cache, seqlens_k, block_table, page_indices, page_indptr, slots, cu_seqlens, q, rotary_cos, rotary_sin,
             positions, out_q, k_scale, v_scale, k_row_scale, v_row_scale)  # fmt: skip
    described, places = library.described(given, lambda: AppendTensors._fields)
    call = _appends.by_key.get(key := (layout, kv_layout, rotary_style, lengths_after, described))
    if call is None:
        views = AppendTensors(*(library.view(name, each) for name, each in zip(AppendTensors._fields, given)))
        call = _appends.keep(key, prepare_append(views, layout, kv_layout, rotary_style, bool(lengths_after)))
    turned = out_q if q is None or out_q is not None else library.new(q, call.q_shape, call.data_type)
    call.run(places, library.address(turned), library.stream(call.index))
    library.wrote(k_cache, v_cache, k_row_scale, v_row_scale, out_q)
    return turned

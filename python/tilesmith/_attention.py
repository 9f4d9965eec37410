"""The public function: it only finds out whose tensors these are."""

from __future__ import annotations

from typing import Any, Literal, Optional, TypeVar, Union, Unpack, overload

from tilesmith._append_attention import append_attention, append_operator
from tilesmith._cache_addresses import lengths_of_pages, rows_as_pages
from tilesmith._candidates import listed_functions
from tilesmith._errors import Error, InvalidArgument, WrongType
from tilesmith._options import under
from tilesmith._refusals import refusal
from tilesmith._tensor_library import Servers
from tilesmith._tree_bias import tree_bias
from tilesmith._views import shown
from tilesmith.typing import CallOptions, Layout, Mask, PageLayout, RotaryStyle

_servers = Servers("attention", "attention")
_SERVED_BY = _servers.by_type

Array = TypeVar("Array")  #: torch.Tensor, numpy.ndarray, ...


@overload
def attention(q: Array, k: Any, v: Any, *, layout: Layout = "bhsd", causal: bool = False, mask: Mask = "none",
              window: tuple[int, int] = (-1, -1), scale: Optional[float] = None, softcap: float = 0.0, bias: Any = None,
              alibi: Any = None, sink: Any = None, q_scale: Any = None, k_scale: Any = None, v_scale: Any = None,
              dropout_p: float = 0.0, seed: Optional[int] = None, cu_seqlens_q: Any = None, cu_seqlens_k: Any = None,
              max_seqlen_q: Optional[int] = None, max_seqlen_k: Optional[int] = None, return_lse: Literal[False] = False,
              diagonal: int = 0, tf32: bool = False, block_table: Any = None, seqlens_k: Any = None, page_indices: Any = None,
              page_indptr: Any = None, last_page_len: Any = None, cache_batch_idx: Any = None, kv_layout: PageLayout = "nhd",
              num_splits: int = 0, batch_invariant: bool = False, tree_mask: Any = None, k_new: Any = None, v_new: Any = None, rotary_cos: Any = None,
              rotary_sin: Any = None, rotary_style: RotaryStyle = "half", positions: Any = None, slots: Any = None,
              k_row_scale: Any = None, v_row_scale: Any = None, out: Any = None, **options: Unpack[CallOptions]) -> Array: ...  # fmt: skip
@overload
def attention(q: Array, k: Any, v: Any, *, layout: Layout = "bhsd", causal: bool = False, mask: Mask = "none",
              window: tuple[int, int] = (-1, -1), scale: Optional[float] = None, softcap: float = 0.0, bias: Any = None,
              alibi: Any = None, sink: Any = None, q_scale: Any = None, k_scale: Any = None, v_scale: Any = None,
              dropout_p: float = 0.0, seed: Optional[int] = None, cu_seqlens_q: Any = None, cu_seqlens_k: Any = None,
              max_seqlen_q: Optional[int] = None, max_seqlen_k: Optional[int] = None, return_lse: Literal[True],
              diagonal: int = 0, tf32: bool = False, block_table: Any = None, seqlens_k: Any = None, page_indices: Any = None,
              page_indptr: Any = None, last_page_len: Any = None, cache_batch_idx: Any = None, kv_layout: PageLayout = "nhd",
              num_splits: int = 0, batch_invariant: bool = False, tree_mask: Any = None, k_new: Any = None, v_new: Any = None, rotary_cos: Any = None,
              rotary_sin: Any = None, rotary_style: RotaryStyle = "half", positions: Any = None, slots: Any = None,
              k_row_scale: Any = None, v_row_scale: Any = None, out: Any = None, **options: Unpack[CallOptions]) -> tuple[Array, Array]: ...  # fmt: skip
@overload
def attention(q: Array, k: Any, v: Any, *, layout: Layout = "bhsd", causal: bool = False, mask: Mask = "none",
              window: tuple[int, int] = (-1, -1), scale: Optional[float] = None, softcap: float = 0.0, bias: Any = None,
              alibi: Any = None, sink: Any = None, q_scale: Any = None, k_scale: Any = None, v_scale: Any = None,
              dropout_p: float = 0.0, seed: Optional[int] = None, cu_seqlens_q: Any = None, cu_seqlens_k: Any = None,
              max_seqlen_q: Optional[int] = None, max_seqlen_k: Optional[int] = None, return_lse: bool, diagonal: int = 0,
              tf32: bool = False, block_table: Any = None, seqlens_k: Any = None, page_indices: Any = None,
              page_indptr: Any = None, last_page_len: Any = None, cache_batch_idx: Any = None, kv_layout: PageLayout = "nhd",
              num_splits: int = 0, batch_invariant: bool = False, tree_mask: Any = None, k_new: Any = None, v_new: Any = None, rotary_cos: Any = None,
              rotary_sin: Any = None, rotary_style: RotaryStyle = "half", positions: Any = None, slots: Any = None,
              k_row_scale: Any = None, v_row_scale: Any = None, out: Any = None, **options: Unpack[CallOptions]) -> Union[Array, tuple[Array, Array]]: ...  # fmt: skip
def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    layout: Layout = "bhsd",
    causal: bool = False,
    mask: Mask = "none",
    window: tuple[int, int] = (-1, -1),
    scale: Optional[float] = None,
    softcap: float = 0.0,
    bias: Any = None,
    alibi: Any = None,
    sink: Any = None,
    q_scale: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    dropout_p: float = 0.0,
    seed: Optional[int] = None,
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    max_seqlen_q: Optional[int] = None,
    max_seqlen_k: Optional[int] = None,
    return_lse: bool = False,
    diagonal: int = 0,
    tf32: bool = False,
    block_table: Any = None,
    seqlens_k: Any = None,
    page_indices: Any = None,
    page_indptr: Any = None,
    last_page_len: Any = None,
    cache_batch_idx: Any = None,
    kv_layout: PageLayout = "nhd",
    num_splits: int = 0,
    batch_invariant: bool = False,
    tree_mask: Any = None,
    k_new: Any = None,
    v_new: Any = None,
    rotary_cos: Any = None,
    rotary_sin: Any = None,
    rotary_style: RotaryStyle = "half",
    positions: Any = None,
    slots: Any = None,
    k_row_scale: Any = None,
    v_row_scale: Any = None,
    out: Any = None,
    **options: Unpack[CallOptions],
) -> Any:
    """Attention forward: softmax(scale q k^T + bias) v, row by row.

    q, k, v: tensors of one kind (torch, NumPy, DLPack), one data type (float32, float16, bfloat16, float8 e4m3)
        and one device; beside q of float32, float16 or bfloat16, k and v may be float8 e4m3 or int8 caches. Shapes for layout "bhsd": (batch, heads_q, seqlen_q, head_dim_qk),
        (batch, heads_kv, seqlen_k, head_dim_qk), (batch, heads_kv, seqlen_k, head_dim_v); for "bshd" heads and seqlen
        change places. heads_q is a multiple of heads_kv: query head h reads key head h // (heads_q // heads_kv). Any
        strides, as long as the head dim is contiguous; nothing is copied.
    layout: "bhsd" or "bshd".
    causal: True is mask="bottom_right".
    mask: "none", "top_left" (query i sees keys j <= i), "bottom_right" (j <= i + seqlen_k - seqlen_q).
    window: (left, right): query i sees keys i + o - left <= j <= i + o + right; -1 is no bound. o is seqlen_k - seqlen_q
        for mask "bottom_right" and for a window without a mask, else 0.
    diagonal: what the mask and the window are moved by, to the right, as torch.tril's: causal=True with -1 leaves the keys
        strictly before a query. ALiBi is not moved.
    scale: of the logits; None is 1 / sqrt(head_dim_qk).
    softcap: if positive, logits become softcap * tanh(logits / softcap), before the bias.
    bias: float32, broadcast to (batch, heads_q, seqlen_q, seqlen_k), added to the scaled logits.
    alibi: float32 slopes, (heads_q,) or (batch, heads_q): -slope * |i + o - j| is added to the logits, with the o of a
        window.
    sink: float32, (heads_q,): one more logit per head that joins the softmax's sum and no output.
    q_scale, k_scale, v_scale: what the values of float8 tensors, and of int8 caches, are multiplied by: float32 tensors on their device,
        positive. Shapes: () or (1,), one number; (batch, heads), one per head; (batch, heads, ceil(seqlen / 128)), one per
        head and 128 rows, counted from the beginning of a sequence. Dimensions of 1 are broadcast. heads and seqlen are
        heads_q and seqlen_q for q, else heads_kv and seqlen_k; with variable lengths batch is the number of sequences and
        seqlen the longest. None is 1. The scales of an 8-bit cache of pages may lie beside it, a number for each row:
        (pages, page_size, heads_kv) for kv_layout "nhd", (pages, heads_kv, page_size) for "hnd", and with a page_size of 1
        for each page.
    dropout_p: probability that a weight is dropped, 0 to below 1; the others are divided by 1 - dropout_p.
    seed: of dropout, 0 to 2**64 - 1: the same seed gives the same result, on every device. None draws one, from torch's
        default generator for torch tensors and else from Python's `random`.
    cu_seqlens_q, cu_seqlens_k: int32, (batch + 1,): variable lengths. Sequence b has the rows cu_seqlens[b] to
        cu_seqlens[b + 1] of q (and the output), or of k and v, whose shapes are then (heads, total, dim) for "bhsd" and
        (total, heads, dim) for "bshd".
    max_seqlen_q, max_seqlen_k: the longest of the sequences. None reads the offsets, which for tensors on a GPU waits
        for it.
    seqlens_k: int32, (batch,): keys and values lie in a cache, and sequence b has seqlens_k[b] of them. k and v are then
        tensors of pages of any size, which sequences may share. Key j of sequence b is row j % page_size of the page that
        block_table or page_indices names; with neither it is row j of page b, a dense cache. cu_seqlens_q alone packs
        queries. What no query sees is not read: rows behind a sequence's last key, entries behind its last page, and pages
        before the window of its first query may hold anything.
    kv_layout: of a cache, whatever the layout of q: "nhd" is (pages, page_size, heads_kv, head_dim), "hnd" (pages, heads_kv,
        page_size, head_dim); "vectorized", as Composable Kernel has them, k (pages, heads_kv, head_dim / x, page_size, x) and
        v (pages, heads_kv, page_size / x, head_dim_v, x), where x elements have 16 bytes. The CPU reads such pages of all
        types, CUDA devices of q's type and head dims up to 192, AMD GPUs none.
    block_table: int32, (batch, pages of the longest sequence): entry [b, j // page_size] names key j's page.
    page_indices, page_indptr: the same as one list: entry page_indptr[b] + j // page_size; int32. max_seqlen_k is a bound of
        seqlens_k then; with block_table the table's width is, unless it is given.
    last_page_len: int32, (batch,): with such a list, instead of seqlens_k: the keys of each sequence's last page, 1 to
        page_size; sequence b has the pages page_indptr[b] to page_indptr[b + 1].
    cache_batch_idx: int32, (batch,): of a dense cache, the row that each sequence lies in.
    num_splits: pieces that kernels for few queries cut the keys of the longest sequence into; 0 leaves it to a model of the
        device. With pages and a number, a sequence's result does not depend on its batch.
    batch_invariant: True gives a sequence the same bits whatever stands beside it, however many splits are named, however its
        keys are paged, and on any number of threads: one kernel takes all calls of these types, heads, traits and numbers of
        queries (in packed queries of any number). Where keys are cut follows from the sequence's own length: on the CPU they are
        not cut, which long sequences pay for on many threads; on CUDA devices into pieces of 256 keys and more. On AMD GPUs it is
        refused (Unsupported).
    tree_mask: which of a sequence's last keys, as many as it has queries, each query sees, as in a tree of drafted tokens:
        bool, (batch, seqlen_q, seqlen_q), or with cu_seqlens_q (total_q, max_seqlen_q); or its bits, int32 or uint32,
        (batch, seqlen_q, words) or (total_q, words), bit t % 32 of word t // 32 for key seqlen_k - seqlen_q + t. Keys before
        them are visible; mask and window hide keys beside it. It becomes a bias of the longest seqlen_k, so alibi is
        refused beside it.
    k_new, v_new: of keys in a cache (torch, NumPy): a key and a value for each of q's tokens, which the call writes into k and v
        before it reads them, as append_kv does; (batch, heads_kv, seqlen_q, dim) in the layout's order, with cu_seqlens_q
        (heads_kv, total, dim), of q's type. With n tokens of sequence b, token t becomes its key seqlens_k[b] - n + t: seqlens_k
        counts them. A sequence of no keys is padding: its tokens go nowhere. No sequence may see a key that another one of the
        call brings. Not of q in float8, nor of latent keys.
    rotary_cos, rotary_sin, rotary_style: with k_new, as append_kv's: new keys and the queries turn, q itself stays as it is.
    positions: int64, of each token; None: the number of its key.
    slots: int64, of each token: it goes to row slots % page_size of page slots // page_size instead, nowhere where that is
        negative. Tokens count b * seqlen_q + t, or with cu_seqlens_q cu_seqlens_q[b] + t.
    k_row_scale, v_row_scale: with k_new and a cache of 8 bits, in place of k_scale and v_scale: float32, a number for each row of the
        cache, (pages, page_size, heads_kv) for "nhd" and else (pages, heads_kv, page_size). The call chooses those of the new rows
        and writes them, as append_kv's.
    tf32: float32 tensors are rounded to 10 bits of mantissa in the products, where the device has such instructions; else
        the products are float32.
    return_lse: True returns (output, lse): lse is float32, (batch, heads_q, seqlen_q) or with variable lengths
        (heads_q, total_q), the natural logarithm of the softmax's sum, the sink included; -inf where a row sees nothing.
    out: where to write the output: (batch, heads_q, seqlen_q, head_dim_v) in the layout's order, any strides with a
        contiguous head dim; must not overlap the inputs. None makes a new dense tensor.
    kernel, threads, build, determinism, tuning: tilesmith.options', for this call alone.

    Returns the output, of the inputs' kind and data type (bfloat16 for float8 inputs without `out`), on their device; on
    a GPU it is queued on the current stream. A row that sees no key is 0. Sums are float32. A NaN or infinity in v may reach
    rows that do not see its key: a hidden key's weight is 0, and 0 times NaN is NaN. So padding is finite.

    The first call of a problem chooses a kernel and may compile it; later ones take a few microseconds.
    torch's autograd differentiates by q, k, v, bias, alibi and sink: results that require a gradient, lse too, carry one. Not of
    float8, keys in a cache and a given `out`, which are refused unless gradients are off; attention_backward is the same without autograd.

    Errors: ValueError (tilesmith.InvalidArgument), TypeError (tilesmith.WrongType), NotImplementedError
    (tilesmith.Unsupported: no kernel for this), MemoryError, RuntimeError; all with `message` and `hint`.
    """
    if k is None or v is None:
        raise WrongType(f"{'k' if k is None else 'v'} is None", "a tensor, as q is")
    serve = _SERVED_BY.get(type(q))
    if serve is None:
        serve = _servers.find("q", q)
    if options:
        serve = under("attention", options, _servers, serve)
    try:
        if last_page_len is not None:
            seqlens_k = lengths_of_pages(k, kv_layout, seqlens_k, page_indptr, last_page_len)
        if cache_batch_idx is not None:
            block_table = rows_as_pages(cache_batch_idx, block_table, page_indices)
        if tree_mask is not None:
            bias = tree_bias(q, k, tree_mask, layout, kv_layout, bias, alibi, seqlens_k, block_table, page_indptr, cu_seqlens_q, cu_seqlens_k,
                             max_seqlen_q, max_seqlen_k)  # fmt: skip
        if k_new is v_new is rotary_cos is rotary_sin is positions is slots is k_row_scale is v_row_scale is None:
            return serve(q, k, v, layout, causal, mask, window, scale, softcap, bias, alibi, sink, q_scale, k_scale, v_scale,
                         dropout_p, seed, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, return_lse, diagonal, tf32, block_table,
                         seqlens_k, page_indices, page_indptr, num_splits, batch_invariant, False, kv_layout, out)  # fmt: skip
        if k_new is None and v_new is None:
            raise InvalidArgument("k_new is None, and other arguments of new keys are given", "k_new and v_new, the keys and values of q's tokens")
        serve = append_attention if not options else under("attention", options, append_operator, append_attention)
        return serve((q, k, v, layout, causal, mask, window, scale, softcap, bias, alibi, sink, q_scale, k_scale, v_scale,
                      dropout_p, seed, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, return_lse, diagonal, tf32, block_table,
                      seqlens_k, page_indices, page_indptr, num_splits, batch_invariant, False, kv_layout, out),
                     (k_new, v_new, rotary_cos, rotary_sin, positions, slots, k_row_scale, v_row_scale), rotary_style)  # fmt: skip
    except Error:
        raise
    except Exception as error:
        raise refusal("attention", error, locals()) from error


def mla_decode(
    q: Array,
    cache: Any,
    *,
    seqlens_k: Any,
    block_table: Any = None,
    latent: int = 512,
    scale: Optional[float] = None,
    layout: Layout = "bshd",
    causal: bool = True,
    window: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    k_scale: Any = None,
    cu_seqlens_q: Any = None,
    max_seqlen_q: Optional[int] = None,
    max_seqlen_k: Optional[int] = None,
    page_indices: Any = None,
    page_indptr: Any = None,
    num_splits: int = 0,
    batch_invariant: bool = False,
    out: Any = None,
    **options: Unpack[CallOptions],
) -> tuple[Any, Any]:
    """Multi-head latent attention on a cache of latent rows, which all heads share: attention with the rows as keys and their
    first `latent` elements as values. The up-projections are the caller's: W_UK goes into q before, W_UV onto the output.

    q: (batch, seqlen_q, heads, dim) for layout "bshd", (batch, heads, seqlen_q, dim) for "bhsd"; with cu_seqlens_q
        (total, heads, dim) or (heads, total, dim). A row is the absorbed query beside its turned part, 512 + 64 elements in
        DeepSeek's models.
    cache: (pages, page_size, dim), of q's data type, or float8 e4m3 or int8 with a k_scale; without block_table and
        page_indices sequence b lies in page b.
    scale: of the logits; None is 1 / sqrt(dim). DeepSeek's models ask for 1 / sqrt(128 + 64): it does not follow from dim.
    k_scale: of a cache of 8 bits: (), or (pages, page_size, 1) beside the cache, with a 1 for what is shared.
    causal: the last query sees all keys of its sequence, each before it one key less.
    All others are attention's.

    Returns (o, lse): o like q but with `latent` elements, and the log-sum-exp as attention gives it. Errors: attention's.
    """
    if getattr(cache, "ndim", 0) != 3 or not 1 <= latent <= cache.shape[-1]:
        raise InvalidArgument(f"cache has the shape {shown(tuple(getattr(cache, 'shape', ())))}, latent is {shown(latent)}",
                              "(pages, page_size, dim), and latent from 1 to dim")  # fmt: skip
    rows = cache[:, :, None]
    serve = _SERVED_BY.get(type(q))
    if serve is None:
        serve = _servers.find("q", q)
    if options:
        serve = under("mla_decode", options, _servers, serve)
    try:
        o, lse = serve(q, rows, rows[..., :latent], layout, causal, "none", window, scale, softcap, None, None, None, None, k_scale,
                       None, 0.0, None, cu_seqlens_q, None, max_seqlen_q, max_seqlen_k, True, 0, False, block_table, seqlens_k,
                       page_indices, page_indptr, num_splits, batch_invariant, True, "nhd", out)  # fmt: skip
        return o, lse
    except Error:
        raise
    except Exception as error:
        raise refusal("mla_decode", error, locals()) from error


listed_functions.update((attention, mla_decode))

"""Attention of queries that share the beginning of their keys."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence, TypeVar, Unpack

from tilesmith._attention import attention
from tilesmith._errors import InvalidArgument, WrongType
from tilesmith._serving import merge_states
from tilesmith._views import shown
from tilesmith.typing import CallOptions, KvLayout, Layout

Array = TypeVar("Array")  #: torch.Tensor or numpy.ndarray

_OF_A_LEVEL = frozenset(("cu_seqlens_q", "max_seqlen_q", "block_table", "seqlens_k", "max_seqlen_k", "page_indices", "page_indptr",
                         "last_page_len"))  # fmt: skip


def cascade_attention(
    q: Array,
    k_cache: Any,
    v_cache: Any,
    *,
    levels: Sequence[Mapping[str, Any]],
    layout: Layout = "bhsd",
    kv_layout: KvLayout = "nhd",
    causal: bool = True,
    scale: Optional[float] = None,
    softcap: float = 0.0,
    sink: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    out: Any = None,
    **options: Unpack[CallOptions],
) -> tuple[Any, Any]:
    """Attention over keys that sequences share, and over their own: what is shared is read once for all queries that see it.

    q: packed queries, (heads_q, total, dim) for layout "bhsd", (total, heads_q, dim) for "bshd".
    k_cache, v_cache: the cache that has the pages of all levels, as of attention.
    levels: one or more dicts of attention's arguments that say which queries see which keys: cu_seqlens_q, max_seqlen_q,
        seqlens_k, block_table, max_seqlen_k, page_indices, page_indptr, last_page_len. All levels divide the same total of
        queries, from the keys that come first (a prompt of all: cu_seqlens_q is [0, total]) to each sequence's own. Queries
        see all keys of a level but of the last, where they are a sequence's last queries.
    causal: of the last level, as of attention.
    k_scale, v_scale: of a cache of 8 bits: of one number, (heads_kv,), or beside the cache's pages.
    sink: joins once.
    All others are attention's.

    Returns (output, lse) as attention does: what attention on each sequence's keys of all levels gives, merged in the
    levels' order. Errors: those of attention and merge_states.
    """
    if not isinstance(levels, Sequence) or not levels or not all(isinstance(level, Mapping) for level in levels):
        raise WrongType(f"levels is {shown(levels)}", "a list of dicts, one or more")
    for number, level in enumerate(levels):
        if unknown := sorted(set(level) - _OF_A_LEVEL):
            raise InvalidArgument(f"levels[{number}] has {', '.join(map(shown, unknown))}", ", ".join(sorted(_OF_A_LEVEL)))
        if level.get("cu_seqlens_q") is None:
            raise InvalidArgument(f"levels[{number}] has no cu_seqlens_q", "the queries of each sequence, or of those that share keys")
    last = len(levels) - 1
    parts = [
        attention(q, k_cache, v_cache, layout=layout, kv_layout=kv_layout, causal=causal if number == last else False, scale=scale,
                  softcap=softcap, sink=sink if number == last else None, k_scale=k_scale, v_scale=v_scale, return_lse=True,
                  out=out if last == 0 else None, **level, **options)
        for number, level in enumerate(levels)
    ]  # fmt: skip
    if last == 0:
        o, lse = parts[0]
        return o, lse
    outputs, lses = zip(*parts)
    return merge_states(outputs, lses, layout=layout, out=out)

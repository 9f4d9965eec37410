"""Other ways to say where the keys of a cache lie, in terms of seqlens_k and block_table. No element is read on the host."""

from __future__ import annotations

from typing import Any

from tilesmith._errors import InvalidArgument


def page_size_of(k: Any, kv_layout: str) -> int:
    dimension = {"hnd": 2, "vectorized": 3}.get(kv_layout, 1)
    if len(k.shape) <= dimension:
        raise InvalidArgument(f"k has the shape {tuple(k.shape)}, and kv_layout is {kv_layout!r}", "a cache of pages")
    return int(k.shape[dimension])


def lengths_of_pages(k: Any, kv_layout: str, seqlens_k: Any, page_indptr: Any, last_page_len: Any) -> Any:
    """The keys of sequences that fill their listed pages but for the last."""
    if seqlens_k is not None or page_indptr is None:
        raise InvalidArgument(f"last_page_len is given {'with seqlens_k' if seqlens_k is not None else 'without page_indptr'}",
                              "seqlens_k, or page_indices, page_indptr and last_page_len")  # fmt: skip
    page_size = page_size_of(k, kv_layout)
    pages = page_indptr[1:] - page_indptr[:-1]
    if tuple(pages.shape) != tuple(last_page_len.shape):
        raise InvalidArgument(f"page_indptr has the shape {tuple(page_indptr.shape)}, last_page_len {tuple(last_page_len.shape)}",
                              "(batch + 1,) and (batch,)")  # fmt: skip
    return ((pages - 1) * page_size + last_page_len) * (pages > 0)


def rows_as_pages(cache_batch_idx: Any, block_table: Any, page_indices: Any) -> Any:
    """A table of one page for each sequence: its row of the cache."""
    if block_table is not None or page_indices is not None:
        raise InvalidArgument("cache_batch_idx is given with pages", "a dense cache, or a table of pages")
    if len(cache_batch_idx.shape) != 1:
        raise InvalidArgument(f"cache_batch_idx has the shape {tuple(cache_batch_idx.shape)}", "(batch,)")
    return cache_batch_idx[:, None]

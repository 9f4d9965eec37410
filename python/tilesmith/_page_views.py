"""Caches of pages and their scales as the library describes them."""

from __future__ import annotations

from tilesmith._errors import InvalidArgument
from tilesmith._views import View, broadcast, dense_strides


def rows_of_vectors(name: str, view: View, along_dim: bool) -> View:
    """Vectorized pages as if they were pages of rows, (pages, heads, page size, dim): the library reads no stride of a row."""
    unit = 16 // {"fp32": 4, "fp16": 2, "bf16": 2}.get(view.data_type, 1)
    shape, text = view.shape, f"(pages, heads, {'dim / x, page size' if along_dim else 'page size / x, dim'}, x)"
    if len(shape) != 5 or shape[4] != unit:
        raise InvalidArgument(f"{name} has the shape {shape}, and kv_layout is 'vectorized'", f"{text} with x = {unit}, the elements of 16 bytes")
    if 0 not in shape and any(size > 1 and step != dense for size, step, dense in zip(shape[2:], view.strides[2:], dense_strides(shape[2:]))):
        raise InvalidArgument(f"{name} has the strides {view.strides}", f"{text} whose last three dimensions are contiguous")
    rows, dim = (shape[3], shape[2] * unit) if along_dim else (shape[2] * unit, shape[3])
    return view._replace(shape=(*shape[:2], rows, dim), strides=(*view.strides[:2], 0, 1))


def scale_by_pages(name: str, view: View, kv_layout: str, pages: int, heads: int, page_size: int) -> tuple[int, int, int]:
    """The steps from page to page, head to head and row to row of scales that lie as the cache does; dimensions of 1 broadcast."""
    if kv_layout != "nhd":
        page, head, row = broadcast(name, view, "(pages, heads_kv, page size)", (pages, heads, page_size))
    else:
        page, row, head = broadcast(name, view, "(pages, page size, heads_kv)", (pages, page_size, heads))
    return page, head, row

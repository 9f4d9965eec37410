"""A mask of drafted tokens as attention's bias: -inf where a query does not see one of its sequence's last keys."""

from __future__ import annotations

import sys
from typing import Any, Optional

from tilesmith._cache_addresses import page_size_of
from tilesmith._errors import InvalidArgument, WrongType
from tilesmith._views import shown, whole


def _longest(name: str, given: Any, lengths: Any) -> int:
    """What the caller bounds lengths by, or, without a bound, the longest of them."""
    longest = int(lengths.max()) if given is None else whole(name, given)
    if longest < 0:
        raise InvalidArgument(f"{name} is {longest}", "0 or more")
    return longest


def tree_bias(q: Any, k: Any, tree_mask: Any, layout: str, kv_layout: str, bias: Any, alibi: Any, seqlens_k: Any, block_table: Any,
              page_indptr: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: Optional[int], max_seqlen_k: Optional[int]) -> Any:  # fmt: skip
    """float32 (batch, 1, longest seqlen_q, longest seqlen_k), and the caller's bias on top. Nothing is read on the host that the
    call would not read."""
    torch = sys.modules.get("torch")
    of_torch = torch is not None and isinstance(q, torch.Tensor)
    xp: Any = torch if of_torch else sys.modules["numpy"]
    on = {"device": q.device} if of_torch else {}
    if alibi is not None:
        raise InvalidArgument("tree_mask and alibi are given", "one of the two; ALiBi can be written into the bias")
    mask = tree_mask
    if not hasattr(mask, "shape") or not hasattr(mask, "dtype") or type(mask).__module__.split(".")[0] != xp.__name__:
        raise WrongType(f"tree_mask is {shown(mask)}", f"a {'torch tensor' if of_torch else 'NumPy array'}, as q is")
    row = 1 if (layout == "bshd") == (cu_seqlens_q is None) else 2 if cu_seqlens_q is None else 0
    rows = q.shape[row]
    wanted = tuple(q.shape[:1]) + (rows,) if cu_seqlens_q is None else (rows,)
    if str(mask.dtype).split(".")[-1] in ("int32", "uint32") and len(mask.shape) > 0:  # words of 32 bits, the first the lowest
        bits = xp.arange(32, dtype=xp.int64, **on)
        wide = mask.to(xp.int64) if of_torch else mask.astype(xp.int64)
        mask = (((wide[..., None] >> bits) & 1) != 0).reshape(*mask.shape[:-1], 32 * mask.shape[-1])
    if str(mask.dtype).split(".")[-1] != "bool" or tuple(mask.shape[:-1]) != wanted:
        raise WrongType(f"tree_mask has the type {tree_mask.dtype} and the shape {tuple(tree_mask.shape)}",
                        f"bool, int32 or uint32 of {wanted} and a last dimension of keys, or of words of 32")  # fmt: skip
    counts: Any = rows
    if cu_seqlens_q is not None:
        counts = (cu_seqlens_q[1:] - cu_seqlens_q[:-1])[:, None]
        rows = _longest("max_seqlen_q", max_seqlen_q, counts)
        at = cu_seqlens_q[:-1][:, None] + xp.arange(rows, dtype=xp.int64, **on)
        mask = mask[at.clip(0, max(0, mask.shape[0] - 1))]
    if seqlens_k is not None:
        page_size = page_size_of(k, kv_layout)
        keys = page_size if block_table is None else block_table.shape[1] * page_size
        if max_seqlen_k is not None or page_indptr is not None:
            keys = _longest("max_seqlen_k", max_seqlen_k, seqlens_k)
        lengths: Any = seqlens_k[:, None]
    elif cu_seqlens_k is not None:
        lengths = (cu_seqlens_k[1:] - cu_seqlens_k[:-1])[:, None]
        keys = _longest("max_seqlen_k", max_seqlen_k, lengths)
    else:
        keys = k.shape[1 if layout == "bshd" else 2]
        lengths = keys
    batch = mask.shape[0]
    if mask.shape[-1] < rows:
        raise InvalidArgument(f"tree_mask has the shape {tuple(tree_mask.shape)}", f"a last dimension of {rows} keys or more")
    drafted = xp.arange(keys, dtype=xp.int64, **on)[None] - lengths + counts  # of each key its number among the last, if not negative
    drafted = xp.broadcast_to(drafted, (batch, keys))
    index = xp.broadcast_to(drafted.clip(0, max(0, mask.shape[-1] - 1))[:, None], (batch, mask.shape[1], keys))
    seen = xp.gather(mask, 2, index) if of_torch else xp.take_along_axis(mask, index, 2)
    hidden = ((drafted >= 0)[:, None] & ~seen)[:, None]
    if of_torch:
        made = xp.zeros(hidden.shape, dtype=xp.float32, **on).masked_fill(hidden, -xp.inf)
    else:
        made = xp.where(hidden, xp.float32(-xp.inf), xp.float32(0))
    return made if bias is None else bias + made

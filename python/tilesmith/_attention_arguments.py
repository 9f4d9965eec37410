"""What attention is called with: its arguments, the tensors among them, and what else decides how it is computed."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

from tilesmith._errors import InvalidArgument, WrongType
from tilesmith._views import View, shown, whole


class Tensors(NamedTuple):
    q: View
    k: View
    v: View
    bias: Optional[View] = None
    alibi: Optional[View] = None
    sink: Optional[View] = None
    q_scale: Optional[View] = None
    k_scale: Optional[View] = None
    v_scale: Optional[View] = None
    cu_seqlens_q: Optional[View] = None
    cu_seqlens_k: Optional[View] = None
    block_table: Optional[View] = None
    seqlens_k: Optional[View] = None
    page_indices: Optional[View] = None
    page_indptr: Optional[View] = None
    out: Optional[View] = None


class Options(NamedTuple):
    """The arguments of `attention` that are no tensors."""

    layout: str
    causal: bool
    mask: str
    window: tuple[int, int]
    scale: Optional[float]
    softcap: float
    dropout_p: float
    max_seqlen_q: Optional[int]
    max_seqlen_k: Optional[int]
    return_lse: bool
    diagonal: int = 0
    tf32: bool = False
    num_splits: int = 0
    batch_invariant: bool = False
    latent: bool = False  #: v is a view of k's first elements
    kv_layout: str = "nhd"


class Arguments(NamedTuple):
    """What `attention` was called with, in the order in which it tells it to who serves the tensors."""

    q: Any
    k: Any
    v: Any
    layout: Any
    causal: Any
    mask: Any
    window: Any
    scale: Any
    softcap: Any
    bias: Any
    alibi: Any
    sink: Any
    q_scale: Any
    k_scale: Any
    v_scale: Any
    dropout_p: Any
    seed: Any
    cu_seqlens_q: Any
    cu_seqlens_k: Any
    max_seqlen_q: Any
    max_seqlen_k: Any
    return_lse: Any
    diagonal: Any
    tf32: Any
    block_table: Any
    seqlens_k: Any
    page_indices: Any
    page_indptr: Any
    num_splits: Any
    batch_invariant: Any
    latent: Any
    kv_layout: Any
    out: Any

    @property
    def tensors(self) -> tuple[Any, ...]:
        """In the order of Tensors."""
        return (self.q, self.k, self.v, self.bias, self.alibi, self.sink, self.q_scale, self.k_scale, self.v_scale,
                self.cu_seqlens_q, self.cu_seqlens_k, self.block_table, self.seqlens_k, self.page_indices,
                self.page_indptr, self.out)  # fmt: skip

    @property
    def options(self) -> Options:
        return Options(self.layout, self.causal, self.mask, as_window(self.window), self.scale, self.softcap,
                       self.dropout_p, self.max_seqlen_q, self.max_seqlen_k, self.return_lse, self.diagonal, self.tf32,
                       self.num_splits, self.batch_invariant, self.latent, self.kv_layout)  # fmt: skip


def as_window(window: Any) -> tuple[Any, ...]:
    """The argument, which may be any sequence, as what a call is found by."""
    try:
        return tuple(window)
    except TypeError:
        raise WrongType(f"window is {shown(window)}", "(left, right), bounds of 0 or more, or -1 for none") from None


def check_seed(seed: object) -> int:
    seed = whole("seed", seed)
    if not 0 <= seed < 1 << 64:
        raise InvalidArgument(f"seed is {seed}", "0 to 2**64 - 1")
    return seed

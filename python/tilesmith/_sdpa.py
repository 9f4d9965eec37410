"""torch's scaled_dot_product_attention, by its signature and meaning."""

from __future__ import annotations

import math
import sys
from typing import Any, Optional, Unpack

from tilesmith._attention import Array, attention
from tilesmith._candidates import listed_functions
from tilesmith._errors import Error, InvalidArgument, WrongType
from tilesmith._options import check_names
from tilesmith._refusals import refusal
from tilesmith.typing import CallOptions


def scaled_dot_product_attention(
    query: Array,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
    **options: Unpack[CallOptions],
) -> Array:
    """torch.nn.functional.scaled_dot_product_attention with Tilesmith's kernels: the same arguments, shapes and meaning.

    query: (..., heads_q, seqlen_q, head_dim_qk), key: (..., heads, seqlen_k, head_dim_qk), value: (..., heads, seqlen_k,
        head_dim_v), all with the same leading dimensions, of which there may be none or any number, and heads_q equal to
        heads unless `enable_gqa`. A tensor of three dimensions has one leading dimension and no heads, as in torch. torch
        tensors on a CPU or a GPU, or NumPy arrays; data types and devices as in `attention`.
    attn_mask: None, or a tensor that broadcasts to (..., heads_q, seqlen_q, seqlen_k). Of type bool: True where a query sees
        a key. Of a floating type: added to the scaled logits. It is made float32 on the way.
    dropout_p: as in torch it applies whenever it is above 0, in evaluation too. Which weights are dropped differs from
        torch's choice.
    is_causal: query i sees keys j <= i, counted from the top left; not together with attn_mask.
    scale: of the logits; None is 1 / sqrt(head_dim_qk).
    enable_gqa: allows heads_q to be a multiple of heads: query head h reads key head h // (heads_q // heads).
    kernel, threads, build, determinism, tuning: tilesmith.options', for this call alone.

    Returns (..., heads_q, seqlen_q, head_dim_v), of the query's kind, type and device. A row that sees no key is 0, as in torch since 2.5.
    Differentiable by query, key, value and a floating attn_mask.

    Errors: as `attention`.
    """
    try:
        result: Array = _compute(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, options)
        return result
    except Error:
        raise
    except Exception as error:
        raise refusal("scaled_dot_product_attention", error, locals()) from error


def _compute(query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool, scale: Optional[float],
             enable_gqa: bool, options: CallOptions) -> Any:  # fmt: skip
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not hasattr(tensor, "shape") or not hasattr(type(tensor), "reshape"):  # the type: torch.compile knows its methods
            raise WrongType(f"{name} is {type(tensor).__name__}", "a torch tensor or a NumPy array")
        if len(tensor.shape) < 2:
            raise InvalidArgument(f"{name} has {len(tensor.shape)} dimensions", "(..., heads, seqlen, head_dim), at least two")
    if not isinstance(is_causal, bool) or not isinstance(enable_gqa, bool):
        name, given = ("is_causal", is_causal) if not isinstance(is_causal, bool) else ("enable_gqa", enable_gqa)
        raise WrongType(f"{name} is {type(given).__name__}", "True or False")
    if is_causal and attn_mask is not None:
        raise InvalidArgument("is_causal beside attn_mask", "one of them: a causal attn_mask, or None")
    # Without heads (three dimensions) the leading dimension is taken for them, which is the same thing.
    *leading, rows, _ = query.shape
    has_heads = len(query.shape) > 2
    heads_q = leading[-1] if has_heads else 1
    lead = tuple(leading[:-1])
    heads = key.shape[-3] if len(key.shape) > 2 else 1
    for name, tensor in (("key", key), ("value", value)):
        if tuple(tensor.shape[:-3]) != lead or (len(tensor.shape) > 2) != has_heads or (tensor.shape[-3] if has_heads else 1) != heads:
            raise InvalidArgument(f"{name} has the shape {tuple(tensor.shape)}, query {tuple(query.shape)}, key {tuple(key.shape)}",
                                  "the same leading dimensions in all, the same heads in key and value")  # fmt: skip
    if heads != heads_q and not enable_gqa:
        raise InvalidArgument(f"query has {heads_q} heads, key has {heads}", "the same number, or enable_gqa=True")
    batch = math.prod(lead)
    q, k, v = query, key, value
    if len(query.shape) != 4:
        q, k, v = (t.reshape(batch, h, *t.shape[-2:]) for t, h in ((query, heads_q), (key, heads), (value, heads)))
    bias = None
    if attn_mask is not None:
        bias = _bias_of(query, attn_mask, (*leading, rows, key.shape[-2]), batch, heads_q)
    check_names("scaled_dot_product_attention", options)
    o = attention(q, k, v, mask="top_left" if is_causal else "none", scale=scale, bias=bias, dropout_p=dropout_p,
                  **options)  # fmt: skip
    return o if len(query.shape) == 4 else o.reshape(*leading, rows, value.shape[-1])


def _bias_of(query: Any, mask: Any, shape: tuple[int, ...], batch: int, heads: int) -> Any:
    """What `mask` adds to the logits, float32: (batch or 1, heads or 1, rows or 1, columns or 1)."""
    if not hasattr(mask, "shape") or not hasattr(mask, "dtype"):
        raise WrongType(f"attn_mask is {type(mask).__name__}", "a tensor of the query's kind, bool or floating")
    given = tuple(mask.shape)
    fits = len(given) <= len(shape) and all(size in (1, full) for size, full in zip(reversed(given), reversed(shape)))
    if not fits:
        raise InvalidArgument(f"attn_mask has the shape {given}", f"one that broadcasts to {shape}")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(query, torch.Tensor):
        if not isinstance(mask, torch.Tensor):
            raise WrongType(f"attn_mask is {type(mask).__name__}", "a torch tensor, as query is")
        if mask.dtype == torch.bool:
            bias = torch.zeros(given, dtype=torch.float32, device=mask.device).masked_fill(mask.logical_not(), -math.inf)
        elif mask.dtype.is_floating_point:
            bias = mask.to(torch.float32)
        else:
            raise WrongType(f"attn_mask has the data type {mask.dtype}", "torch.bool, or a floating type")
        expand = bias.expand
    else:
        import numpy

        try:
            mask = numpy.asarray(mask)
        except Exception:  # by another library, for a tensor that cannot become an array
            raise WrongType(f"attn_mask is {type(mask).__name__}", "a NumPy array, as query is") from None
        if mask.dtype == numpy.bool_:
            bias = numpy.where(mask, numpy.float32(0), numpy.float32(-math.inf))
        elif mask.dtype.kind == "f":
            bias = mask.astype(numpy.float32, copy=False)
        else:
            raise WrongType(f"attn_mask has the data type {mask.dtype}", "bool, or a floating type")

        def expand(*sizes: int) -> Any:
            return numpy.broadcast_to(bias, sizes)

    # A leading dimension that the mask does not share is one of 1; several of them, of which some are shared, are filled in.
    full = (1,) * (len(shape) - len(given)) + given
    lead, own = full[:-3], full[-3:] if len(full) > 2 else (1,) + full[-2:]
    if any(size != 1 for size in lead):
        return expand(*shape[:-3], *own).reshape(batch, *own)
    return bias.reshape(1, *own)


listed_functions.add(scaled_dot_product_attention)

"""Attention, its gradients and matrix products in float64, from the documented formulas alone."""

from __future__ import annotations

import math

import numpy as np


def attention(q, k, v, **traits):
    """(output, lse) of (batch, heads, seqlen, dim) arrays."""
    weights, lse, _ = _weights(q, k, **traits)
    kept = _kept(weights.shape, **traits)
    return np.einsum("bhij,bhjd->bhid", weights * kept, _for_each_query_head(v, q.shape[1])), lse


def attention_backward(do, q, k, v, *, dlse=0.0, **traits):
    """dq, dk, dv, dbias (not summed), dalibi of (batch, heads), dsink, by name."""
    heads_kv = k.shape[1]
    weights, lse, logits = _weights(q, k, **traits)
    scale = traits.get("scale")
    scale = 1 / np.sqrt(q.shape[-1]) if scale is None else scale
    softcap, sink = traits.get("softcap", 0.0), traits.get("sink")
    kept = _kept(weights.shape, **traits)
    do, wide_q = np.asarray(do, np.float64), np.asarray(q, np.float64)
    wide_k, wide_v = (_for_each_query_head(x, q.shape[1]) for x in (k, v))
    g = kept * np.einsum("bhid,bhjd->bhij", do, wide_v)
    delta = (weights * g).sum(-1) - dlse
    dt = weights * (g - delta[..., None])
    dx = scale * (dt if not softcap else dt * (1 - (logits / softcap) ** 2))
    of_group = lambda x: x.reshape(x.shape[0], heads_kv, q.shape[1] // heads_kv, *x.shape[2:]).sum(2)  # noqa: E731
    saw = np.where(np.isfinite(lse), lse, np.inf)  # a row that saw nothing adds nothing
    return {
        "dq": np.einsum("bhij,bhjd->bhid", dx, wide_k),
        "dk": of_group(np.einsum("bhij,bhid->bhjd", dx, wide_q)),
        "dv": of_group(np.einsum("bhij,bhid->bhjd", weights * kept, do)),
        "dbias": dt,
        "dalibi": -(dt * np.abs(_distances(q, k, **traits))).sum((2, 3)),
        "dsink": None if sink is None else -(np.exp(np.asarray(sink, np.float64)[None, :, None] - saw) * delta).sum((0, 2)),
    }


def _for_each_query_head(x, heads_q):
    return np.repeat(np.asarray(x, np.float64), heads_q // x.shape[1], axis=1)


def _distances(q, k, mask="none", window=(-1, -1), **_):
    """From each key to each query's diagonal: i + o - j."""
    rows_q, rows_k = q.shape[2], k.shape[2]
    windowed = tuple(window) != (-1, -1)
    offset = rows_k - rows_q if mask == "bottom_right" or (mask == "none" and windowed) else 0
    return np.arange(rows_q)[:, None] + offset - np.arange(rows_k)[None, :]


def _weights(q, k, *, mask="none", window=(-1, -1), diagonal=0, scale=None, softcap=0.0, bias=None, alibi=None, sink=None,
             dropout_p=0.0, seed=0):  # fmt: skip
    """The softmax's weights, the log-sum-exp, and the logits as the soft cap gives them."""
    batch, heads_q, rows_q, dim = q.shape
    s = (1 / np.sqrt(dim) if scale is None else scale) * np.einsum(
        "bhid,bhjd->bhij", np.asarray(q, np.float64), _for_each_query_head(k, heads_q))  # fmt: skip
    if softcap:
        s = softcap * np.tanh(s / softcap)
    capped = s
    distance = _distances(q, k, mask, window)
    if bias is not None:
        s = s + np.asarray(bias, np.float64)
    if alibi is not None:
        s = s - np.broadcast_to(np.asarray(alibi, np.float64), (batch, heads_q))[..., None, None] * np.abs(distance)
    distance = distance + diagonal
    visible = np.ones(distance.shape, bool)
    if mask != "none":
        visible &= distance >= 0
    if window[0] >= 0:
        visible &= distance <= window[0]
    if window[1] >= 0:
        visible &= distance >= -window[1]
    s = np.where(visible, s, -np.inf)
    logits = s if sink is None else np.concatenate(
        [s, np.broadcast_to(np.asarray(sink, np.float64)[None, :, None, None], (*s.shape[:3], 1))], axis=-1)  # fmt: skip
    top = np.max(logits, axis=-1, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    total = np.exp(logits - top).sum(-1, keepdims=True)
    weights = np.exp(s - top) / np.where(total == 0, 1, total)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + top)[..., 0]
    return weights, lse, capped


def _kept(shape, dropout_p=0.0, seed=0, **_):
    """What dropout multiplies the weights by."""
    if not dropout_p:
        return 1.0
    threshold = round(dropout_p * 65536)
    return keeps(threshold, seed, *shape) / (1 - threshold / 65536)


def keeps(threshold, seed, batch, heads, rows_q, rows_k):
    """Which (query, key) pairs dropout keeps: Philox 4x32-10, counter (j / 8, i, b * heads + h, 0), key seed; eight
    16-bit values a counter."""
    blocks = -(-rows_k // 8)
    shape = (batch, heads, rows_q, blocks)
    b, h, i, block = np.indices(shape, dtype=np.uint64)
    words = _philox([block, i, b * np.uint64(heads) + h, np.zeros(shape, np.uint64)], seed & 0xFFFFFFFF, seed >> 32)
    values = [half for word in words for half in (word & np.uint64(0xFFFF), word >> np.uint64(16))]
    return (np.stack(values, -1).reshape(batch, heads, rows_q, blocks * 8)[..., :rows_k] >= threshold).astype(float)


def _philox(counter, key_low, key_high):
    low32, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    c0, c1, c2, c3 = counter
    for _ in range(10):
        first, second = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = ((second >> shift) ^ c1 ^ np.uint64(key_low), second & low32,
                          (first >> shift) ^ c3 ^ np.uint64(key_high), first & low32)  # fmt: skip
        key_low, key_high = (key_low + 0x9E3779B9) & 0xFFFFFFFF, (key_high + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


_erf = np.vectorize(math.erf, otypes=[float])


def _sigmoid(v):
    return 0.5 * (1 + np.tanh(v / 2))


ACTIVATIONS = {
    "relu": lambda v: np.maximum(v, 0),
    "gelu": lambda v: v * (1 + _erf(v / np.sqrt(2))) / 2,
    "gelu_tanh": lambda v: v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3))) / 2,
    "silu": lambda v: v * _sigmoid(v),
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
}
GATES = {"glu": "sigmoid", "reglu": "relu", "geglu": "gelu", "geglu_tanh": "gelu_tanh", "swiglu": "silu"}


def matmul(a, b, *, alpha=1, beta=1, c=None, bias=None, activation=None, gate=None, multiply=None, residual=None, clamp=None,
           scale_a=None, scale_b=None):  # fmt: skip
    """Of arrays of two dimensions or more; scale_a broadcasts to (..., m, 1), scale_b to (1, n)."""
    wide = lambda x: np.asarray(x, np.float64)  # noqa: E731
    v = alpha * (wide(a) @ wide(b))
    if scale_a is not None:
        scale_a = wide(scale_a)
        v = v * (scale_a[..., None] if scale_a.ndim else scale_a)
    if scale_b is not None:
        v = v * wide(scale_b)
    if c is not None:
        v = v + beta * wide(c)
    if bias is not None:
        v = v + wide(bias)
    if activation is not None:
        v = ACTIVATIONS[activation](v)
    if gate is not None:
        v = ACTIVATIONS[GATES[gate]](v[..., 0::2]) * v[..., 1::2]
    if multiply is not None:
        v = v * wide(multiply)
    if residual is not None:
        v = v + wide(residual)
    return v if clamp is None else np.clip(v, *clamp)

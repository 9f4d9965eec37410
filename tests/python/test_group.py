"""Variable lengths: sequences packed one after the other."""

import numpy as np
import pytest
from conftest import assert_attention

import tilesmith

LENGTHS_Q, LENGTHS_K = (5, 0, 33, 1), (9, 4, 20, 0)


def offsets(lengths):
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


@pytest.fixture
def packed(rng):
    """q, k, v as (heads, total, dim)."""
    return tuple(rng.uniform(-1, 1, (heads, sum(lengths), 64)).astype(np.float32)
                 for heads, lengths in ((4, LENGTHS_Q), (2, LENGTHS_K), (2, LENGTHS_K)))  # fmt: skip


def check(o, lse, q, k, v, **options):
    cu_q, cu_k = offsets(LENGTHS_Q), offsets(LENGTHS_K)
    for b in range(len(LENGTHS_Q)):
        rows_q, rows_k = slice(cu_q[b], cu_q[b + 1]), slice(cu_k[b], cu_k[b + 1])
        one = (o[None, :, rows_q], lse[None, :, rows_q])
        assert_attention(one, q[None, :, rows_q], k[None, :, rows_k], v[None, :, rows_k], **options)


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("longest", [None, (33, 20), (64, 64)])
def test_group(packed, layout, longest):
    tensors = packed if layout == "bhsd" else [np.ascontiguousarray(x.swapaxes(0, 1)) for x in packed]
    longest_q, longest_k = longest or (None, None)
    o, lse = tilesmith.attention(
        *tensors, layout=layout, causal=True, cu_seqlens_q=offsets(LENGTHS_Q), cu_seqlens_k=offsets(LENGTHS_K),
        max_seqlen_q=longest_q, max_seqlen_k=longest_k, return_lse=True)  # fmt: skip
    assert o.shape == tensors[0].shape and lse.shape == (4, sum(LENGTHS_Q))
    check(o if layout == "bhsd" else o.swapaxes(0, 1), lse, *packed, mask="bottom_right")


def test_offsets_that_cannot_be(packed):
    cu_q, cu_k = offsets(LENGTHS_Q), offsets(LENGTHS_K)
    with pytest.raises(ValueError, match="one of cu_seqlens_q and cu_seqlens_k"):
        tilesmith.attention(*packed, cu_seqlens_q=cu_q)
    with pytest.raises(TypeError, match="cu_seqlens_k has the type int64"):
        tilesmith.attention(*packed, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k.astype(np.int64))
    with pytest.raises(ValueError, match="cu_seqlens_q has 4 offsets, cu_seqlens_k 5"):
        tilesmith.attention(*packed, cu_seqlens_q=cu_q[:-1], cu_seqlens_k=cu_k)
    with pytest.raises(ValueError, match=r"cu_seqlens_q\[3\] - cu_seqlens_q\[2\] is 33"):
        tilesmith.attention(*packed, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, max_seqlen_q=32)
    with pytest.raises(ValueError, match=r"q has the shape .* \(\(heads, total, dim\)\)"):
        tilesmith.attention(*(x[None] for x in packed), cu_seqlens_q=cu_q, cu_seqlens_k=cu_k)
    with pytest.raises(ValueError, match="q has the shape .* variable lengths need"):
        tilesmith.attention(*packed)
    with pytest.raises(ValueError, match="max_seqlen_q is given without cu_seqlens"):
        tilesmith.attention(*(x[None] for x in packed), max_seqlen_q=8)


def test_offsets_beyond_the_tensor(packed):
    cu_q, cu_k = offsets(LENGTHS_Q), offsets(LENGTHS_K)
    with pytest.raises(ValueError, match=r"cu_seqlens_q\[4\] is 39 \(at most 38"):
        tilesmith.attention(packed[0][:, :-1], *packed[1:], cu_seqlens_q=cu_q, cu_seqlens_k=cu_k)
    with pytest.raises(ValueError, match=r"cu_seqlens_k\[4\] is 33 \(at most 32"):
        tilesmith.attention(packed[0], *(x[:, :-1] for x in packed[1:]), cu_seqlens_q=cu_q, cu_seqlens_k=cu_k)

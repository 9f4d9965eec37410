"""Queries that share the beginning of their keys."""

import numpy as np
import pytest

import tilesmith

PAGE = 4


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_levels_are_the_concatenated_table(rng, layout):
    heads_q, heads_kv, dim = 6, 2, 32
    k, v = rng.standard_normal((2, 60, PAGE, heads_kv, dim)).astype(np.float32)
    pages = rng.permutation(60).astype(np.int32)
    prompt, halves, tails = pages[:5], pages[5:9].reshape(2, 2), pages[9:21].reshape(4, 3)
    counts, own = [1, 3, 0, 2], np.array([9, 12, 0, 2], np.int32)  # queries and keys of each sequence
    offsets = np.cumsum([0, *counts]).astype(np.int32)
    total = int(offsets[-1])
    q = rng.standard_normal((heads_q, total, dim) if layout == "bhsd" else (total, heads_q, dim)).astype(np.float32)
    levels = [
        {"cu_seqlens_q": np.array([0, total], np.int32), "block_table": prompt[None], "seqlens_k": np.array([5 * PAGE], np.int32)},
        {"cu_seqlens_q": offsets[[0, 2, 4]], "block_table": halves, "seqlens_k": np.array([2 * PAGE] * 2, np.int32)},
        {"cu_seqlens_q": offsets, "block_table": tails, "seqlens_k": own},
    ]
    sink = rng.standard_normal(heads_q).astype(np.float32)
    for given in ({}, {"sink": sink}, {"softcap": 3.0}):
        o, lse = tilesmith.cascade_attention(q, k, v, levels=levels, layout=layout, **given)
        table = np.concatenate([np.broadcast_to(prompt, (4, 5)), np.repeat(halves, 2, 0), tails], 1)
        wanted, wanted_lse = tilesmith.attention(q, k, v, block_table=table, seqlens_k=own + 7 * PAGE, cu_seqlens_q=offsets, layout=layout,
                                                 causal=True, return_lse=True, **given)  # fmt: skip
        np.testing.assert_allclose(o, wanted, atol=2e-6)
        np.testing.assert_allclose(lse, wanted_lse, atol=2e-6)
    out = np.empty_like(q)
    single, _ = tilesmith.cascade_attention(q, k, v, levels=levels[2:], layout=layout, out=out)
    assert single is out


def test_levels_that_cannot_be():
    q = np.ones((1, 2, 8), np.float32)
    cache = np.ones((3, 4, 1, 8), np.float32)
    level = {"cu_seqlens_q": np.array([0, 2], np.int32), "seqlens_k": np.array([4], np.int32)}
    for levels, error, match in (([], TypeError, "levels is"), (level, TypeError, "levels is"),
                                 ([{**level, "scale": 1}], ValueError, r"levels\[0\] has 'scale'"),
                                 ([level, {"seqlens_k": level["seqlens_k"]}], ValueError, r"levels\[1\] has no cu_seqlens_q")):  # fmt: skip
        with pytest.raises(error, match=match):
            tilesmith.cascade_attention(q, cache, cache, levels=levels)

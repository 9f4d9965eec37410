"""A cache of pages: new tokens are appended (turned by RoPE on the way) and attended to where they lie."""

import numpy as np
import tilesmith

rng = np.random.default_rng(1)
batch, heads, dim, page = 2, 4, 64, 16
k_cache, v_cache = np.full((2, 10, page, heads, dim), np.nan, np.float32)  # (pages, rows of a page, heads, dim)
table = np.array([[7, 2, 5], [0, 8, 3]], np.int32)
angles = np.arange(64)[:, None] / 10000 ** (np.arange(0, dim, 2) / dim)
cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
lengths = np.zeros(batch, np.int32)
history = []
for tokens in (20, 1, 5):  # a prompt, a step of decoding, five tokens at once
    q, k, v = rng.standard_normal((3, batch, tokens, heads, dim), dtype=np.float32)
    turned = np.empty_like(q)
    tilesmith.append_kv(k, v, k_cache, v_cache, layout="bshd", block_table=table, seqlens_k=lengths, q=q, rotary_cos=cos, rotary_sin=sin, out_q=turned)
    lengths += tokens
    o = tilesmith.attention(turned, k_cache, v_cache, layout="bshd", block_table=table, seqlens_k=lengths, mask="bottom_right")
    history.append((k, v))

pages = table[:, np.arange(lengths[0]) // page], np.arange(lengths[0]) % page
whole_v = np.concatenate([v for _, v in history], axis=1)
np.testing.assert_array_equal(v_cache[pages], whole_v)
expected = tilesmith.attention(turned, k_cache[pages], whole_v, layout="bshd", causal=True)
np.testing.assert_allclose(o, expected, atol=1e-6)
print(f"{lengths[0]} tokens in pages {table[0].tolist()} and {table[1].tolist()}: as in one dense cache")

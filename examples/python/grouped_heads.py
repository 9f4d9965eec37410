"""Grouped and multi-query attention: the same as with the heads of keys repeated."""

import numpy as np
import tilesmith

rng = np.random.default_rng(1)
q = rng.standard_normal((2, 8, 60, 64), dtype=np.float32)
for heads in (8, 4, 2, 1):
    k, v = rng.standard_normal((2, 2, heads, 60, 64), dtype=np.float32)
    repeated = [np.repeat(each, 8 // heads, axis=1) for each in (k, v)]
    np.testing.assert_allclose(tilesmith.attention(q, k, v, causal=True), tilesmith.attention(q, *repeated, causal=True), atol=1e-6)
    print(f"8 heads of queries, {heads} of keys: agree")

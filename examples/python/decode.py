"""Decoding: one query and many keys, which are shared out in pieces; and parts that were attended to apart, merged."""

import numpy as np
import tilesmith

rng = np.random.default_rng(1)
q = rng.standard_normal((1, 8, 1, 64), dtype=np.float32)
k, v = rng.standard_normal((2, 1, 2, 3000, 64), dtype=np.float32)
o, lse = tilesmith.attention(q, k, v, return_lse=True)
for splits in (1, 5, 16):
    np.testing.assert_allclose(tilesmith.attention(q, k, v, num_splits=splits), o, atol=1e-6)
parts = [tilesmith.attention(q, k[:, :, a:b], v[:, :, a:b], return_lse=True) for a, b in ((0, 700), (700, 701), (701, 3000))]
merged, merged_lse = tilesmith.merge_states(*zip(*parts))
np.testing.assert_allclose(merged, o, atol=1e-6)
np.testing.assert_allclose(merged_lse, lse, atol=1e-5)
print("any number of pieces, and three merged parts: the same")

"""Attention on NumPy arrays: the result, the log-sum-exp, and what ran. Torch tensors go in the same way."""

import numpy as np
import tilesmith

rng = np.random.default_rng(1)
q = rng.standard_normal((2, 8, 100, 64), dtype=np.float32)  # (batch, heads, rows, head dim)
k, v = rng.standard_normal((2, 2, 8, 130, 64), dtype=np.float32)
o, lse = tilesmith.attention(q, k, v, return_lse=True)

logits = q.astype(np.float64) @ k.swapaxes(2, 3) / 8
weights = np.exp(logits)
np.testing.assert_allclose(o, weights @ v / weights.sum(3, keepdims=True), atol=1e-5)
np.testing.assert_allclose(lse, np.log(weights.sum(3)), atol=1e-5)
print(tilesmith.last_plan())

"""Causal masks from either corner, sliding windows, and a mask moved by its diagonal: each beside a mask of numbers."""

import numpy as np
import tilesmith

rows, keys = 40, 70
rng = np.random.default_rng(1)
q = rng.standard_normal((1, 2, rows, 32), dtype=np.float32)
k, v = rng.standard_normal((2, 1, 2, keys, 32), dtype=np.float32)
i, j = np.ogrid[:rows, :keys]
corner = keys - rows  # bottom right: the last row sees the last key
cases = {
    "causal": (dict(causal=True), j <= i + corner),
    "top left": (dict(mask="top_left"), j <= i),
    "8 keys to the left": (dict(causal=True, window=(8, 0)), (j <= i + corner) & (j >= i + corner - 8)),
    "5 to either side": (dict(window=(5, 5)), abs(i + corner - j) <= 5),
    "strictly before": (dict(causal=True, diagonal=-1), j < i + corner),
}
for name, (options, seen) in cases.items():
    bias = np.where(seen, np.float32(0), np.float32(-np.inf))[None, None]
    np.testing.assert_allclose(tilesmith.attention(q, k, v, **options), tilesmith.attention(q, k, v, bias=bias), atol=1e-5)
    print(f"{name}: {seen.sum()} of {seen.size} pairs")

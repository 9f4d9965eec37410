"""Data types and head dims: float32, float16, bfloat16 and float8 with scales, against the result in float64."""

import numpy as np
import tilesmith

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None  # NumPy has neither bfloat16 nor float8 of its own

rng = np.random.default_rng(1)
types = {np.dtype(np.float32): 1e-6, np.dtype(np.float16): 1e-3}
if ml_dtypes:
    types |= {np.dtype(ml_dtypes.bfloat16): 8e-3, np.dtype(ml_dtypes.float8_e4m3fn): 6e-2}
for dtype, limit in types.items():
    for dim, dim_v in ((64, 64), (128, 128), (192, 128), (72, 40)):
        q, k = (rng.standard_normal((1, 2, 33, dim)).astype(dtype) for _ in range(2))
        v = rng.standard_normal((1, 2, 33, dim_v)).astype(dtype)
        weights = np.exp(q.astype(np.float64) @ k.astype(np.float64).swapaxes(2, 3) / np.sqrt(dim))
        expected = weights @ v.astype(np.float64) / weights.sum(3, keepdims=True)
        ones = {} if dtype.itemsize > 1 else {name: np.ones(1, np.float32) for name in ("q_scale", "k_scale", "v_scale")}
        got = tilesmith.attention(q, k, v, **ones).astype(np.float64)
        error = np.linalg.norm(got - expected) / np.linalg.norm(expected)
        print(f"{dtype.name} {dim}/{dim_v}: relative error {error:.1e}")
        assert error < limit

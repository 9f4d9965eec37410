"""Matrix products: matmul, linear with an epilogue in one kernel, a gate, groups of rows, int8 with scales."""

import numpy as np
import tilesmith

rng = np.random.default_rng(1)
x, w = rng.standard_normal((3, 40, 64), dtype=np.float32), rng.standard_normal((96, 64), dtype=np.float32)
bias, residual = rng.standard_normal(96, dtype=np.float32), rng.standard_normal((3, 40, 96), dtype=np.float32)
np.testing.assert_allclose(tilesmith.matmul(x, w.T), x @ w.T, atol=1e-4)
np.testing.assert_allclose(tilesmith.linear(x, w, bias, "relu", residual=residual), np.maximum(x @ w.T + bias, 0) + residual, atol=1e-4)

gate, up = w[:48], w[48:]  # rows of the two weights in turn: the gate joins columns 2 j and 2 j + 1
both = np.stack((gate, up), axis=1).reshape(96, 64)
wide = x @ gate.T
np.testing.assert_allclose(tilesmith.linear(x, both, gate="swiglu"), wide / (1 + np.exp(-wide)) * (x @ up.T), atol=1e-4)

experts, ends = rng.standard_normal((3, 64, 32), dtype=np.float32), np.array([10, 10, 25], np.int32)
rows = rng.standard_normal((25, 64), dtype=np.float32)
grouped = tilesmith.grouped_matmul(rows, experts, group_ends=ends)
np.testing.assert_allclose(grouped, np.concatenate([rows[:10] @ experts[0], rows[10:] @ experts[2]]), atol=1e-4)

a, b = rng.integers(-9, 9, (40, 64), dtype=np.int8), rng.integers(-9, 9, (64, 96), dtype=np.int8)
assert (tilesmith.matmul(a, b) == a.astype(np.int32) @ b.astype(np.int32)).all()
scaled = tilesmith.matmul(a, b, scale_a=0.5, scale_b=0.25, out_dtype=np.float32)
np.testing.assert_allclose(scaled, 0.125 * (a.astype(np.float32) @ b), atol=1e-4)
packed = tilesmith.pack_weight(w)
np.testing.assert_allclose(tilesmith.linear(x, packed, bias), x @ w.T + bias, atol=1e-4)
print(tilesmith.last_plan())

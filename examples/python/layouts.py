"""Layouts: bhsd, bshd, and views of larger tensors. Nothing is copied; rows may have padding behind them."""

import numpy as np
import tilesmith

rng = np.random.default_rng(1)
q, k, v = rng.standard_normal((3, 2, 4, 50, 64), dtype=np.float32)
expected = tilesmith.attention(q, k, v)
by_rows = [each.swapaxes(1, 2).copy() for each in (q, k, v)]
np.testing.assert_array_equal(tilesmith.attention(*by_rows, layout="bshd").swapaxes(1, 2), expected)
np.testing.assert_array_equal(tilesmith.attention(*(each.swapaxes(1, 2) for each in by_rows)), expected)  # strides alone
fused = np.full((2, 50, 3, 4, 80), np.nan, np.float32)  # q, k and v of one projection, 16 unused numbers behind each head
fused[..., :64] = np.stack(by_rows, axis=2)
views = [fused[:, :, part, :, :64] for part in range(3)]
np.testing.assert_array_equal(tilesmith.attention(*views, layout="bshd").swapaxes(1, 2), expected)
out = np.full((2, 4, 50, 96), np.nan, np.float32)
tilesmith.attention(q, k, v, out=out[..., :64])
np.testing.assert_array_equal(out[..., :64], expected)
assert np.isnan(out[..., 64:]).all()
print("five layouts, one result")

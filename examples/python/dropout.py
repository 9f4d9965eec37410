"""Dropout: the same seed drops the same weights, on every kernel and device, forward and backward."""

import numpy as np
import tilesmith

# Zeros as queries make all weights alike, ones as values make an output the share that is kept, times 1 / (1 - p).
q, k, v = np.zeros((1, 4, 64, 64), np.float32), np.zeros((1, 4, 512, 64), np.float32), np.ones((1, 4, 512, 64), np.float32)
o = tilesmith.attention(q, k, v, dropout_p=0.25, seed=7)
assert (o == tilesmith.attention(q, k, v, dropout_p=0.25, seed=7)).all()
assert (o != tilesmith.attention(q, k, v, dropout_p=0.25, seed=8)).any()
kept = 0.75 * o[..., 0].mean()
print(f"{kept:.4f} of the weights were kept")
assert abs(kept - 0.75) < 0.01

"""What may change the logits: an elementwise bias, ALiBi, a soft cap, sink tokens."""

import numpy as np
import tilesmith

rng = np.random.default_rng(1)
q, k, v = rng.standard_normal((3, 1, 4, 50, 64), dtype=np.float32)
bias = rng.standard_normal((1, 4, 50, 50), dtype=np.float32)
slopes = np.float32(2.0) ** -np.arange(1, 5, dtype=np.float32)
sink = np.array([0, 1, 2, 3], np.float32)
i, j = np.ogrid[:50, :50]


def softmax(logits, sink=None):
    weights = np.exp(logits)
    return weights / (weights.sum(3, keepdims=True) + (0 if sink is None else np.exp(sink)[:, None, None]))


scaled = q.astype(np.float64) @ k.swapaxes(2, 3) / 8
for name, options, weights in (
    ("bias", dict(bias=bias), softmax(scaled + bias)),
    ("ALiBi", dict(alibi=slopes), softmax(scaled - slopes[:, None, None] * abs(i - j))),
    ("soft cap", dict(softcap=2.0), softmax(2 * np.tanh(scaled / 2))),
    ("sinks", dict(sink=sink), softmax(scaled, sink)),
    ("soft cap, bias and sinks", dict(softcap=2.0, bias=bias, sink=sink), softmax(2 * np.tanh(scaled / 2) + bias, sink)),
):
    np.testing.assert_allclose(tilesmith.attention(q, k, v, **options), weights @ v, atol=1e-5)
    print(name, "agrees")

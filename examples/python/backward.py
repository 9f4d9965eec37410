"""Gradients without a framework: dq, dk, dv, and of a bias and sinks; masks, grouped heads and dropout; the same bits."""

import numpy as np
import tilesmith

rng = np.random.default_rng(1)
q, do, step = rng.standard_normal((3, 1, 4, 48, 32), dtype=np.float32)
k, v = rng.standard_normal((2, 1, 2, 48, 32), dtype=np.float32)
bias = rng.standard_normal((1, 4, 48, 48), dtype=np.float32)
sink = rng.standard_normal(4, dtype=np.float32)
for options in (dict(), dict(causal=True), dict(window=(9, 3)), dict(causal=True, dropout_p=0.2, seed=5)):
    options |= dict(bias=bias, sink=sink)
    o, lse = tilesmith.attention(q, k, v, return_lse=True, **options)
    gradients = tilesmith.attention_backward(do, q, k, v, o, lse, need_dbias=True, need_dsink=True, **options)
    again = tilesmith.attention_backward(do, q, k, v, o, lse, need_dbias=True, need_dsink=True, **options)
    assert all((a == b).all() for a, b in zip(gradients, again))
    dq, dk, dv, dbias, dsink = gradients
    assert dk.shape == k.shape and dbias.shape == bias.shape and dsink.shape == sink.shape
    h = np.float32(1e-2)
    up, down = (tilesmith.attention(q + sign * h * step, k, v, **options) for sign in (1, -1))
    by_steps, by_gradient = ((up - down) * do).sum(dtype=np.float64) / (2 * h), (dq * step).sum(dtype=np.float64)
    print(f"{options.keys() - {'bias', 'sink'} or 'no mask'}: along dq {by_steps:.4f} by steps, {by_gradient:.4f} by the gradient")
    assert abs(by_steps - by_gradient) < 0.02 * abs(by_gradient) + 0.05

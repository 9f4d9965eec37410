"""Convolution: one to three dimensions, strides, groups, transposed, and both gradients, which share one bilinear form."""

import numpy as np
import tilesmith

rng = np.random.default_rng(1)
convolve = {1: tilesmith.conv1d, 2: tilesmith.conv2d, 3: tilesmith.conv3d}
for sizes, taps, groups, stride in (((40,), (5,), 1, 2), ((17, 15), (3, 3), 2, (2, 1)), ((9, 9), (3, 3), 8, 1), ((6, 7, 5), (3, 2, 3), 1, 1)):
    x = rng.standard_normal((2, 8, *sizes), dtype=np.float32)
    w = rng.standard_normal((16, 8 // groups, *taps), dtype=np.float32)
    options = dict(stride=stride, padding=1, dilation=1, groups=groups)
    y = convolve[len(sizes)](x, w, **options)
    dy = rng.standard_normal(y.shape, dtype=np.float32)
    dx = tilesmith.conv_backward_data(dy, w, x.shape, **options)
    dw = tilesmith.conv_backward_weight(dy, x, w.shape, **options)
    forms = [np.vdot(a.astype(np.float64), b) for a, b in ((dy, y), (dx, x), (dw, w))]
    print(f"{len(sizes)}-D, {groups} groups: {y.shape}; <dy, y>, <dx, x>, <dw, w> = " + ", ".join(f"{each:.4f}" for each in forms))
    assert max(forms) - min(forms) < 1e-3 * abs(forms[0]) + 1e-2

x, w, bias = (rng.standard_normal(shape, dtype=np.float32) for shape in ((1, 4, 8, 8), (6, 4, 1, 1), (6,)))
fused = tilesmith.conv2d(x, w, bias, activation="relu")
np.testing.assert_allclose(fused, np.maximum(np.einsum("nchw,kc->nkhw", x, w[..., 0, 0]) + bias[:, None, None], 0), atol=1e-5)
print(tilesmith.conv_transpose2d(x, rng.standard_normal((4, 3, 2, 2), dtype=np.float32), stride=2).shape)

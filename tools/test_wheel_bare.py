"""Run by test_wheel_bare.sh in a Debian without a compiler: the wheel's essential kernels against NumPy."""

import shutil

import numpy as np

assert not any(map(shutil.which, ("cc", "gcc", "g++", "c++", "clang", "clang++"))), "a compiler is here: this would prove little"

import tilesmith

assert tilesmith.library_path().startswith("/opt/wheel/tilesmith/")
rng = np.random.default_rng(1)


def check(what: str, got: np.ndarray, want: np.ndarray) -> None:
    error = np.abs(got - want).max()
    print(f"{what}: largest error {error:.2g}; {tilesmith.last_plan()}")
    assert got.shape == want.shape and error < 1e-3, what


a, b = rng.standard_normal((70, 130), np.float32), rng.standard_normal((130, 90), np.float32)
check("matmul", tilesmith.matmul(a, b), a @ b)

q, k, v = (rng.standard_normal((2, heads, length, 64), np.float32) for heads, length in ((4, 33), (2, 57), (2, 57)))
scores = q @ np.repeat(k, 2, 1).swapaxes(-1, -2) / 8
weights = np.exp(scores - scores.max(-1, keepdims=True))
want = weights / weights.sum(-1, keepdims=True) @ np.repeat(v, 2, 1)
check("attention", tilesmith.attention(q, k, v), want)
print("ok", tilesmith.__version__)

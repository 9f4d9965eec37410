"""A sweep over batch, heads, lengths or head dims: time and rate of a call, beside what the model predicted.

python sweep.py [--over seqlen|batch|heads|head_dim]"""

import argparse
import statistics
import time

import numpy as np
import tilesmith

arguments = argparse.ArgumentParser()
arguments.add_argument("--over", choices=("seqlen", "batch", "heads", "head_dim"), default="seqlen")
over = arguments.parse_args().over
values = {"seqlen": (64, 128, 256), "batch": (1, 2, 4), "heads": (1, 2, 8), "head_dim": (32, 64, 128)}[over]
rng = np.random.default_rng(1)
print(f"{over:>8} {'us':>9} {'GFLOP/s':>8}  kernel")
for value in values:
    sizes = {"batch": 1, "heads": 4, "seqlen": 128, "head_dim": 64, over: value}
    q, k, v = rng.standard_normal((3, *sizes.values()), dtype=np.float32)
    out = tilesmith.attention(q, k, v)  # chosen, and compiled when it has to be
    seconds = []
    for _ in range(9):
        begin = time.perf_counter()
        tilesmith.attention(q, k, v, out=out)
        seconds.append(time.perf_counter() - begin)
    took = statistics.median(seconds)
    flop = 4 * sizes["batch"] * sizes["heads"] * sizes["seqlen"] ** 2 * sizes["head_dim"]
    print(f"{value:8} {1e6 * took:9.1f} {flop / took / 1e9:8.1f}  {tilesmith.last_plan().kernel}")
    assert np.isfinite(out).all()

#!/usr/bin/env python3
"""What the first call of a kernel costs in a new process: milliseconds until the call returns (launched, not finished).

    bench/python/first_call.py [--device cpu|cuda] [--head-dim 128] [--repeats N]

"compiled" finds the store empty, "from the store" finds the kernel there. Each is a process of its own that has its tensors
and its device ready (the driver's and torch's own start are not counted). Least of N for the latter.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time


def first_call(device, head_dim):
    import torch

    import tilesmith

    q, k, v = (torch.randn(1, 4, 512, head_dim, device=device, dtype=torch.bfloat16) for _ in range(3))
    out = torch.empty_like(q)
    tilesmith.devices()  # opens the library; the context of the device is torch's
    if device == "cuda":
        torch.cuda.synchronize()
    begin = time.perf_counter()
    tilesmith.attention(q, k, v, out=out)
    seconds = time.perf_counter() - begin
    begin = time.perf_counter()
    tilesmith.attention(q, k, v, causal=True, out=out)  # on the GPU another kernel of the same library: what is once per process is paid
    print(seconds * 1e3, (time.perf_counter() - begin) * 1e3)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return first_call(options.device, options.head_dim)
    with tempfile.TemporaryDirectory() as store:
        command = [sys.executable, __file__, "--child", "--device", options.device, "--head-dim", str(options.head_dim)]
        def run():
            output = subprocess.run(command, env={**os.environ, "TILESMITH_CACHE_DIR": store}, check=True, stdout=subprocess.PIPE, text=True)
            return [float(x) for x in output.stdout.split()]
        compiled = run()
        hits = [run() for _ in range(options.repeats)]
    for name, times in (("compiled", compiled), ("from the store", [min(x) for x in zip(*hits)])):
        print(f"{name:16} first {times[0]:9.2f} ms, second kernel {times[1]:9.2f} ms")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""linear with a weight as it lies and with the weight packed beforehand, in turn, in one process:

    python bench/python/packed_weight.py [--rows 1 16 128] [--n 4096] [--k 4096] [--type bfloat16 float32] [--seconds 4]

Prints the best time of either in milliseconds, and the median over pairs of neighbouring calls of the plain call's time over
the packed one's. Weights take turns out of as many copies as fill --megabytes, so that none is read from the caches.
"""

import argparse
import statistics
import time

import torch

import tilesmith


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 16, 128])
    parser.add_argument("--n", type=int, default=4096)
    parser.add_argument("--k", type=int, default=4096)
    parser.add_argument("--type", nargs="+", default=["bfloat16", "float32"])
    parser.add_argument("--seconds", type=float, default=4, help="for each line")
    parser.add_argument("--megabytes", type=int, default=256)
    options = parser.parse_args()
    print(f"{'type':9} {'rows':>5} {'plain ms':>9} {'packed ms':>9} {'ratio':>6}  pairs, kernels")
    for name in options.type:
        dtype = getattr(torch, name)
        weight = (torch.randn(options.n, options.k) / options.k**0.5).to(dtype)
        copies = max(1, options.megabytes * 2**20 // (weight.numel() * weight.element_size()))
        plain = [weight.clone() for _ in range(copies)]
        packed = [tilesmith.pack_weight(each) for each in plain]
        for rows in options.rows:
            x = torch.randn(rows, options.k).to(dtype)
            got, expected = tilesmith.linear(x, packed[0]), x.double() @ weight.double().T
            kernels = [tilesmith.last_plan().kernel]
            assert (got.double() - expected).abs().max() < 0.05 * expected.abs().max()
            tilesmith.linear(x, plain[0])
            kernels.append(tilesmith.last_plan().kernel)
            times: list[tuple[float, float]] = []
            end = time.perf_counter() + options.seconds
            while time.perf_counter() < end or len(times) < 8:
                pair = {}
                for weights in (plain, packed) if len(times) % 2 else (packed, plain):
                    start = time.perf_counter()
                    tilesmith.linear(x, weights[len(times) % copies])
                    pair[weights is packed] = time.perf_counter() - start
                times.append((pair[False], pair[True]))
            ratio = statistics.median(a / b for a, b in times)
            best = [1e3 * min(column) for column in zip(*times)]
            print(f"{name:9} {rows:5} {best[0]:9.3f} {best[1]:9.3f} {ratio:6.3f}  {len(times)}, plain {kernels[1]}, packed {kernels[0]}")


if __name__ == "__main__":
    main()

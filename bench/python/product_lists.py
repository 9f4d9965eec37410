"""What a list of products costs: tilesmith.grouped_matmul of lists, a loop of tilesmith.matmul and a loop of torch.mm.

    python bench/python/product_lists.py [--device cpu|cuda] [--threads N] [--rounds N] [--dtype float32|bfloat16|float16]

Results go into tensors that are there (out), so that allocation is nobody's cost. Times are the least of the rounds; on
a GPU from a synchronised device to the next, everything in between included.
"""

import argparse
import time

import torch

import tilesmith

# name: sizes of the products
LISTS = {
    "1000 of 16x16x16": [(16, 16, 16)] * 1000,
    "200 of 64x64x64": [(64, 64, 64)] * 200,
    "200 of 5..40x128x128": [(5 + i % 36, 128, 128) for i in range(200)],
    "64 of 1..200x512x512": [(1 + i * 37 % 200, 512, 512) for i in range(64)],
    "16 of 300..1500x1024x1024": [(300 + i * 80, 1024, 1024) for i in range(16)],
    "8 of 4096x4096x4096": [(4096, 4096, 4096)] * 8,
}


def least(run, device, rounds):
    best = float("inf")
    for _ in range(rounds):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--dtype", default="")
    parser.add_argument("--threads", type=int, default=0, help="of torch; the library takes every processor")
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    dtype = getattr(torch, options.dtype or ("float32" if options.device == "cpu" else "bfloat16"))
    print(f"{'products':<28}{'list us':>12}{'loop us':>12}{'torch.mm us':>14}  {dtype}")
    for name, sizes in LISTS.items():
        if options.device == "cpu" and name.startswith("8 of"):
            continue
        a = [torch.randn(m, k, device=options.device, dtype=dtype) for m, _, k in sizes]
        b = [torch.randn(n, k, device=options.device, dtype=dtype).T for _, n, k in sizes]
        out, other = ([torch.empty(m, n, device=options.device, dtype=dtype) for m, n, _ in sizes] for _ in range(2))

        def loop(product):
            for x, y, z in zip(a, b, out):
                product(x, y, out=z)

        times = [least(lambda: tilesmith.grouped_matmul(a, b, out=other), options.device, options.rounds)]
        times += [least(lambda: loop(product), options.device, options.rounds) for product in (tilesmith.matmul, torch.mm)]
        for x, y in zip(out, other):
            torch.testing.assert_close(x, y, rtol=2e-2, atol=2e-2 * x.abs().max().item() if x.numel() else 0)
        print(f"{name:<28}{times[0]:>12.0f}{times[1]:>12.0f}{times[2]:>14.0f}", flush=True)


if __name__ == "__main__":
    main()

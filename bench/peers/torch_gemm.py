#!/usr/bin/env python3
"""Times PyTorch's matrix products on the CPU, to stand beside build/bin/gemm_bench.

    bench/peers/torch_gemm.py --type bf16 --order rr --threads 1 512x512x512 4x4096x4096

Inputs are random, caches are evicted before each sample unless --warm, the median and the best time are printed. int8 is torch._int_mm.
"""
import argparse
import statistics
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--type", default="fp32", choices=["fp32", "bf16", "fp16", "int8"])
    parser.add_argument("--order", default="rr", choices=["rr", "rc", "cr", "cc"], help="of A and B: r row-major, c column-major")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="spent on each shape")
    parser.add_argument("--warm", action="store_true", help="leave the caches as the call before left them")
    parser.add_argument("shapes", nargs="+", help="MxNxK")
    options = parser.parse_args()

    import torch

    torch.set_num_threads(options.threads)
    kind = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "int8": torch.int8}[options.type]
    eviction = torch.ones(512 << 20, dtype=torch.uint8)

    def matrix(rows, columns, order):
        shape = (rows, columns) if order == "r" else (columns, rows)
        x = torch.randint(-127, 128, shape, dtype=kind) if kind == torch.int8 else torch.randn(shape).to(kind)
        return x if order == "r" else x.t()

    print(f"PyTorch {torch.__version__} {options.type} order {options.order}, {options.threads} thread(s), {'warm' if options.warm else 'cold'} caches")
    for shape in options.shapes:
        m, n, k = (int(x) for x in shape.split("x"))
        a, b = matrix(m, k, options.order[0]), matrix(k, n, options.order[1])
        product = torch._int_mm if kind == torch.int8 else torch.mm
        samples = []
        with torch.inference_mode():
            product(a, b)
            began = time.perf_counter()
            while len(samples) < 5 or (time.perf_counter() - began < options.seconds and len(samples) < 500):
                if not options.warm:
                    eviction.add_(1)  # larger than any last-level cache
                start = time.perf_counter()
                product(a, b)
                samples.append(time.perf_counter() - start)
        median = statistics.median(samples)
        print(f"{shape:>16}  {median * 1e3:.4f} ms (best {min(samples) * 1e3:.4f}) {2e-9 * m * n * k / median:.1f} GFLOP/s", flush=True)


if __name__ == "__main__":
    main()

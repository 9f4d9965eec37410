#!/usr/bin/env python3
"""tilesmith.linear with integer weights beside bf16 inputs on a CUDA device, next to bf16 weights: ours and PyTorch's cuBLAS.

    python bench/peers/cuda_weights.py                         int4 and int8, a bf16 scale for every 128 of k
    python bench/peers/cuda_weights.py --depth 0 --zero        one scale a column, zero points beside the scales
    python bench/peers/cuda_weights.py --scales fp32 --shapes '16,4096,4096;512,14336,4096'

Timing: bursts of captured graphs, cold L2, contenders in turn (bench/timing.py), medians of --rounds.
Each line: microseconds of each, how many times faster integer weights are than our own bf16 and than cuBLAS's, the bytes of int4 that
must move over its time, and the kernels of int4 and int8.
"""
import argparse
import sys
from pathlib import Path

import torch

import tilesmith

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import timing  # noqa: E402

SHAPES = [(m, n, k) for n, k in ((4096, 4096), (14336, 4096), (4096, 14336)) for m in (1, 16, 64, 128, 256, 512, 2048)]
SCALES = {"bf16": torch.bfloat16, "fp32": torch.float32}


def bf16(m, n, k):
    x, w = (torch.randn(rows, k, dtype=torch.bfloat16, device="cuda") for rows in (m, n))
    return x, w, torch.empty(m, n, dtype=torch.bfloat16, device="cuda")


def integers(bits, m, n, k, options):
    """x, w, its scales, its zero points (None without), the result."""
    x = torch.randn(m, k, dtype=torch.bfloat16, device="cuda")
    kind, low, high, columns = (torch.int8, -128, 128, k) if bits == 8 else (torch.uint8, 0, 256, k // 2)
    w = torch.randint(low, high, (n, columns), dtype=kind, device="cuda")
    blocks = (n, -(-k // options.depth)) if options.depth else (n,)
    scales = torch.rand(blocks, device="cuda").to(SCALES[options.scales])
    zeros = torch.randint(-8, 8, blocks, dtype=torch.int8, device="cuda") if options.zero else torch.empty(0, dtype=torch.int8, device="cuda")
    return x, w, scales, zeros, torch.empty(m, n, dtype=torch.bfloat16, device="cuda")


def with_integers(x, w, scales, zeros, out):
    tilesmith.linear(x, w, scale_w=scales, zero_w=zeros if zeros.numel() else None, out=out)


def kernel_of(call, operands):
    call(*operands)
    return tilesmith.last_plan().kernel


def time_cell(m, n, k, options):
    plain, _ = timing.sets_of(lambda: bf16(m, n, k))
    contenders = {
        "bf16": (lambda x, w, out: tilesmith.linear(x, w, out=out), plain),
        "cuBLAS": (lambda x, w, out: torch.matmul(x, w.T, out=out), plain),
    }
    sizes = {}
    for bits in (4, 8):
        sets, sizes[bits] = timing.sets_of(lambda: integers(bits, m, n, k, options))
        contenders[f"int{bits}"] = (with_integers, sets)
    times = timing.burst_medians(contenders, options.rounds, options.rest)
    kernels = [kernel_of(with_integers, contenders[kind][1][0]) for kind in ("int4", "int8")]
    return times, sizes[4], kernels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", help="m,n,k;m,n,k;...; default: 1 to 2048 rows through the projections of a model")
    parser.add_argument("--depth", type=int, default=128, help="of k to a scale; 0: one scale a column")
    parser.add_argument("--scales", default="bf16", choices=list(SCALES))
    parser.add_argument("--zero", action="store_true", help="zero points beside the scales")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rest", type=float, default=0.03, help="seconds before each contender's turn")
    options = parser.parse_args()
    shapes = [tuple(map(int, s.split(","))) for s in options.shapes.split(";")] if options.shapes else SHAPES
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, depth {options.depth or 'k'}, {options.scales} scales"
          f"{', zero points' if options.zero else ''}; microseconds")
    for m, n, k in shapes:
        times, size, kernels = time_cell(m, n, k, options)
        us = {name: 1e3 * each for name, each in times.items()}
        against = "  ".join(f"{kind}: x{us['bf16'] / us[kind]:.2f} of bf16, x{us['cuBLAS'] / us[kind]:.2f} of cuBLAS" for kind in ("int4", "int8"))
        print(f"{m:5} x {n:5} x {k:5}  int4 {us['int4']:7.2f}  int8 {us['int8']:7.2f}  bf16 {us['bf16']:7.2f}  cuBLAS {us['cuBLAS']:7.2f}  {against}"
              f"  {1e-3 * size / us['int4']:5.0f} GB/s  {' '.join(kernels)}", flush=True)


if __name__ == "__main__":
    main()

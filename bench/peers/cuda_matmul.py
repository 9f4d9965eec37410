#!/usr/bin/env python3
"""tilesmith.matmul beside PyTorch's cuBLAS on a CUDA device, in one process.

    python bench/peers/cuda_matmul.py                          bf16: squares, and m rows through the projections of a model
    python bench/peers/cuda_matmul.py --types fp8,int8         float8 (e4m3, fast sums, bf16 out), int8 (int32 out)
    python bench/peers/cuda_matmul.py --prefetch-weights       b, of 16 rows of a and less, may be read while the call before ends
    python bench/peers/cuda_matmul.py --random 60 --seed 3     m of 1 to 8192 and projections of models, drawn at random
    python bench/peers/cuda_matmul.py --rest 0 --burst 100     sustained: no rest, 25 ms uncounted before each 100

a is (m, k), b the transpose of an (n, k) weight. Timing: bursts of captured graphs, cold L2, contenders in turn (bench/timing.py); the
median of --rounds. torch has no int8 product of 16 rows or fewer.
Needs torch with CUDA, and the package (pip install ., or PYTHONPATH=python with TILESMITH_LIBRARY).
"""
import argparse
import json
import math
import random
import sys
from pathlib import Path

import torch

import tilesmith

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import timing  # noqa: E402

SQUARES = [(s, s, s) for s in (512, 1024, 2048, 4096, 8192)]
PROJECTIONS = [(m, n, k) for n, k in ((4096, 4096), (4096, 14336), (14336, 4096)) for m in (1, 16, 64, 128, 512, 2048, 8192)]
# n and k of projections of Llama 3, Qwen 2.5, DeepSeek V3 and GPT-OSS, as their published configurations give them: what no table was made from.
MODELS = [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (10240, 8192), (8192, 8192), (57344, 8192), (8192, 28672), (5120, 5120),
          (27648, 5120), (5120, 27648), (4608, 3584), (37888, 3584), (3584, 18944), (1536, 7168), (24576, 1536), (576, 7168), (36864, 7168),
          (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048), (5120, 2880), (2880, 4096), (2880, 2880), (5760, 2880)]
OUTPUT = {"bf16": torch.bfloat16, "fp8": torch.bfloat16, "int8": torch.int32}


def random_shapes(count, seed):
    """Half of the row counts are drawn by their logarithm, half evenly."""
    draw = random.Random(seed)
    shapes = []
    for i in range(count):
        m = round(math.exp(draw.uniform(0, math.log(8192)))) if i % 2 else draw.randint(1, 8192)
        shapes.append((m, *draw.choice(MODELS)))
    return shapes


def operands(kind, m, n, k):
    if kind == "int8":
        a, w = (torch.randint(-128, 128, (rows, k), dtype=torch.int8, device="cuda") for rows in (m, n))
    else:
        a, w = (torch.randn(rows, k, dtype=torch.bfloat16, device="cuda") for rows in (m, n))
    if kind == "fp8":
        a, w = a.to(torch.float8_e4m3fn), w.to(torch.float8_e4m3fn)
    return a, w.T, torch.empty(m, n, dtype=OUTPUT[kind], device="cuda")


def cublas(kind, m):
    if kind == "bf16":
        return lambda a, b, out: torch.matmul(a, b, out=out)
    if kind == "int8":
        return None if m <= 16 else lambda a, b, out: torch._int_mm(a, b, out=out)
    one = torch.ones((), device="cuda")
    return lambda a, b, out: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16, use_fast_accum=True, out=out)


def time_cell(kind, m, n, k, options):
    sets, size = timing.sets_of(lambda: operands(kind, m, n, k))
    contenders = {"tilesmith": (lambda a, b, out: tilesmith.matmul(a, b, out=out, prefetch_weights=options.prefetch_weights), sets)}
    if peer := cublas(kind, m):
        contenders["cuBLAS"] = (peer, sets)
    times = timing.burst_medians(contenders, options.rounds, options.rest, options.burst)
    contenders["tilesmith"][0](*sets[0])  # for last_plan
    return times, size


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--types", default="bf16")
    parser.add_argument("--shapes", help="m,n,k;m,n,k;...; default: squares of 512 to 8192 and the projections")
    parser.add_argument("--random", type=int, help="so many shapes drawn at random instead")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rest", type=float, default=0.05, help="seconds before each contender's turn")
    parser.add_argument("--burst", type=float, default=10, help="milliseconds of a turn")
    parser.add_argument("--prefetch-weights", action="store_true", help="promise that no kernel before writes b")
    parser.add_argument("--json", help="write the results there")
    options = parser.parse_args()
    shapes = [tuple(map(int, s.split(","))) for s in options.shapes.split(";")] if options.shapes else SQUARES + PROJECTIONS
    if options.random:
        shapes = random_shapes(options.random, options.seed)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, rest {options.rest} s, bursts of {options.burst:g} ms")
    rows = []
    for kind in options.types.split(","):
        ratios = []
        for m, n, k in shapes:
            times, size = time_cell(kind, m, n, k, options)
            ours = times["tilesmith"]
            line = f"{kind:5} {m:5} x {n:5} x {k:5}  {2e-9 * m * n * k / ours:7.1f} TFLOP/s  {1e-6 * size / ours:6.0f} GB/s"
            if "cuBLAS" in times:
                ratios.append(times["cuBLAS"] / ours)
                line += f"  cuBLAS {2e-9 * m * n * k / times['cuBLAS']:7.1f} = {ratios[-1]:.3f}"
            print(line, tilesmith.last_plan().kernel, flush=True)
            rows.append(dict(type=kind, m=m, n=n, k=k, milliseconds=times, kernel=tilesmith.last_plan().kernel))
            if options.json:  # a run that is cut off leaves what it has
                Path(options.json).write_text(json.dumps(rows, indent=1))
        print(f"{kind}: geometric mean {timing.geometric_mean(ratios):.3f} x cuBLAS, smallest {min(ratios):.3f}, {len(ratios)} shapes")


if __name__ == "__main__":
    main()

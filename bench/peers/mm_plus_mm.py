#!/usr/bin/env python3
"""tilesmith.mm_plus_mm, a b + c d in one kernel, beside two calls of PyTorch: addmm of an mm, and the sum of two mm.

    python bench/peers/mm_plus_mm.py --device cuda                         bf16, b and d the transposes of (n, k) weights
    taskset -c 0 python bench/peers/mm_plus_mm.py --type fp32 --shapes '64,512,512;1,4096,4096'

CUDA: bursts of captured graphs, cold L2, contenders in turn (bench/timing.py), medians. CPU: calls
in turn on the same operands, warm caches, medians. k2 is k; a shape may name it: m,n,k,k2.
"""
import argparse
import statistics
import sys
import time
from pathlib import Path

import torch

import tilesmith

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import timing  # noqa: E402

TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
SHAPES = "16,4096,4096;128,4096,4096;512,4096,4096;2048,4096,4096;4096,4096,4096;8192,8192,1024;512,512,512"
CONTENDERS = {
    "tilesmith": lambda a, b, c, d, out: tilesmith.mm_plus_mm(a, b, c, d, out=out),
    "addmm": lambda a, b, c, d, out: torch.addmm(torch.mm(a, b), c, d, out=out),
    "mm + mm": lambda a, b, c, d, out: torch.add(torch.mm(a, b), torch.mm(c, d), out=out),
}


def operands(kind, device, m, n, k, k2):
    a, w, c, v = (torch.randn(shape, device=device).to(kind) for shape in ((m, k), (n, k), (m, k2), (n, k2)))
    return a, w.T, c, v.T, torch.empty(m, n, dtype=kind, device=device)


def on_cuda(kind, shape, options):
    sets, _ = timing.sets_of(lambda: operands(kind, "cuda", *shape))
    return timing.burst_medians({name: (call, sets) for name, call in CONTENDERS.items()}, options.rounds, options.rest)


def on_cpu(kind, shape, options):
    tensors = operands(kind, "cpu", *shape)
    times = {name: [] for name in CONTENDERS}
    end = time.perf_counter() + options.seconds
    while len(times["tilesmith"]) < 6 or time.perf_counter() < end:
        for name, call in CONTENDERS.items():
            began = time.perf_counter()
            call(*tensors)
            times[name].append(1e3 * (time.perf_counter() - began))
    return {name: statistics.median(each[1:]) for name, each in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--type", default="bf16", choices=list(TYPES))
    parser.add_argument("--shapes", default=SHAPES, help="m,n,k or m,n,k,k2; with semicolons between")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch on the CPU; the library takes the processors it may run on (taskset)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rest", type=float, default=0.05, help="CUDA: seconds before each contender's turn")
    parser.add_argument("--seconds", type=float, default=2, help="CPU: spent on each shape")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    cuda = options.device == "cuda"
    print(f"{torch.cuda.get_device_name() if cuda else 'CPU'}, torch {torch.__version__}, {options.type}")
    for shape in options.shapes.split(";"):
        m, n, k, *rest = map(int, shape.split(","))
        k2 = rest[0] if rest else k
        times = (on_cuda if cuda else on_cpu)(TYPES[options.type], (m, n, k, k2), options)
        ours = times["tilesmith"]
        tilesmith.mm_plus_mm(*operands(TYPES[options.type], options.device, m, n, k, k2)[:4])  # for last_plan
        others = "  ".join(f"{name} {each:8.4f} ms = {each / ours:.3f}" for name, each in times.items() if name != "tilesmith")
        print(f"{m:5} x {n:5} x {k:5} + {k2:5}  {ours:8.4f} ms {2e-9 * m * n * (k + k2) / ours:8.3f} TFLOP/s  {others}"
              f"  {tilesmith.last_plan().kernel}", flush=True)


if __name__ == "__main__":
    main()

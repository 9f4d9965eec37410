#!/usr/bin/env python3
"""tilesmith.matmul beside PyTorch's cuBLAS on a CUDA device, in one process.

    python bench/peers/cuda_matmul.py                          bf16: squares, and m rows through the projections of a model
    python bench/peers/cuda_matmul.py --types fp8,int8         float8 (e4m3, fast sums, bf16 out), int8 (int32 out)
    python bench/peers/cuda_matmul.py --constant-b             b, of 16 rows of a and less, may be read while the call before ends
    python bench/peers/cuda_matmul.py --rest 0 --burst 100     sustained: no rest, 25 ms uncounted before each 100

a is (m, k), b the transpose of an (n, k) weight. The calls of a turn are one captured graph of half a millisecond or more, which goes
through sets of operands of more than 200 MB together, so that L2 is cold. Contenders take turns: a rest, one graph not counted,
then a burst of about 10 ms between two events; the median of --rounds. Without a rest the board's power limit sets the clock, and
what the contender before drew is felt for a while, so a quarter of the burst goes before it. torch has no int8 product of 16 rows
or fewer.
Needs torch with CUDA, and the package (pip install ., or PYTHONPATH=python with TILESMITH_LIBRARY).
"""
import argparse
import json
import math
import statistics
import time

import torch

import tilesmith

COLD_BYTES = 200 << 20
GRAPH_MS = 0.5  # a replay's first kernel does not overlap the last of the one before, as kernels within a graph do
SQUARES = [(s, s, s) for s in (512, 1024, 2048, 4096, 8192)]
PROJECTIONS = [(m, n, k) for n, k in ((4096, 4096), (4096, 14336), (14336, 4096)) for m in (1, 16, 64, 128, 512, 2048, 8192)]
OUTPUT = {"bf16": torch.bfloat16, "fp8": torch.bfloat16, "int8": torch.int32}


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


def graph_of(call, sets, calls):
    for each in sets:  # plans, and whatever a library does once
        call(*each)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            call(*sets[i % len(sets)])
    return graph


def turn(graph, calls, rest, repeats):
    torch.cuda.synchronize()
    time.sleep(rest)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(1 if rest > 0 else math.ceil(repeats / 4)):
        graph.replay()
    begin.record()
    for _ in range(repeats):
        graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / (calls * repeats)


def sets_of(make):
    """Sets of operands that go beyond L2 together, and the bytes of one."""
    first = make()
    size = sum(x.numel() * x.element_size() for x in first)
    return [first] + [make() for _ in range(min(63, -(-COLD_BYTES // size)))], size


def medians(contenders, rounds, rest, burst_ms=10):
    """Milliseconds of a call of each of the contenders, {name: (what takes a set of operands, its sets)}."""
    graphs, times = {}, {}
    for name, (call, sets) in contenders.items():
        calls = len(sets)
        graph = graph_of(call, sets, calls)
        times[name] = [turn(graph, calls, rest, 1)]  # an estimate, replaced by the first round that counts
        passes = math.ceil(GRAPH_MS / (times[name][0] * calls))
        graphs[name] = (graph, calls) if passes == 1 else (graph_of(call, sets, calls * passes), calls * passes)
    for round in range(rounds):
        names = list(graphs)
        for name in names[round % len(names):] + names[: round % len(names)]:
            graph, calls = graphs[name]
            milliseconds = turn(graph, calls, rest, max(1, int(burst_ms / (times[name][-1] * calls))))
            times[name] = (times[name] if round > 0 else []) + [milliseconds]
    return {name: statistics.median(each) for name, each in times.items()}


def time_cell(kind, m, n, k, options):
    sets, size = sets_of(lambda: operands(kind, m, n, k))
    contenders = {"tilesmith": (lambda a, b, out: tilesmith.matmul(a, b, out=out, prefetch_weights=options.prefetch_weights), sets)}
    if peer := cublas(kind, m):
        contenders["cuBLAS"] = (peer, sets)
    times = medians(contenders, options.rounds, options.rest, options.burst)
    contenders["tilesmith"][0](*sets[0])  # for last_plan
    return times, size


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--types", default="bf16")
    parser.add_argument("--shapes", help="m,n,k;m,n,k;...; default: squares of 512 to 8192 and the projections")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rest", type=float, default=0.05, help="seconds before each contender's turn")
    parser.add_argument("--burst", type=float, default=10, help="milliseconds of a turn")
    parser.add_argument("--constant-b", action="store_true", help="promise that no kernel before writes b")
    parser.add_argument("--json", help="write the results there")
    options = parser.parse_args()
    shapes = [tuple(map(int, s.split(","))) for s in options.shapes.split(";")] if options.shapes else SQUARES + PROJECTIONS
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
        print(f"{kind}: geometric mean {math.exp(statistics.fmean(map(math.log, ratios))):.3f} x cuBLAS, smallest {min(ratios):.3f}, {len(ratios)} shapes")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()

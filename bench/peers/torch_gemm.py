#!/usr/bin/env python3
"""Times PyTorch's matrix products on the CPU, for shapes that are named or for the problems of a bench.

    bench/peers/torch_gemm.py --type bf16 --order rr --threads 1 512x512x512 4x4096x4096      # to stand beside build/bin/gemm_bench
    taskset -c 0-15 bench/peers/torch_gemm.py --ours --threads 16 --type bf16 512x512x512    # tilesmith.matmul takes turns with it
    tilesmith bench --op gemm --dry-run | bench/peers/torch_gemm.py --threads 1 > peers.json
    tilesmith bench --op gemm --threads 1 --peers peers.json

Without shapes the problems are read as JSON on standard input, and {"peer": ..., "rows": [{"problem": ..., "median_ms": ...}]} is written; those with
an epilogue, with C or of types that PyTorch does not multiply are left out. Inputs are random, caches are evicted before each sample unless --warm,
medians (of named shapes best times too) are reported. int8 is torch._int_mm. --ours: in one process, sample by sample, on the same operands; the
library takes as many threads as it may run on processors (taskset).
"""
import argparse
import json
import math
import os
import statistics
import sys
import time

REST = 0.03  # seconds before each turn of one of two: by then the threads of the other no longer wait for work on the processors
RESULTS = {"fp32": "fp32", "bf16": "bf16", "fp16": "fp16", "int8": "int32"}  # by the inputs' type


def comparable(p):
    plain = "k2" not in p and not p["beta"] and not p["epilogue"] and p["type_a"] == p["type_b"] and RESULTS.get(p["type_a"]) == p["type_d"]
    return plain and min(p["m"], p["n"], p["k"], p["batch"]) > 0 and (p["batch"] == 1 or p["type_a"] != "int8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--type", default="fp32", choices=list(RESULTS), help="of named shapes")
    parser.add_argument("--order", default="rr", choices=["rr", "rc", "cr", "cc"], help="of A and B of named shapes: r row-major, c column-major")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="spent on each shape")
    parser.add_argument("--warm", action="store_true", help="leave the caches as the call before left them")
    parser.add_argument("--ours", action="store_true", help="named shapes: tilesmith.matmul takes turns with it")
    parser.add_argument("shapes", nargs="*", help="MxNxK")
    options = parser.parse_args()

    import torch

    torch.set_num_threads(options.threads)
    ours = []
    if options.ours:
        import tilesmith

        if len(os.sched_getaffinity(0)) != options.threads:
            parser.error(f"--ours with {options.threads} threads on {len(os.sched_getaffinity(0))} processors: taskset gives it as many")
        ours = [tilesmith.matmul]
    kinds = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "int8": torch.int8}
    eviction = torch.ones(512 << 20, dtype=torch.uint8)

    def matrix(batch, rows, columns, order, kind):
        shape = (rows, columns) if order == "r" else (columns, rows)
        if batch > 1:
            shape = (batch, *shape)
        x = torch.randint(-127, 128, shape, dtype=kind) if kind == torch.int8 else torch.randn(shape).to(kind)
        return x if order == "r" else x.transpose(-1, -2)

    def samples_of(p, *others):
        """Seconds of each call, of PyTorch's and of others that take turns with it."""
        kind = kinds[p["type_a"]]
        a = matrix(p["batch"], p["m"], p["k"], p["layout"][0], kind)
        b = matrix(p["batch"], p["k"], p["n"], p["layout"][1], kind)
        product = torch._int_mm if kind == torch.int8 else torch.matmul
        samples = [[] for _ in (product, *others)]
        with torch.inference_mode():
            results = [call(a, b) for call in (product, *others)]
            began = time.perf_counter()
            while len(samples[0]) < 5 or (time.perf_counter() - began < options.seconds and len(samples[0]) < 500):
                for call, each in zip((product, *others), samples):
                    if not options.warm:
                        eviction.add_(1)  # larger than any last-level cache
                    if others:
                        time.sleep(REST)
                    start = time.perf_counter()
                    call(a, b)
                    each.append(time.perf_counter() - start)
        for result in results[1:]:
            torch.testing.assert_close(result, results[0], rtol=0.02, atol=0.02 * math.sqrt(p["k"]))
        return samples

    if not options.shapes:
        rows = []
        for p in filter(comparable, json.load(sys.stdin)):
            try:
                rows.append({"problem": p["problem"], "median_ms": statistics.median(samples_of(p)[0]) * 1e3})
            except RuntimeError as error:  # sizes that _int_mm refuses
                print(f"{p['problem']}: {error}", file=sys.stderr)
                continue
            print(f"{rows[-1]['problem']}: {rows[-1]['median_ms']:.4f} ms", file=sys.stderr)
        json.dump({"peer": f"PyTorch {torch.__version__}, {options.threads} thread(s)", "rows": rows}, sys.stdout, indent=1)
        print()
        return

    print(f"PyTorch {torch.__version__} {options.type} order {options.order}, {options.threads} thread(s), {'warm' if options.warm else 'cold'} caches")
    ratios = []
    for shape in options.shapes:
        m, n, k = (int(x) for x in shape.split("x"))
        problem = {"m": m, "n": n, "k": k, "batch": 1, "type_a": options.type, "layout": options.order}
        line = []
        for samples in samples_of(problem, *ours):
            median = statistics.median(samples)
            line.append((median, min(samples)))
            print(f"{shape if len(line) == 1 else 'ours':>16}  {median * 1e3:.4f} ms (best {min(samples) * 1e3:.4f}) {2e-9 * m * n * k / median:.1f} GFLOP/s", end="")
        if ours:
            ratios.append([peer / own for peer, own in zip(*line)])
            print(f"  its time over ours {ratios[-1][0]:.3f} (best times {ratios[-1][1]:.3f})  {tilesmith.last_plan().kernel}", end="")
        print(flush=True)
    if ours:
        print("geometric mean of its time over ours: {:.3f} (best times {:.3f})".format(*map(statistics.geometric_mean, zip(*ratios))))


if __name__ == "__main__":
    main()

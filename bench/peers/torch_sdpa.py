#!/usr/bin/env python3
"""Times PyTorch's scaled_dot_product_attention on the CPU for the problems of a bench.

    tilesmith bench CONFIG --dry-run | bench/peers/torch_sdpa.py --threads 1 > peers.json
    tilesmith bench CONFIG --threads 1 --peers peers.json

Reads the problems as JSON on standard input and writes {"peer": ..., "rows": [{"problem": ..., "median_ms": ...}]}. Inputs are random, caches are
evicted before each sample, the median is reported. Problems with a trait that the function does not have are left out.
"""
import argparse
import json
import statistics
import sys
import time


def comparable(p):
    square = p["seqlen_q"] == p["seqlen_k"]
    causal = p["mask"] == "top_left" or (p["mask"] == "bottom_right" and square)
    plain = not (p["soft_cap"] or p["sink"] or p["dropout"] or p["lse"]) and p["bias"] == "no" and p["window"] == [-1, -1]
    return plain and p["mode"] == "batch" and (p["mask"] == "no" or causal) and min(p["batch"], p["seqlen_q"], p["seqlen_k"]) > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=0, help="default: PyTorch's own choice")
    parser.add_argument("--seconds", type=float, default=0.5, help="time spent on each problem")
    options = parser.parse_args()

    import torch
    import torch.nn.functional as functional

    if options.threads:
        torch.set_num_threads(options.threads)
    types = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
    eviction = torch.ones(512 << 20, dtype=torch.uint8)
    rows = []
    for p in json.load(sys.stdin):
        if not comparable(p):
            continue
        torch.manual_seed(1)
        kind = types[p["data_type"]]
        q = torch.randn(p["batch"], p["heads_q"], p["seqlen_q"], p["head_dim_qk"], dtype=kind)
        k = torch.randn(p["batch"], p["heads_kv"], p["seqlen_k"], p["head_dim_qk"], dtype=kind)
        v = torch.randn(p["batch"], p["heads_kv"], p["seqlen_k"], p["head_dim_v"], dtype=kind)

        def call():
            return functional.scaled_dot_product_attention(q, k, v, is_causal=p["mask"] != "no", enable_gqa=p["heads_q"] != p["heads_kv"])

        samples = []
        with torch.inference_mode():
            call()
            began = time.perf_counter()
            while len(samples) < 5 or (time.perf_counter() - began < options.seconds and len(samples) < 100):
                eviction.add_(1)  # larger than any last-level cache
                start = time.perf_counter()
                call()
                samples.append(time.perf_counter() - start)
        rows.append({"problem": p["problem"], "median_ms": statistics.median(samples) * 1e3})
        print(f"{rows[-1]['problem']}: {rows[-1]['median_ms']:.4f} ms", file=sys.stderr)
    json.dump({"peer": f"PyTorch {torch.__version__} scaled_dot_product_attention", "rows": rows}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()

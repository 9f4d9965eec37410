#!/usr/bin/env python3
"""tilesmith.attention_backward on the CPU beside PyTorch's gradient of scaled_dot_product_attention.

    python bench/peers/cpu_attention_backward.py --threads 1,2
    python bench/peers/cpu_attention_backward.py --threads 1 --clock processor "bf16 causal 8x1024x128"

A problem is TYPE [causal] HEADS[/KEY_HEADS]xLENGTHxHEAD_DIM; without one, both types from 512 to 2048 keys. The contenders take turns call by call, and the caches
are overwritten before each call. Medians, and the median of the ratios within a turn. PyTorch's call is autograd.grad of an output that was computed
before. With --clock processor the time is the calling thread's own on the processor, which is all there is to one thread: on a machine that others
use it leaves out what they took.
"""
import argparse
import statistics
import time

import torch

import tilesmith

TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
PROBLEMS = [
    f"{kind} {causal}{heads}x{length}x{dim}"
    for kind in ("fp32", "bf16")
    for dim, heads in ((64, 16), (128, 8))
    for length in (512, 1024, 2048)
    for causal in ("", "causal ")
] + [f"{kind} {causal}{heads}x1024x{dim}" for kind in ("fp32", "bf16") for dim, heads in ((64, "16/4"), (128, "8/2")) for causal in ("", "causal ")]
COLD_BYTES = 128 << 20  # more than a last-level cache


def contenders(kind, causal, heads, key_heads, length, dim, threads):
    """What computes the gradients, by name; the results of both are compared once."""
    q, k, v, do = (torch.randn(1, each, length, dim).to(TYPES[kind]) for each in (heads, key_heads, key_heads, heads))
    o, lse = tilesmith.attention(q, k, v, causal=causal, return_lse=True)
    inputs = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    out = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=causal, enable_gqa=key_heads < heads)
    calls = {
        "tilesmith": lambda: tilesmith.attention_backward(do, q, k, v, o, lse, causal=causal, threads=threads),
        "PyTorch": lambda: torch.autograd.grad(out, inputs, do, retain_graph=True),
    }
    for ours, theirs in zip(calls["tilesmith"](), calls["PyTorch"](), strict=True):
        difference = (ours.float() - theirs.float()).norm() / theirs.float().norm()
        if not difference < (1e-4 if kind == "fp32" else 3e-2):
            raise SystemExit(f"the gradients differ by {difference:.2g} of their norm")
    return calls


def compare(text, threads, options):
    kind, *words, sizes = text.split()
    heads, length, dim = sizes.split("x")
    heads, _, key_heads = heads.partition("/")
    heads, key_heads, length, dim = int(heads), int(key_heads or heads), int(length), int(dim)
    causal = words == ["causal"]
    torch.manual_seed(1)
    torch.set_num_threads(threads)
    calls = contenders(kind, causal, heads, key_heads, length, dim, threads)
    kernel = tilesmith.last_plan().kernel
    clock = time.thread_time if options.clock == "processor" else time.perf_counter
    other = torch.ones(COLD_BYTES, dtype=torch.uint8)
    times = {name: [] for name in calls}
    end = time.perf_counter() + options.seconds
    while len(times["tilesmith"]) < 5 or time.perf_counter() < end:
        for name, call in calls.items():
            other.add_(1)
            began = clock()
            call()
            times[name].append(1e3 * (clock() - began))
    ours, theirs = (statistics.median(each) for each in times.values())
    ratio = statistics.median(b / a for a, b in zip(*times.values(), strict=True))
    flops = 10 * heads * dim * (length * (length + 1) / 2 if causal else length * length)
    print(f"{text:27} threads {threads}  {ours:8.2f} ms {1e-6 * flops / ours:5.0f} GFLOP/s  PyTorch {theirs:8.2f} ms"
          f"  ratio {ratio:.2f}  {len(times['tilesmith'])} turns  {kernel}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", metavar="PROBLEM", default=PROBLEMS)
    parser.add_argument("--threads", default="1,2", help="of both contenders; with commas between")
    parser.add_argument("--clock", default="wall", choices=["wall", "processor"])
    parser.add_argument("--seconds", type=float, default=3, help="spent on each problem, and 5 turns at least")
    options = parser.parse_args()
    threads = [int(each) for each in options.threads.split(",")]
    if options.clock == "processor" and threads != [1]:
        parser.error("--clock processor counts one thread: --threads 1")
    print(f"torch {torch.__version__}, CPU capability {torch.backends.cpu.get_cpu_capability()}, clock: {options.clock}")
    for text in options.problems:
        for each in threads:
            compare(text, each, options)


if __name__ == "__main__":
    main()

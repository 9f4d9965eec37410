#!/usr/bin/env python3
"""What appending costs a step of attention on pages: microseconds of attention alone, of append_kv with RoPE of queries and keys, of
both in turn, and of one call that does both, in caches that no cache of the processor holds.

    python bench/python/append_cost.py                      the shapes below, bf16, pages of 16, on a CUDA device: captured graphs
    python bench/python/append_cost.py --device cpu         on the CPU, the least of many calls in turn; --dtype float32 and others
    python bench/python/append_cost.py --device cpu --threads 1   by the caller's own processor time, for machines that others use too
    python bench/python/append_cost.py --shapes 1x8192:32/8 batch x keys : query heads / key heads; a fifth number is new tokens: 1x8192:32/8+4

"adds" is what both, and what one call, take beyond attention alone.
"""
import argparse
import re
import sys
import time
from pathlib import Path

import torch

import tilesmith

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import timing  # noqa: E402

DIM, PAGE = 128, 16
SHAPES = {"cuda": "1x1024:32/8 1x8192:32/8 1x8192:64/1 16x1024:32/8 16x8192:32/8 16x8192:64/1 64x1024:32/8 128x512:64/8",
          "cpu": "1x128:32/8 1x1024:32/8 1x4096:32/8 8x1024:32/8 32x256:32/8 1x1024:32/8+128"}  # fmt: skip


def contenders_of(batch, keys, heads_q, heads_kv, new, device, dtype):
    pages = batch * (keys // PAGE)
    table = torch.randperm(pages, device=device).to(torch.int32).reshape(batch, -1)
    before = torch.full((batch,), keys - new, device=device, dtype=torch.int32)
    after = before + new
    slots = (table.long()[:, -1:] * PAGE + PAGE - new + torch.arange(new, device=device)).flatten() if new <= PAGE else None
    positions = (before.long()[:, None] + torch.arange(new, device=device)).flatten()
    angles = torch.rand(keys, DIM // 2, device=device)
    cos, sin = angles.cos(), angles.sin()

    def make(heads, rows, count):
        return torch.randn(count, heads, rows, DIM, device=device, dtype=dtype)

    sets, _ = timing.sets_of(lambda: (
        make(heads_q, new, batch), make(heads_kv, new, batch), make(heads_kv, new, batch), make(heads_kv, PAGE, pages), make(heads_kv, PAGE, pages),
        make(heads_q, new, batch), make(heads_q, new, batch)))  # fmt: skip
    where = {"kv_layout": "hnd", "block_table": table}
    rotary = {"rotary_cos": cos, "rotary_sin": sin}

    def append(q, k, v, k_cache, v_cache, turned, out):
        tilesmith.append_kv(k, v, k_cache, v_cache, seqlens_k=before, q=q, out_q=turned, **where, **rotary)

    def attend(q, k, v, k_cache, v_cache, turned, out):
        tilesmith.attention(turned, k_cache, v_cache, seqlens_k=after, causal=new > 1, out=out, **where)

    def both(*operands):
        append(*operands)
        attend(*operands)

    def one(q, k, v, k_cache, v_cache, turned, out):
        tilesmith.attention(q, k_cache, v_cache, k_new=k, v_new=v, seqlens_k=after, causal=new > 1, out=out, **where, **rotary)

    def mapped(q, k, v, k_cache, v_cache, turned, out):  # the caller says where tokens go, as engines do: nothing follows from lengths
        tilesmith.attention(q, k_cache, v_cache, k_new=k, v_new=v, seqlens_k=after, slots=slots, positions=positions, causal=new > 1, out=out, **where,
                            **rotary)  # fmt: skip

    calls = {"append": append, "attention": attend, "both": both, "one": one}
    if device == "cuda" and slots is not None:
        calls["mapped"] = mapped
    return {name: (call, sets) for name, call in calls.items()}


def cpu_seconds(contenders, rounds, clock):
    """The least seconds of each, in turn."""
    best = {name: float("inf") for name in contenders}
    for _, name in timing.in_turn(contenders, rounds):
        best[name] = min(best[name], timing.cpu_seconds(*contenders[name], 0.05, clock))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes")
    parser.add_argument("--device", choices=SHAPES, default="cuda")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, help="of the CPU")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    name = torch.cuda.get_device_name() if options.device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"{name}, tilesmith {tilesmith.__version__}; {options.dtype}, microseconds")
    for shape in (options.shapes or SHAPES[options.device]).split():
        batch, keys, heads_q, heads_kv, new = re.fullmatch(r"(\d+)x(\d+):(\d+)/(\d+)(?:\+(\d+))?", shape).groups()
        contenders = contenders_of(int(batch), int(keys), int(heads_q), int(heads_kv), int(new or 1), options.device, getattr(torch, options.dtype))
        if options.device == "cuda":
            us = {name: 1e3 * each for name, each in timing.burst_medians(contenders, options.rounds, 0).items()}
        else:
            us = {name: 1e6 * each for name, each in cpu_seconds(contenders, options.rounds, clock).items()}
        alone = us["attention"]
        adds = "  ".join(f"{name} {us[name]:8.2f} adds {us[name] - alone:7.2f}" for name in us if name not in ("append", "attention"))
        print(f"{shape:16} append {us['append']:7.2f}  attention {alone:8.2f}  {adds}", flush=True)
        if options.device == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()

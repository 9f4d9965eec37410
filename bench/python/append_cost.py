#!/usr/bin/env python3
"""What appending costs a decode step on a CUDA device: microseconds of captured graphs of attention on pages, of append_kv with
RoPE of queries and keys, and of both in turn, in caches that no L2 holds.

    python bench/python/append_cost.py                      the shapes below, bf16, pages of 16
    python bench/python/append_cost.py --shapes 1x8192:32/8 batch x keys : query heads / key heads

"adds" is what both take beyond attention alone: what one launch for both could gain at most.
"""
import argparse
import re
import sys
from pathlib import Path

import torch

import tilesmith

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import timing  # noqa: E402

DIM, PAGE = 128, 16


def contenders_of(batch, keys, heads_q, heads_kv):
    pages = batch * (keys // PAGE)
    table = torch.randperm(pages, device="cuda").to(torch.int32).reshape(batch, -1)
    before = torch.full((batch,), keys - 1, device="cuda", dtype=torch.int32)
    after = before + 1
    angles = torch.rand(keys, DIM // 2, device="cuda")
    cos, sin = angles.cos(), angles.sin()

    def make(heads, rows, count):
        return torch.randn(count, heads, rows, DIM, device="cuda", dtype=torch.bfloat16)

    sets, _ = timing.sets_of(lambda: (
        make(heads_q, 1, batch), make(heads_kv, 1, batch), make(heads_kv, 1, batch), make(heads_kv, PAGE, pages), make(heads_kv, PAGE, pages),
        make(heads_q, 1, batch), make(heads_q, 1, batch)))  # fmt: skip

    def append(q, k, v, k_cache, v_cache, turned, out):
        tilesmith.append_kv(k, v, k_cache, v_cache, kv_layout="hnd", seqlens_k=before, block_table=table, q=q, rotary_cos=cos, rotary_sin=sin, out_q=turned)

    def attend(q, k, v, k_cache, v_cache, turned, out):
        tilesmith.attention(turned, k_cache, v_cache, seqlens_k=after, block_table=table, kv_layout="hnd", out=out)

    def both(*operands):
        append(*operands)
        attend(*operands)

    return {"append": (append, sets), "attention": (attend, sets), "both": (both, sets)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default="1x1024:32/8 1x8192:32/8 1x8192:64/1 16x1024:32/8 16x8192:32/8 16x8192:64/1 64x1024:32/8 128x512:64/8")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, tilesmith {tilesmith.__version__}; bf16, microseconds")
    for shape in options.shapes.split():
        batch, keys, heads_q, heads_kv = map(int, re.fullmatch(r"(\d+)x(\d+):(\d+)/(\d+)", shape).groups())
        times = timing.burst_medians(contenders_of(batch, keys, heads_q, heads_kv), options.rounds, 0)
        us = {name: 1e3 * each for name, each in times.items()}
        print(f"{shape:16} append {us['append']:6.2f}  attention {us['attention']:7.2f}  both {us['both']:7.2f}  adds {us['both'] - us['attention']:6.2f}", flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()

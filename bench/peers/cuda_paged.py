#!/usr/bin/env python3
"""tilesmith's decode on paged caches of a CUDA device, in one process: caches of other elements and pages of other sizes beside one another.

    python bench/peers/cuda_paged.py                                     the shapes below: bf16 and e4m3 in pages of 64, bf16 in pages of 1
    python bench/peers/cuda_paged.py --shapes 131072+31x512:latent16     lengths : query heads / key heads [: head dim], or : latent and heads
    python bench/peers/cuda_paged.py --caches bf16.64,int8.64,fp8.16     elements . keys of a page

Lengths are 16x8192, sums of such (131072+31x512), or 16x~8192: drawn from 1 to 8192 by --seed. Calls are captured graphs over caches that no L2
holds, timed in bursts (bench/timing.py). TB/s count a sequence's keys and values once; the ratios are of the first cache's time. Latent
rows are 576 elements with values of 512. Needs torch with CUDA, and the package (pip install ., or PYTHONPATH=python with TILESMITH_LIBRARY).
"""
import argparse
import random
import re
import sys
from pathlib import Path

import torch

import tilesmith

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import timing  # noqa: E402

SHAPES = ("16x8192:32/8 64x4096:32/8 128x8192:32/8 16x4096:64/8 1x65536:32/8 4x8192:32/8 1x8192:32/8 16x~8000:64/8 64x~4000:32/8 40x~3000:16/2 "
          "131072+31x512:32/8 131072+31x512:latent128 131072+31x512:latent16 16x4096:latent128 32x8192:latent64 128x~4096:latent16")
ELEMENTS = {"bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn, "int8": torch.int8}
LATENT_DIM, LATENT, LATENT_SCALE = 576, 512, 192**-0.5


def lengths_of(text, draw):
    for part in text.split("+"):
        count, drawn, keys = re.fullmatch(r"(?:(\d+)x)?(~?)(\d+)", part).groups()
        for _ in range(int(count or 1)):
            yield draw.randint(1, int(keys)) if drawn else int(keys)


class Shape:
    def __init__(self, text, seed):
        lengths, heads, *dim = text.split(":")
        self.lengths = list(lengths_of(lengths, random.Random(seed)))
        self.latent = heads.startswith("latent")
        self.heads_q, self.heads_kv = (int(heads.removeprefix("latent")), 1) if self.latent else map(int, heads.split("/"))
        self.dim = LATENT_DIM if self.latent else int(dim[0]) if dim else 128

    def operands(self, elements, page):
        """Queries, caches, and a table of pages in random order, of page 0 behind a sequence's last."""
        counts = [-(-keys // page) for keys in self.lengths]
        order, at = torch.randperm(sum(counts), dtype=torch.int32), 0
        table = torch.zeros(len(counts), max(counts), dtype=torch.int32)
        for sequence, count in enumerate(counts):
            table[sequence, :count] = order[at : at + count]
            at += count
        q = torch.randn(len(counts), 1, self.heads_q, self.dim, device="cuda", dtype=torch.bfloat16)
        cache = [(torch.randn(sum(counts), page, self.heads_kv, self.dim, device="cuda", dtype=torch.bfloat16)
                  * (30 if elements == torch.int8 else 1)).to(elements) for _ in range(1 if self.latent else 2)]  # fmt: skip
        return q, table.cuda(), torch.empty_like(q[..., : LATENT if self.latent else self.dim]), *cache

    def call(self, elements):
        lengths = torch.tensor(self.lengths, device="cuda", dtype=torch.int32)
        scale = {} if elements == torch.bfloat16 else {"k_scale": torch.tensor(1 / 30, device="cuda")}
        if self.latent:
            return lambda q, table, out, cache: tilesmith.mla_decode(
                q, cache[:, :, 0], scale=LATENT_SCALE, seqlens_k=lengths, block_table=table, out=out, **scale)
        scale |= {"v_scale": each for each in scale.values()}
        return lambda q, table, out, k, v: tilesmith.attention(q, k, v, layout="bshd", seqlens_k=lengths, block_table=table, out=out, **scale)

    def bytes(self, elements):
        return sum(self.lengths) * self.heads_kv * self.dim * (1 if self.latent else 2) * elements.itemsize


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--caches", default="bf16.64,fp8.64,bf16.1", help="by commas")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rest", type=float, default=0.0, help="seconds before each contender's turn")
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, tilesmith {tilesmith.__version__}; microseconds (TB/s, times as fast as the first)")
    for text in options.shapes.split():
        shape, contenders, sizes = Shape(text, options.seed), {}, {}
        for cache in options.caches.split(","):
            name, page = cache.split(".")
            elements = ELEMENTS[name]
            sets, _ = timing.sets_of(lambda elements=elements, page=int(page): shape.operands(elements, page))
            contenders[cache], sizes[cache] = (shape.call(elements), sets), shape.bytes(elements)
        times = {name: 1e3 * ms for name, ms in timing.burst_medians(contenders, options.rounds, options.rest, burst_ms=4).items()}
        first = next(iter(times.values()))
        print(f"{text:26}" + "".join(f" {name} {us:7.2f} ({sizes[name] / us * 1e-6:.2f}, {first / us:.3f}) " for name, us in times.items()), flush=True)
        del contenders
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()

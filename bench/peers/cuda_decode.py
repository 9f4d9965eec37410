#!/usr/bin/env python3
"""tilesmith.attention for one query beside PyTorch's attention on a CUDA device, in one process.

    python bench/peers/cuda_decode.py                          the shapes below, bf16, keys as tensors and in pages of 16
    python bench/peers/cuda_decode.py --shapes 1x8192:32/8     batch x keys : query heads / key heads [: head dim [: queries]]
    python bench/peers/cuda_decode.py --shapes grid --page 0 --random 24   batches, keys and heads crossed, and shapes that nothing was fitted to
    python bench/peers/cuda_decode.py --flash3                 FlashAttention-3 (its package flash_attn_interface) too, with and without pack_gqa

Calls are captured graphs over caches that no L2 holds, timed in bursts (bench/timing.py). PyTorch's read tensors (batch, heads, keys, dim). TB/s
count keys and values once. Needs torch with CUDA, and the package (pip install ., or PYTHONPATH=python with TILESMITH_LIBRARY).
"""
import argparse
import json
import math
import random
import re
import sys
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import tilesmith

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import timing  # noqa: E402

SHAPES = ("1x1024:32/8 1x8192:32/8 1x131072:32/8 4x8192:32/8 16x1024:32/8 16x8192:32/8 64x4096:32/8 128x1024:32/8 128x8192:32/8 "
          "1x4096:32/32 16x1024:32/32 64x8192:64/8 64x8192:8/1 8x32768:8/1 16x8192:32/8:64 16x4096:32/8:256 16x8192:32/8:128:4")


MOST_BYTES = 1.5e9  # of the keys and values of a shape that is drawn or crossed


def size_of(batch, keys, heads_kv, dim):
    return batch * keys * heads_kv * dim * 4


def grid():
    return [f"{batch}x{keys}:{heads}" for batch in (1, 4, 16, 64, 128) for keys in (1024, 8192, 65536) for heads in ("32/8", "32/32", "64/8", "64/1")
            if size_of(batch, keys, int(heads.split("/")[1]), 128) < MOST_BYTES]  # fmt: skip


def drawn(count, seed):
    draw = random.Random(seed)
    while count > 0:
        heads_kv, group = draw.choice([1, 1, 2, 3, 4, 8, 8, 16, 32]), draw.choice([1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 32, 48, 64])
        keys, batch = int(math.exp(draw.uniform(math.log(200), math.log(150000)))), int(math.exp(draw.uniform(0, math.log(130))))
        dim = draw.choice([64, 128, 128, 128])
        if heads_kv * group <= 128 and size_of(batch, keys, heads_kv, dim) < MOST_BYTES:
            yield f"{batch}x{keys}:{heads_kv * group}/{heads_kv}:{dim}"
            count -= 1


def backend(which):
    def go(q, k, v, *_):
        with sdpa_kernel(which):
            return scaled_dot_product_attention(q, k, v, enable_gqa=q.shape[1] != k.shape[1])
    return go


def flash3(pack):
    from flash_attn_interface import flash_attn_with_kvcache

    def go(q, k, v, *_):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # batch, length, heads, head dim
        return flash_attn_with_kvcache(q, k, v, pack_gqa=pack)
    return go


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default=SHAPES, help="shapes by spaces, or grid")
    parser.add_argument("--random", type=int, default=0, help="so many random shapes beside them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--caches", default="", help="fp8, int8: caches of pages of these elements too, by commas, with a scale for each key head")
    parser.add_argument("--flash3", action="store_true")
    parser.add_argument("--page", type=int, default=16, help="keys of a page; 0: no pages")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rest", type=float, default=0.05, help="seconds before each contender's turn")
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, tilesmith "
          f"{tilesmith.__version__}; bf16, microseconds (TB/s)")
    rows = []
    shapes = grid() if options.shapes == "grid" else options.shapes.split()
    for shape in [*shapes, *drawn(options.random, options.seed)]:
        batch, keys, heads_q, heads_kv, dim, queries = (
            int(x) if x else None for x in re.fullmatch(r"(\d+)x(\d+):(\d+)/(\d+)(?::(\d+))?(?::(\d+))?", shape).groups())
        dim, queries = dim or 128, queries or 1
        lengths = torch.full((batch,), keys, device="cuda", dtype=torch.int32)
        page = options.page

        def tensors():
            q = torch.randn(batch, heads_q, queries, dim, device="cuda", dtype=torch.bfloat16)
            k, v = (torch.randn(batch, heads_kv, keys, dim, device="cuda", dtype=torch.bfloat16) for _ in range(2))
            return q, k, v, torch.empty_like(q)

        def pages(elements=torch.bfloat16):
            count = batch * (keys // page)
            table = torch.randperm(count, device="cuda").to(torch.int32).reshape(batch, -1)
            q = torch.randn(batch, heads_q, queries, dim, device="cuda", dtype=torch.bfloat16)
            k, v = (torch.randn(count, heads_kv, page, dim, device="cuda", dtype=torch.bfloat16) for _ in range(2))
            if elements == torch.int8:
                k, v = k * 30, v * 30
            return q, k.to(elements), v.to(elements), torch.empty_like(q), table

        dense, _ = timing.sets_of(tensors)
        contenders = {"tilesmith": (lambda q, k, v, out: tilesmith.attention(q, k, v, out=out), dense)}
        if page and keys % page == 0:
            contenders["pages"] = (lambda q, k, v, out, table: tilesmith.attention(q, k, v, seqlens_k=lengths, block_table=table, kv_layout="hnd", out=out),
                                   timing.sets_of(pages)[0])
            scale = torch.full((heads_kv,), 1 / 30, device="cuda")
            for name in filter(None, options.caches.split(",")):
                elements = {"fp8": torch.float8_e4m3fn, "int8": torch.int8}[name]
                contenders[name] = (lambda q, k, v, out, table: tilesmith.attention(
                    q, k, v, seqlens_k=lengths, block_table=table, kv_layout="hnd", out=out, k_scale=scale, v_scale=scale),
                    timing.sets_of(lambda elements=elements: pages(elements))[0])  # fmt: skip
        expected = None
        for name, which in (("cuDNN", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
            try:
                expected = backend(which)(*dense[0]).float()
            except RuntimeError:
                continue
            contenders[name] = (backend(which), dense)
        if options.flash3:
            contenders |= {"flash3": (flash3(None), dense), "flash3 packed": (flash3(True), dense)}
        q, k, v, out = dense[0]
        tilesmith.attention(q, k, v, out=out)
        kernel = tilesmith.last_plan().kernel
        if expected is not None:
            apart = ((out.float() - expected).square().mean() / expected.square().mean()).sqrt().item()
            if not apart < 6e-3:
                raise SystemExit(f"wrong result: {apart:.2e} from PyTorch's at {shape}")
        size = size_of(batch, keys, heads_kv, dim)
        times = {name: 1e3 * ms for name, ms in timing.burst_medians(contenders, options.rounds, options.rest).items()}
        print(f"{shape:22}" + "".join(f" {name} {us:7.1f} ({size / us * 1e-6:.2f}) " for name, us in times.items()) + kernel.split("_lse")[-1][-70:],
              flush=True)
        rows.append({"shape": shape, "kernel": kernel, "bytes": size, "microseconds": times})
        del dense, contenders, q, k, v, out, expected
        torch.cuda.empty_cache()
    peers = {"cuDNN", "flash", "flash3", "flash3 packed"}
    ratios = {row["shape"]: min(us for name, us in row["microseconds"].items() if name in peers) / row["microseconds"]["tilesmith"]
              for row in rows if len(row["microseconds"].keys() & peers)}  # fmt: skip
    if ratios:
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        least = sorted(ratios, key=ratios.__getitem__)[:5]
        print(f"the fastest peer over ours: {mean:.3f} in geometric mean of {len(ratios)}, least " + ", ".join(f"{ratios[s]:.3f} {s}" for s in least))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()

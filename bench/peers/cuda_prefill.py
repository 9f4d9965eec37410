#!/usr/bin/env python3
"""Batch prefill on pages beside the same sequences packed without pages, and PyTorch's attention, on a CUDA device, in one process.

    python bench/peers/cuda_prefill.py                            the shapes below, pages of 16, 64, 256 and 1 keys
    python bench/peers/cuda_prefill.py --shapes 4x2048+8192:32/8  sequences x queries + keys before them : query heads / key heads [: head dim]
    python bench/peers/cuda_prefill.py --shapes ragged:32/8       sequences of different lengths
    python bench/peers/cuda_prefill.py --flash3                   FlashAttention-3 (its package flash_attn_interface) on packed keys too
    python bench/peers/cuda_prefill.py --caches fp8               pages of e4m3 too

Queries are ragged (cu_seqlens_q) and causal from the last key on; a sequence's new keys are in the cache. Contenders take turns; L2 is overwritten before
each call; CUDA events; the median of --rounds. TFLOP/s count visible pairs only. cuDNN has tensors, where all sequences are alike and nothing lies before.
Needs torch with CUDA, and the package (pip install ., or PYTHONPATH=python with TILESMITH_LIBRARY).
"""
import argparse
import json
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

SHAPES = "4x4096+0:32/8 1x16384+0:32/8 8x1024+7168:32/8 4x4096+0:32/8:64 4x4096+0:16/16:256 ragged:32/8 ragged:32/8:64"


def lengths_of(shape, seed=1):
    """(queries, keys before them) of each sequence, the heads and the head dim."""
    lengths, heads_q, heads_kv, dim = re.fullmatch(r"([^:]+):(\d+)/(\d+)(?::(\d+))?", shape).groups()
    if lengths == "ragged":
        draw = random.Random(seed)
        pairs = [(draw.randint(100, 4000), draw.choice([0, 0, draw.randint(1, 8000)])) for _ in range(12)]
    else:
        count, queries, before = map(int, re.fullmatch(r"(\d+)x(\d+)\+(\d+)", lengths).groups())
        pairs = [(queries, before)] * count
    return pairs, int(heads_q), int(heads_kv), int(dim or 128)


def offsets(lengths):
    return torch.tensor([0, *lengths], device="cuda").cumsum(0).to(torch.int32)


def in_pages(rows, lengths, page):
    """Packed rows (total, heads, dim) in pages of a pool in random order, and the table."""
    counts = [-(-length // page) for length in lengths]
    order = torch.randperm(sum(counts), device="cuda").to(torch.int32)
    table = torch.zeros(len(lengths), max(counts), device="cuda", dtype=torch.int32)
    pools = [torch.zeros(len(order), page, *x.shape[1:], device="cuda", dtype=x.dtype) for x in rows]
    used = first = 0
    for b, (length, count) in enumerate(zip(lengths, counts)):
        table[b, :count] = mine = order[used : used + count]
        for pool, x in zip(pools, rows):
            whole = torch.zeros(count * page, *x.shape[1:], device="cuda", dtype=x.dtype)
            whole[:length] = x[first : first + length]
            pool[mine.long()] = whole.unflatten(0, (-1, page))
        used, first = used + count, first + length
    return pools, table


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--pages", default="16,64,256,1")
    parser.add_argument("--caches", default="", help="fp8: caches of e4m3 too, in pages of the first size")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--rest", type=float, default=0.0, help="seconds before each contender's turn")
    parser.add_argument("--flash3", action="store_true")
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    sizes = [int(page) for page in options.pages.split(",")]
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, tilesmith "
          f"{tilesmith.__version__}; bf16, causal, TFLOP/s{'; burst' if options.rest else '; sustained'}")
    rows, ratios = [], {page: [] for page in sizes}
    for shape in options.shapes.split():
        pairs, heads_q, heads_kv, dim = lengths_of(shape)
        lengths_q, lengths_k = [q for q, _ in pairs], [q + before for q, before in pairs]
        q = torch.randn(sum(lengths_q), heads_q, dim, device="cuda", dtype=torch.bfloat16)
        k, v = (torch.randn(sum(lengths_k), heads_kv, dim, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        ragged = {"layout": "bshd", "causal": True, "cu_seqlens_q": offsets(lengths_q), "max_seqlen_q": max(lengths_q)}
        outs = {}

        def attend(name, k, v, q=q, ragged=ragged, outs=outs, **keys):
            outs[name] = out = torch.empty_like(q)
            return lambda: tilesmith.attention(q, k, v, out=out, **ragged, **keys)

        seqlens = torch.tensor(lengths_k, device="cuda", dtype=torch.int32)
        calls = {"packed": attend("packed", k, v, cu_seqlens_k=offsets(lengths_k), max_seqlen_k=max(lengths_k))}
        kernels = {}
        for page in sizes:
            (pool_k, pool_v), table = in_pages((k, v), lengths_k, page)
            calls[f"pages of {page}"] = attend(f"pages of {page}", pool_k, pool_v, block_table=table, seqlens_k=seqlens)
        for cache in filter(None, options.caches.split(",")):
            (pool_k, pool_v), table = in_pages((k.to(torch.float8_e4m3fn), v.to(torch.float8_e4m3fn)), lengths_k, sizes[0])
            calls[cache] = attend(cache, pool_k, pool_v, block_table=table, seqlens_k=seqlens)
        if options.flash3:
            from flash_attn_interface import flash_attn_varlen_func

            calls["flash3"] = lambda: flash_attn_varlen_func(
                q, k, v, ragged["cu_seqlens_q"], offsets_k, max(lengths_q), max(lengths_k), causal=True)  # fmt: skip
            offsets_k = offsets(lengths_k)
        if len(set(pairs)) == 1 and pairs[0][1] == 0:
            dense = [x.unflatten(0, (len(pairs), -1)).transpose(1, 2).contiguous() for x in (q, k, v)]

            def cudnn(dense=dense):
                with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                    return scaled_dot_product_attention(*dense, is_causal=True, enable_gqa=heads_q != heads_kv)

            calls["cuDNN"] = cudnn
        for name in outs:
            calls[name]()
            kernels[name] = tilesmith.last_plan().kernel
            apart = ((outs[name].float() - outs["packed"].float()).square().mean() / outs["packed"].float().square().mean()).sqrt().item()
            if not apart < (6e-2 if name in options.caches.split(",") else 6e-3):
                raise SystemExit(f"wrong result: {name} is {apart:.2e} from packed keys' at {shape}")
        visible = sum(queries * before + queries * (queries + 1) / 2 for queries, before in pairs)
        flops = 4 * heads_q * dim * visible
        rate = {name: flops / ms * 1e-9 for name, ms in timing.flushed_medians(calls, options.rounds, options.rest).items()}
        for page in sizes:
            ratios[page].append(rate[f"pages of {page}"] / rate["packed"])
        print(f"{shape:22}" + "".join(f" {name} {x:4.0f} " for name, x in rate.items()) + " = "
              + ", ".join(f"{each[-1]:.3f}" for each in ratios.values()) + " x packed  " + kernels[f"pages of {sizes[0]}"].split("paged_kv_")[-1][:60], flush=True)
        rows.append({"shape": shape, "kernels": kernels, "tflops": rate})
    print("over packed keys: " + ", ".join(f"pages of {page} {timing.geometric_mean(each):.3f} in geometric mean, least {min(each):.3f}" for page, each in ratios.items()))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()

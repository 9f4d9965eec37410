#!/usr/bin/env python3
"""tilesmith.mla_decode on a CUDA device: every kernel that computes a shape, in one process.

    python bench/peers/cuda_latent.py                              the shapes below, bf16, rows of 576 with values of 512, pages of 64
    python bench/peers/cuda_latent.py --shapes 1x8192:16 --page 1  batch x keys : heads [: queries]

Calls are captured graphs over caches that no L2 holds, timed in bursts (bench/timing.py). TB/s count the cache once, TFLOP/s both
products. Each kernel's output is compared with float32 products by torch first. Needs torch with CUDA, and the package.
"""
import argparse
import re
import sys
from pathlib import Path

import torch

import tilesmith

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import timing  # noqa: E402

SHAPES = "128x4096:128 128x1024:128 16x4096:128 1x8192:128 1x8192:16 32x8192:64 128x4096:16 64x1024:16 16x8192:16 1x131072:16"
DIM, LATENT, SCALE = 576, 512, 192**-0.5


def reference(q, cache, table, keys):
    out = []
    for b in range(q.shape[0]):
        rows = cache[table[b].long()].reshape(-1, DIM)[:keys].float()
        scores = q[b].float() @ rows.T * SCALE  # (queries, heads, keys)
        first = torch.arange(keys, device=q.device)[None] > torch.arange(q.shape[1], device=q.device)[:, None] + keys - q.shape[1]
        out.append(scores.masked_fill(first[:, None], -torch.inf).softmax(-1) @ rows[:, :LATENT])
    return torch.stack(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--page", type=int, default=64, help="keys of a page")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rest", type=float, default=0.02, help="seconds before each contender's turn")
    parser.add_argument("--kernels", default="", help="a regular expression: the kernels to time")
    parser.add_argument("--splits", default="0", help="numbers of pieces to try, by commas; 0 is the model's")
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, tilesmith {tilesmith.__version__}; bf16, pages of {options.page}")
    for shape in options.shapes.split():
        batch, keys, heads, queries = (int(x) if x else 1 for x in re.fullmatch(r"(\d+)x(\d+):(\d+)(?::(\d+))?", shape).groups())
        lengths = torch.full((batch,), keys, device="cuda", dtype=torch.int32)

        def tensors():
            count = batch * -(-keys // options.page)
            table = torch.randperm(count, device="cuda").to(torch.int32).reshape(batch, -1)
            q = torch.randn(batch, queries, heads, DIM, device="cuda", dtype=torch.bfloat16)
            return q, torch.randn(count, options.page, DIM, device="cuda", dtype=torch.bfloat16), table, q[..., :LATENT].clone()

        def call(kernel, splits):
            return lambda q, cache, table, out: tilesmith.mla_decode(
                q, cache, scale=SCALE, seqlens_k=lengths, block_table=table, out=out, num_splits=splits, kernel=kernel)

        sets, _ = timing.sets_of(tensors)
        q, cache, table, out = sets[0]
        expected = reference(q, cache, table, keys)
        contenders = {}
        for each in tilesmith.candidates(tilesmith.mla_decode, q, cache, scale=SCALE, seqlens_k=lengths, block_table=table).candidates:
            name = each.kernel.split("_latent_")[1].split("_on_")[0]
            if not re.search(options.kernels, name):
                continue
            for splits in map(int, options.splits.split(",")):
                one = call(each.kernel, splits)
                one(*sets[0])
                apart = ((out.float() - expected).square().mean() / expected.square().mean()).sqrt().item()
                if not apart < 6e-3:
                    print(f"{shape} {name} splits {splits}: WRONG, {apart:.2e} from float32's", flush=True)
                    continue
                contenders[f"{name}, {splits or f'model ({1e6 * each.predicted_seconds:.0f} us)'}"] = (one, sets)
        size, flops = batch * keys * DIM * 2, 2 * batch * keys * heads * queries * (DIM + LATENT)
        for name, ms in timing.burst_medians(contenders, options.rounds, options.rest).items():
            print(f"{shape:16}{1e3 * ms:9.1f} us {size / ms * 1e-9:6.2f} TB/s {flops / ms * 1e-9:7.1f} TFLOP/s  {name}", flush=True)
        del sets, contenders, q, cache, table, out, expected
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()

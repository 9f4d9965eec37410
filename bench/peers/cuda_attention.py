#!/usr/bin/env python3
"""tilesmith.attention beside PyTorch's attention on a CUDA device, in one process.

    python bench/peers/cuda_attention.py                       16384 tokens, hidden size 2048, head dims 64, 128, 256
    python bench/peers/cuda_attention.py --flex                FlexAttention (max-autotune) too
    python bench/peers/cuda_attention.py --flash3              FlashAttention-3 (its package flash_attn_interface) too
    python bench/peers/cuda_attention.py --rest 0.15           burst: a rested chip before each contender's turn
    python bench/peers/cuda_attention.py --heads 16 --head-dims 40,72,88 --layout bshd    heads as a model's projections leave them
    python bench/peers/cuda_attention.py --heads 16 --group 4 --queries 32                of grouped heads, of few queries

Contenders take turns; L2 is overwritten before each call; CUDA events; the median of --rounds. TFLOP/s count visible pairs only.
Needs torch with CUDA, and the package (pip install ., or PYTHONPATH=python with TILESMITH_LIBRARY).
"""
import argparse
import json
import sys
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import tilesmith

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import timing  # noqa: E402


def backend(which, q, k, v, causal):
    def go():
        with sdpa_kernel(which):
            return scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])

    try:
        go()
    except RuntimeError:
        return None
    return go


def flex(q, k, v, causal):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = None
    if causal:
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, q.shape[2], k.shape[2], device=q.device)
    compiled = torch.compile(flex_attention, mode="max-autotune-no-cudagraphs", dynamic=False)
    return lambda: compiled(q, k, v, block_mask=mask)


def flash3(q, k, v, causal):
    from flash_attn_interface import flash_attn_func

    q, k, v = (x.transpose(1, 2).contiguous() for x in (q, k, v))  # its layout: batch, length, heads, head dim
    return lambda: flash_attn_func(q, k, v, causal=causal)


def tensor(shape, layout):
    """Of batch, heads, length, head dim; in memory heads or rows go first."""
    batch, heads, length, head_dim = shape
    if layout == "bhsd":
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    return torch.randn((batch, length, heads, head_dim), device="cuda", dtype=torch.bfloat16).transpose(1, 2)


def numbers(text):
    return [int(x) for x in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--head-dims", type=numbers, default=[64, 128, 256])
    parser.add_argument("--seqlens", type=numbers, default=[512, 1024, 2048, 4096, 8192, 16384])
    parser.add_argument("--masks", default="full,causal")
    parser.add_argument("--tokens", type=int, default=16384)
    parser.add_argument("--heads", type=int, default=0, help="hidden size 2048 where it is not given")
    parser.add_argument("--group", type=int, default=1, help="query heads of a head of keys")
    parser.add_argument("--queries", type=int, default=0, help="of a sequence, as many as keys where it is not given")
    parser.add_argument("--layout", choices=("bhsd", "bshd"), default="bhsd", help="order of the tensors in memory")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--rest", type=float, default=0.0, help="seconds before each contender's turn")
    parser.add_argument("--flex", action="store_true")
    parser.add_argument("--flash3", action="store_true")
    parser.add_argument("--json", default="")
    options = parser.parse_args()

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, tilesmith "
          f"{tilesmith.__version__}; bf16, TFLOP/s{'; burst' if options.rest else '; sustained'}")
    rows, ratios, to_best = [], [], []
    for head_dim in options.head_dims:
        for mask in options.masks.split(","):
            for seqlen in options.seqlens:
                causal = mask == "causal"
                queries, heads = options.queries or seqlen, options.heads or 2048 // head_dim
                if causal and queries != seqlen:
                    raise SystemExit("causal: PyTorch aligns few queries with the first keys, so it takes as many as keys")
                shape = (max(1, options.tokens // seqlen), heads, queries, head_dim)
                q, out = (tensor(shape, options.layout) for _ in range(2))
                k, v = (tensor((shape[0], heads // options.group, seqlen, head_dim), options.layout) for _ in range(2))
                calls = {"tilesmith": lambda: tilesmith.attention(q, k, v, causal=causal, out=out)}
                for name, which in (("cuDNN", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
                    if call := backend(which, q, k, v, causal):
                        calls[name] = call
                if options.flex:
                    calls["flex"] = flex(q, k, v, causal)
                if options.flash3:
                    calls["flash3"] = flash3(q, k, v, causal)
                expected = calls["cuDNN"]().float()
                calls["tilesmith"]()
                apart = ((out.float() - expected).square().mean() / expected.square().mean()).sqrt().item()
                if not apart < 6e-3:
                    raise SystemExit(f"wrong result: {apart:.2e} from cuDNN's at {shape} {mask}")
                flops = 4 * shape[0] * heads * head_dim * (seqlen * (seqlen + 1) / 2 if causal else queries * seqlen)
                took = timing.flushed_medians(calls, options.rounds, options.rest)
                rate = {name: flops / ms * 1e-9 for name, ms in took.items()}
                ratios.append(rate["tilesmith"] / rate["cuDNN"])
                to_best.append(rate["tilesmith"] / max(x for name, x in rate.items() if name != "tilesmith"))
                print(f"d{head_dim:<4}{mask:7} s{seqlen:<6}" + "".join(f" {name} {x:4.0f} " for name, x in rate.items())
                      + f" = {ratios[-1]:.3f} x cuDNN, {to_best[-1]:.3f} x the best peer; ours {took['tilesmith'] * 1e3:.1f} us", flush=True)
                rows.append({"head_dim": head_dim, "mask": mask, "seqlen": seqlen, "queries": queries, "heads": heads, "group": options.group,
                             "layout": options.layout, "us": {name: ms * 1e3 for name, ms in took.items()}, "kernel": tilesmith.last_plan().kernel,
                             "tflops": rate})
    print(f"geometric mean {timing.geometric_mean(ratios):.3f} x cuDNN, smallest {min(ratios):.3f}, "
          f"{len(ratios)} cells; {timing.geometric_mean(to_best):.3f} x the best peer, smallest {min(to_best):.3f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()

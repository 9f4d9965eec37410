#!/usr/bin/env python3
"""tilesmith.attention_backward beside PyTorch's backward of attention on a CUDA device, in one process.

    python bench/peers/cuda_attention_backward.py                  16384 tokens, hidden size 2048, head dims 64, 128, 256
    python bench/peers/cuda_attention_backward.py --group 4        four query heads to a head of keys
    python bench/peers/cuda_attention_backward.py --varlen 8       8 sequences of random lengths, packed, beside PyTorch's FlashAttention-2
    python bench/peers/cuda_attention_backward.py --bitwise        ordered additions too
    python bench/peers/cuda_attention_backward.py --flash3         FlashAttention-3 (its package flash_attn_interface) too

Each contender gets its own o and lse, and computes dq, dk and dv. cuDNN is called as PyTorch's autograd calls it: the backward operator alone,
without the graph around it. Contenders take turns; L2 is overwritten before each call; CUDA events; the median of --rounds. TFLOP/s count five
products over visible pairs, whatever a kernel computes. Needs torch with CUDA, and the package (pip install ., or PYTHONPATH=python with TILESMITH_LIBRARY).
"""
import argparse
import json
import sys
from pathlib import Path

import torch

import tilesmith

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import timing  # noqa: E402


def ours(do, q, k, v, causal, deterministic):
    o, lse = tilesmith.attention(q, k, v, causal=causal, return_lse=True)
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    return lambda: tilesmith.attention_backward(do, q, k, v, o, lse, causal=causal, deterministic=deterministic, dq=dq, dk=dk, dv=dv)


def cudnn(do, q, k, v, causal):
    group = q.shape[1] // k.shape[1]
    scale = q.shape[-1] ** -0.5
    forward = torch.ops.aten._scaled_dot_product_cudnn_attention
    if group > 1:  # the operator's backward wants as many heads of keys: PyTorch repeats them
        k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    o, lse, cq, ck, mq, mk, seed, offset, _ = forward(q, k, v, None, True, 0.0, causal, False, scale=scale)
    backward = torch.ops.aten._scaled_dot_product_cudnn_attention_backward

    def go():
        dq, dk, dv = backward(do, q, k, v, o, lse, seed, offset, None, cq, ck, mq, mk, 0.0, causal, scale=scale)
        if group > 1:
            dk, dv = (x.unflatten(1, (-1, group)).sum(2) for x in (dk, dv))
        return dq, dk, dv

    return go


def flash2(do, q, k, v, causal):
    scale = q.shape[-1] ** -0.5
    o, lse, cq, ck, mq, mk, seed, offset, _ = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False, scale=scale)
    backward = torch.ops.aten._scaled_dot_product_flash_attention_backward
    return lambda: backward(do, q, k, v, o, lse, cq, ck, mq, mk, 0.0, causal, seed, offset, scale=scale)


def flash3(do, q, k, v, causal):
    from flash_attn_interface import flash_attn_func

    leaves = [x.transpose(1, 2).contiguous().requires_grad_() for x in (q, k, v)]  # its layout: batch, length, heads, head dim
    o = flash_attn_func(*leaves, causal=causal)
    o = o[0] if isinstance(o, tuple) else o
    wanted = do.transpose(1, 2).contiguous()
    return lambda: tuple(x.transpose(1, 2) for x in torch.autograd.grad(o, leaves, wanted, retain_graph=True))


def add_peer(calls, name, make):
    """A peer that this PyTorch or this machine does not have is left out, and said so."""
    try:
        call = make()
        call()
        calls[name] = call
    except (ImportError, RuntimeError) as error:
        print(f"without {name}: {str(error).splitlines()[0]}", file=sys.stderr)


def apart(mine, theirs):
    return max(((a.float() - b.float()).square().mean() / b.float().square().mean()).sqrt().item() for a, b in zip(mine, theirs))


def dense(options, head_dim, causal, seqlen):
    heads = 2048 // head_dim
    shape = (options.tokens // seqlen, heads, seqlen, head_dim)
    keys = (shape[0], heads // options.group, seqlen, head_dim)
    q, do = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    k, v = (torch.randn(keys, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    calls = {"tilesmith": ours(do, q, k, v, causal, False)}
    if options.bitwise:
        calls["bitwise"] = ours(do, q, k, v, causal, True)
    add_peer(calls, "cuDNN", lambda: cudnn(do, q, k, v, causal))
    if options.group == 1:
        add_peer(calls, "flash2", lambda: flash2(do, q, k, v, causal))
    if options.flash3:
        add_peer(calls, "flash3", lambda: flash3(do, q, k, v, causal))
    pairs = seqlen * (seqlen + 1) / 2 if causal else seqlen**2
    return calls, 10 * shape[0] * heads * head_dim * pairs


def packed(options, head_dim, causal, seqlen):
    """Sequences of random lengths from a quarter of seqlen to seqlen."""

    heads = 2048 // head_dim
    random = torch.Generator().manual_seed(1)
    lengths = torch.randint(seqlen // 4, seqlen + 1, (options.varlen,), generator=random)
    ends = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).to("cuda", torch.int32)
    total, most = int(lengths.sum()), int(lengths.max())
    q, k, v, do = (torch.randn(total, heads, head_dim, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    given = dict(causal=causal, cu_seqlens_q=ends, cu_seqlens_k=ends, max_seqlen_q=most, max_seqlen_k=most, layout="bshd")
    o, lse = tilesmith.attention(q, k, v, return_lse=True, **given)
    dq, dk, dv = (torch.zeros_like(x) for x in (q, k, v))
    calls = {"tilesmith": lambda: tilesmith.attention_backward(do, q, k, v, o, lse, deterministic=False, dq=dq, dk=dk, dv=dv, **given)}
    scale = head_dim**-0.5

    def flash():
        fo, flse, seed, offset, _ = torch.ops.aten._flash_attention_forward(q, k, v, ends, ends, most, most, 0.0, causal, False, scale=scale)
        backward = torch.ops.aten._flash_attention_backward
        return lambda: backward(do, q, k, v, fo, flse, ends, ends, most, most, 0.0, causal, seed, offset, scale=scale)

    add_peer(calls, "flash2", flash)
    pairs = sum(n * (n + 1) / 2 if causal else n * n for n in lengths.tolist())
    return calls, 10 * heads * head_dim * pairs


def numbers(text):
    return [int(x) for x in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--head-dims", type=numbers, default=[64, 128, 256])
    parser.add_argument("--seqlens", type=numbers, default=[512, 1024, 2048, 4096, 8192, 16384])
    parser.add_argument("--masks", default="full,causal")
    parser.add_argument("--tokens", type=int, default=16384)
    parser.add_argument("--group", type=int, default=1, help="query heads to a head of keys")
    parser.add_argument("--varlen", type=int, default=0, help="sequences of a packed batch; 0: dense batches")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--rest", type=float, default=0.0, help="seconds before each contender's turn")
    parser.add_argument("--bitwise", action="store_true")
    parser.add_argument("--flash3", action="store_true")
    parser.add_argument("--json", default="")
    options = parser.parse_args()

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, tilesmith "
          f"{tilesmith.__version__}; bf16, TFLOP/s{'; burst' if options.rest else '; sustained'}")
    rows, ratios = [], []
    for head_dim in options.head_dims:
        for mask in options.masks.split(","):
            for seqlen in options.seqlens:
                make = packed if options.varlen else dense
                calls, flops = make(options, head_dim, mask == "causal", seqlen)
                peer = next(name for name in calls if name not in ("tilesmith", "bitwise"))
                expected = calls[peer]()
                for name in ("tilesmith", "bitwise"):
                    if name in calls and not apart(calls[name](), expected) < 1e-2:
                        raise SystemExit(f"wrong result: {name} is {apart(calls[name](), expected):.2e} from {peer} at {head_dim} {mask} {seqlen}")
                kernel = tilesmith.last_plan().kernel
                rate = {name: flops / ms * 1e-9 for name, ms in timing.flushed_medians(calls, options.rounds, options.rest).items()}
                ratios.append(rate["tilesmith"] / rate[peer])
                print(f"d{head_dim:<4}{mask:7} s{seqlen:<6}" + "".join(f" {name} {x:4.0f} " for name, x in rate.items())
                      + f" = {ratios[-1]:.3f} x {peer}", flush=True)
                rows.append({"head_dim": head_dim, "mask": mask, "seqlen": seqlen, "group": options.group, "varlen": options.varlen,
                             "kernel": kernel, "tflops": rate})
    print(f"geometric mean {timing.geometric_mean(ratios):.3f} x, smallest {min(ratios):.3f}, {len(ratios)} cells")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()

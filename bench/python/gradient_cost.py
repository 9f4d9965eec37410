#!/usr/bin/env python3
"""What a call with a gradient costs the host, and its backward, beside torch's own functions: microseconds a call, least of several rounds.

    bench/python/gradient_cost.py [--device cpu|cuda] [--calls N] [--rounds N]

The problems are tiny, as in call_cost.py. A backward is torch.autograd.grad by all tensors; what that costs of a multiplication by 1 stands in the
last line, and is in every other.
"""
import argparse

import torch
from torch.nn import functional

import tilesmith
from call_cost import least_microseconds


def pairs(device):
    """name -> (ours, torch's, the tensors)"""
    kind = dict(device=device, dtype=torch.float32 if device == "cpu" else torch.bfloat16, requires_grad=True)
    rows, columns = (8, 8) if device == "cpu" else (64, 64)
    x, residual = (torch.randn(1, rows, columns, **kind) for _ in range(2))
    w, bias = torch.randn(columns, columns, **kind), torch.randn(columns, **kind)
    q, k, v = (torch.randn(1, rows, 2, 32, **kind) for _ in range(3))

    def attend(q, k, v):
        return functional.scaled_dot_product_attention(*(each.transpose(1, 2) for each in (q, k, v)), is_causal=True).transpose(1, 2)

    return {
        "matmul": (lambda: tilesmith.matmul(x, w), lambda: x @ w, (x, w)),
        "linear, bias": (lambda: tilesmith.linear(x, w, bias), lambda: functional.linear(x, w, bias), (x, w, bias)),
        "linear, bias, residual": (lambda: tilesmith.linear(x, w, bias, residual=residual), lambda: functional.linear(x, w, bias) + residual,
                                   (x, w, bias, residual)),
        "linear, bias, gelu": (lambda: tilesmith.linear(x, w, bias, "gelu"), lambda: functional.gelu(functional.linear(x, w, bias)), (x, w, bias)),
        "attention, causal": (lambda: tilesmith.attention(q, k, v, layout="bshd", causal=True), lambda: attend(q, k, v), (q, k, v)),
        "x * 1": (lambda: x * 1, lambda: x * 1, (x,)),
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    synchronize = (lambda: None) if options.device == "cpu" else torch.cuda.synchronize
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}, {options.device}; us a call: forward of ours, torch's; backward of ours, torch's")
    for name, (ours, theirs, tensors) in pairs(options.device).items():
        figures = []
        for call in (ours, theirs):
            figures.append(least_microseconds(call, options.calls, options.rounds, synchronize))
        for call in (ours, theirs):
            y = call()
            dy = torch.ones_like(y)
            backward = lambda: torch.autograd.grad(y, tensors, dy, retain_graph=True)  # noqa: B023, E731: called within this turn
            figures.append(least_microseconds(backward, options.calls, options.rounds, synchronize))
        print(f"{name:24}" + "".join(f"{each:9.2f}" for each in figures), flush=True)


if __name__ == "__main__":
    main()

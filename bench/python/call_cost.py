#!/usr/bin/env python3
"""What calls of tilesmith.attention, matmul and linear cost beside their kernels: microseconds a call, least of several
rounds.

    bench/python/call_cost.py [--device cpu|cuda] [--calls N] [--rounds N]

The problems are tiny (one query and one key; one row), so that on the CPU almost nothing but the call is timed; on a GPU
the calls are queued faster than a kernel starts, so rounds are kept short and the device is idle before each. "library" is
the C function alone on a prepared structure: everything the package adds is the difference. PyTorch's own functions stand
beside.
"""
import argparse
import time

import torch

import tilesmith
from tilesmith import _torch_attention, _torch_gemm


def least_microseconds(function, calls, rounds, synchronize):
    function()
    best = float("inf")
    for _ in range(rounds):
        synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            function()
        best = min(best, (time.perf_counter() - begin) / calls)
    return best * 1e6


def attention_rows(device, cpu):
    data_type, dim = (torch.float32, 32) if cpu else (torch.bfloat16, 128)
    q, k, v = (torch.randn(1, 1, 1, dim, device=device, dtype=data_type) for _ in range(3))
    out = torch.empty_like(q)
    tilesmith.attention(q, k, v, out=out)  # prepares the structure below, whose pointers stay good as long as `out` does
    call = list(_torch_attention.calls.by_key.values())[-1]
    sdpa = torch.nn.functional.scaled_dot_product_attention
    rows = {
        "attention": lambda: tilesmith.attention(q, k, v),
        "  of it: the library": lambda: call._forward(None, call._address),
        "  of it: torch's new tensor": lambda: q.new_empty(1, 1, 1, dim),
        "attention, out=": lambda: tilesmith.attention(q, k, v, out=out),
        "attention, causal, lse": lambda: tilesmith.attention(q, k, v, causal=True, return_lse=True),
        "torch.ops.tilesmith.attention_fwd": lambda: torch.ops.tilesmith.attention_fwd(
            q, k, v, "bhsd", False, "none", -1, -1, None, 0.0, *(None,) * 6, 0.0, *(None,) * 5, False),
        "torch scaled_dot_product_attention": lambda: sdpa(q, k, v),
    }  # fmt: skip
    if cpu:
        arrays = [x.numpy() for x in (q, k, v)]
        rows["attention, NumPy"] = lambda: tilesmith.attention(*arrays)
    return rows


def gemm_rows(device, cpu):
    data_type, n, k = (torch.float32, 1, 32) if cpu else (torch.bfloat16, 128, 128)
    x, w, bias = (torch.randn(*shape, device=device, dtype=data_type) for shape in ((1, k), (n, k), (n,)))
    b = w.t().contiguous()
    out = x.new_empty(1, n)
    tilesmith.matmul(x, b, out=out)
    call = list(_torch_gemm.calls.by_key.values())[-1]
    scale = torch.ones(1, device=device)
    linear = torch.nn.functional.linear
    rows = {
        "matmul": lambda: tilesmith.matmul(x, b),
        "  of it: the library": lambda: call._compute(None, call._address),
        "  of it: torch's new tensor": lambda: x.new_empty(1, n),
        "matmul, out=": lambda: tilesmith.matmul(x, b, out=out),
        "matmul, a scale in a tensor": lambda: tilesmith.matmul(x, b, scale_a=scale),
        "linear, bias": lambda: tilesmith.linear(x, w, bias),
        "linear, bias, gelu": lambda: tilesmith.linear(x, w, bias, "gelu"),
        "torch.ops.tilesmith.gemm": lambda: torch.ops.tilesmith.gemm(
            "matmul", x, b, *(None,) * 11, 1.0, 1.0, None, None, None, False),
        "torch matmul": lambda: torch.matmul(x, b),
        "torch linear, bias": lambda: linear(x, w, bias),
        "torch linear, bias, gelu": lambda: torch.nn.functional.gelu(linear(x, w, bias)),
    }  # fmt: skip
    if cpu:
        arrays = x.numpy(), b.numpy()
        rows["matmul, NumPy"] = lambda: tilesmith.matmul(*arrays)
        rows["NumPy matmul"] = lambda: arrays[0] @ arrays[1]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--calls", type=int, default=300, help="a round; default 300, short enough to end between interruptions")
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    cpu = options.device == "cpu"
    synchronize = (lambda: None) if cpu else torch.cuda.synchronize
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    for rows_of in (attention_rows, gemm_rows):
        rows = rows_of(options.device, cpu)
        print(f"PyTorch {torch.__version__}, {options.device}, {tilesmith.last_plan().kernel}")
        for name, function in rows.items():
            print(f"{name:36} {least_microseconds(function, options.calls, options.rounds, synchronize):7.2f} us")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What a call of tilesmith.attention costs beside its kernel: microseconds a call, least of several rounds.

    bench/python/call_cost.py [--device cpu|cuda] [--calls N] [--rounds N]

The problem is tiny (one query, one key), so that on the CPU almost nothing but the call is timed; on a GPU the calls are
queued faster than a kernel starts, so rounds are kept short and the device is idle before each. "library" is the C
function alone on a prepared structure: everything the package adds is the difference. PyTorch's own
scaled_dot_product_attention stands beside it.
"""
import argparse
import time

import torch

import tilesmith
from tilesmith import _torch_attention


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

    data_type, dim = (torch.float32, 32) if cpu else (torch.bfloat16, 128)
    q, k, v = (torch.randn(1, 1, 1, dim, device=options.device, dtype=data_type) for _ in range(3))
    out = torch.empty_like(q)
    tilesmith.attention(q, k, v, out=out)  # prepares the structure below, whose pointers stay good as long as `out` does
    call = list(_torch_attention._calls.by_key.values())[-1]
    sdpa = torch.nn.functional.scaled_dot_product_attention
    rows = {
        "tilesmith.attention": lambda: tilesmith.attention(q, k, v),
        "  of it: the library": lambda: call._forward(None, call._address),
        "  of it: torch's new tensor": lambda: q.new_empty(1, 1, 1, dim),
        "tilesmith.attention, out=": lambda: tilesmith.attention(q, k, v, out=out),
        "tilesmith.attention, causal, lse": lambda: tilesmith.attention(q, k, v, causal=True, return_lse=True),
        "torch's operator": lambda: torch.ops.tilesmith.attention_fwd(
            q, k, v, "bhsd", False, "none", -1, -1, None, 0.0, *(None,) * 6, 0.0, *(None,) * 5, False),
        "torch SDPA": lambda: sdpa(q, k, v),
    }  # fmt: skip
    if cpu:
        arrays = [x.numpy() for x in (q, k, v)]
        rows["tilesmith.attention, NumPy"] = lambda: tilesmith.attention(*arrays)
    print(f"PyTorch {torch.__version__}, {options.device}, {tilesmith.last_plan().kernel}")
    for name, function in rows.items():
        print(f"{name:34} {least_microseconds(function, options.calls, options.rounds, synchronize):7.2f} us")


if __name__ == "__main__":
    main()

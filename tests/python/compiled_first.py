"""Run as a program: calls each public function first from compiled code, each in a process where nothing ran before, and
prints what came of it as JSON: {"attention": "", "linear": "an error", ...}."""

import json
import os
import sys
import tempfile
import traceback

TILESMITH_FIRST = "tilesmith imported before torch"


def calls(torch, tilesmith):
    q, x, w = torch.rand(1, 2, 16, 64), torch.rand(8, 32), torch.rand(16, 32)
    ends = torch.tensor([3, 8], dtype=torch.int32)
    parameter = torch.nn.Parameter(w, requires_grad=False)
    return {
        "attention": (lambda q: tilesmith.attention(q, q, q, causal=True), q),
        "attention with lse": (lambda q: tilesmith.attention(q, q, q, return_lse=True), q),
        "scaled_dot_product_attention": (lambda q: tilesmith.scaled_dot_product_attention(q, q, q, is_causal=True), q),
        "matmul": (lambda x, w: tilesmith.matmul(x, w.T), x, w),
        "matmul with amax": (lambda x, w: tilesmith.matmul(x, w.T, amax=True), x, w),
        "linear": (lambda x, w: tilesmith.linear(x, w, activation="gelu"), x, w),
        "linear of a parameter": (lambda x, w: tilesmith.linear(x, w), x, parameter),
        "mm_plus_mm": (lambda x, w: tilesmith.mm_plus_mm(x, w.T, x, w.T), x, w),
        "grouped_matmul": (lambda x, w, ends: tilesmith.grouped_matmul(x, w.expand(2, 16, 32).mT, group_ends=ends), x, w, ends),
        "grouped_matmul of lists": (lambda x, w: tilesmith.grouped_matmul([x, x], [w.T, w.T]), x, w),
        TILESMITH_FIRST: (lambda x, w: tilesmith.linear(x, w), x, w),
    }


def check(torch, name):
    import tilesmith

    function, *tensors = calls(torch, tilesmith)[name]
    got = torch.compile(function, fullgraph=True, backend="eager")(*tensors)
    torch.testing.assert_close(got, function(*tensors), rtol=0, atol=0)


def outcome(act):
    """Of an act in a child process: "" or its exception."""
    with tempfile.TemporaryFile("w+") as told:
        child = os.fork()
        if child == 0:
            try:
                act()
            except BaseException:
                told.write(traceback.format_exc())
                told.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        told.seek(0)
        return told.read() or ("" if status == 0 else f"status {status}")


def main():
    def tilesmith_first():
        import tilesmith  # noqa: F401
        import torch

        check(torch, TILESMITH_FIRST)

    outcomes = {TILESMITH_FIRST: outcome(tilesmith_first)}
    import torch

    names = [name for name in calls(torch, None) if name != TILESMITH_FIRST]
    for name in names:
        outcomes[name] = outcome(lambda name=name: check(torch, name))
        import torch._dynamo  # noqa: F401  for all but the first: it takes seconds
    json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
    main()

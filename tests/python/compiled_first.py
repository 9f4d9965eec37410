"""Run as a program: calls each public function first from compiled code, each in a process where nothing ran before, and
prints what came of it as JSON: {"attention": "", "linear": "an error", ...}."""

import json
import os
import sys
import tempfile
import traceback

TILESMITH_FIRST = "tilesmith imported before torch"


def appended(torch, tilesmith, k, seqlens, **queries):
    """The caches after append_kv, and what it returns."""
    k_cache, v_cache = torch.zeros(1, 40, 2, 64), torch.zeros(1, 40, 2, 64)
    turned = tilesmith.append_kv(k, k + 1, k_cache, v_cache, seqlens_k=seqlens, rotary_cos=torch.ones(40, 32) / 2,
                                 rotary_sin=torch.ones(40, 32), **queries)  # fmt: skip
    return k_cache, v_cache, seqlens if turned is None else turned


def attended(torch, tilesmith, q, seqlens, **options):
    """The caches after attention that appends, and its output."""
    caches = torch.zeros(1, 40, 2, 64), torch.zeros(1, 40, 2, 64)
    return *caches, tilesmith.attention(q[:, :, :2], *caches, k_new=q[:, :, :2], v_new=q[:, :, 2:4], seqlens_k=seqlens, rotary_cos=torch.ones(40, 32) / 2,
                                        rotary_sin=torch.ones(40, 32), **options)  # fmt: skip


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
        "attention with pages": (lambda q, table, ends: tilesmith.attention(q[:, :, :1], q, q, block_table=table, seqlens_k=ends, kv_layout="hnd"),
                                 q, torch.zeros(1, 1, dtype=torch.int32), ends[:1]),
        "merge_states": (lambda q: tilesmith.merge_states([q, q + 1], [q[..., 0] + 1, q[..., 1] + 1]), q),
        "merge_states of one tensor": (lambda q: tilesmith.merge_states(torch.stack([q, q]), q[None, ..., 0].expand(2, -1, -1, -1)), q),
        "merge_states with an output": (lambda q: tilesmith.merge_states([q, q + 1], [q[..., 0] + 1] * 2, out=torch.empty_like(q)), q),
        "append_kv": (lambda q, ends: appended(torch, tilesmith, q, ends), q, ends[:1]),
        "append_kv with an output": (lambda q, ends: appended(torch, tilesmith, q, ends, q=q, out_q=torch.empty_like(q)), q, ends[:1]),
        "append_kv of queries": (lambda q, ends: appended(torch, tilesmith, q, ends, q=q), q, ends[:1]),
        "attention that appends": (lambda q, ends: attended(torch, tilesmith, q, ends), q, ends[:1]),
        "conv2d": (lambda x, w: tilesmith.conv2d(x, w, padding=1, activation="relu"), torch.rand(2, 3, 7, 8), torch.rand(4, 3, 3, 3)),
        "conv_backward_weight": (lambda dy, x: tilesmith.conv_backward_weight(dy, x, (4, 3, 3), bias=True), torch.rand(2, 4, 5),
                                 torch.rand(2, 3, 7)),
        TILESMITH_FIRST: (lambda x, w: tilesmith.linear(x, w), x, w),
    }


#: Options of a call, as the tests of each function have them.
OPTIONS = {"threads": 1, "build": "never", "determinism": "tolerant"}


def calls_with_options(torch, tilesmith):
    """The functions take options beside the tensors."""
    q, x, w = torch.rand(1, 2, 16, 64), torch.rand(8, 32), torch.rand(16, 32)
    ends = torch.tensor([3, 8], dtype=torch.int32)
    return {
        "attention": (lambda q, **given: tilesmith.attention(q, q, q, **given), q),
        "attention with an output": (lambda q, **given: tilesmith.attention(q, q, q, out=torch.empty_like(q), **given), q),
        "attention that appends": (lambda q, ends, **given: attended(torch, tilesmith, q, ends, **given), q, ends[:1]),
        "scaled_dot_product_attention": (lambda q, **given: tilesmith.scaled_dot_product_attention(q, q, q, **given), q),
        "matmul": (lambda x, w, **given: tilesmith.matmul(x, w.T, **given), x, w),
        "matmul with amax": (lambda x, w, **given: tilesmith.matmul(x, w.T, amax=True, **given), x, w),
        "linear": (lambda x, w, **given: tilesmith.linear(x, w, activation="gelu", **given), x, w),
        "mm_plus_mm": (lambda x, w, **given: tilesmith.mm_plus_mm(x, w.T, x, w.T, **given), x, w),
        "grouped_matmul": (lambda x, w, ends, **given: tilesmith.grouped_matmul(x, w.expand(2, 16, 32).mT, group_ends=ends, **given),
                           x, w, ends),
        "grouped_matmul of lists": (lambda x, w, **given: tilesmith.grouped_matmul([x, x], [w.T, w.T], **given), x, w),
        "conv1d": (lambda x, w, **given: tilesmith.conv1d(x, w, **given), torch.rand(2, 3, 7), torch.rand(4, 3, 3)),
    }  # fmt: skip


def calls_with_gradients(torch, tilesmith):
    """Functions that are differentiable by all their tensors."""
    q, x, w = torch.rand(1, 2, 16, 64), torch.rand(8, 32), torch.rand(16, 32)
    return {
        "attention": (lambda q, bias, sink: tilesmith.attention(q, q, q, causal=True, bias=bias, sink=sink, return_lse=True), q,
                      torch.rand(16, 16), torch.rand(2)),
        "linear": (lambda x, w, bias: tilesmith.linear(x, w, bias, activation="gelu", threads=1), x, w, torch.rand(16)),
        "conv_transpose2d": (lambda x, w, bias: tilesmith.conv_transpose2d(x, w, bias, stride=2, activation="gelu"), torch.rand(2, 3, 4, 5),
                             torch.rand(3, 4, 3, 3), torch.rand(4)),
    }  # fmt: skip


def with_options(name):
    return f"{name}, with options"


def with_gradients(name):
    return f"{name}, with gradients"


def check(torch, name):
    import tilesmith

    function, *tensors = calls(torch, tilesmith)[name]
    got = torch.compile(function, fullgraph=True, backend="eager")(*tensors)
    torch.testing.assert_close(got, function(*tensors), rtol=0, atol=0)


def check_with_options(torch, name):
    import tilesmith

    function, *tensors = calls_with_options(torch, tilesmith)[name]
    got = torch.compile(lambda *tensors: function(*tensors, **OPTIONS), fullgraph=True, backend="eager")(*tensors)
    torch.testing.assert_close(got, function(*tensors, **OPTIONS), rtol=0, atol=0)
    named = torch.compile(lambda *tensors: function(*tensors, kernel="no_such_kernel"), fullgraph=True, backend="eager")
    try:
        named(*tensors)
    except tilesmith.Error as error:
        assert "no_such_kernel" in error.message, error
    else:
        raise AssertionError("the kernel's name did not arrive")


def check_with_gradients(torch, name):
    import tilesmith

    function, *tensors = calls_with_gradients(torch, tilesmith)[name]

    def gradients(function):
        leaves = [x.clone().requires_grad_() for x in tensors]
        made = function(*leaves)
        loss = sum(each.square().sum() for each in (made if isinstance(made, (tuple, list)) else (made,)))
        return torch.autograd.grad(loss, leaves)

    got = gradients(torch.compile(function, fullgraph=True, backend="aot_eager"))
    torch.testing.assert_close(got, gradients(function), rtol=1e-5, atol=1e-5)  # the parts of a sum may be added in another order


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
    first, *others = names
    outcomes[first] = outcome(lambda: check(torch, first))
    # For the others: what torch imports while it traces takes seconds.
    torch.compile(lambda x: x + 1, fullgraph=True, backend="eager")(torch.ones(1))
    for name in others:
        outcomes[name] = outcome(lambda name=name: check(torch, name))
    for name in calls_with_options(torch, None):
        outcomes[with_options(name)] = outcome(lambda name=name: check_with_options(torch, name))
    for name in calls_with_gradients(torch, None):
        outcomes[with_gradients(name)] = outcome(lambda name=name: check_with_gradients(torch, name))
    json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
    main()

"""What kernels write to tensors of the caller's: torch's autograd knows of it."""

import pytest

torch = pytest.importorskip("torch")

import tilesmith

A, B, Q, X, W = torch.ones(4, 8), torch.ones(8, 6), torch.ones(1, 2, 5, 64), torch.ones(1, 3, 8, 8), torch.ones(5, 3, 3, 3)
DY, ENDS = torch.ones(1, 5, 6, 6), torch.tensor([4], dtype=torch.int32)
CACHE, TABLE, LENGTHS = torch.zeros(2, 4, 2, 64), torch.tensor([[0, 1]], dtype=torch.int32), torch.tensor([1], dtype=torch.int32)
NEW = torch.ones(1, 2, 1, 64)

#: name: the tensor that is written, and the call that writes it
WRITERS = {
    "matmul": (torch.zeros(4, 6), lambda out: tilesmith.matmul(A, B, out=out)),
    "matmul's amax": (torch.zeros(1), lambda out: tilesmith.matmul(A, B, amax=out)),
    "linear": (torch.zeros(4, 6), lambda out: tilesmith.linear(A, B.T.contiguous(), out=out)),
    "mm_plus_mm": (torch.zeros(4, 6), lambda out: tilesmith.mm_plus_mm(A, B, A, B, out=out)),
    "a list": (torch.zeros(4, 6), lambda out: tilesmith.grouped_matmul([A], [B], out=[out])),
    "groups": (torch.zeros(4, 6), lambda out: tilesmith.grouped_matmul(A, B[None], group_ends=ENDS, out=out)),
    "attention": (torch.zeros_like(Q), lambda out: tilesmith.attention(Q, Q, Q, out=out)),
    "conv2d": (torch.zeros_like(DY), lambda out: tilesmith.conv2d(X, W, out=out)),
    "conv_backward_data": (torch.zeros_like(X), lambda out: tilesmith.conv_backward_data(DY, W, tuple(X.shape), out=out)),
    "merge_states": (torch.zeros_like(Q), lambda out: tilesmith.merge_states([Q, Q], [torch.zeros(1, 2, 5)] * 2, out=out)),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_saved_tensor_that_a_kernel_overwrites_fails_the_backward_pass(name):
    like, write = WRITERS[name]
    for _ in range(3):  # the first call of a problem, and repeated ones
        weight, saved = torch.ones_like(like, requires_grad=True), torch.zeros_like(like)
        product = (weight * saved).sum()
        write(saved)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.backward()


@pytest.mark.parametrize("name", WRITERS)
def test_a_tensor_that_requires_a_gradient_is_not_written(name):
    like, write = WRITERS[name]
    for out in (torch.zeros_like(like).requires_grad_(), torch.ones_like(like, requires_grad=True) * 0):
        with pytest.raises(tilesmith.Unsupported, match="requires a gradient"):
            write(out)
        assert not out.any()
        with torch.no_grad():
            write(out)
        assert out.any()


def test_gradients_and_caches_have_new_versions():
    o, lse = tilesmith.attention(Q, Q, Q, return_lse=True)
    gradients = [torch.zeros_like(Q) for _ in "qkv"]
    tilesmith.attention_backward(Q, Q, Q, Q, o, lse, **dict(zip(("dq", "dk", "dv"), gradients)))
    assert all(each._version > 0 for each in gradients)
    caches = CACHE.clone(), CACHE.clone()
    before = [each._version for each in caches]
    tilesmith.append_kv(NEW, NEW, *caches, block_table=TABLE, seqlens_k=LENGTHS)
    assert all(now._version > then for now, then in zip(caches, before))


def test_tensors_of_inference_mode_have_no_version_and_are_written():
    with torch.inference_mode():
        out = torch.zeros(4, 6)
    for _ in range(3):
        assert tilesmith.matmul(A, B, out=out) is out and out[0, 0] == 8
